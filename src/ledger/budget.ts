// Quota budgets: credits are reserved before a report is submitted and settled by its bill. A purchase beyond a budget waits for the next day or month.
import { docPage } from '../core/shipped.ts'
import type { Budget, TagBudget } from '../core/budget-scope.ts'
import { rounded } from '../core/learned-price.ts'
import { EtlError, type Follows, isEtlError } from '../core/errors.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, numberOf, type Numbers, queryOne } from '../db/typed-row.ts'
import type { ClaimedJob } from './claim.ts'
import { jobRow, lockJob, setClaimed } from './claim-fence.ts'
import { isOldestFirst } from './register-jobs.ts'
import { countLost, setPlanningReserve } from './request-credits.ts'
import { type BudgetScope, type Spent, type SpentNow, spentOf } from './spent.ts'

/** Whose budgets they are. */
export interface Payer {
  readonly account: string
  readonly pipeline: string
  readonly budget: Budget
  readonly accountBudget: Budget
  readonly tagBudgets: readonly TagBudget[]
}

/** A purchase before it is made. */
interface Reservation extends Payer {
  /** Estimated credits. null: unknown; then some credits must be left, and the next purchase waits until its bill is known. */
  readonly estimated: number | null
  /** The price is unknown. Refused where an earlier bill was lost: purchases whose bills are lost again and again would exceed any budget. */
  readonly isBlind?: boolean
  readonly unitKey: string
  /** How many pieces it may be cut into. Default 2. */
  readonly parts?: number
  /** Beyond the usual, by a person's order: it leaves nights their usual credits, and other pipelines their share. */
  readonly isExtra: boolean
}

interface ScopedBudget extends BudgetScope {
  readonly budget: Budget
}

/**
 * Throws QUOTA_EXHAUSTED where the purchase does not fit, REPORT_PENDING while a bill is awaited. Returns the credits left after it in the tightest budget; infinite
 * where none has a limit. @param locks whether all budgets are locked for the transaction, always in the same order. Without locks it is a check, which saves asking the
 * price of a report that would be refused
 */
export const reserveBudget = async (db: Db, reservation: Reservation, locks = true): Promise<number> => {
  let left = Number.POSITIVE_INFINITY
  for (const scoped of scopedBudgets(reservation).filter(isBounded)) {
    if (locks) await lockByName(db, lockOf(scoped))
    left = Math.min(left, refuseBeyond(scoped, reservation, await spentOf(db, scoped, reservation.pipeline)))
  }
  return left
}

const scopedBudgets = ({ account, pipeline, budget, accountBudget, tagBudgets }: Payer): readonly ScopedBudget[] => {
  const setting = { perMonth: `limits.quota_per_month of ${pipeline}`, perDay: `limits.quota_per_day of ${pipeline}` }
  return [
    { account, pipeline, budget: { setting, ...budget } },
    { account, pipeline: null, budget: accountBudget },
    ...tagBudgets.map(({ name, value, budget: ofTag }) => ({ account, pipeline: null, tag: { name, value }, budget: ofTag })),
  ]
}

/** Whether any of them has a limit. */
export const hasBudget = (payer: Payer): boolean => scopedBudgets(payer).some(isBounded)

const isBounded = ({ budget }: ScopedBudget): boolean => budget.perMonth !== null || budget.perDay !== null

const lockOf = ({ account, pipeline, tag }: ScopedBudget): string => {
  if (tag !== undefined) return `budget of ${tag.name}=${tag.value}`
  return pipeline === null ? `budget/${account}` : `budget/${account}/${pipeline}`
}

const refuseBeyond = (
  { account, pipeline, tag, budget }: ScopedBudget,
  { estimated, unitKey, isExtra, isBlind, parts = 2 }: Reservation,
  spent: SpentNow,
): number => {
  if (isBlind === true && spent.lost > 0) throw billLost(unitKey, spent)
  let least = Number.POSITIVE_INFINITY
  for (const [period, limit, setting] of [
    ['month', budget.perMonth, budget.setting?.perMonth],
    ['day', budget.perDay, budget.setting?.perDay],
  ] as const) {
    if (limit === null) continue
    const left = isExtra ? leftBeyondUsual(period, limit, spent) : limit - spent[period]
    const price = estimated ?? Math.max(0, left)
    least = Math.min(least, left - price)
    if (spent.unpriced > 0) throw billAwaited(unitKey, spent)
    if (estimated === null ? left > 0 : price <= left) continue
    const turns = period === 'month' ? spent.monthLeftMs : spent.dayLeftMs
    const whose = tag !== undefined ? ` of ${tag.name} ${tag.value}` : pipeline === null ? ` of account ${account}` : ''
    const kept =
      isExtra && left < limit - spent[period] ? `${Math.max(0, Math.floor(left))} are left for purchases beyond the usual, ` : ''
    throw new EtlError(
      'QUOTA_EXHAUSTED',
      `${unitKey}: ${spent[period]} of ${limit} credits${whose} are spent or reserved this ${period}, ${kept}` +
        `${estimated === null ? 'its price is not known yet' : `it needs about ${Number(price.toFixed(2))}`}. It resumes ${period === 'month' ? 'next month' : 'tomorrow (UTC)'}; to resume now, raise ${setting ?? 'the budget'}.`,
      {
        follows: estimated === null ? unknownFollows(limit, turns) : followingOf({ price, limit, left, parts, turnsInMs: turns }),
      },
    )
  }
  return least
}

