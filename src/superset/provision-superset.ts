// Makes Superset show the warehouse: the connection, then the bundle made for what it sees there, then what left the bundle is removed.
import { z } from 'zod'
import type { Dashboard } from '../definition/dashboard.ts'
import { EtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import type { Definition } from '../core/types.ts'
import type { SemanticModel } from '../definition/semantic.ts'
import { type Bundle, supersetBundle } from './superset-bundle.ts'
import type { SupersetClient } from './superset-client.ts'
import { idOf, type ViewOfBi } from './superset-dataset.ts'
import { type DatasetDetails, datasetDetails, withOwn } from './superset-own.ts'
import { zipOf } from './superset-zip.ts'

/** What is made where. */
export interface Provisioning {
  readonly client: SupersetClient
  /** Name of the connection in Superset. */
  readonly connection: string
  /** SQLAlchemy's address of the warehouse, as Superset reaches it. */
  readonly warehouse: Secret
  readonly model: SemanticModel
  readonly definitions: readonly Definition[]
  readonly dashboards: readonly Dashboard[]
  /** Called with each step as it is done. */
  readonly tell: (text: string) => void
}

/** Objects of one kind. */
export interface Tally {
  readonly created: number
  readonly updated: number
  readonly removed: number
}

/** What was done; running it again makes nothing twice. */
export interface Provisioned {
  readonly datasets: Tally
  readonly charts: Tally
  readonly dashboards: readonly { readonly title: string; readonly slug: string; readonly isNew: boolean }[]
  /** What was left out, and why. */
  readonly skipped: readonly string[]
}

const dashboardsPath = '/api/v1/dashboard/'
const chartsPath = '/api/v1/chart/'
const mostColumns = 10_000

/**
 * What bears our names is made or brought up to date, charts that left a file are removed, everything else is left alone.
 * The bundle is taken as a whole or not at all. Throws SUPERSET.
 */
export const provisionSuperset = async (work: Provisioning): Promise<Provisioned> => {
  const { client, tell } = work
  const database = await provideConnection(work)
  const views = await viewsOf(work, database.id)
  const known = await knownDatasets(client, database.id)
  const bundle = supersetBundle({
    ...work,
    views,
    databaseId: database.uuid,
    datasetId: (view) => known.get(view)?.uuid ?? idOf(work.connection, view),
    adapt: (dataset) => withOwn(dataset, known.get(dataset.table_name)),
  })
  const before = await chartsOn(client, bundle)
  // Sparse: the connection is not in it.
  await client.upload('/api/v1/assets/import/', zipOf(bundle.files, 'millrace'), { sparse: 'true' })
  const after = await chartsOn(client, bundle)
  const removed = await removeCharts(client, before, after)
  const updated = after.charts.filter(({ id }) => before.charts.some((one) => one.id === id)).length
  const old = views.filter(({ name }) => known.has(name)).length
  tell(`datasets: ${views.length - old} made, ${old} brought up to date`)
  const dashboards = bundle.dashboards.map(({ title, slug }) => ({ title, slug, isNew: !before.slugs.includes(slug) }))
  for (const [at, { title, isNew }] of dashboards.entries())
    tell(`dashboard ${title}: ${isNew ? 'made' : 'brought up to date'}, ${bundle.dashboards[at]?.charts} charts`)
  return {
    datasets: { created: views.length - old, updated: old, removed: 0 },
    charts: { created: after.charts.length - updated, updated, removed },
    dashboards,
    skipped: bundle.skipped,
  }
}

const idEntry = z.object({ id: z.int() })

/** A bundle carries no password, and would overwrite what people set on the connection. */
const provideConnection = async ({
  client,
  connection,
  warehouse,
  tell,
}: Provisioning): Promise<{ id: number; uuid: string }> => {
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
  const id = found?.id ?? (await client.create(path, { ...body, uuid: idOf(connection, 'connection') }))
  const { result } = await client.get(`${path}${id}`, z.object({ result: z.object({ uuid: z.string() }) }))
  tell(`connection ${connection}: ${found === undefined ? 'made' : 'brought up to date'}`)
  return { id, uuid: result.uuid }
}

/** Superset's own request for a table's columns takes a second a table. */
const columnsSql = `select c.relname as view, coalesce(obj_description(c.oid, 'pg_class'), '') as about_view,
  a.attname as name, format_type(a.atttypid, a.atttypmod) as type, coalesce(col_description(c.oid, a.attnum), '') as about
from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
where n.nspname = 'bi' and c.relkind in ('r', 'v', 'p', 'm') and not c.relispartition and a.attnum > 0 and not a.attisdropped
  and has_table_privilege(c.oid, 'select')
order by c.relname, a.attnum`

const text = z.string()
const columnsAnswer = z.object({
  data: z.array(z.object({ view: text, about_view: text, name: text, type: text, about: text })),
})

/** Every table and view of `bi` that the connection's login may read, as SQL Lab answers it. */
const viewsOf = async ({ client }: Provisioning, database: number): Promise<ViewOfBi[]> => {
  const asked = { database_id: database, sql: columnsSql, runAsync: false, queryLimit: mostColumns }
  const { data } = await client.ask('/api/v1/sqllab/execute/', asked, columnsAnswer)
  if (data.length === 0)
    throw new EtlError(
      'SUPERSET',
      'Superset sees no table or view in the schema bi. Is it the address of the warehouse, was `millrace migrate` run, and is the login a member of bi_reader?',
    )
  return [...Map.groupBy(data, ({ view }) => view)].map(([name, columns]) => ({
    name,
    about: columns[0]?.about_view ?? '',
    columns: columns.map((one) => ({ name: one.name, type: one.type, about: one.about })),
  }))
}

const datasetEntry = z.object({ id: z.int(), table_name: z.string() })

const knownDatasets = async (client: SupersetClient, database: number): Promise<ReadonlyMap<string, DatasetDetails>> => {
  const path = '/api/v1/dataset/'
  const found = await client.list(path, datasetEntry, [
    { col: 'database', opr: 'rel_o_m', value: database },
    { col: 'schema', opr: 'eq', value: 'bi' },
  ])
  const details = new Map<string, DatasetDetails>()
  for (const { id, table_name } of found) details.set(table_name, (await client.get(`${path}${id}`, datasetDetails)).result)
  return details
}

const chartEntry = z.object({
  id: z.int(),
  is_managed_externally: z.boolean().nullish(),
  dashboards: z.array(z.object({ id: z.int() })),
})

interface Charts {
  readonly slugs: readonly string[]
  readonly ids: readonly number[]
  readonly charts: readonly z.infer<typeof chartEntry>[]
}

/** Charts on the bundle's dashboards, as Superset has them now. */
const chartsOn = async (client: SupersetClient, { dashboards }: Bundle): Promise<Charts> => {
  const found: { slug: string; id: number; charts: z.infer<typeof chartEntry>[] }[] = []
  for (const { slug } of dashboards) {
    const [entry] = await client.list(dashboardsPath, idEntry, [{ col: 'slug', opr: 'eq', value: slug }])
    if (entry === undefined) continue
    const charts = await client.list(chartsPath, chartEntry, [{ col: 'dashboards', opr: 'rel_m_m', value: entry.id }])
    found.push({ slug, id: entry.id, charts })
  }
  return {
    slugs: found.map(({ slug }) => slug),
    ids: found.map(({ id }) => id),
    charts: found.flatMap(({ charts }) => charts),
  }
}

/** Ours that left the dashboards; those that somebody put on a dashboard of theirs stay there. */
const removeCharts = async (client: SupersetClient, before: Charts, after: Charts): Promise<number> => {
  const gone = before.charts.filter(
    (one) =>
      one.is_managed_externally === true &&
      !after.charts.some(({ id }) => id === one.id) &&
      one.dashboards.every(({ id }) => before.ids.includes(id)),
  )
  for (const { id } of gone) await client.remove(`${chartsPath}${id}`)
  return gone.length
}
