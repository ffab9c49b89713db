// What Superset's import of a bundle does, on the rows of the fake: all of it or nothing; datasets as a whole, charts by uuid, links of dashboards anew.
import { parse } from 'yaml'
import type { z } from 'zod'
import { readStoredZip } from './read-zip.ts'
import { assertChart, assertDashboard, bundleSchemas } from './superset-schemas.ts'

type Row = Record<string, unknown> & { readonly id: number }
/** By kind, as the fake holds them. */
export interface ImportedRows {
  database: Row[]
  dataset: Row[]
  chart: Row[]
  dashboard: Row[]
}

/** @param form `bundle` and `sparse`, as sent. Throws where the bundle is refused; then nothing has changed. */
export const importBundle = async (rows: ImportedRows, form: FormData, nextId: () => number): Promise<void> => {
  const bundle = form.get('bundle')
  if (!(bundle instanceof Blob)) throw new Error('there is no bundle')
  const files = [...readStoredZip(Buffer.from(await bundle.arrayBuffer()))].map(([path, text]): [string, unknown] => [
    path.split('/').slice(1).join('/'),
    parse(text, { version: '1.1' }),
  ])
  const metadata = files.find(([path]) => path === 'metadata.yaml')?.[1]
  const { type } = bundleSchemas.metadata.parse(metadata)
  if (type !== undefined && type !== 'assets') throw new Error(`type must be assets, it is ${type}`)
  if (form.get('sparse') !== 'true') throw new Error('the bundle has no connection')
  const of = (folder: string) => files.filter(([path]) => path.startsWith(`${folder}/`)).map(([, value]) => value)
  const next = structuredClone(rows)
  for (const one of of('datasets')) putDataset(next, bundleSchemas.datasets.parse(one), nextId)
  for (const one of of('charts')) putChart(next, bundleSchemas.charts.parse(one), nextId)
  for (const one of of('dashboards')) putDashboard(next, bundleSchemas.dashboards.parse(one), nextId)
  Object.assign(rows, next)
}

const put = (rows: Row[], found: Row | undefined, values: Record<string, unknown>, nextId: () => number): Row => {
  const row = found ?? { id: nextId() }
  Object.assign(row, values)
  if (found === undefined) rows.push(row)
  return row
}

/** What Superset has of a column or metric that a file says nothing of. */
const unset = { verbose_name: null, python_date_format: null, expression: null }

const putDataset = (rows: ImportedRows, one: z.infer<typeof bundleSchemas.datasets>, nextId: () => number): void => {
  const database = rows.database.find(({ uuid }) => uuid === one.database_uuid)
  if (database === undefined) throw new Error(`no connection ${one.database_uuid}`)
  const found = rows.dataset.find(
    ({ uuid, database: of, table_name }) => uuid === one.uuid || (of === database.id && table_name === one.table_name),
  )
  const asText = <T extends { extra?: unknown }>(part: T) => ({
    ...unset,
    ...part,
    extra: part.extra == null ? null : JSON.stringify(part.extra),
  })
  const { database_uuid: _uuid, ...values } = one
  const lists = { columns: one.columns.map(asText), metrics: one.metrics.map(asText) }
  put(rows.dataset, found, { always_filter_main_dttm: false, ...values, ...lists, database: database.id }, nextId)
}

const putChart = (rows: ImportedRows, one: z.infer<typeof bundleSchemas.charts>, nextId: () => number): void => {
  const dataset = rows.dataset.find(({ uuid }) => uuid === one.dataset_uuid)
  if (dataset === undefined) throw new Error(`${one.slice_name}: no dataset ${one.dataset_uuid}`)
  assertChart(one, dataset.id, rows.dataset)
  const found = rows.chart.find(({ uuid }) => uuid === one.uuid)
  const { params, dataset_uuid: _uuid, ...values } = one
  const datasource = { id: dataset.id, type: 'table' }
  const context = JSON.stringify({ ...JSON.parse(one.query_context), datasource })
  const form = JSON.stringify({ ...params, datasource: `${dataset.id}__table` })
  put(
    rows.chart,
    found,
    { ...values, params: form, query_context: context, datasource_id: dataset.id, dashboards: found?.['dashboards'] ?? [] },
    nextId,
  )
}

const putDashboard = (rows: ImportedRows, one: z.infer<typeof bundleSchemas.dashboards>, nextId: () => number): void => {
  const uuids = assertDashboard(one, rows.chart, rows.dataset)
  const found = rows.dashboard.find(({ uuid, slug }) => uuid === one.uuid || slug === one.slug)
  const { id } = put(rows.dashboard, found, one, nextId)
  for (const chart of rows.chart) {
    const others = (chart['dashboards'] as { id: number }[]).filter((dashboard) => dashboard.id !== id)
    chart['dashboards'] = uuids.includes(String(chart['uuid'])) ? [...others, { id }] : others
  }
}
