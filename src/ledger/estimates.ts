// What earlier loads and requests tell of a unit: its size and its time, and how far such a guess was off.
import type { Db } from '../db/tables.ts'
import { query } from '../db/typed-row.ts'
import { creditsOfUnit } from './prices.ts'

/** Newest loads and purchases that are counted. */
const newest = 2_000

/** What a unit of the pipeline was like so far. */
export interface PastUnits {
  /** Mean rows of one unit, as the service announces them where only the first were asked for; null where nothing was loaded yet. */
  readonly rows: number | null
  /** Credits of one unit of a report, as the newest reports cost; null where none was bought or priced. */
  readonly quota: number | null
  /** Mean error of guessing one load by the one before it, as a fraction of what came; null where there were not two. */
  readonly rowsError: number | null
  readonly quotaError: number | null
}

/** Over every version of the pipeline. */
export const pastUnits = async (db: Db, pipeline: string): Promise<PastUnits> => {
  const rows = await query<Omit<PastUnits, 'quota'>>(db)`
    with ours as (
      select pipeline_id from etl.pipelines where pipeline = ${pipeline}
    ), sizes as (
      select rows, lag(rows) over (order by load_id) as before from (
        select l.load_id, l.rows_read::float8 / l.units as rows from ours o cross join lateral (
          select load_id, rows_read, units from etl.loads where pipeline_id = o.pipeline_id and outcome = 'loaded' and units > 0
          order by window_from desc, loaded_at desc limit ${newest}) l) x
    ), prices as (
      select quota, lag(quota) over (order by job_id) as before from (
        select j.job_id, j.used_quota::float8 / j.cells as quota from ours o join etl.jobs j on j.pipeline_id = o.pipeline_id
        where j.report_state is not null and j.used_quota is not null order by j.created_at desc limit ${newest}) x
    )
    select coalesce((select case when count(a.top_rows) > 0 then avg(a.source_count)::float8 end
        from (select x.source_count, x.top_rows from ours o join etl.answers x on x.pipeline_id = o.pipeline_id
          where x.source_count is not null order by x.answer_id desc limit 200) a), (select avg(rows) from sizes)) as rows,
      (select avg(abs(before - rows) / nullif(rows, 0)) from sizes) as "rowsError",
      (select avg(abs(before - quota) / nullif(quota, 0)) from prices) as "quotaError"`
  return { rows: null, rowsError: null, quotaError: null, ...rows[0], quota: await creditsOfUnit(db, pipeline) }
}

/** Milliseconds. */
export interface PastTimes {
  /** Mean time of one answered request; null where none was made. */
  readonly requestMs: number | null
  /** Mean time from a report's submission to its end; null where none ended. */
  readonly reportMs: number | null
}

/** Over the newest requests and reports of the pipeline. */
export const pastTimes = async (db: Db, pipeline: string): Promise<PastTimes> => {
  const rows = await query<PastTimes>(db)`
    with ours as (
      select pipeline_id from etl.pipelines where pipeline = ${pipeline}
    )
    select (select avg(q.milliseconds)::float8 from (
        select job_id, milliseconds from etl.requests where status < 400 order by request_id desc limit 5000) q
        join etl.jobs j on j.job_id = q.job_id where j.pipeline_id in (select pipeline_id from ours)) as "requestMs",
      (select avg(extract(epoch from x.completed_at - x.submitted_at) * 1000)::float8 from (
        select j.completed_at, j.submitted_at from etl.jobs j where j.pipeline_id in (select pipeline_id from ours)
          and j.report_state is not null and j.completed_at is not null and j.submitted_at is not null
        order by j.created_at desc limit 1000) x) as "reportMs"`
  return rows[0] ?? { requestMs: null, reportMs: null }
}

/** Rows of a unit that are asked for, and how many at a time; null: unknown. @param top the first so many alone */
export const rowsAsked = (
  { rows }: Pick<PastUnits, 'rows'>,
  pageSize: number,
  top = Number.POSITIVE_INFINITY,
): { readonly rows: number | null; readonly pageSize: number } => ({
  rows: Number.isFinite(top) ? Math.min(top, rows ?? top) : rows,
  pageSize: Math.min(pageSize, top),
})
