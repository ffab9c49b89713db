// Prices as recorded: bills of each dataset and what they tell of the next purchase; the cost of one unit of a pipeline's reports, also for reports that wait; a unit's
// size and time by earlier loads and requests. core/learned-price.ts defines what a price is; plan/price.ts asks the service for one.
import { type RawBuilder, sql } from 'kysely'
import { fitOnePrice, type Bill, classifyBill, type NamedPrice, type KnownPrice } from '../core/learned-price.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, type Numbers, prepared, query, queryColumn, queryOne, queryValue, type Row } from '../db/typed-row.ts'
import { countApproval } from './approvals.ts'
import { lockPipeline } from './pipelines.ts'

/** What has one price: a dataset, as an account pays for it. */
export interface PriceSubject {
  readonly account: string
  /** `web-analytics.keywords`, `web-analytics.report/referrals` */
  readonly dataset: string
  /** Set in the account's settings; it counts until there is a bill. */
  readonly stated: NamedPrice | null
  readonly seen: readonly NamedPrice[]
}

/** What is known of the price: recorded bills, the account's setting, and what others paid. */
export const priceKnown = async (db: Db, { account, dataset, stated, seen }: PriceSubject): Promise<KnownPrice> => {
  const bills = await prepared<Bill>(db)`
    select json_build_object('rowsAsked', rows_asked, 'rows', rows, 'metrics', metrics, 'values', "values") as size, credits::float8 as credits, said_in as "saidIn"
    from etl.prices where account = ${account} and dataset = ${dataset} and dropped_at is null order by price_id`
  return { bills, stated, seen }
}

/** A bill as it was seen. */
export interface SeenBill extends Bill {
  readonly saidIn: 'answer' | 'balance'
  readonly jobId: number | null
}

/** Records a bill that says something new; a bill that contradicts earlier ones replaces them. Returns what is known then. */
export const learnPrice = async (db: Db, subject: PriceSubject, known: KnownPrice, bill: SeenBill): Promise<KnownPrice> => {
  const lesson = classifyBill(known, bill)
  if (lesson === 'expected') return known
  if (lesson === 'new') return addBill(db, subject, known, bill)
  // Another process may have seen the new price first: its bill must not be dropped for what this one knew before. Bills are added without the lock: one too many does no harm.
  const ours = sql`account = ${subject.account} and dataset = ${subject.dataset} and dropped_at is null`
  await query(db)`select price_id from etl.prices where ${ours} order by price_id for update`
  const latest = await priceKnown(db, subject)
  const judged = classifyBill(latest, bill)
  if (judged === 'expected') return latest
  if (judged === 'new') return addBill(db, subject, latest, bill)
  await dropThose(db, ours)
  return addBill(db, subject, { ...latest, bills: [] }, bill)
}

const addBill = async (db: Db, { account, dataset }: PriceSubject, known: KnownPrice, bill: SeenBill): Promise<KnownPrice> => {
  const { rowsAsked, rows, metrics, values } = bill.size
  await db
    .insertInto('etl.prices')
    .values({
      ...{ account, dataset, said_in: bill.saidIn, job_id: bill.jobId, rows_asked: rowsAsked, rows, metrics, values },
      credits: bill.credits,
    })
    .execute()
  const { jobId: _, ...seen } = bill
  return { ...known, bills: [...known.bills, seen] }
}

/** Drops prices inferred from two readings of the balance: later readings contradict them. Returns whether there was any. */
export const dropBalancePrices = (db: Db, account: string): Promise<boolean> =>
  dropThose(db, sql`account = ${account} and said_in = 'balance'`)

const dropThose = async (db: Db, which: RawBuilder<unknown>): Promise<boolean> => {
  const dropped = await query(db)`
    with gone as (select price_id from etl.prices where ${which} and dropped_at is null order by price_id for update)
    update etl.prices set dropped_at = clock_timestamp() where price_id in (select price_id from gone) returning price_id`
  return dropped.length > 0
}

const mostBills = 20

type PastReport = Numbers<'credits' | 'cells' | 'metrics'> & Maybe<Numbers<'points'>>

/** Credits of one unit by the newest bills that agree with each other; older bills, explained by another price, do not count. null: there is no bill. */
export const creditsOfUnit = async (db: Db, pipeline: string): Promise<number | null> => {
  const rows = await query<PastReport>(db)`
    select j.used_quota::float8 as credits, j.cells, j.data_points_count::float8 as points, coalesce(cardinality(a.metrics), 1) as metrics
    from etl.jobs j left join etl.answers a on a.answer_id = j.answer_id
    where j.pipeline_id in (select pipeline_id from etl.pipelines where pipeline = ${pipeline})
      and j.report_state not in ('failed', 'rejected') and j.used_quota is not null order by j.created_at desc, j.job_id desc limit ${mostBills}`
  const bills: Bill[] = []
  for (const { credits, cells, points, metrics } of rows) {
    const bill = { credits, size: { rowsAsked: null, rows: points, metrics, values: cells } }
    if (fitOnePrice([...bills, bill])) bills.push(bill)
    else break
  }
  const sum = (pick: (bill: Bill) => number): number => bills.reduce((total, bill) => total + pick(bill), 0)
  return bills.length === 0 ? null : sum(({ credits }) => credits) / sum(({ size }) => size.values)
}

