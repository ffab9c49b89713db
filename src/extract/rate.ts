// One budget of requests a second for everything that asks with the same key.
import type { Clock } from '../core/clock.ts'

/** The seam: a budget that many machines share implements the same two functions over the warehouse. */
export interface RateBudget {
  /** Resolves when the next request may leave, first come first served. Rejects with the signal's reason as soon as it aborts. */
  take(signal: AbortSignal): Promise<void>
  /** The service asked for a pause: nothing leaves before `untilMs` (since the epoch), also who is waiting already. */
  penalize(untilMs: number): void
}

export interface RateOptions {
  /** Default 10, what the service allows. */
  readonly requestsPerSecond: number
  readonly clock: Clock
}

/** Share of the allowed rate that is used: jitter on the way must not make the service see more than it allows. */
const usedShare = 0.975
/** A departure this late keeps its place in the row, so that timers that fire late cost no rate; more would make a burst. */
const forgivenShare = 0.05

/** Evenly spaced departures: a server that counts over any sliding second sees no more than it allows. */
export const createRateBudget = ({ requestsPerSecond, clock }: RateOptions): RateBudget => {
  const spacing = 1000 / (requestsPerSecond * usedShare)
  let next = 0
  let row: Promise<void> = Promise.resolve()
  const depart = async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    // Looked at again after each sleep: a pause may have been asked for meanwhile, and timers may fire early.
    for (let wait = next - clock.now(); wait > 0; wait = next - clock.now()) await clock.sleep(wait, signal)
    next = Math.max(next, clock.now() - spacing * forgivenShare) + spacing
  }
  return {
    take: async (signal) => {
      signal.throwIfAborted()
      const turn = row.then(() => depart(signal))
      row = turn.catch(() => undefined)
      await orAborted(turn, signal)
    },
    penalize: (untilMs) => {
      next = Math.max(next, untilMs)
    },
  }
}

/** Who is told to stop does not wait for its turn to hear it. */
const orAborted = (turn: Promise<void>, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    turn.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
