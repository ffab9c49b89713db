// One budget of requests a second for everything that asks with the same key.
import type { Clock } from '../core/clock.ts'

export interface RateBudget {
  /** Resolves when the next request may leave. Rejects with the signal's reason when it aborts first. */
  take(signal: AbortSignal): Promise<void>
  /** The service asked for a pause: nothing leaves before `untilMs` (since the epoch). */
  penalize(untilMs: number): void
}

export interface RateOptions {
  /** Default 10, what the service allows. */
  readonly requestsPerSecond: number
  readonly clock: Clock
}

/** Share of the allowed rate that is used: jitter on the way must not make the service see more than it allows. */
const usedShare = 0.985

/** Evenly spaced departures: a server that counts over any sliding second sees no more than it allows. */
export const createRateBudget = ({ requestsPerSecond, clock }: RateOptions): RateBudget => {
  const spacing = 1000 / (requestsPerSecond * usedShare)
  let next = 0
  return {
    take: async (signal) => {
      const at = Math.max(next, clock.now())
      next = at + spacing
      const wait = at - clock.now()
      if (wait > 0) await clock.sleep(wait, signal)
      else signal.throwIfAborted()
    },
    penalize: (untilMs) => {
      next = Math.max(next, untilMs)
    },
  }
}
