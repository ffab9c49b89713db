// What loads on record tell of the ones to come: each unit's own last size, how far such guesses were off, and how long it took.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../db/tables.ts'
import type { PastUnit } from './estimates.ts'

export interface PastLoads {
  /** The newest load of each unit, by its key. */
  readonly byUnit: ReadonlyMap<string, PastUnit>
  /** Units whose report is bought and not loaded yet, and whether its answer is on disk already. */
  readonly bought: ReadonlyMap<string, { readonly downloaded: boolean }>
  /** Mean error of guessing a load by the slice's load before it, as a fraction of what came; null where no slice was loaded twice. */
  readonly rowsError: number | null
  readonly quotaError: number | null
  /** Mean time of one answered request; null where none was made. */
  readonly requestMs: number | null
  /** Mean time from a report's submission to its end; null where none ended. */
  readonly reportMs: number | null
}

export const pastLoads = async (db: Kysely<Tables>, pipeline: string): Promise<PastLoads> => {
  const { rows: units } = await sql<{ unit_key: string; rows: number; quota: number | null }>`
    select distinct on (u.unit_id) u.unit_key, l.rows_read::float8 as rows, r.used_quota::float8 as quota
    from etl.units u join etl.loads l on l.unit_id = u.unit_id and l.outcome = 'loaded'
      left join etl.reports r on r.report_key = l.report_key
    where u.pipeline = ${pipeline} order by u.unit_id, l.load_id desc`.execute(db)
  const { rows: measured } = await sql<Omit<PastLoads, 'byUnit' | 'bought'>>`
    with past as (
      select l.rows_read::float8 as rows, r.used_quota::float8 as quota,
        lag(l.rows_read::float8) over slices as rows_before, lag(r.used_quota::float8) over slices as quota_before
      from etl.units u join etl.loads l on l.unit_id = u.unit_id and l.outcome = 'loaded'
        left join etl.reports r on r.report_key = l.report_key
      where u.pipeline = ${pipeline} window slices as (partition by u.slice order by l.load_id))
    select avg(abs(rows_before - rows) / nullif(rows, 0)) as "rowsError", avg(abs(quota_before - quota) / nullif(quota, 0)) as "quotaError",
      (select avg(q.milliseconds)::float8 from etl.requests q join etl.units u on u.unit_id = q.unit_id
        where u.pipeline = ${pipeline} and q.status < 400) as "requestMs",
      (select avg(extract(epoch from completed_at - submitted_at) * 1000)::float8 from etl.reports
        where pipeline = ${pipeline} and completed_at is not null and submitted_at is not null) as "reportMs"
    from past`.execute(db)
  const byUnit = new Map(units.map((row) => [row.unit_key, { rows: row.rows, quota: row.quota }]))
  const { rowsError = null, quotaError = null, requestMs = null, reportMs = null } = measured[0] ?? {}
  const { rows: reports } = await sql<{ unit_key: string; downloaded: boolean }>`
    select u.unit_key, r.state = 'downloaded' as downloaded from etl.reports r join etl.units u on u.unit_id = r.unit_id
    where u.pipeline = ${pipeline} and u.state <> 'loaded' and r.edition = u.edition
      and r.state in ('submitted', 'ready', 'downloaded')`.execute(db)
  const bought = new Map(reports.map(({ unit_key, downloaded }) => [unit_key, { downloaded }]))
  return { byUnit, bought, rowsError, quotaError, requestMs, reportMs }
}
