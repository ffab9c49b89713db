// What the guard decides on a plan: from what was bought of late, what waits already, and the price of tonight.
import type { GuardRule } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type WaitingApproval, waitingApproval } from '../ledger/approvals.ts'
import type { AskReason } from '../ledger/candidates.ts'
import { type PastNights, pastNights, type WantedBy } from '../ledger/guard-usual.ts'
import { judgeNight, judgeRange, type NightVerdict } from './guard.ts'
import type { PlanContext } from './plan-context.ts'

/** Units that are about to be bought. */
export interface UnitsToBuy {
  readonly reason: AskReason
  readonly wantedBy: WantedBy
  readonly units: number
}

/** Whose wishes wait. What a person named before and failed keeps that word at night. */
export const heldBy = ({ holds }: Pick<NightVerdict, 'holds'>, mode: GuardFacts['mode']): readonly WantedBy[] => {
  if (holds === 'nothing') return []
  if (holds === 'unusual') return ['beyond']
  return mode === 'range' ? ['night', 'beyond', 'range', 'force', 'approval'] : ['night', 'beyond']
}

/** What the verdict on a plan is based on, but for the plan and its price. */
export interface GuardFacts extends PastNights {
  readonly rule: GuardRule | null
  readonly mode: PlanContext['scope']['mode']
  /** Before any report was bought: units of one for one window, as full as the lists and the source allow. */
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
    ...(await pastNights(db, definition)),
    rule: definition.guard,
    mode: scope.mode,
    reportUnits: Math.min(full, limits.cells),
    waiting: await waitingApproval(db, frame.pipelineId, 'night'),
  }
}

/** The verdict on so many units, at a price; null: there is no guard. */
export const verdictOn = (facts: GuardFacts, units: readonly UnitsToBuy[], perUnit: number): NightVerdict | null => {
  if (facts.rule === null) return null
  const credits = (...by: readonly WantedBy[]): number =>
    units.reduce((total, one) => total + (by.length === 0 || by.includes(one.wantedBy) ? perUnit * one.units : 0), 0)
  return facts.mode === 'range'
    ? judgeRange(facts.rule, credits(), facts.named)
    : judge(facts, facts.rule, credits('night'), credits('beyond'), perUnit)
}

const judge = (facts: GuardFacts, rule: GuardRule, usual: number, unusual: number, perUnit: number): NightVerdict => {
  const { pipeline, account, report, reportUnits, waiting } = facts
  const price = { rule, usual, unusual, pipeline, account }
  return judgeNight({ ...price, waiting: waiting?.credits ?? 0, report: report ?? perUnit * reportUnits })
}

/** Whether the range a person named costs more than a night may: worth a question where a person is there to answer. */
export const isDearRange = (facts: GuardFacts, credits: number, perUnit: number): boolean =>
  facts.rule !== null && judge(facts, facts.rule, 0, credits, perUnit).holds !== 'nothing'
