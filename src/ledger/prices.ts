// What the service was seen to charge for each dataset: bills on record, and what they tell of the next purchase.
import { type RawBuilder, sql } from 'kysely'
import { type Bill, lessonOf, type NamedPrice, type PriceKnown } from '../core/learned-price.ts'
import type { Db } from '../db/tables.ts'
import { prepared, query, type Row } from '../db/typed-row.ts'

/** What has one price: a dataset, as an account pays for it. */
export interface PriceSubject {
  readonly account: string
  /** `web-analytics.keywords`, `web-analytics.report/referrals` */
  readonly dataset: string
  /** By a setting of the account; it counts until there is a bill. */
  readonly stated: NamedPrice | null
  /** What others were seen to pay. */
  readonly seen: readonly NamedPrice[]
}

type BillRow = Row<'etl.prices', 'rows_asked' | 'rows' | 'metrics' | 'values' | 'credits' | 'said_in'>

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text))

const billOf = ({ rows_asked, rows, metrics, values, credits, said_in }: BillRow): Bill => ({
  size: { rowsAsked: numberOf(rows_asked), rows: numberOf(rows), metrics, values: Number(values) },
  credits: Number(credits),
  saidIn: said_in,
})

/** By the bills on record, the setting, and what others paid. */
export const priceKnown = async (db: Db, { account, dataset, stated, seen }: PriceSubject): Promise<PriceKnown> => {
  const rows = await prepared<BillRow>(db)`select rows_asked, rows, metrics, "values", credits, said_in from etl.prices
      where account = ${account} and dataset = ${dataset} and dropped_at is null order by price_id`
  return { bills: rows.map(billOf), stated, seen }
}

/** A bill as it was seen. */
export interface SeenBill extends Bill {
  readonly saidIn: 'answer' | 'balance'
  readonly jobId: number | null
}

/** Puts a bill on record where it says something new; one that contradicts those before it takes their place. Returns what is known then. */
export const learnPrice = async (db: Db, subject: PriceSubject, known: PriceKnown, bill: SeenBill): Promise<PriceKnown> => {
  const lesson = lessonOf(known, bill)
  if (lesson === 'expected') return known
  if (lesson === 'new') return addBill(db, subject, known, bill)
  // Another process may have seen the new price first: its bill must not be dropped for what this one knew before.
  await lockBills(db, subject)
  const latest = await priceKnown(db, subject)
  const judged = lessonOf(latest, bill)
  if (judged === 'expected') return latest
  if (judged === 'new') return addBill(db, subject, latest, bill)
  await dropPrices(db, subject)
  return addBill(db, subject, { ...latest, bills: [] }, bill)
}

const addBill = async (db: Db, { account, dataset }: PriceSubject, known: PriceKnown, bill: SeenBill): Promise<PriceKnown> => {
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

/** Until the caller's transaction ends. Bills are added without it: one too many does no harm. */
const lockBills = async (db: Db, { account, dataset }: PriceSubject): Promise<void> => {
  await query(db)`select price_id from etl.prices where account = ${account} and dataset = ${dataset} and dropped_at is null
    order by price_id for update`
}

/** What was learned counts no more: another price was seen. */
const dropPrices = (db: Db, { account, dataset }: PriceSubject): Promise<void> =>
  dropThose(db, sql`account = ${account} and dataset = ${dataset}`)

/** What two readings of the balance told counts no more: later ones told otherwise. */
export const dropBalancePrices = (db: Db, account: string): Promise<void> =>
  dropThose(db, sql`account = ${account} and said_in = 'balance'`)

const dropThose = async (db: Db, which: RawBuilder<unknown>): Promise<void> => {
  await query(db)`
    with gone as (select price_id from etl.prices where ${which} and dropped_at is null order by price_id for update)
    update etl.prices set dropped_at = clock_timestamp() where price_id in (select price_id from gone)`
}
