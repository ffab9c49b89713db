// The rate budget: spacing, pauses, fairness, and stopping.
import { describe, expect, test } from 'vitest'
import type { AccountRow } from '../../../src/core/pace.ts'
import { createRateBudget, ownAccount } from '../../../src/extract/rate.ts'
import { type ManualClock, manualClock, startOfTime } from '../../support/manual-clock.ts'

const never = new AbortController().signal

/** When each of `count` requests leaves, in ms from the start. */
const departures = async (clock: ManualClock, count: number, requestsPerSecond = 10): Promise<number[]> => {
  const rate = createRateBudget({ requestsPerSecond, clock })
  const times: number[] = []
  for (let index = 0; index < count; index += 1) void rate.take(never, 'run').then(() => times.push(clock.now() - 1_000_000))
  await clock.run(3_600_000)
  return times
}

const seeded = (from: number): ((most: number) => number) => {
  let seed = from
  return (most) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % (most + 1)
  }
}

/** The most departures inside any sliding second. */
const busiestSecond = (times: readonly number[]): number => {
  const sorted = times.toSorted((left, right) => left - right)
  let [from, most] = [0, 0]
  for (const [index, time] of sorted.entries()) {
    while ((sorted[from] ?? 0) <= time - 1_000) from += 1
    most = Math.max(most, index - from + 1)
  }
  return most
}

describe('the rate budget', () => {
  test('lets no sliding second see more than is allowed, and uses 95 % of it', async () => {
    const times = await departures(manualClock(), 1_000)
    expect(times).toHaveLength(1_000)
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(999 / ((times.at(-1) ?? 0) / 1_000)).toBeGreaterThan(9.5)
  })

  test('keeps both with timers that fire late', async () => {
    let seed = 1
    const jitter = (): number => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % 5
    }
    const times = await departures(manualClock(jitter), 1_000)
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(999 / ((times.at(-1) ?? 0) / 1_000)).toBeGreaterThan(9.5)
  })

  test('makes no burst of what a busy process could not send in time', async () => {
    let stalls = 0
    const times = await departures(
      manualClock(() => {
        stalls += 1
        return stalls % 7 === 0 ? 400 : 0
      }),
      500,
    )
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
  })

  test('holds back those who wait already when the service asks for a pause', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    const judged = await rate.take(never, 'run')
    const times: number[] = []
    for (let index = 0; index < 5; index += 1) void rate.take(never, 'run').then(() => times.push(clock.now() - startOfTime))
    await clock.run(150)
    expect(times).toHaveLength(1)
    judged(5_000)
    await clock.run(30_000)
    expect(times.slice(1).map((time) => time >= 5_150)).toEqual([true, true, true, true])
  })

  test('a pause never makes an earlier one shorter', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    const judged = await rate.take(never, 'run')
    judged(5_000)
    judged(1_000)
    let left = 0
    void rate.take(never, 'run').then(() => {
      left = clock.now() - startOfTime
    })
    await clock.run(10_000)
    expect(left).toBe(5_000)
  })

  test('a clock that is set back by an hour keeps nobody waiting for the hour', async () => {
    const steady = manualClock()
    let aheadMs = 3_600_000
    const clock = { ...steady, now: () => steady.now() + aheadMs }
    const budget = createRateBudget({ requestsPerSecond: 5, clock })
    const judged = await budget.take(never, 'run')
    judged(1_000)
    let left = 0
    const go = async (): Promise<void> => {
      await budget.take(never, 'run')
      left += 1
    }
    const both = [go(), go()]
    await steady.run(2)
    aheadMs = 0
    await steady.run(6_000)
    expect(left).toBe(2)
    await Promise.all(both)
  })

  test('who is stopped goes at once and takes no place from the others', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    await rate.take(never, 'run')
    const stop = new AbortController()
    const stopped = Array.from({ length: 50 }, () => rate.take(stop.signal, 'run').catch((error: unknown) => error))
    let left = 0
    void rate.take(never, 'run').then(() => {
      left = clock.now() - 1_000_000
    })
    stop.abort(new Error('stop'))
    expect(await Promise.all(stopped)).toEqual(Array(50).fill(stop.signal.reason))
    await clock.run(10_000)
    expect(left).toBeLessThan(250)
  })

  test('who was stopped before is refused', async () => {
    const rate = createRateBudget({ requestsPerSecond: 10, clock: manualClock() })
    await expect(rate.take(AbortSignal.abort(new Error('stop')), 'run')).rejects.toThrow('stop')
  })
})

