// Quota budgets: reserved before a report is submitted, settled by what the service says it used; what is over waits for the day or month to turn.
import type { Budget, TagBudget } from '../core/budget-scope.ts'
import { EtlError, type Follows } from '../core/errors.ts'
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
  /** Credits it is thought to cost; null where nobody can say: then all that is left is reserved, until its bill is known. */
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

/** Whether any of them has a limit. */
export const hasBudget = (of: Omit<Reservation, 'estimated' | 'unitKey'>): boolean =>
  pursesOf({ ...of, estimated: null, unitKey: '' }).some(isBounded)

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
  let least = Number.POSITIVE_INFINITY
  for (const [period, limit, setting] of [
    ['month', budget.perMonth, budget.setting?.perMonth],
    ['day', budget.perDay, budget.setting?.perDay],
  ] as const) {
    if (limit === null) continue
    const left = isExtra ? extraLeft(period, limit, spent) : limit - spent[period]
    const price = estimated ?? Math.max(0, left)
    least = Math.min(least, left - price)
    if (spent.unpriced > 0) throw billAwaited(unitKey)
    if (estimated === null ? left > 0 : price <= left) continue
    const turns = period === 'month' ? spent.monthLeftMs : spent.dayLeftMs
    const whose = tag !== undefined ? ` of ${tag.name} ${tag.value}` : pipeline === null ? ` of account ${account}` : ''
    const kept = isExtra && left < limit - spent[period] ? `${Math.max(0, Math.floor(left))} are left for it, ` : ''
    throw new EtlError(
      'QUOTA_EXHAUSTED',
      `${unitKey}: ${spent[period]} of ${limit} credits${whose} are spent or reserved this ${period}, ${kept}` +
        `${estimated === null ? 'nobody knows its price yet' : `it needs about ${Number(price.toFixed(2))}`}. It resumes when the ${period} turns, or raise ${setting ?? 'the budget'}.`,
      { follows: estimated === null ? unknownFollows(limit, turns) : followingOf({ price, limit, left, turnsInMs: turns }) },
    )
  }
  return least
}

const billWaitMs = 1_000

/** Whatever it costs is taken from what is left: nothing more is bought before that is known. */
const billAwaited = (unitKey: string): EtlError =>
  new EtlError(
    'REPORT_PENDING',
    `${unitKey}: the price of another purchase is not known before its bill, and a budget bounds both.`,
    {
      follows: { next: 'retry', inMs: billWaitMs, isFinal: false },
    },
  )

/** Nothing is left for what nobody knows the price of. */
const unknownFollows = (limit: number, turnsInMs: number): Follows =>
  limit <= 0 ? { next: 'split', about: 'size' } : { next: 'retry', inMs: turnsInMs, isFinal: true }

/** A report dearer than the whole budget is held by no turn of it; one of which half fits into what is left need not wait for the turn. */
const followingOf = ({ price, limit, left, turnsInMs }: Record<'price' | 'limit' | 'left' | 'turnsInMs', number>): Follows => {
  if (price > limit) return { next: 'split', about: 'size' }
  return price / 2 <= left
    ? { next: 'split', about: 'size', elseInMs: turnsInMs }
    : { next: 'retry', inMs: turnsInMs, isFinal: true }
}

/** What lies beyond the usual leaves the nights theirs, and shares the rest with the other pipelines that wait. */
export const extraLeft = (period: 'month' | 'day', limit: number, spent: Spent): number => {
  const free = limit - (period === 'month' ? spent.kept : 0)
  const [all, extra] = period === 'month' ? [spent.month, spent.extraMonth] : [spent.day, spent.extraDay]
  return Math.min(free - all, spent.sharers > 1 ? free / spent.sharers - extra : Number.POSITIVE_INFINITY)
}
