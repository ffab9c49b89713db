// Since when an endpoint refuses each request of a run although others of the account are answered: the gate lets these through, and would for ever.
import type { Clock } from '../core/clock.ts'

export interface Refusals {
  /** One more refusal; how long the run still waits for an answer, ms: nothing and less beyond its deadline. Who asks alone has a few tries and no time. */
  another(run: string | symbol, endpoint: string, deadlineMs: number): number
  /** Whether it has refused the run and not answered it since. */
  has(run: string | symbol, endpoint: string): boolean
  /** The endpoint has answered the run. */
  over(run: string | symbol, endpoint: string): void
}

export const createRefusals = (clock: Clock): Refusals => {
  const runs = new Map<string, Map<string, number>>()
  return {
    another: (run, endpoint, deadlineMs) => {
      if (typeof run === 'symbol') return deadlineMs
      const since = runs.get(run) ?? new Map<string, number>()
      runs.set(run, since)
      const first = since.get(endpoint) ?? clock.now()
      since.set(endpoint, first)
      return first + deadlineMs - clock.now()
    },
    has: (run, endpoint) => typeof run === 'string' && runs.get(run)?.has(endpoint) === true,
    over: (run, endpoint) => {
      if (typeof run === 'symbol') return
      const since = runs.get(run)
      since?.delete(endpoint)
      if (since?.size === 0) runs.delete(run)
    },
  }
}
