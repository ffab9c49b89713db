// Quota budgets: reserved before a report is submitted, settled by what the service says it used; what is over waits for the day or month to turn.
import type { Budget, TagBudget } from '../core/budget.ts'
import { EtlError } from '../core/errors.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'
import { type PurseOf, type Spent, type SpentNow, spentOf } from './spent.ts'

/** A purchase before it is made: whose budgets it must fit into. */
export interface Reservation {
  readonly account: string
  readonly pipeline: string
  readonly budget: Budget
  /** Of the account, over all its pipelines. */
  readonly accountBudget: Budget
  /** Of the tags it is charged to. Default: they have none. */
  readonly tagBudgets?: readonly TagBudget[]
  /** Credits the report is thought to cost; null where nobody can say: then 1 is reserved. */
  readonly estimated: number | null
  readonly unitKey: string
  /** Beyond the usual, by a person's word: it leaves the nights what they are used to, and other pipelines their share. Default false. */
  readonly isExtra?: boolean
}

interface Purse extends PurseOf {
  readonly budget: Budget
}

/**
 * Locks all of the budgets for the transaction, always in the same order, and throws QUOTA_EXHAUSTED where the report does not fit. Returns the credits that are
 * left besides it in the smallest one; infinite where none is bounded.
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

const pursesOf = ({ account, pipeline, budget, accountBudget, tagBudgets = [] }: Reservation): readonly Purse[] => {
  const setting = { perMonth: `limits.quota_per_month of ${pipeline}`, perDay: `limits.quota_per_day of ${pipeline}` }
  return [
    { account, pipeline, budget: { ...budget, setting } },
    { account, pipeline: null, budget: accountBudget },
    ...tagBudgets.map(({ name, value, budget: ofTag }) => ({ account, pipeline: null, tag: { name, value }, budget: ofTag })),
  ]
}

const isBounded = ({ budget }: Purse): boolean => budget.perMonth !== null || budget.perDay !== null

const reserveIn = async (trx: Db, purse: Purse, reservation: Reservation): Promise<number> => {
  if (!isBounded(purse)) return Number.POSITIVE_INFINITY
  await lockByName(trx, lockOf(purse))
  return refuseBeyond(purse, reservation, await spentOf(trx, purse, reservation.pipeline))
}

const lockOf = ({ account, pipeline, tag }: Purse): string => {
  if (tag !== undefined) return `budget of ${tag.name}=${tag.value}`
  return pipeline === null ? `budget/${account}` : `budget/${account}/${pipeline}`
}

const refuseBeyond = (
  { account, pipeline, tag, budget }: Purse,
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
    const whose = tag !== undefined ? ` of ${tag.name} ${tag.value}` : pipeline === null ? ` of account ${account}` : ''
    const kept = isExtra && left < limit - spent[period] ? `${Math.max(0, Math.floor(left))} are left for it, ` : ''
    throw new EtlError(
      'QUOTA_EXHAUSTED',
      `${unitKey}: ${spent[period]} of ${limit} credits${whose} are spent or reserved this ${period}, ${kept}` +
        `the report needs about ${price}. It resumes when the ${period} turns, or raise ${setting ?? 'the budget'}.`,
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
