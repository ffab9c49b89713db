// How fast an account may ask, as its refusals teach it: halved when one comes, a little more each second after, and careful where it was last refused.

/** What is remembered of the refusals of one account. Spans are milliseconds ago. */
export interface LearntPace {
  /** Requests a second at the moment of the last change. */
  readonly base: number
  /** Requests a second that were too many, less a margin; null: it was never tried out how many are. */
  readonly ceiling: number | null
  readonly changedMsAgo: number
  readonly refusedMsAgo: number
}

/** One answer 429, as the process that got it saw it. */
interface RateRefusal {
  /** How long ago the request left. */
  readonly leftMsAgo: number
  /** How long ago a request was last answered otherwise; null: never. */
  readonly succeededMsAgo: number | null
  /** Departures of the last second; null where the budget itself held requests back, so that it was used wholly. */
  readonly perSecond: number | null
  /** Requests a second as set. */
  readonly configured: number
}

/** An account as its requests find it. */
interface AccountTurn {
  /** How long until a request may leave; a few milliseconds less than nothing where one might have left before. */
  readonly waitMs: number
  /** null: it was never refused. */
  readonly learnt: LearntPace | null
}

/** The next free moment and the pace of one account: its row in the warehouse for all machines, or in this process where there is none. */
export interface AccountRow {
  /** Takes what lies between the next free moment and so much later; 0: only asks. */
  reserve(ms: number): Promise<AccountTurn>
  /** Nothing leaves for so long; never makes an earlier pause shorter. Resolves with what is to be kept from here on. */
  refused(refusal: RateRefusal, pauseMs: number): Promise<LearntPace>
}

/** A departure this late keeps its place in the row, so that timers that fire late cost no rate; more would make a burst. */
export const forgivenMs = 10

/** Added each second: this share of the rate after the last halving, at least one request. */
const growthShare = 0.1
const leastGrowth = 1
/** Kept below what was refused. A service that forgives bursts refuses late, at a rate it would not allow for long. */
const ceilingShare = 0.85
/**
 * A single refusal may be an accident: requests that were held up on their way and came together. Only the second within so long, or one by who has found
 * a ceiling before, says where the limit lies.
 */
const accidentMs = 120_000
/** So long a ceiling is believed; then more is tried, slowly. */
const ceilingForMs = 3_600_000
const leastRate = 0.1
/** What leaves so soon after a halving was granted before, by a process that had not heard of it. */
const unheardMs = 1_000

const growthOf = (base: number): number => Math.max(leastGrowth, base * growthShare)

/** Requests a second that may leave now. @param configured as set, never exceeded */
export const rateOf = (learnt: LearntPace | null, configured: number): number => {
  if (learnt === null) return configured
  const { base, ceiling, changedMsAgo, refusedMsAgo } = learnt
  const grown = base + (growthOf(base) * Math.max(0, changedMsAgo)) / 1000
  const beyondMs = Math.max(0, refusedMsAgo - ceilingForMs)
  const top = ceiling === null ? configured : ceiling + (growthOf(base) * beyondMs) / 1000
  return Math.min(configured, top, grown)
}

/**
 * What a refusal changes. A request that left before the last change says nothing about the rate since; nor does a second refusal in a row:
 * a service that answers nothing else is waited for, not asked ever more slowly.
 */
export const slowerBy = (learnt: LearntPace | null, refusal: RateRefusal): LearntPace => {
  const { leftMsAgo, succeededMsAgo, perSecond, configured } = refusal
  if (learnt !== null) {
    const isOld = leftMsAgo >= learnt.changedMsAgo - unheardMs
    const isNothingElse = succeededMsAgo === null || succeededMsAgo >= learnt.changedMsAgo
    if (isOld || isNothingElse) return learnt
  }
  const rate = rateOf(learnt, configured)
  const used = perSecond === null ? rate : Math.min(rate, perSecond)
  const isLimit = learnt !== null && (learnt.ceiling !== null || learnt.refusedMsAgo < accidentMs)
  const ceiling = isLimit && perSecond === null ? Math.max(leastRate, rate * ceilingShare) : (learnt?.ceiling ?? null)
  return { base: Math.max(leastRate, used / 2), ceiling, changedMsAgo: 0, refusedMsAgo: 0 }
}
