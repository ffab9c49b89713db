// A clock that stands still until a test advances it: sleepers wake in order, each as late as a test wants.
import type { Clock } from '../../src/core/clock.ts'

export interface ManualClock extends Clock {
  /** Moves time on to so many ms after the start, waking sleepers in order; each fires `late` ms after its time. */
  run(untilMs: number): Promise<void>
}

export const startOfTime = 1_000_000

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve()
}

export const manualClock = (late: () => number = () => 0): ManualClock => {
  let now = startOfTime
  const sleepers: { at: number; wake: () => void }[] = []
  return {
    now: () => now,
    random: () => 0.5,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => {
          sleepers.splice(sleepers.indexOf(sleeper), 1)
          reject(signal?.reason)
        }
        const wake = (): void => {
          signal?.removeEventListener('abort', onAbort)
          resolve()
        }
        const sleeper = { at: now + ms + late(), wake }
        sleepers.push(sleeper)
        signal?.addEventListener('abort', onAbort)
      }),
    run: async (untilMs) => {
      await settle()
      for (;;) {
        sleepers.sort((a, b) => a.at - b.at)
        const [first] = sleepers
        if (first === undefined || first.at > startOfTime + untilMs) break
        sleepers.shift()
        now = Math.max(now, first.at)
        first.wake()
        await settle()
      }
      now = Math.max(now, startOfTime + untilMs)
    },
  }
}
