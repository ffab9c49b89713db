// When a backlog beyond a daily or monthly budget will be bought: by the budgets, and what is spent of them, day by day.
import type { Budget } from '../core/budget-scope.ts'
import type { Settings } from '../core/env.ts'
import { budgetsOf, tagBudgets } from '../core/budget-scope.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import { addWindows } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { backlogOf, approveSpread, recordLastPurchaseDay } from '../ledger/approved-jobs.ts'
import { leftBeyondUsual } from '../ledger/budget.ts'
import { type SpentNow, spentOf } from '../ledger/spent.ts'
import { priceWaiting } from '../ledger/prices.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { sourceOf } from './plan-context.ts'
import { pricesOf } from './price.ts'

const mostDays = 3_660

/** The day on which the last credit is spent, at the earliest; null where the budgets never allow it within ten years. Days and months in UTC. */
export const lastPurchaseDay = (credits: number, rooms: readonly BudgetRoom[], today: IsoDate): IsoDate | null => {
  let left = credits
  let day = today
  let months = rooms.map(({ leftThisMonth }) => leftThisMonth)
  for (let count = 0; count < mostDays; count += 1) {
    const room = Math.min(...rooms.map((one, index) => Math.min(dayRoom(one, count === 0), months[index] ?? 0)))
    left -= Math.max(0, room)
    if (left <= 0) return day
    months = months.map((month) => month - Math.max(0, room))
    day = addWindows(day, 'day', 1)
    if (day.endsWith('-01'))
      months = rooms.map(({ perMonth, kept, sharers }) => (perMonth === null ? Infinity : (perMonth - kept) / sharers))
  }
  return null
}

const dayRoom = ({ perDay, leftToday, sharers }: BudgetRoom, isToday: boolean): number =>
  isToday ? leftToday : perDay === null ? Infinity : perDay / sharers

type SpentBy = Awaited<ReturnType<typeof spentBy>>

/** `tags`: those that have a budget. @param settings of the process: budgets of tags */
export const spentBy = async (
  db: Db,
  { account, pipeline, tags }: Pick<Definition, 'account' | 'pipeline' | 'tags'>,
  settings: Settings,
) => {
  const ofTags: { readonly budget: Budget; readonly spent: SpentNow }[] = []
  for (const { name, value, budget } of budgetsOf(tagBudgets(settings.raw), tags))
    ofTags.push({ budget, spent: await spentOf(db, { account, pipeline: null, tag: { name, value } }, pipeline) })
  return {
    pipeline: await spentOf(db, { account, pipeline }, pipeline),
    account: await spentOf(db, { account, pipeline: null }, pipeline),
    tags: ofTags,
  }
}

/** The day on which the last of the credits can be spent; null: today, or never within ten years. */
export const lastPurchaseDayWithin = (
  { limits }: Pick<Definition, 'limits'>,
  account: Budget,
  spent: SpentBy,
  credits: number,
  today: IsoDate,
): IsoDate | null => {
  const rooms = [
    roomOf({ perMonth: limits.quotaPerMonth, perDay: limits.quotaPerDay }, spent.pipeline),
    roomOf(account, spent.account),
    ...spent.tags.map(({ budget, spent: ofTag }) => roomOf(budget, ofTag)),
  ]
  const day = lastPurchaseDay(credits, rooms, today)
  return day === today ? null : day
}

export type BudgetRoom = ReturnType<typeof roomOf>

/** One budget, and what of it is left for the backlog today and this month. */
const roomOf = ({ perMonth, perDay }: Budget, spent: SpentNow) => ({
  ...{ perMonth, perDay },
  leftThisMonth: perMonth === null ? Number.POSITIVE_INFINITY : leftBeyondUsual('month', perMonth, spent),
  leftToday: perDay === null ? Number.POSITIVE_INFINITY : leftBeyondUsual('day', perDay, spent),
  /** What a month's usual nights take of it. */
  kept: spent.kept,
  sharers: spent.sharers,
})

/** Call before the run ends, while no process dissolves what it left: what it could not buy within budgets, or from the service, later nights buy. */
export const approveRest = async (
  runtime: Pick<PlanRuntime, 'database' | 'sources'>,
  definitions: readonly Definition[],
  runId: number,
  by: string,
) => {
  const planned = definitions.map((definition) => ({ definition, source: sourceOf(runtime, definition) }))
  await approveSpread(runtime.database.kysely, runId, by, planned)
}

/** After a run: what waits has a price where the run has shown one; when it will be bought is recorded. Returns what is left of each pipeline. */
export const forecastBacklog = async (
  runtime: Pick<PlanRuntime, 'database' | 'allowance' | 'clock' | 'settings' | 'sources'>,
  definitions: readonly Definition[],
) => {
  const { kysely } = runtime.database
  const priceOf = pricesOf(runtime, definitions)
  const spread = []
  for (const definition of definitions) {
    const { pipeline } = definition
    const { kind, unit } = await priceOf(pipeline)
    const price = unit?.likely ?? null
    if (price !== null) await priceWaiting(kysely, pipeline, price)
    const { reports, units, unpriced, ...priced } = await backlogOf(kysely, definition)
    if (units === 0) continue
    // Pages cost what their bills say by now, whatever they were planned at; a report what the service said of it.
    const [sure, more] = kind === 'walk' && price !== null ? [0, units] : [priced.credits, unpriced]
    const credits = sure + more * (price ?? 0)
    const spent = await spentBy(kysely, definition, runtime.settings)
    const today = new Date(runtime.clock.now()).toISOString().slice(0, 10)
    const day = lastPurchaseDayWithin(definition, runtime.allowance(definition).budget, spent, credits, today)
    await recordLastPurchaseDay(kysely, definition, day)
    // null: the cost of some of them is unknown.
    spread.push({ pipeline, reports, units, credits: more > 0 && price === null ? null : credits, doneOn: day })
  }
  return spread
}
