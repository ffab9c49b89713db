// Sets up Superset for the warehouse: makes the connection, imports the bundle, then removes charts that left the bundle.
import { z } from 'zod'
import type { Secret } from '../../core/redact.ts'
import type { YamlMap } from '../yaml-text.ts'
import { type Bundle, type BundleWork, readsOnly, supersetBundle } from './superset-bundle.ts'
import { type SupersetClient, zipOf } from './superset-client.ts'
import { certifiedBy, type datasetOf, idOf } from './superset-dataset.ts'

/** The content, and the Superset to set up. */
interface Provisioning extends Pick<BundleWork, 'connection' | 'views' | 'model' | 'definitions' | 'dashboards'> {
  readonly client: SupersetClient
  /** SQLAlchemy's address by which Superset reaches the warehouse. */
  readonly warehouse: Secret
  /** Called with each step as it is done. */
  readonly tell: (text: string) => void
}

const text = z.string()
const anything = z.unknown()
const idEntry = z.object({ id: z.int() })

/**
 * Makes or updates objects with our names, removes charts that left a file, changes nothing else.
 * Superset imports the bundle as a whole or not at all. Idempotent. `skipped`: what was left out, and why. Throws SUPERSET.
 */
export const provisionSuperset = async (work: Provisioning) => {
  const { client, tell, views } = work
  const database = await provideConnection(work)
  const known = await knownDatasets(client, database.id)
  const bundle = supersetBundle({
    ...work,
    databaseId: database.uuid,
    datasetId: (view) => known.get(view)?.uuid ?? idOf(work.connection, view),
    adapt: (dataset) => withOwn(dataset, known.get(dataset.table_name)),
  })
  const before = await chartsOn(client, bundle)
  const form = new FormData()
  // `sparse`: the bundle does not contain the connection.
  form.set('sparse', 'true')
  form.set('bundle', new Blob([zipOf(bundle.files, 'millrace')], { type: 'application/zip' }), 'bundle.zip')
  await client.ask('POST', '/api/v1/assets/import/', anything, form)
  const after = await chartsOn(client, bundle)
  const removed = await removeCharts(client, before, after)
  const updated = after.charts.filter(({ id }) => before.charts.some((one) => one.id === id)).length
  const old = views.filter(({ name }) => known.has(name)).length
  tell(`datasets: ${views.length - old} created, ${old} updated`)
  const dashboards = bundle.dashboards.map(({ title, slug, charts }) => {
    const is_new = !before.ids.has(slug)
    tell(`dashboard ${title}: ${is_new ? 'created' : 'updated'}, ${charts} charts`)
    return { title, slug, is_new }
  })
  return {
    datasets: { created: views.length - old, updated: old, removed: 0 },
    charts: { created: after.charts.length - updated, updated, removed },
    dashboards,
    skipped: bundle.skipped,
  }
}

/** Makes the connection by request, not in the bundle: a bundle has no password, and would overwrite settings that people changed. */
const provideConnection = async ({ client, connection, warehouse, tell }: Provisioning) => {
  const path = '/api/v1/database/'
  const [found] = await client.list(path, idEntry, ['database_name', 'eq', connection])
  const body = { database_name: connection, sqlalchemy_uri: warehouse.reveal(), expose_in_sqllab: true, ...readsOnly }
  if (found !== undefined) await client.ask('PUT', `${path}${found.id}`, anything, body)
  const { id } = found ?? (await client.ask('POST', path, idEntry, { ...body, uuid: idOf(connection, 'connection') }))
  const { result } = await client.ask('GET', `${path}${id}`, z.object({ result: z.object({ uuid: z.string() }) }))
  tell(`connection ${connection}: ${found === undefined ? 'created' : 'updated'}`)
  return { id, uuid: result.uuid }
}

const words = z.string().nullish()
const flag = z.boolean().nullish()
/** Superset writes it as JSON text, which a person may have spoilt. */
const extra = words.transform((json): YamlMap | null => {
  try {
    return z.record(z.string(), z.json()).parse(JSON.parse(json ?? ''))
  } catch {
    return null
  }
})

