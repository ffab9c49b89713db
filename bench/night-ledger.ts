// Every unit of a pipeline as if it had been loaded this evening, written by the server: units, their answers and loads, done report jobs.
import { type RawBuilder, sql } from 'kysely'
import { requestDigest, metricsOf } from '../src/core/request-digest.ts'
import type { Definition } from '../src/core/types.ts'
import type { Database } from '../src/db/connect.ts'
import type { Db } from '../src/db/tables.ts'
import type { Source } from '../src/extract/source.ts'
import { registerPipeline } from '../src/ledger/pipelines.ts'
import type { NightWorld } from './night-world.ts'

/** Domains of one report. */
const domainsAReport = 100

/** What the service says of a month's keywords, of whichever domain. */
export interface Said {
  readonly month: string
  readonly updated: string
  readonly count: number
}

const askMonths = ({ sandbox, months }: NightWorld): Promise<Said[]> =>
  Promise.all(
    months.map(async (month) => {
      const query = new URLSearchParams({
        ...{ api_key: sandbox.apiKey, URL: 'site000000.example', country: 'us', start_date: month, end_date: month },
        ...{ limit: '1', offset: '0', traffic_source: 'All', web_source: 'Total', branded_type: 'All' },
      })
      const answer = await (await fetch(`${sandbox.url}/v4/website-analysis/keywords?${query}`)).text()
      const [, updated] = /"last_updated":"([^"]+)"/.exec(answer) ?? []
      const [, count] = /"keywords_count":(\d+)/.exec(answer) ?? []
      if (updated === undefined || count === undefined) throw new Error(`${month}: the sandbox answers ${answer}`)
      return { month, updated, count: Number(count) }
    }),
  )

/** The program's own registration, then units loaded from one report for each 100 domains over all months, or from a walk each. */
export const fillLedger = async (world: NightWorld, definition: Definition, source: Source): Promise<void> => {
  const { kysely, pool } = world.database
  const { pipelineId } = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  const asked: Asked = { asks: requestDigest(definition), metrics: metricsOf(definition) }
  if (source.kind === 'report') await fillReports(kysely, pipelineId, world.months, asked)
  else for (const said of await askMonths(world)) await fillWalks(kysely, pipelineId, said, asked)
  await pool.query('vacuum analyze')
}

interface Asked {
  readonly asks: string
  readonly metrics: readonly string[]
}

const firstDay = (month: string | undefined): RawBuilder<unknown> => sql`${`${month}-01`}::date`

const shapeOf = (asks: string, metrics: readonly string[]): RawBuilder<unknown> =>
  sql`(select etl.shape_of(${asks}, ${[...metrics]}::text[], null, null, null, null, null, null) as shape_id)`

const fillReports = async (db: Db, pipelineId: number, months: readonly string[], { asks, metrics }: Asked): Promise<void> => {
  const [from, last] = [firstDay(months[0]), firstDay(months.at(-1))]
  await sql`
    with block as (
      select array_agg(slice_id order by slice_id) as slice_ids, row_number() over () as n from (
        select slice_id, (dense_rank() over (order by "values"[1] collate "C") - 1) / ${sql.lit(domainsAReport)} as b
        from etl.slices where pipeline_id = ${pipelineId}) x group by b
    ), asked as (
      insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, ask_number, asked_at, account, endpoint,
        report_state, report_id, submitted_at, completed_at)
      select ${pipelineId}, 'report', 'new', ${from}, (${last} + interval '1 month')::date, slice_ids,
        cardinality(slice_ids) * ${months.length}::integer, 'done', nextval('etl.ask_numbers'), clock_timestamp(), 'default', '/request-report',
        'downloaded', 'night-' || n, clock_timestamp(), clock_timestamp() from block
      returning *
    ), answered as (
      insert into etl.answer_rows (pipeline_id, job_id, answer_id, asked_at, landing, sha256, bytes, window_from, window_to, slice_ids, shape_id, verdict)
      select pipeline_id, job_id, ask_number, asked_at, 'night/' || job_id, sha256(job_id::text::bytea), 1000000, window_from, window_to, slice_ids,
        s.shape_id, 'good' from asked, ${shapeOf(asks, metrics)} s returning *
    )
    insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, rows_read, rows_inserted, milliseconds)
    select answer_id, pipeline_id, w::date, job_id, 'loaded', cardinality(slice_ids), cardinality(slice_ids), cardinality(slice_ids), 100
    from answered, generate_series(window_from, window_to - 1, interval '1 month') w order by w`.execute(db)
  await sql`update etl.jobs j set answer_id = a.answer_id from etl.answers a where a.job_id = j.job_id`.execute(db)
  for (const month of months)
    await sql`insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id)
      select ${pipelineId}, ${firstDay(month)}, s, a.ask_number, a.answer_id from etl.answers a, unnest(a.slice_ids) s
      where a.pipeline_id = ${pipelineId} order by s`.execute(db)
}