/** A row that takes its time to answer. */
const slow = (clock: ManualClock, answerMs: () => number): AccountRow => {
  const row = ownAccount(clock)
  return {
    ...row,
    reserve: async (ms) => {
      const turn = await row.reserve(ms)
      await clock.sleep(answerMs())
      return turn
    },
  }
}

describe('a rate budget that is shared', () => {
  test.each([1, 3, 10, 25, 40, 100, 999])('of %d a second is kept by four processes together', async (requestsPerSecond) => {
    const upTo = seeded(7)
    const clock = manualClock(() => upTo(3))
    const account = slow(clock, () => upTo(2))
    const times: number[] = []
    for (let process = 0; process < 4; process += 1) {
      const rate = createRateBudget({ requestsPerSecond, clock, account })
      for (let index = 0; index < requestsPerSecond * 3; index += 1)
        void rate.take(never, 'run').then(() => times.push(clock.now() - startOfTime))
    }
    await clock.run(3_600_000)
    expect(times).toHaveLength(requestsPerSecond * 12)
    expect(busiestSecond(times)).toBeLessThanOrEqual(requestsPerSecond)
    expect((requestsPerSecond * 12 - 1) / (((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1_000)).toBeGreaterThan(
      requestsPerSecond * 0.9,
    )
  })

  test('asks once for several departures where many are allowed', async () => {
    const clock = manualClock()
    let asked = 0
    const row = ownAccount(clock)
    const reserve: AccountRow['reserve'] = (ms) => {
      asked += 1
      return row.reserve(ms)
    }
    const account = { ...row, reserve }
    const rate = createRateBudget({ requestsPerSecond: 1_000, clock, account })
    for (let index = 0; index < 100; index += 1) void rate.take(never, 'run')
    await clock.run(10_000)
    expect(asked).toBe(5)
  })

  test('says of a wait of seconds whether the service asked for it, or the rate is set so', async () => {
    const clock = manualClock()
    const said: string[] = []
    const onPause = (ms: number, isAsked: boolean): void => void said.push(`${Math.round(ms / 1_000)} s, asked: ${isAsked}`)
    const set = createRateBudget({ requestsPerSecond: 0.05, clock, onPause })
    for (let index = 0; index < 2; index += 1) void set.take(never, 'run')
    await clock.run(60_000)
    const refused = createRateBudget({ requestsPerSecond: 10, clock, onPause })
    const judged = await refused.take(never, 'run')
    judged(50_000)
    void refused.take(never, 'run')
    await clock.run(200_000)
    expect(said).toEqual(['21 s, asked: false', '50 s, asked: true'])
  })

  test('tells a database that cannot be asked to the next that wants to leave', async () => {
    const clock = manualClock()
    const refused = async (): Promise<never> => {
      throw new Error('gone')
    }
    const rate = createRateBudget({ requestsPerSecond: 10, clock, account: { ...ownAccount(clock), refused } })
    const judged = await rate.take(never, 'run')
    judged(1)
    await expect(rate.take(never, 'run')).rejects.toThrow('gone')
    // Said once; a later one is not refused for it.
    const later = rate.take(never, 'run')
    await clock.run(10_000)
    await later
  })
})

describe('runs that share the budget', () => {
  test('are served in turn, however many requests one of them has waiting', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    const left: string[] = []
    const ask = (lane: string): void => void rate.take(never, lane).then(() => left.push(lane))
    for (let index = 0; index < 50; index += 1) ask('large')
    await clock.run(1_000)
    const before = left.length
    for (let index = 0; index < 3; index += 1) ask('small')
    for (let index = 0; index < 3; index += 1) ask('other')
    await clock.run(3_000)
    // One of the large run's was next in the row already.
    expect(left.slice(before, before + 9).join(' ')).toBe('large large small other large small other large small')
    await clock.run(60_000)
    expect(left).toHaveLength(56)
  })

  test('do not wait for requests of another that were stopped', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    const stop = new AbortController()
    const stopped = Array.from({ length: 50 }, () => rate.take(stop.signal, 'large').catch((error: unknown) => error))
    await clock.run(250)
    stop.abort(new Error('stop'))
    let left = 0
    void rate.take(never, 'small').then(() => {
      left = clock.now() - 1_000_000
    })
    await clock.run(10_000)
    expect(left).toBeLessThanOrEqual(500)
    expect((await Promise.all(stopped)).filter((one) => one instanceof Error)).toHaveLength(47)
  })
})