/** A dataset as Superset answers it. */
export const datasetDetails = z.object({
  result: z.object({
    uuid: text,
    columns: z.array(
      z.object({
        column_name: text,
        verbose_name: words,
        description: words,
        expression: words,
        type: words,
        is_dttm: flag,
        filterable: flag,
        groupby: flag,
        python_date_format: words,
        extra,
      }),
    ),
    metrics: z.array(
      z.object({
        metric_name: text,
        verbose_name: words,
        expression: text,
        description: words,
        d3format: words,
        metric_type: words,
        warning_text: words,
        extra,
      }),
    ),
    always_filter_main_dttm: flag,
  }),
})
type DatasetDetails = z.infer<typeof datasetDetails>['result']

const knownDatasets = async (client: SupersetClient, database: number): Promise<ReadonlyMap<string, DatasetDetails>> => {
  const path = '/api/v1/dataset/'
  const entry = z.object({ id: z.int(), table_name: text })
  const found = await client.list(path, entry, ['database', 'rel_o_m', database], ['schema', 'eq', 'bi'])
  const details = new Map<string, DatasetDetails>()
  for (const { id, table_name } of found)
    details.set(table_name, (await client.ask('GET', `${path}${id}`, datasetDetails)).result)
  return details
}

const certificate = z.object({ certification: z.object({ certified_by: z.literal(certifiedBy) }) })

/**
 * An import replaces a dataset as a whole, so the bundle must contain what people added: their own metrics and calculated columns, and
 * their labels of columns. Ours come from the files.
 */
export const withOwn = (dataset: ReturnType<typeof datasetOf>, known: DatasetDetails | undefined): YamlMap => {
  if (known === undefined) return dataset
  const ours = new Set(dataset.metrics.map(({ metric_name }) => metric_name))
  const names = new Set(dataset.columns.map(({ column_name }) => column_name))
  return {
    ...dataset,
    uuid: known.uuid,
    always_filter_main_dttm: known.always_filter_main_dttm ?? false,
    columns: [
      ...dataset.columns.map((one) => {
        const old = known.columns.find(({ column_name }) => column_name === one.column_name)
        if (old === undefined) return one
        const { verbose_name = null, python_date_format = null } = old
        return { ...one, verbose_name, python_date_format, filterable: old.filterable ?? true, groupby: old.groupby ?? true }
      }),
      ...known.columns.filter(({ column_name, expression }) => expression && !names.has(column_name)),
    ],
    metrics: [
      ...dataset.metrics,
      ...known.metrics.filter((one) => !ours.has(one.metric_name) && !certificate.safeParse(one.extra).success),
    ],
  }
}

const chartEntry = z.object({ id: z.int(), is_managed_externally: flag, dashboards: z.array(idEntry) })

type Charts = Awaited<ReturnType<typeof chartsOn>>

/** Charts on the bundle's dashboards, as Superset has them now; `ids` of dashboards that are there, by slug. */
const chartsOn = async (client: SupersetClient, { dashboards }: Bundle) => {
  const ids = new Map<string, number>()
  const charts: z.infer<typeof chartEntry>[] = []
  for (const { slug } of dashboards) {
    const [entry] = await client.list('/api/v1/dashboard/', idEntry, ['slug', 'eq', slug])
    if (entry === undefined) continue
    ids.set(slug, entry.id)
    charts.push(...(await client.list('/api/v1/chart/', chartEntry, ['dashboards', 'rel_m_m', entry.id])))
  }
  return { ids, charts }
}

/** An import removes nothing, so this removes our charts that left the dashboards, unless a person has put them on another dashboard. */
const removeCharts = async (client: SupersetClient, before: Charts, after: Charts): Promise<number> => {
  const known = [...before.ids.values()]
  const gone = before.charts.filter(
    (one) =>
      one.is_managed_externally === true &&
      !after.charts.some(({ id }) => id === one.id) &&
      one.dashboards.every(({ id }) => known.includes(id)),
  )
  for (const { id } of gone) await client.ask('DELETE', `/api/v1/chart/${id}`, anything)
  return gone.length
}