const billWaitMs = 1_000
/** Longer, since a schedule would else start an approved job every minute in vain. */
const leftWaitMs = 600_000

/** The other purchase takes its unknown price from the same budget: nothing more is bought before its bill. Where no process waits for that bill, a later run resumes. */
const billAwaited = (unitKey: string, { leftAlone }: SpentNow): EtlError =>
  new EtlError(
    'REPORT_PENDING',
    `${unitKey}: another purchase under the same budget has no price until its bill comes.` +
      (leftAlone === null ? '' : ` No run waits for that bill: \`millrace run ${leftAlone}\` fetches it. Then run this again.`),
    { follows: { next: 'retry', inMs: leftAlone === null ? billWaitMs : leftWaitMs, isFinal: leftAlone !== null } },
  )

const billLost = (unitKey: string, { dayLeftMs }: SpentNow): EtlError =>
  new EtlError(
    'QUOTA_EXHAUSTED',
    `${unitKey}: the bill of an earlier purchase of unknown price was lost (process killed, response lost, or report expired). ` +
      `No more is bought at unknown prices under the same budget today (UTC). If you know the price, set it (${docPage('credits.md')}, Prices) and run again.`,
    { follows: { next: 'retry', inMs: dayLeftMs, isFinal: true } },
  )

/** Nothing is left for what has no known price. */
const unknownFollows = (limit: number, turnsInMs: number): Follows =>
  limit <= 0 ? { next: 'split', about: 'size' } : { next: 'retry', inMs: turnsInMs, isFinal: true }

/** A report dearer than the whole budget never fits: it is split, or held. One of which a part fits into the rest is split now; any other waits for the next day or month. */
const followingOf = ({
  price,
  limit,
  left,
  parts,
  turnsInMs,
}: Record<'price' | 'limit' | 'left' | 'parts' | 'turnsInMs', number>): Follows => {
  if (price > limit) return { next: 'split', about: 'size' }
  return price / parts <= left
    ? { next: 'split', about: 'size', elseInMs: turnsInMs }
    : { next: 'retry', inMs: turnsInMs, isFinal: true }
}

/** Credits left for purchases beyond the usual: nights keep theirs, and the pipelines that wait share the rest. */
export const leftBeyondUsual = (period: 'month' | 'day', limit: number, spent: Spent): number => {
  const free = limit - (period === 'month' ? spent.kept : 0)
  const [all, extra] = period === 'month' ? [spent.month, spent.extraMonth] : [spent.day, spent.extraDay]
  return Math.min(free - all, spent.sharers > 1 ? free / spent.sharers - extra : Number.POSITIVE_INFINITY)
}

/** Part of a named range, forced, or approved by a person. */
const isBeyondUsual = async (db: Db, claim: ClaimedJob): Promise<boolean> => {
  const row = await jobRow(db, claim).select('wanted_by').executeTakeFirst()
  return row !== undefined && ['range', 'force', 'approval'].includes(row.wanted_by)
}

/** A check before the price is asked. Throws QUOTA_EXHAUSTED where less is left than the report was last estimated at, or nothing where it has no estimate. */
export const affordable = async (db: Db, claim: ClaimedJob, payer: Payer): Promise<void> => {
  if (!hasBudget(payer)) return
  const row = await jobRow(db, claim).select('estimated_quota').executeTakeFirst()
  await reserveReport(db, claim, payer, numberOf(row?.estimated_quota ?? null), false)
}

/**
 * As reserveBudget, for a report in its turn: reports that come before it in its run must not find the budget spent, and no report is split to fit credits
 * that another one takes. @param estimated null: unknown
 */
export const reserveReport = async (
  db: Db,
  claim: ClaimedJob,
  payer: Payer,
  estimated: number | null,
  locks = true,
): Promise<void> => {
  const { cells, sliceIds, box } = claim
  const isExtra = await isBeyondUsual(db, claim)
  const parts = Math.max(2, cells / sliceIds.length)
  const turn = (left: number): Promise<void> => (estimated === null ? Promise.resolve() : giveWay(db, claim, estimated, left))
  const left = await reserveBudget(
    db,
    { ...payer, estimated, unitKey: box.key, isExtra, parts, isBlind: locks && estimated === null },
    locks,
  ).catch(async (error: unknown) => {
    if (isEtlError(error) && error.follows?.next === 'split' && error.follows.elseInMs !== undefined) await turn(0)
    throw error
  })
  await turn(left)
}

/** Reserves credits for requests of planning, without a job. Throws as reserveBudget. `setPlanningReserve` gives them back. @param kept credits that must be left over, where the price is known */
export const reserveForPlanning = (
  db: Db,
  of: { readonly runId: number; readonly pipelineId: number },
  { estimated, ...reservation }: Omit<Reservation, 'isExtra'>,
  kept = 0,
): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await reserveBudget(trx, { ...reservation, estimated: estimated === null ? null : estimated + kept, isExtra: false })
    if (estimated !== null && estimated > 0) await setPlanningReserve(trx, { ...of, account: reservation.account }, estimated)
  })

