// The request rate of an account, learned from 429 answers: halved at a refusal, then raised a little each second, and kept below the rate last refused.

/** What one account's refusals have taught. */
export interface LearnedRate {
  /** Requests a second at the moment of the last change. */
  readonly base: number
  /** The rate that was refused, less a margin, in requests a second; null: the limit is not known yet. */
  readonly ceiling: number | null
  readonly changedMsAgo: number
  readonly refusedMsAgo: number
}

/** One 429, as seen by the process that received it. */
interface RateRefusal {
  /** How long ago the request left. */
  readonly leftMsAgo: number
  /** How long ago a request last got another answer than 429; null: never. */
  readonly succeededMsAgo: number | null
  /** Requests sent in the last second; null where the rate limiter held requests back, so that the whole rate was used. */
  readonly perSecond: number | null
  /** Requests a second as set. */
  readonly configured: number
}

/** What a request learns of its account when it asks for its turn. */
interface AccountTurn {
  /** How long until the request may leave; slightly negative where it could have left earlier. */
  readonly waitMs: number
  /** null: it was never refused. */
  readonly learnt: LearnedRate | null
}

/** The next free moment and the rate of one account: kept in the warehouse for all machines, or in this process where no warehouse is. */
export interface AccountRow {
  /** Moves the next free moment `ms` later and returns when the request may leave; 0: only reads. */
  reserve(ms: number): Promise<AccountTurn>
  /** Records a refusal: no request leaves for `pauseMs`; an earlier, longer pause stays. Resolves to the new rate. */
  refused(refusal: RateRefusal, pauseMs: number): Promise<LearnedRate>
}

/** A request that leaves at most this late keeps its slot, so that late timers cost no rate; a larger value would allow bursts. */
export const slotToleranceMs = 10

/** Added each second: this share of the rate after the last halving, at least one request. */
const growthShare = 0.1
const leastGrowth = 1
/** The ceiling as a share of the refused rate. A service that tolerates bursts refuses late, at a rate above its real limit. */
const ceilingShare = 0.85
/**
 * A single refusal may be an accident: requests that were delayed and arrived together. Only a second refusal within so long, or any refusal
 * once a ceiling is known, sets the ceiling.
 */
const accidentMs = 120_000
/** A ceiling holds for so long; then the rate may slowly rise above it. */
const ceilingForMs = 3_600_000
const leastRate = 0.1
/** A request that leaves so soon after a halving got its turn before, from a process that did not know of the halving yet. */
const unheardMs = 1_000

const growthOf = (base: number): number => Math.max(leastGrowth, base * growthShare)

/** Requests a second that may leave now. @param configured as set, never exceeded */
export const rateOf = (learnt: LearnedRate | null, configured: number): number => {
  if (learnt === null) return configured
  const { base, ceiling, changedMsAgo, refusedMsAgo } = learnt
  const grown = base + (growthOf(base) * Math.max(0, changedMsAgo)) / 1000
  const beyondMs = Math.max(0, refusedMsAgo - ceilingForMs)
  const top = ceiling === null ? configured : ceiling + (growthOf(base) * beyondMs) / 1000
  return Math.min(configured, top, grown)
}

/**
 * The rate after a refusal. It stays the same where the refused request left before the last change, and after a second refusal in a row:
 * a service that refuses everything needs a pause, not an ever lower rate.
 */
export const rateAfterRefusal = (learnt: LearnedRate | null, refusal: RateRefusal): LearnedRate => {
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