/** A walk for each slice in each of the months, as loaded. */
export const fillLoadedWalks = async (
  database: Database,
  { definition, source }: { readonly definition: Definition; readonly source: Source },
  said: { readonly slices: readonly (readonly string[])[]; readonly months: readonly Said[] },
): Promise<void> => {
  const { kysely, pool } = database
  const { pipelineId } = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  await pool.query(
    `insert into etl.slices (pipeline_id, "values", wanted_since) select $1, string_to_array(s, ' '), 1 from unnest($2::text[]) s`,
    [pipelineId, said.slices.map((values) => values.join(' '))],
  )
  const asked: Asked = { asks: requestDigest(definition), metrics: metricsOf(definition) }
  for (const month of said.months) await fillWalks(kysely, pipelineId, month, asked)
}

/** Asked for two months ago and confirmed since by the nights' full checks: none is in its turn, and each window has loads that are older. */
const fillWalks = async (
  db: Db,
  pipelineId: number,
  { month, updated, count }: Said,
  { asks, metrics }: Asked,
): Promise<void> => {
  await sql`
    with answered as (
      insert into etl.answer_rows (pipeline_id, job_id, answer_id, asked_at, stood_at, landing, sha256, bytes, window_from, window_to, slice_id,
        shape_id, source_last_updated, source_count, verdict, loaded_at, rows_inserted, milliseconds)
      select ${pipelineId}, n, n, clock_timestamp() - interval '60 days', clock_timestamp(), '5b1c7d2e.1-' || n || '-1-9f3c1e', sha256(n::text::bytea), 4000,
        ${firstDay(month)}, (${firstDay(month)} + interval '1 month')::date, slice_id, s.shape_id, ${updated}, ${count}::bigint, 'good',
        clock_timestamp() - interval '60 days', ${count}::bigint, 5
      from (select slice_id, nextval('etl.ask_numbers') as n from etl.slices where pipeline_id = ${pipelineId} order by slice_id) x,
        ${shapeOf(asks, metrics)} s
      returning answer_id, slice_id
    )
    insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id)
    select ${pipelineId}, ${firstDay(month)}, slice_id, answer_id, answer_id from answered order by slice_id`.execute(db)
}

export interface TableSize {
  readonly table: string
  readonly rows: number
  readonly megabytes: number
  readonly indexMegabytes: number
}

/** The ledger's largest tables. */
export const tableSizes = async ({ database }: NightWorld): Promise<TableSize[]> => {
  const { rows } = await database.pool.query<TableSize>(`
    select c.relname as "table", c.reltuples::float8 as "rows", (pg_table_size(c.oid) / 1e6)::float8 as megabytes,
      (pg_indexes_size(c.oid) / 1e6)::float8 as "indexMegabytes"
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'etl' and c.relkind = 'r' and pg_total_relation_size(c.oid) > 1e6 order by pg_total_relation_size(c.oid) desc`)
  return rows
}
