// Quota budgets: reserved before a report is submitted, settled by what the service says it used; what is over waits for the day or month to turn.
import { type RawBuilder, sql } from 'kysely'
import type { Budget } from '../core/budget.ts'
import { EtlError } from '../core/errors.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'

export interface Reservation {
  readonly account: string
  readonly pipeline: string
  readonly budget: Budget
  /** Of the account, over all its pipelines. */
  readonly accountBudget: Budget
  /** Credits the report is thought to cost; null where nobody can say: then 1 is reserved. */
  readonly estimated: number | null
  readonly unitKey: string
  /** Beyond the usual, by a person's word: it leaves the nights what they are used to, and other pipelines their share. Default false. */
  readonly isExtra?: boolean
}

/** Whose budget is looked at: a pipeline's, or with `pipeline` null the account's. A tag's would be one more of these. */
interface Purse {
  readonly account: string
  readonly pipeline: string | null
  readonly budget: Budget
}

/** Credits bought or about to be. */
export interface Spent {
  readonly month: number
  readonly day: number
  /** What the usual nights of this month still need, were they as dear as last month's. */
  readonly kept: number
  /** Of them what one pipeline bought beyond the usual. */
  readonly extraMonth: number
  readonly extraDay: number
  /** Pipelines that wait for a turn of this budget, the asking one included. */
  readonly sharers: number
}

/**
 * Locks both budgets for the transaction, always in the same order, and throws QUOTA_EXHAUSTED where the report does not fit. Returns the credits that are
 * left besides it in the smaller one; infinite where neither is bounded.
 */
export const reserveBudget = async (trx: Db, reservation: Reservation): Promise<number> => {
  let left = Number.POSITIVE_INFINITY
  for (const purse of pursesOf(reservation)) left = Math.min(left, await reserveIn(trx, purse, reservation))
  return left
}

/** The same without the locks: a report that would be refused need not be priced first. */
export const checkBudget = async (db: Db, reservation: Reservation): Promise<void> => {
  for (const purse of pursesOf(reservation))
    if (isBounded(purse)) refuseBeyond(purse, reservation, await spentOf(db, purse, reservation.pipeline))
}

const pursesOf = ({ account, pipeline, budget, accountBudget }: Reservation): readonly Purse[] => {
  const setting = { perMonth: `limits.quota_per_month of ${pipeline}`, perDay: `limits.quota_per_day of ${pipeline}` }
  return [
    { account, pipeline, budget: { ...budget, setting } },
    { account, pipeline: null, budget: accountBudget },
  ]
}

const isBounded = ({ budget }: Purse): boolean => budget.perMonth !== null || budget.perDay !== null

const reserveIn = async (trx: Db, purse: Purse, reservation: Reservation): Promise<number> => {
  const { account, pipeline } = purse
  if (!isBounded(purse)) return Number.POSITIVE_INFINITY
  const key = pipeline === null ? `budget/${account}` : `budget/${account}/${pipeline}`
  await lockByName(trx, key)
  return refuseBeyond(purse, reservation, await spentOf(trx, purse, reservation.pipeline))
}

const refuseBeyond = (
  { account, pipeline, budget }: Purse,
  { estimated, unitKey, isExtra = false }: Reservation,
  spent: SpentNow,
): number => {
  const price = estimated ?? 1
  let least = Number.POSITIVE_INFINITY
  for (const [period, limit, setting] of [
    ['month', budget.perMonth, budget.setting?.perMonth],
    ['day', budget.perDay, budget.setting?.perDay],
  ] as const) {
    if (limit === null) continue
    const left = isExtra ? extraLeft(period, limit, spent) : limit - spent[period]
    least = Math.min(least, left - price)
    if (price <= left) continue
    const whose = pipeline === null ? ` of account ${account}` : ''
    const kept = isExtra && left < limit - spent[period] ? `${Math.max(0, Math.floor(left))} are left for it, ` : ''
    throw new EtlError(
      'QUOTA_EXHAUSTED',
      `${unitKey}: ${spent[period]} of ${limit} credits${whose} are spent or reserved this ${period}, ${kept}` +
        `the report needs about ${price}. It goes on when the ${period} turns, or raise ${setting ?? 'the budget'}.`,
      {
        context: {
          // Dearer than the whole budget, so that no turn of it would ever hold the report; or half of it fits into what is left.
          refused: price > limit || price / 2 <= left,
          ...(price > limit ? {} : { waitMs: period === 'month' ? spent.monthLeftMs : spent.dayLeftMs }),
        },
      },
    )
  }
  return least
}

