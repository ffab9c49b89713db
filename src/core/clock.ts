// Time and chance as arguments, so that tests can decide both.
import { setTimeout } from 'node:timers/promises'

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** A number in [0, 1). */
  random(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: async (ms, signal) => {
    await setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
      throw signal?.reason ?? error
    })
  },
}
