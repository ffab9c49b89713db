// The service's own books beside ours: what it said is left, and what it charged between two readings beyond what is on record.
import { sql } from 'kysely'
import { exact } from '../core/learned-price.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'
import { type Flags, query } from '../db/typed-row.ts'
import { isSameApi } from './spent.ts'

/** Whose counter at the service is read. */
export interface MeterOf {
  readonly api: string
  readonly account: string
  /** A pipeline of that API. */
  readonly pipeline: string
}

/** What is on record of the account, over all time, and whether anything is under way that is not. */
export interface Counted {
  readonly requests: number
  readonly reports: number
  readonly isQuiet: boolean
}

/** Whether a process does nothing for the account but ask for pages of one dataset, and no other process does anything: then what a page cost shows in the balance. */
export const isAlone = async (
  db: Db,
  { account, pipeline }: Pick<MeterOf, 'account' | 'pipeline'>,
  own: { readonly processId: number; readonly pipelineId: number; readonly hasOwnPurse: boolean },
): Promise<boolean> => {
  const rows = await query<Flags<'alone'>>(db)`
    select not exists (select from etl.jobs j join etl.pipelines o on o.pipeline_id = j.pipeline_id
      where j.state = 'open' and j.account = ${account} and ${isSameApi('o', pipeline)} and (not ${own.hasOwnPurse} or j.kind = 'walk') and (j.report_state in ('intent', 'submitted')
        or j.holder is not null and (j.holder <> ${own.processId} or j.pipeline_id <> ${own.pipelineId}))) as alone`
  return rows[0]?.alone === true
}

/** What our own books say was charged. */
export const countedOf = async (db: Db, { account, pipeline }: MeterOf): Promise<Counted> => {
  const rows = await query<Counted>(db)`
    select coalesce(sum(s.used_quota) filter (where s.requests > 0), 0)::float8 as requests,
      coalesce(sum(s.used_quota) filter (where s.requests = 0), 0)::float8 as reports,
      not exists (select from etl.jobs j join etl.pipelines o on o.pipeline_id = j.pipeline_id
        where j.state = 'open' and (j.holder is not null or j.report_state in ('intent', 'submitted')) and j.account = ${account}
          and ${isSameApi('o', pipeline)}) as "isQuiet"
    from etl.spending s join etl.pipelines p using (pipeline_id) where s.account = ${account} and ${isSameApi('p', pipeline)}`
  return rows[0] ?? { requests: 0, reports: 0, isQuiet: true }
}

/** Whether the account was read in this month (UTC): the service fills it up when the month turns. */
export const hasReading = async (db: Db, { api, account }: MeterOf): Promise<boolean> =>
  (await newestReading(db, api, account)) !== undefined

const newestReading = (db: Db, api: string, account: string) =>
  db
    .selectFrom('etl.meter_readings')
    .selectAll()
    .where('api', '=', api)
    .where('account', '=', account)
    .where('read_at', '>=', sql<string>`date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC'`)
    .orderBy('reading_id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** What the service says is left; null: it does not say. */
export interface Left {
  readonly requests: number | null
  readonly credits: number | null
}

/** Keeps what was read and returns what the service charged beyond what is on record since the reading before; null: there is none to compare with. */
export const keepReading = (db: Db, of: MeterOf, left: Left, counted: Counted): Promise<number | null> =>
  db.transaction().execute(async (trx) => {
    // Of two at once the second compares with the first: what was charged is counted once.
    await lockByName(trx, `readings of ${of.api}/${of.account}`)
    return insertReading(trx, of, left, counted)
  })

const insertReading = async (db: Db, { api, account }: MeterOf, left: Left, counted: Counted): Promise<number | null> => {
  const before = await newestReading(db, api, account)
  const difference =
    before === undefined
      ? null
      : differenceOf(
          {
            left: { requests: numberOf(before.remaining_requests), credits: numberOf(before.remaining_credits) },
            counted: { requests: Number(before.counted_requests), reports: Number(before.counted_reports) },
          },
          { left, counted },
        )
  await db
    .insertInto('etl.meter_readings')
    .values({
      api,
      account,
      remaining_requests: left.requests,
      remaining_credits: left.credits,
      counted_requests: counted.requests,
      counted_reports: counted.reports,
      difference,
    })
    .execute()
  return difference
}

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text))

interface Reading {
  readonly left: Left
  readonly counted: Pick<Counted, 'requests' | 'reports'>
}

/** Requests and reports may be paid from one purse, which then says the same twice. null: refilled, or it did not say. */
const differenceOf = (before: Reading, now: Reading): number | null => {
  const isOnePurse = before.left.requests === before.left.credits && now.left.requests === now.left.credits
  const charged = (purse: keyof Left): number | null => {
    const [was, is] = [before.left[purse], now.left[purse]]
    return was === null || is === null || is > was ? null : was - is
  }
  const requests = now.counted.requests - before.counted.requests
  const reports = now.counted.reports - before.counted.reports
  if (isOnePurse) {
    const all = charged('requests')
    return all === null ? null : exact(all - requests - reports)
  }
  const [ofRequests, ofReports] = [charged('requests'), charged('credits')]
  if (ofRequests === null && ofReports === null) return null
  return exact((ofRequests === null ? 0 : ofRequests - requests) + (ofReports === null ? 0 : ofReports - reports))
}
