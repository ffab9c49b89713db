// Makes Superset show the warehouse: connection, a dataset for each view of bi, a dashboard for each pipeline. Again and again the same.
import { z } from 'zod'
import type { Dashboard } from '../definition/dashboard.ts'
import { EtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import type { Definition } from '../core/types.ts'
import { supersetChart } from './superset-chart.ts'
import type { FixedColumn, SupersetDataset } from './superset-form.ts'
import type { SupersetClient } from './superset-client.ts'
import { dashboardMetadata, type PlacedChart, positionJson, withoutFixed } from './superset-layout.ts'

/** What is made where. */
export interface Provisioning {
  readonly client: SupersetClient
  /** Name of the connection in Superset. */
  readonly connection: string
  /** SQLAlchemy's address of the warehouse, as Superset reaches it. */
  readonly warehouse: Secret
  readonly definitions: readonly Definition[]
  readonly dashboards: readonly Dashboard[]
  /** Called with each step as it is done. */
  readonly tell: (text: string) => void
}

/** Objects of one kind. */
export interface Tally {
  created: number
  updated: number
  removed: number
}

/** What was done; running it again makes nothing twice. */
export interface Provisioned {
  readonly datasets: Tally
  readonly charts: Tally
  readonly dashboards: readonly { readonly title: string; readonly slug: string; readonly isNew: boolean }[]
  /** What was left out, and why. */
  readonly skipped: readonly string[]
}

/** Other connections have dashboards of their own, which say so in title and address. */
export const defaultConnection = 'Millrace'
const schema = 'bi'
const tally = (): Tally => ({ created: 0, updated: 0, removed: 0 })

/**
 * What bears our names is made or brought up to date, charts that left a file are removed, everything else is left alone.
 * A call that was interrupted goes on with the next. Throws SUPERSET.
 */
export const provisionSuperset = async (work: Provisioning): Promise<Provisioned> => {
  const database = await provideConnection(work)
  const { datasets, counts } = await provideDatasets(work, database)
  const charts = tally()
  const skipped: string[] = []
  const done: { title: string; slug: string; isNew: boolean }[] = []
  for (const dashboard of work.dashboards) {
    const reason = whyNot(work, dashboard, datasets)
    if (reason !== null) skipped.push(`${dashboard.title}: ${reason}`)
    else done.push(await provideDashboard(work, dashboard, datasets, charts))
  }
  return { datasets: counts, charts, dashboards: done, skipped }
}

const idEntry = z.object({ id: z.int() })

const provideConnection = async ({ client, connection, warehouse, tell }: Provisioning): Promise<number> => {
  const path = '/api/v1/database/'
  const [found] = await client.list(path, idEntry, [{ col: 'database_name', opr: 'eq', value: connection }])
  const body = {
    database_name: connection,
    sqlalchemy_uri: warehouse.reveal(),
    expose_in_sqllab: true,
    allow_ctas: false,
    allow_cvas: false,
    allow_dml: false,
    allow_file_upload: false,
  }
  if (found !== undefined) await client.update(`${path}${found.id}`, body)
  const id = found?.id ?? (await client.create(path, body))
  tell(`connection ${connection}: ${found === undefined ? 'made' : 'brought up to date'}`)
  return id
}

const datasetEntry = z.object({ id: z.int(), table_name: z.string() })
const datasetDetails = z.object({
  result: z.object({ main_dttm_col: z.string().nullish(), columns: z.array(z.object({ column_name: z.string() })) }),
})

/** Every table and view of `bi` that the connection's login sees. */
const provideDatasets = async (
  { client, tell }: Provisioning,
  database: number,
): Promise<{ datasets: ReadonlyMap<string, SupersetDataset>; counts: Tally }> => {
  const path = '/api/v1/dataset/'
  const tables = z.object({ result: z.array(z.object({ value: z.string() })) })
  const { result } = await client.get(`/api/v1/database/${database}/tables/`, tables, { schema_name: schema, force: true })
  if (result.length === 0)
    throw new EtlError(
      'SUPERSET',
      'Superset sees no table or view in the schema bi. Is it the address of the warehouse, was `millrace migrate` run, and is the login a member of bi_reader?',
    )
  const known = await client.list(path, datasetEntry, [
    { col: 'database', opr: 'rel_o_m', value: database },
    { col: 'schema', opr: 'eq', value: schema },
  ])
  const counts = tally()
  const datasets = new Map<string, SupersetDataset>()
  for (const { value: name } of result.sort((a, b) => a.value.localeCompare(b.value))) {
    const old = known.find(({ table_name }) => table_name === name)
    // Reads the columns anew; what people wrote about them stays.
    if (old !== undefined) await client.update(`${path}${old.id}/refresh`)
    const id = old?.id ?? (await client.create(path, { database, schema, table_name: name }))
    datasets.set(name, { id, columns: await describeDataset(client, `${path}${id}`) })
    counts[old === undefined ? 'created' : 'updated'] += 1
  }
  tell(`datasets: ${counts.created} made, ${counts.updated} brought up to date`)
  return { datasets, counts }
}

/** Returns the columns. The period is a dataset's time, not the first timestamp in the alphabet. */
const describeDataset = async (client: SupersetClient, path: string): Promise<string[]> => {
  const { result } = await client.get(path, datasetDetails)
  const columns = result.columns.map(({ column_name }) => column_name)
  const period = ['month', 'date'].find((name) => columns.includes(name))
  if (period !== undefined && result.main_dttm_col !== period) await client.update(path, { main_dttm_col: period })
  return columns
}

const whyNot = (
  { definitions }: Provisioning,
  { pipeline, charts, filters }: Dashboard,
  datasets: ReadonlyMap<string, SupersetDataset>,
): string | null => {
  if (!definitions.some((one) => one.pipeline === pipeline && one.publish)) return `the pipeline ${pipeline} is not defined here`
  const missing = [...charts, ...filters]
    .flatMap((one) => ('view' in one ? [one.view] : []))
    .filter((view) => !datasets.has(view))
  if (missing.length > 0) return `bi.${missing[0]} is not there; run \`millrace migrate\``
  for (const chart of charts) {
    const columns = datasets.get(chart.view)?.columns ?? []
    const unknown = [...(chart.period === null ? [] : [chart.period]), ...chart.by, ...chart.columns].find(
      (name) => !columns.includes(name),
    )
    if (unknown !== undefined) return `'${chart.name}' asks for bi.${chart.view}.${unknown}, which is not there; correct the file`
  }
  return null
}

/** The pipeline's parameters that are part of its key: rows asked for with others are not its own. */
const fixedColumns = (definition: Definition | undefined): FixedColumn[] =>
  (definition?.columns ?? [])
    .filter(({ origin, isKey }) => origin === 'param' && isKey)
    .flatMap(({ name }) => {
      const value = definition?.params[name]
      return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? [{ column: name, value }] : []
    })

const chartEntry = z.object({ id: z.int(), slice_name: z.string(), is_managed_externally: z.boolean().nullish() })

/** The dashboard is made first and each chart is made on it, so that none is lost between the two. */
const provideDashboard = async (
  { client, connection, definitions, tell }: Provisioning,
  asWritten: Dashboard,
  datasets: ReadonlyMap<string, SupersetDataset>,
  counts: Tally,
): Promise<{ title: string; slug: string; isNew: boolean }> => {
  const fixed = fixedColumns(definitions.find(({ pipeline }) => pipeline === asWritten.pipeline))
  const open = withoutFixed(asWritten, fixed)
  const dashboard = connection === defaultConnection ? open : { ...open, title: `${open.title} (${connection})` }
  const { title } = dashboard
  const slug = `${connection} ${dashboard.name}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
  const path = '/api/v1/dashboard/'
  const [found] = await client.list(path, idEntry, [{ col: 'slug', opr: 'eq', value: slug }])
  const marks = { dashboard_title: title, slug, published: true, is_managed_externally: true }
  const id = found?.id ?? (await client.create(path, marks))
  const there = await client.list('/api/v1/chart/', chartEntry, [{ col: 'dashboards', opr: 'rel_m_m', value: id }])
  const placed: PlacedChart[] = []
  for (const chart of dashboard.charts) {
    const dataset = datasets.get(chart.view)
    if (dataset === undefined) continue
    const body = supersetChart(chart, dataset, fixed)
    const old = there.find(({ slice_name }) => slice_name === chart.name)
    if (old !== undefined) await client.update(`/api/v1/chart/${old.id}`, body)
    placed.push({ chart, id: old?.id ?? (await client.create('/api/v1/chart/', { ...body, dashboards: [id] })) })
    counts[old === undefined ? 'created' : 'updated'] += 1
  }
  const kept = new Set(placed.map((one) => one.id))
  for (const gone of there.filter((one) => one.is_managed_externally === true && !kept.has(one.id))) {
    await client.remove(`/api/v1/chart/${gone.id}`)
    counts.removed += 1
  }
  const ids = new Map([...datasets].map(([name, one]) => [name, one.id]))
  await client.update(`${path}${id}`, {
    ...marks,
    position_json: positionJson(dashboard, placed),
    json_metadata: dashboardMetadata(dashboard, placed, ids),
  })
  tell(`dashboard ${title}: ${found === undefined ? 'made' : 'brought up to date'}, ${placed.length} charts`)
  return { title, slug, isNew: found === undefined }
}
