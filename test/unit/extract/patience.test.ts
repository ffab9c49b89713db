// When a request of a run that is told to stop is given up.
import { expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { withGracePeriod } from '../../../src/extract/grace-period.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Sleeps until told that the time is over. */
const held = (): { clock: Clock; over: () => void; asked: number[] } => {
  const asked: number[] = []
  const time = Promise.withResolvers<void>()
  const clock: Clock = {
    now: () => 0,
    random: () => 0,
    sleep: (ms, signal) => {
      asked.push(ms)
      const stopped = Promise.withResolvers<void>()
      signal?.addEventListener('abort', () => stopped.reject(signal.reason))
      return Promise.race([time.promise, stopped.promise])
    },
  }
  return { clock, over: () => time.resolve(), asked }
}

test('before anything was sent at once, with the reason of the run', async () => {
  const stop = new AbortController()
  const { clock, asked } = held()
  const patience = withGracePeriod(stop.signal, clock, 3_000, () => false)
  stop.abort('told to')
  expect([patience.signal.aborted, patience.signal.reason, asked]).toEqual([true, 'told to', []])
  patience.end()
})

test('on its way only when patience is over, which is less than the five seconds a cancelled run may take', async () => {
  const stop = new AbortController()
  const { clock, over, asked } = held()
  const patience = withGracePeriod(stop.signal, clock, 3_000, () => true)
  stop.abort('told to')
  await turn()
  expect([patience.signal.aborted, (asked[0] ?? Number.POSITIVE_INFINITY) < 4_000]).toEqual([false, true])
  over()
  await turn()
  expect([patience.signal.aborted, patience.signal.reason]).toEqual([true, 'told to'])
  patience.end()
})

test('not at all once its answer is here', async () => {
  const stop = new AbortController()
  const { clock, over } = held()
  const patience = withGracePeriod(stop.signal, clock, 3_000, () => true)
  stop.abort()
  patience.end()
  await turn()
  over()
  await turn()
  expect(patience.signal.aborted).toBe(false)
})