const newestBills = 5

type Billed = Readonly<Record<'account' | 'source' | 'pipeline', string>>

/**
 * By which factor bills exceed the price that the service named for the report: the highest of the pipeline's newest bills, or of the source's where it has none; at
 * least 1. By the named price alone such reports would pass every budget, and the guard, night after night.
 */
export const billFactor = async (db: Db, { account, source, pipeline }: Billed): Promise<number> => {
  const ofSource = { 'j.account': account, 'p.source': source }
  const own = await mostTimes(db, { ...ofSource, 'p.pipeline': pipeline })
  return Math.max(1, own ?? (await mostTimes(db, ofSource)) ?? 1)
}

const mostTimes = async (db: Db, whose: Readonly<Record<string, string>>): Promise<number | null> => {
  const bills = db
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .select(sql<string>`j.used_quota / j.said_quota`.as('times'))
    .where((eb) => eb.and(whose))
    .where('j.report_state', 'not in', ['failed', 'rejected'])
    .where('j.said_quota', '>', '0')
    .where('j.used_quota', 'is not', null)
    .orderBy('j.asked_at', 'desc')
    .limit(newestBills)
  const { times } = await db
    .selectFrom(bills.as('x'))
    .select(sql<number | null>`max(x.times)::float8`.as('times'))
    .executeTakeFirstOrThrow()
  return times
}

const unpriced = sql<boolean>`j.approval_id is not null and j.ask_number is null and j.answer_id is null and j.holder is null and j.estimated_quota is null`

/** Prices the approved, unsent jobs of the pipeline that have no price yet. @param credits of a unit, as the run has shown */
export const priceWaiting = async (db: Db, pipeline: string, credits: number): Promise<void> => {
  const pipelineIds = await queryColumn<Row<'etl.pipelines', 'pipeline_id'>>(db)`
    select p.pipeline_id from etl.pipelines p where p.pipeline = ${pipeline}
      and exists (select from etl.jobs j where j.pipeline_id = p.pipeline_id and ${unpriced}) order by 1`
  for (const pipelineId of pipelineIds)
    await db.transaction().execute(async (trx) => {
      await lockPipeline(trx, pipelineId)
      await query(trx)`
        with locked as (select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and ${unpriced} order by j.job_id for update)
        update etl.jobs set estimated_quota = round(${credits}::numeric * cells, 2) where job_id in (select job_id from locked)`
      await countApproval(trx, pipelineId)
    })
}

const newest = 2_000

/**
 * What a unit of the pipeline was like so far. `rows`: mean, as the service announces them where only first rows were asked for; null: nothing was loaded yet.
 * `quota`: credits of one unit by the newest reports; null: none was bought or priced.
 */
export type PastUnits = Maybe<Numbers<'rows' | 'quota'>>

/** Over every version of the pipeline. */
export const pastUnits = async (db: Db, pipeline: string): Promise<PastUnits> => {
  const rows = await queryValue<Pick<PastUnits, 'rows'>>(db)`
    with ours as (
      select pipeline_id from etl.pipelines where pipeline = ${pipeline}
    ), announced as (
      select x.source_count, x.top_rows from ours o join etl.answers x on x.pipeline_id = o.pipeline_id
      where x.source_count is not null order by x.answer_id desc limit 200
    )
    select coalesce((select avg(source_count)::float8 from announced having count(top_rows) > 0), (
      select avg(l.rows_read::float8 / l.units) from ours o cross join lateral (
        select rows_read, units from etl.loads where pipeline_id = o.pipeline_id and outcome = 'loaded' and units > 0
        order by window_from desc, loaded_at desc limit ${newest}) l)) as rows`
  return { rows, quota: await creditsOfUnit(db, pipeline) }
}

/** Mean times, of one answered request, and from a report's submission to its end; null where there was none. */
export type PastTimes = Maybe<Numbers<'requestMs' | 'reportMs'>>

/** Over the newest requests and reports of the pipeline. */
export const pastTimes = (db: Db, pipeline: string): Promise<PastTimes> =>
  queryOne<PastTimes>(db)`
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

/** How many rows of a unit are asked for, and how many at a time; null: unknown. @param top how many first rows are asked for */
export const rowsAsked = (
  { rows }: Pick<PastUnits, 'rows'>,
  pageSize: number,
  top = Number.POSITIVE_INFINITY,
): { readonly rows: number | null; readonly pageSize: number } => ({
  rows: Number.isFinite(top) ? Math.min(top, rows ?? top) : rows,
  pageSize: Math.min(pageSize, top),
})