/** Credits that the in-flight pages of a walk have reserved together. */
export interface Held {
  /** Their estimated cost, without pages of unknown price. */
  readonly credits: number
  /** One of them reserves all that is left. */
  readonly takesAll: boolean
}

export const nothingHeld: Held = { credits: 0, takesAll: false }

/**
 * Reserves the price of another page of a walk in the payer's budgets; null: unknown. Returns what its pages hold then. Throws QUOTA_EXHAUSTED, or
 * REPORT_PENDING while the bill of another purchase is awaited. @param takesAll whether all that is left is reserved where the price fits: in the same transaction,
 * or another page could be bought between
 */
export const reservePages = (
  db: Db,
  claim: ClaimedJob,
  payer: Payer,
  page: { readonly more: number | null; readonly takesAll: boolean; readonly held: Held; readonly isBlind: boolean },
): Promise<Held> =>
  db.transaction().execute(async (trx) => {
    const { more, takesAll, held, isBlind } = page
    await lockJob(trx, claim)
    const isExtra = await isBeyondUsual(trx, claim)
    await reserveBudget(trx, { ...payer, estimated: more, unitKey: claim.box.key, isExtra, isBlind })
    const all = { credits: rounded(held.credits + (more ?? 0)), takesAll: held.takesAll || takesAll }
    await setReserved(trx, claim, all)
    return all
  })

/** Sets what stays reserved; false: the claim is lost. */
export const setReserved = (db: Db, claim: ClaimedJob, { credits, takesAll }: Held): Promise<boolean> =>
  setClaimed(db, claim, { reserved_credits: credits > 0 || takesAll ? String(credits) : null, reserves_all: takesAll })

/** Credits that an earlier try of this walk reserved and did not give back count as paid. Call before this try reserves any. */
export const chargeLost = async (db: Db, claim: ClaimedJob, { account }: Payer): Promise<void> => {
  const row = await jobRow(db, claim).select(['reserved_credits', 'pipeline_id']).executeTakeFirst()
  if (row === undefined || row.reserved_credits === null) return
  const lost = { account, pipelineId: row.pipeline_id, jobId: claim.jobId, reserved: Number(row.reserved_credits) }
  await db.transaction().execute(async (trx) => {
    if (await setReserved(trx, claim, nothingHeld)) await countLost(trx, [lost])
  })
}

/** How long a report waits for those before it to be tried. */
const giveWayMs = 1_000

/**
 * Where the budget cannot hold both, reports of newer months of the run (of older months where it begins with the oldest) go before this one, unless they wait for the
 * budget's next day or month themselves. Months decide, not places in the run's list: a split report has another place. A job in lists of both orders follows the
 * oldest-first lists alone: else two jobs would give way to each other for ever. Throws REPORT_PENDING. @param left credits besides this report
 */
const giveWay = async (trx: Db, { jobId, cells, box }: ClaimedJob, price: number, left: number): Promise<void> => {
  if (!Number.isFinite(left)) return
  const { credits } = await queryOne<Maybe<Numbers<'credits'>>>(trx)`
    select sum(coalesce(n.estimated_quota, ${price / cells}::float8 * n.cells))::float8 as credits
    from etl.jobs j cross join lateral (select w.*, bool_or(${isOldestFirst('w')}) over () as is_turned
        from etl.run_jobs w join etl.runs r on r.run_id = w.run_id and r.state = 'running' and r.cancel_requested_at is null
        where w.job_id = j.job_id and w.outcome is null) w
      join etl.run_jobs o on o.run_id = w.run_id and o.outcome is null and o.job_id <> j.job_id and ${isOldestFirst('o')} = ${isOldestFirst('w')}
      join etl.jobs n on n.job_id = o.job_id and n.pipeline_id = j.pipeline_id and n.state = 'open'
        and case when ${isOldestFirst('w')} then n.window_from < j.window_from else n.window_to > j.window_to end
        and n.kind = 'report' and n.ask_number is null and n.answer_id is null
        and (n.error_code is distinct from 'QUOTA_EXHAUSTED' or coalesce(n.not_before <= clock_timestamp(), true))
    where j.job_id = ${jobId}::bigint and ${isOldestFirst('w')} = w.is_turned`
  if ((credits ?? 0) <= left) return
  throw new EtlError('REPORT_PENDING', `${box.key}: other months of this run come first, and the budget may not cover both.`, {
    follows: { next: 'retry', inMs: giveWayMs, isFinal: false },
  })
}

/** A job that is refused for its price keeps that price, so that the price is not asked for again each night. Always throws `error`. */
export const recordRefusedPrice = async (db: Db, claim: ClaimedJob, estimated: number | null, error: unknown): Promise<never> => {
  if (isEtlError(error) && error.code === 'QUOTA_EXHAUSTED' && estimated !== null)
    await setClaimed(db, claim, { estimated_quota: estimated })
  throw error
}
