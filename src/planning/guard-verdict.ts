// What the guard decides on a plan: from what nights cost of late, what waits already, and the price of tonight.
import type { GuardRule } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type WaitingApproval, waitingApproval } from '../ledger/approvals.ts'
import { type AskReason, unusualReasons } from '../ledger/candidates.ts'
import { pastNights } from '../ledger/guard.ts'
import { judgeNight, judgeRange, type NightVerdict } from '../plan/guard.ts'
import type { PlanContext } from './plan-context.ts'

export const isHeldReason = (holds: NightVerdict['holds'], reason: AskReason): boolean =>
  holds === 'all' || (holds === 'unusual' && unusualReasons.has(reason))

/** What the verdict on a plan is based on, but for the plan and its price. */
export interface GuardFacts {
  readonly rule: GuardRule | null
  readonly mode: PlanContext['scope']['mode']
  /** Credits of the dearest night of late. */
  readonly dearest: number
  /** Mean credits of one report; null: none was bought. */
  readonly report: number | null
  /** Before any was bought: units of a report for one window, as full as the lists and the source allow. */
  readonly reportUnits: number
  /** Waits for approval since an earlier night. */
  readonly waiting: WaitingApproval | null
}

export const guardFacts = async (db: Db, { definition, frame, scope, limits }: PlanContext): Promise<GuardFacts> => {
  const full = definition.dimensions.reduce(
    (total, { values }, place) => total * Math.min(values.length, limits.values[place] ?? 1),
    1,
  )
  return {
    ...(await pastNights(db, definition.pipeline)),
    rule: definition.guard,
    mode: scope.mode,
    reportUnits: Math.min(full, limits.cells),
    waiting: await waitingApproval(db, frame.pipelineId, 'night'),
  }
}

/** The verdict on so many units by reason, at a price; null: there is no guard. */
export const verdictOn = (facts: GuardFacts, units: ReadonlyMap<AskReason, number>, perUnit: number): NightVerdict | null => {
  const { rule, mode, dearest, report, reportUnits, waiting } = facts
  if (rule === null) return null
  const credits = (of: (reason: AskReason) => boolean): number =>
    perUnit * [...units].reduce((total, [reason, count]) => total + (of(reason) ? count : 0), 0)
  if (mode === 'range')
    return judgeRange(
      rule,
      credits(() => true),
    )
  return judgeNight({
    rule,
    usual: credits((reason) => !unusualReasons.has(reason)),
    unusual: credits((reason) => unusualReasons.has(reason)),
    waiting: waiting?.credits ?? 0,
    dearest,
    report: report ?? perUnit * reportUnits,
  })
}

/** Whether the range a person named costs more than a night may: worth a question where a person is there to answer. */
export const isDearRange = (
  { rule, dearest, report, reportUnits, waiting }: GuardFacts,
  credits: number,
  perUnit: number,
): boolean =>
  rule !== null &&
  judgeNight({
    rule,
    usual: 0,
    unusual: credits,
    waiting: waiting?.credits ?? 0,
    dearest,
    report: report ?? perUnit * reportUnits,
  }).holds !== 'nothing'
