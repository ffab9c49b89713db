// What a night may buy without approval, by recent purchases, what waits already, and the price of tonight; docs/internals/decisions/0008-the-price-before-the-night.md says why.
// Which units are beyond the usual: `beyondReasons` in ledger/candidates.ts; which purchases are recent: `pastNights` in ledger/guard-usual.ts.
import type { GuardRule } from '../core/limits.ts'
import { type Unasked, type PastNights, pastNights, type WantedBy } from '../ledger/guard-usual.ts'
import type { Db } from '../db/tables.ts'
import { waitingApproval } from '../ledger/approvals.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { PlanContext } from './plan-context.ts'
import { unitsOfReport } from './price.ts'

/** Credits: what nights bought so far by themselves, and what is about to be bought. */
interface NightPrice extends Pick<PastNights, 'pipeline' | 'account'> {
  readonly rule: GuardRule
  /** What every night buys: the new month of known values, restated months, unfinished units. */
  readonly usual: number
  /** New values, older months and changed definitions. */
  readonly unusual: number
  readonly waiting: number
  readonly report: number
}

export interface NightVerdict {
  /** Credits the pipeline may cost within 24 hours; infinite: there is no limit, or the price is not known and units are compared with units. */
  readonly allowed: number
  /** What waits for approval. `all`: even the usual exceeds the limit that the definition sets. */
  readonly holds: 'nothing' | 'unusual' | 'all'
}

/** Judges 24 hours, whatever runs bought in them: purchases made count together with those about to be made. */
export const judgeNight = (price: NightPrice): NightVerdict => {
  const { rule, usual, unusual, waiting, pipeline, account } = price
  const spent = pipeline.usual + pipeline.beyond
  const others = account.usual + account.beyond - spent
  const most = rule.creditsPerNight ?? Math.min(bound(price, pipeline), bound(price, account) - others)
  // Others of the account may have bought more than it.
  const allowed = Math.max(0, most)
  if (rule.creditsPerNight !== null && usual > 0 && spent + usual > most) return { allowed, holds: 'all' }
  return { allowed, holds: unusual > 0 && spent + usual + unusual + waiting > most ? 'unusual' : 'nothing' }
}

/** For a pipeline and for its account: a small pipeline must not grow within the limit of a large one, nor many small ones together. */
const bound = ({ rule, usual, report }: NightPrice, past: Unasked): number =>
  Math.max(rule.factor * Math.max(past.dearest, past.usual + usual), report)

/** For a range that a person named: only a limit in the definition can hold it. @param named credits of ranges of the last 24 hours */
export const judgeRange = (rule: GuardRule, price: number, named: number): NightVerdict => {
  const allowed = rule.creditsPerNight ?? Number.POSITIVE_INFINITY
  return { allowed, holds: named + price > allowed ? 'all' : 'nothing' }
}

export interface UnitsToBuy {
  readonly reason: AskReason
  readonly wantedBy: WantedBy
  readonly units: number
}

/** Which askers' jobs wait. At night, jobs that a person named and that failed before do not wait. */
export const heldAskers = ({ holds }: Pick<NightVerdict, 'holds'>, mode: GuardFacts['mode']): readonly WantedBy[] => {
  if (holds === 'nothing') return []
  if (holds === 'unusual') return ['beyond']
  return mode === 'range' ? ['night', 'beyond', 'range', 'force', 'approval'] : ['night', 'beyond']
}

type GuardFacts = Awaited<ReturnType<typeof guardFacts>>

/** What the verdict on a plan is based on, without the plan and its price. */
export const guardFacts = async (db: Db, { definition, source, frame, scope }: PlanContext) => ({
  ...(await pastNights(db, definition)),
  rule: definition.guard,
  mode: scope.mode,
  /** Counts before any report was bought: units of a report of one window, as full as the lists and the source allow. */
  fullReport: unitsOfReport(definition, source),
  waiting: await waitingApproval(db, frame.pipelineId, 'night'),
})

/**
 * The verdict on so many units, at a price; null: there is no guard. Where the price is unknown, units are compared with the units of former nights; a
 * figure of credits in the definition cannot be compared with them, and everything waits for approval.
 */
export const verdictOn = (facts: GuardFacts, units: readonly UnitsToBuy[], price: number | null): NightVerdict | null => {
  if (facts.rule === null) return null
  const { creditsPerNight } = facts.rule
  if (price === null && creditsPerNight !== null) return { allowed: creditsPerNight, holds: units.length > 0 ? 'all' : 'nothing' }
  const perUnit = price ?? 1
  const credits = (...by: readonly WantedBy[]): number =>
    units.reduce((total, one) => total + (by.length === 0 || by.includes(one.wantedBy) ? perUnit * one.units : 0), 0)
  if (facts.mode === 'range') return judgeRange(facts.rule, credits(), facts.named)
  const verdict = nightVerdict(facts, facts.rule, credits('night'), credits('beyond'), perUnit)
  return price === null ? { ...verdict, allowed: Number.POSITIVE_INFINITY } : verdict
}

const nightVerdict = (facts: GuardFacts, rule: GuardRule, usual: number, unusual: number, perUnit: number): NightVerdict => {
  const { pipeline, account, report, fullReport, waiting } = facts
  const price = { rule, usual, unusual, pipeline, account }
  return judgeNight({ ...price, waiting: waiting?.credits ?? 0, report: report ?? perUnit * fullReport })
}

/**
 * The cost of a range that a person named, where it exceeds what a night may cost: then a command at a terminal asks the person; null: it does not.
 * @param unpriced units to buy whose price is not known: they are compared with the units of nights
 */
export const expensiveRange = (
  facts: GuardFacts,
  { credits, unpriced, perUnit }: { readonly credits: number; readonly unpriced: number; readonly perUnit: number | null },
): { readonly credits: number | null; readonly allowed: number | null } | null => {
  const isKnown = unpriced === 0 || perUnit !== null
  const cost = credits + unpriced * (perUnit ?? 1)
  if (facts.rule === null || cost === 0) return null
  const { holds, allowed } = nightVerdict(facts, facts.rule, 0, cost, perUnit ?? 1)
  if (holds === 'nothing') return null
  return isKnown
    ? { credits: cost, allowed: Number.isFinite(allowed) ? Math.round(allowed) : null }
    : { credits: null, allowed: null }
}