/** What lies beyond the usual leaves the nights theirs, and shares the rest with the other pipelines that wait. */
export const extraLeft = (period: 'month' | 'day', limit: number, spent: Spent): number => {
  const free = limit - (period === 'month' ? spent.kept : 0)
  const [all, extra] = period === 'month' ? [spent.month, spent.extraMonth] : [spent.day, spent.extraDay]
  return Math.min(free - all, spent.sharers > 1 ? free / spent.sharers - extra : Number.POSITIVE_INFINITY)
}

export interface SpentNow extends Spent {
  /** Milliseconds until the day and the month turn (UTC). */
  readonly dayLeftMs: number
  readonly monthLeftMs: number
}

/** @param ours the pipeline that asks, whose extra purchases are told apart and whose API is meant */
export const spentOf = async (
  db: Db,
  { account, pipeline }: Pick<Purse, 'account' | 'pipeline'>,
  ours: string,
): Promise<SpentNow> => {
  // Quota that is bought or about to be, and whose price nobody has told yet, counts with its estimate, or with 1 where there is none (as in etl.quota).
  const { rows } = await sql<SpentNow>`
    with turn as materialized (
      select t.day at time zone 'UTC' as day, date_trunc('month', t.day) at time zone 'UTC' as month,
        (date_trunc('month', t.day) - interval '1 month') at time zone 'UTC' as last_month, t.now
      from (select date_trunc('day', clock_timestamp() at time zone 'UTC') as day, clock_timestamp() as now) t
    ), bought as materialized (
      select j.asked_at >= t.month as is_now, j.asked_at >= t.day as is_today, p.pipeline, j.approval_id is not null or r.command = 'backfill' as is_extra,
        coalesce(r.command in ('run', 'schedule'), false) and j.approval_id is null as is_night,
        case when j.used_quota is not null then j.used_quota
          when j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain') then coalesce(j.estimated_quota, 1) else 0 end as credits
      from turn t join etl.jobs j on j.asked_at >= t.last_month join etl.pipelines p on p.pipeline_id = j.pipeline_id
        left join etl.runs r on r.run_id = j.run_id
      where j.account = ${account} and (${pipeline}::text is null or p.pipeline = ${pipeline}) and j.report_state is not null
        and ${isSameApi('p', ours)}
    ), waiting as (
      select count(distinct p.pipeline)::integer as others from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id
      where ${pipeline}::text is null and p.account = ${account} and p.pipeline <> ${ours} and ${isSameApi('p', ours)}
        and j.state = 'open' and j.holder is null and j.not_before is not null and j.error_code = 'QUOTA_EXHAUSTED'
        and j.updated_at > clock_timestamp() - interval '3 days'
    )
    select coalesce(sum(credits) filter (where is_now), 0)::float8 as month, coalesce(sum(credits) filter (where is_today), 0)::float8 as day,
      greatest(0, coalesce(sum(credits) filter (where is_night and not is_now), 0) - coalesce(sum(credits) filter (where is_night and is_now), 0))::float8 as kept,
      coalesce(sum(credits) filter (where is_extra and is_now and pipeline = ${ours}), 0)::float8 as "extraMonth",
      coalesce(sum(credits) filter (where is_extra and is_today and pipeline = ${ours}), 0)::float8 as "extraDay",
      1 + (select others from waiting) as sharers,
      (select extract(epoch from day + interval '1 day' - now) * 1000 from turn)::float8 as "dayLeftMs",
      (select extract(epoch from ((month at time zone 'UTC') + interval '1 month') at time zone 'UTC' - now) * 1000 from turn)::float8 as "monthLeftMs"
    from bought`.execute(db)
  return rows[0] ?? { month: 0, day: 0, kept: 0, extraMonth: 0, extraDay: 0, sharers: 1, dayLeftMs: 0, monthLeftMs: 0 }
}

/** Whether a row of `etl.pipelines` reads the same API as the pipeline of that name: accounts of two APIs may be named alike. @param alias of the row */
export const isSameApi = (alias: string, pipeline: string): RawBuilder<boolean> => sql<boolean>`
  split_part(${sql.ref(`${alias}.source`)}, '.', 1) =
    (select split_part(own.source, '.', 1) from etl.pipelines own where own.pipeline = ${pipeline} order by own.pipeline_id desc limit 1)`
