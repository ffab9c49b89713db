// The ledger's truth for people and machines: units by state, coverage, freshness, open reports, quota, quarantine.
import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Tables } from '../db/tables.ts'

export interface PipelineStatus {
  readonly pipeline: string
  readonly units: Readonly<Record<string, number>>
  readonly rows: number
  readonly newest_window: string | null
  readonly oldest_window: string | null
  readonly last_loaded_at: string | null
  readonly quarantined: number
  readonly drift: unknown
}

export interface CoverageCell {
  readonly pipeline: string
  readonly month: string
  readonly loaded: number
  readonly total: number
  readonly held: number
  readonly failed: number
}

export interface TroubledUnit {
  readonly unit_id: number
  readonly unit: string
  readonly state: string
  readonly code: string | null
  readonly message: string | null
  readonly not_before: string | null
}

export interface OpenReport {
  readonly unit: string
  readonly report_id: string | null
  readonly state: string
  readonly status_word: string | null
  readonly age_seconds: number
  readonly next_poll_at: string | null
}

export interface LastRun {
  readonly run_id: number
  readonly command: string
  readonly state: string
  readonly started_at: string
  readonly finished_at: string | null
  readonly summary: unknown
}

export interface QuotaMonth {
  readonly account: string
  readonly pipeline: string
  readonly month: string
  readonly reports: number
  readonly used: number
  readonly reserved: number
}

export interface Status {
  readonly pipelines: readonly PipelineStatus[]
  readonly coverage: readonly CoverageCell[]
  readonly troubled: readonly TroubledUnit[]
  readonly open_reports: readonly OpenReport[]
  readonly runs: readonly LastRun[]
  readonly quota: readonly QuotaMonth[]
}

/** @param pipelines only these; empty: all. At most 200 troubled units, 50 open reports and 5 runs are listed. */
export const readStatus = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<Status> => ({
  pipelines: await pipelineStatus(kysely, pipelines),
  coverage: await coverage(kysely, pipelines),
  troubled: await troubledUnits(kysely, pipelines),
  open_reports: await openReports(kysely, pipelines),
  runs: await lastRuns(kysely),
  quota: await quotaMonths(kysely, pipelines),
})

const among = (pipelines: readonly string[], column = 'pipeline') =>
  pipelines.length === 0 ? sql`true` : sql`${sql.ref(column)} in (${sql.join([...pipelines])})`

const pipelineStatus = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<PipelineStatus[]> => {
  const { rows } = await sql<PipelineStatus>`
    select pipeline,
      (select jsonb_object_agg(state, n) from (
        select state, count(*) as n from etl.units s where s.pipeline = u.pipeline group by state) by_state) as units,
      coalesce(sum(loaded_rows), 0)::float8 as rows,
      to_char(max(window_from) filter (where loaded_at is not null), 'YYYY-MM-DD') as newest_window,
      to_char(min(window_from) filter (where loaded_at is not null), 'YYYY-MM-DD') as oldest_window,
      max(loaded_at) as last_loaded_at,
      (select count(*) from etl.quarantine q where q.pipeline = u.pipeline and q.state = 'open')::float8 as quarantined,
      (select l.drift from etl.loads l join etl.units d on d.unit_id = l.unit_id
        where d.pipeline = u.pipeline order by l.load_id desc limit 1) as drift
    from etl.units u where ${among(pipelines)} group by pipeline order by pipeline`.execute(kysely)
  return rows
}

const coverage = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<CoverageCell[]> => {
  const { rows } = await sql<CoverageCell>`
    select pipeline, to_char(date_trunc('month', window_from), 'YYYY-MM') as month,
      (count(*) filter (where loaded_at is not null))::float8 as loaded, count(*)::float8 as total,
      (count(*) filter (where state = 'held'))::float8 as held, (count(*) filter (where state = 'failed'))::float8 as failed
    from etl.units where ${among(pipelines)} group by 1, 2 order by 1, 2`.execute(kysely)
  return rows
}

const troubledUnits = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<TroubledUnit[]> => {
  const { rows } = await sql<TroubledUnit>`
    select unit_id::float8 as unit_id, unit_key as unit, state, error_code as code, error_message as message, not_before
    from etl.units where state in ('held', 'failed', 'waiting') and ${among(pipelines)}
    order by state, unit_key limit 200`.execute(kysely)
  return rows
}

const openReports = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<OpenReport[]> => {
  const { rows } = await sql<OpenReport>`
    select u.unit_key as unit, r.report_id, r.state, r.status_word, r.next_poll_at,
      extract(epoch from clock_timestamp() - coalesce(r.submitted_at, r.created_at))::float8 as age_seconds
    from etl.reports r join etl.units u on u.unit_id = r.unit_id
    where r.state in ('intent', 'submitted', 'ready', 'uncertain') and ${among(pipelines, 'r.pipeline')}
    order by r.created_at limit 50`.execute(kysely)
  return rows
}

const lastRuns = async (kysely: Kysely<Tables>): Promise<LastRun[]> => {
  const { rows } = await sql<LastRun>`
    select run_id::float8 as run_id, command, state, started_at, finished_at, summary
    from etl.runs order by run_id desc limit 5`.execute(kysely)
  return rows
}

const quotaMonths = async (kysely: Kysely<Tables>, pipelines: readonly string[]): Promise<QuotaMonth[]> => {
  const { rows } = await sql<QuotaMonth>`
    select account, pipeline, to_char(day, 'YYYY-MM') as month, sum(reports)::float8 as reports,
      coalesce(sum(used_quota), 0)::float8 as used, coalesce(sum(reserved_quota), 0)::float8 as reserved
    from etl.quota where ${among(pipelines)} group by 1, 2, 3 order by 3 desc, 1, 2 limit 36`.execute(kysely)
  return rows
}
