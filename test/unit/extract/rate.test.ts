// The rate budget: spacing, pauses, fairness, and stopping.
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { createRateBudget, type RateBudget, type SharedWindows, windowShape } from '../../../src/extract/rate.ts'
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

/** The most departures inside any sliding second. */
const busiestSecond = (times: readonly number[]): number =>
  Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 1_000).length))

describe('the rate budget', () => {
  test('lets no sliding second see more than is allowed, and uses 97 % of it', async () => {
    const times = await departures(manualClock(), 1_000)
    expect(times).toHaveLength(1_000)
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(999 / ((times.at(-1) ?? 0) / 1_000)).toBeGreaterThan(9.7)
  })

  test('keeps both with timers that fire late', async () => {
    let seed = 1
    const jitter = (): number => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % 5
    }
    const times = await departures(manualClock(jitter), 1_000)
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(999 / ((times.at(-1) ?? 0) / 1_000)).toBeGreaterThan(9.7)
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
    const times: number[] = []
    for (let index = 0; index < 5; index += 1) void rate.take(never, 'run').then(() => times.push(clock.now() - 1_000_000))
    await clock.run(150)
    expect(times).toHaveLength(2)
    rate.penalize(1_000_000 + 5_000)
    await clock.run(10_000)
    expect(times.slice(2).map((time) => time >= 5_000)).toEqual([true, true, true])
  })

  test('a pause never makes an earlier one shorter', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    rate.penalize(1_000_000 + 5_000)
    rate.penalize(1_000_000 + 1_000)
    let left = 0
    void rate.take(never, 'run').then(() => {
      left = clock.now() - 1_000_000
    })
    await clock.run(10_000)
    expect(left).toBe(5_000)
  })

  test('a clock that is set back by an hour keeps nobody waiting for the hour', async () => {
    const steady = manualClock()
    let aheadMs = 3_600_000
    const clock = { ...steady, now: () => steady.now() + aheadMs }
    for (const shared of [
      undefined,
      { take: async () => ({ granted: true, nextMs: 200 }), pause: async () => undefined, extend: async () => undefined },
    ]) {
      const budget = createRateBudget({ requestsPerSecond: 5, clock, shared })
      const never = new AbortController().signal
      let left = 0
      const go = async (): Promise<void> => {
        await budget.take(never, 'run')
        left += 1
      }
      aheadMs = 3_600_000
      const from = steady.now() - startOfTime
      const both = [go()]
      await steady.run(from + 1)
      budget.penalize(clock.now() + 1_000)
      both.push(go())
      await steady.run(from + 2)
      aheadMs = 0
      await steady.run(from + 3_000)
      expect(left).toBe(2)
      await Promise.all(both)
    }
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

/** Windows as the table keeps them, each beginning when its first departure is asked for; every question takes `answerMs`. */
const sharedWindows = (clock: Clock, answerMs: () => number): SharedWindows => {
  let endsAt = 0
  let taken = 0
  return {
    take: async (points, pointsOfWindow, windowMs) => {
      const askedAt = clock.now()
      await clock.sleep(answerMs())
      if (askedAt >= endsAt) {
        endsAt = askedAt + Math.round(windowMs)
        taken = 0
      }
      taken += points
      const left = pointsOfWindow - taken
      return { granted: left >= 0, nextMs: left >= points ? 0 : endsAt - clock.now() }
    },
    pause: async (ms) => {
      endsAt = Math.max(endsAt, clock.now() + ms)
      taken = 1_000_000
    },
    extend: async (ms) => {
      await clock.sleep(answerMs())
      if (clock.now() >= endsAt) taken = 1_000_000
      endsAt = Math.max(endsAt, clock.now()) + Math.ceil(ms)
    },
  }
}

describe('a rate budget that is shared', () => {
  test.each([1, 3, 10, 25, 40, 100])('of %d a second is kept by four processes together', async (requestsPerSecond) => {
    let seed = 7
    const upTo = (most: number): number => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % (most + 1)
    }
    const clock = manualClock(() => upTo(3))
    const shared = sharedWindows(clock, () => upTo(2))
    const times: number[] = []
    for (let process = 0; process < 4; process += 1) {
      const rate = createRateBudget({ requestsPerSecond, clock, shared })
      for (let index = 0; index < requestsPerSecond * 3; index += 1)
        void rate.take(never, 'run').then(() => times.push(clock.now() - 1_000_000))
    }
    await clock.run(3_600_000)
    expect(times).toHaveLength(requestsPerSecond * 12)
    expect(busiestSecond(times)).toBeLessThanOrEqual(requestsPerSecond)
  })

  test('of 10 a second is used to 97 % by one process, with timers and answers that are late', async () => {
    let seed = 3
    const clock = manualClock(() => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % 3
    })
    const rate = createRateBudget({ requestsPerSecond: 10, clock, shared: sharedWindows(clock, () => 1) })
    const times: number[] = []
    for (let index = 0; index < 1_000; index += 1) void rate.take(never, 'run').then(() => times.push(clock.now() - 1_000_000))
    await clock.run(3_600_000)
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(999 / (((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1_000)).toBeGreaterThan(9.7)
  })

  test('asks once for several departures where many are allowed', () => {
    expect(windowShape(10)).toMatchObject({ points: 1, portion: 1 })
    expect(windowShape(900)).toMatchObject({ points: 45, portion: 5 })
    expect(windowShape(10_000)).toMatchObject({ points: 2_000, windowMs: 250, portion: 250 })
  })

  test.each([40, 59, 60, 123, 999, 1_000, 1_004, 3_333, 100_000])(
    'as many windows as a sliding second can touch hold no more than %d',
    (rate) => {
      const { points, windowMs } = windowShape(rate)
      expect((Math.ceil(1_000 / windowMs) + 1) * points).toBeLessThanOrEqual(rate)
    },
  )

  test('tells a database that cannot be asked to who wants to leave', async () => {
    const clock = manualClock()
    const broken = async (): Promise<never> => {
      throw new Error('gone')
    }
    const rate = createRateBudget({
      requestsPerSecond: 10,
      clock,
      shared: { take: async () => ({ granted: true, nextMs: 0 }), pause: broken, extend: broken },
    })
    await rate.take(never, 'run')
    rate.penalize(clock.now() - 1)
    await expect(rate.take(never, 'run')).rejects.toThrow('gone')
    // Said once; who comes later is not refused for it.
    await clock.run(10_000)
    await rate.take(never, 'run')
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

const seeded = (from: number): ((most: number) => number) => {
  let seed = from
  return (most) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % (most + 1)
  }
}

interface Way {
  readonly seed: number
  readonly processes: number
  readonly isShared: boolean
  readonly requestsPerSecond?: number
  /** From the departure until the service counts it, and from there until its answer is here. */
  readonly there: (upTo: (most: number) => number, index: number, at: number) => number
  readonly back: (upTo: (most: number) => number, index: number) => number
  /** How long the database takes. */
  readonly database: (upTo: (most: number) => number) => number
}

const count = 600

/** When the service counts each request, ms from the start. */
const countedBy = async (way: Way): Promise<number[]> => {
  const { processes, requestsPerSecond = 10 } = way
  const upTo = seeded(way.seed)
  const clock = manualClock(() => upTo(2))
  const shared = sharedWindows(clock, () => way.database(upTo))
  const counted: number[] = []
  /** Eight at once, as a walk asks. */
  const send = async (rate: RateBudget, index: number): Promise<void> => {
    const departure = await rate.take(never, 'run')
    await clock.sleep(way.there(upTo, index, clock.now() - 1_000_000))
    counted.push(clock.now() - 1_000_000)
    await clock.sleep(way.back(upTo, index))
    departure.answered()
  }
  for (let process = 0; process < processes; process += 1) {
    const rate = createRateBudget({ requestsPerSecond, clock, ...(way.isShared ? { shared } : {}) })
    let next = 0
    const walk = async (): Promise<void> => {
      while (next < count / processes) await send(rate, next++)
    }
    for (let walker = 0; walker < 8; walker += 1) void walk()
  }
  await clock.run(3_600_000)
  expect(counted).toHaveLength(count)
  return counted.toSorted((left, right) => left - right)
}

const shareOf = (times: readonly number[]): number => (times.length - 1) / (((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1_000) / 10

describe('requests that are counted later than they left', () => {
  const soon = (upTo: (most: number) => number): number => 1 + upTo(3)
  const none = (): number => 0
  const one = { processes: 1, isShared: true }
  const ways = [
    { name: 'one process alone', processes: 1, isShared: false },
    { name: 'one process', ...one },
    { name: 'four processes', processes: 4, isShared: true },
  ]

  test.each(ways)('are no eleventh in a second where now and then one is held up on its way: $name', async (who) => {
    for (const seed of [1, 2, 3]) {
      const there: Way['there'] = (upTo, index) => (index % 50 === 7 ? 30 + upTo(300) : soon(upTo))
      const times = await countedBy({ ...who, seed, there, back: soon, database: soon })
      expect(busiestSecond(times)).toBeLessThanOrEqual(10)
      expect(shareOf(times)).toBeGreaterThan(0.95)
    }
  })

  test.each(ways)('nor where a stall holds up several at once: $name', async (who) => {
    for (const seed of [4, 5]) {
      // Those that leave within a quarter of a second arrive together.
      const there: Way['there'] = (upTo, _, at) => (at % 15_000 > 14_750 ? 15_000 - (at % 15_000) : 0) + soon(upTo)
      expect(busiestSecond(await countedBy({ ...who, seed, there, back: soon, database: soon }))).toBeLessThanOrEqual(10)
    }
  })

  test.each(ways.slice(1))('nor where the database is slow to grant a departure now and then: $name', async (who) => {
    for (const seed of [6, 7]) {
      const database: Way['database'] = (upTo) => (upTo(60) === 0 ? 30 + upTo(120) : 1 + upTo(2))
      const times = await countedBy({ ...who, seed, there: soon, back: soon, database })
      expect(busiestSecond(times)).toBeLessThanOrEqual(10)
      expect(shareOf(times)).toBeGreaterThan(0.95)
    }
  })

  test('nor among the first, that open connections', async () => {
    const there: Way['there'] = (upTo, index) => (index < 5 ? 200 - index * 20 : soon(upTo))
    expect(busiestSecond(await countedBy({ ...one, seed: 8, there, back: soon, database: soon }))).toBeLessThanOrEqual(10)
  })

  test('take 97 % of the rate where nothing holds them up', async () => {
    const times = await countedBy({ ...one, seed: 9, there: soon, back: soon, database: soon })
    expect(busiestSecond(times)).toBeLessThanOrEqual(10)
    expect(shareOf(times)).toBeGreaterThan(0.97)
  })

  test('cost little of the rate where the service takes its time as it likes', async () => {
    const back: Way['back'] = (upTo) => 50 + upTo(10) ** 3
    // A second of the minute is what was saved before.
    expect(shareOf(await countedBy({ ...one, seed: 10, there: none, back, database: soon }))).toBeGreaterThan(0.93)
  })

  test('hold nobody up where the rate is not used: the next may leave at once', async () => {
    const clock = manualClock()
    const rate = createRateBudget({ requestsPerSecond: 10, clock })
    const departure = await rate.take(never, 'run')
    await clock.run(5_000)
    departure.answered()
    let left = 0
    void rate.take(never, 'run').then(() => {
      left = clock.now() - 1_000_000
    })
    await clock.run(10_000)
    expect(left).toBeLessThanOrEqual(5_000 + 105)
  })
})
