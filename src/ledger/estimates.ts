// What earlier loads and requests tell of a unit: its size, its price and its time, and how far such a guess was off.
import { sql } from 'kysely'
import { agree, type Bill } from '../core/learned-price.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, type Numbers, query, type Row } from '../db/typed-row.ts'
import { countApproval } from './approvals.ts'
import { lockPipeline } from './pipelines.ts'

/** Newest loads and purchases that are counted. */
const newest = 2_000

/** What a unit of the pipeline was like so far. */
export interface PastUnits {
  /** Mean rows of one unit; null where nothing was loaded yet. */
  readonly rows: number | null
  /** Mean rows that the service said there are of one unit, loaded or not; null where it said nothing. */
  readonly announced: number | null
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
    select (select avg(rows) from sizes) as rows,
      (select avg(a.source_count)::float8 from (select x.source_count from ours o join etl.answers x on x.pipeline_id = o.pipeline_id
        where x.source_count is not null order by x.answer_id desc limit 200) a) as announced,
      (select avg(abs(before - rows) / nullif(rows, 0)) from sizes) as "rowsError",
      (select avg(abs(before - quota) / nullif(quota, 0)) from prices) as "quotaError"`
  return { rows: null, announced: null, rowsError: null, quotaError: null, ...rows[0], quota: await creditsOfUnit(db, pipeline) }
}

/** Reports whose bills are compared. */
const mostBills = 20

type PastReport = Numbers<'credits' | 'cells' | 'metrics'> & Maybe<Numbers<'points'>>

/** By the newest bills that agree with each other: an older one that another price explains counts no more. */
const creditsOfUnit = async (db: Db, pipeline: string): Promise<number | null> => {
  const rows = await query<PastReport>(db)`
    select j.used_quota::float8 as credits, j.cells, j.data_points_count::float8 as points, coalesce(cardinality(a.metrics), 1) as metrics
    from etl.jobs j left join etl.answers a on a.answer_id = j.answer_id
    where j.pipeline_id in (select pipeline_id from etl.pipelines where pipeline = ${pipeline})
      and j.report_state is not null and j.used_quota is not null order by j.created_at desc, j.job_id desc limit ${mostBills}`
  const bills: Bill[] = []
  for (const { credits, cells, points, metrics } of rows) {
    const bill = { credits, size: { rowsAsked: null, rows: points, metrics, values: cells } }
    if (agree([...bills, bill])) bills.push(bill)
    else break
  }
  const sum = (pick: (bill: Bill) => number): number => bills.reduce((total, bill) => total + pick(bill), 0)
  return bills.length === 0 ? null : sum(({ credits }) => credits) / sum(({ size }) => size.values)
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
  { rows, announced }: Pick<PastUnits, 'rows' | 'announced'>,
  pageSize: number,
  top = Number.POSITIVE_INFINITY,
): { readonly rows: number | null; readonly pageSize: number } => ({
  rows: Number.isFinite(top) ? Math.min(top, announced ?? top) : rows,
  pageSize: Math.min(pageSize, top),
})

const unpriced = sql<boolean>`j.kind = 'report' and j.approval_id is not null and j.ask_number is null and j.answer_id is null
  and j.holder is null and j.estimated_quota is null`

/** As much by the unit as the pipeline's reports cost so far; nothing where none was bought yet. */
export const priceWaiting = async (db: Db, pipeline: string): Promise<void> => {
  const rows = await query<Row<'etl.pipelines', 'pipeline_id'>>(db)`
    select p.pipeline_id from etl.pipelines p where p.pipeline = ${pipeline}
      and exists (select from etl.jobs j where j.pipeline_id = p.pipeline_id and ${unpriced}) order by 1`
  if (rows.length === 0) return
  const { quota } = await pastUnits(db, pipeline)
  if (quota === null) return
  for (const { pipeline_id } of rows)
    await db.transaction().execute(async (trx) => {
      await lockPipeline(trx, pipeline_id)
      await query(trx)`
        with locked as (select j.job_id from etl.jobs j where j.pipeline_id = ${pipeline_id} and ${unpriced} order by j.job_id for update)
        update etl.jobs set estimated_quota = round(${quota}::numeric * cells, 2) where job_id in (select job_id from locked)`
      await countApproval(trx, pipeline_id)
    })
}
