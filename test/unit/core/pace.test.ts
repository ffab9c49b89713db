// A limit that nobody configured: it is found out within a minute, kept from then on, and tried again slowly.
import { describe, expect, test } from 'vitest'
import { type LearnedRate, rateOf, rateAfterRefusal } from '../../../src/core/pace.ts'
import { createRateBudget, ownAccount } from '../../../src/extract/rate.ts'
import { type ManualClock, manualClock, startOfTime } from '../../support/manual-clock.ts'

const never = new AbortController().signal

/** Whether the service takes a request that comes now. */
type Limiter = (nowMs: number) => boolean

/** Bursts of one second's worth, then a steady trickle. */
const bucketOf = (perSecond: number): Limiter => {
  let [tokens, filledAt] = [perSecond, startOfTime]
  return (now) => {
    tokens = Math.min(perSecond, tokens + ((now - filledAt) / 1000) * perSecond)
    filledAt = now
    if (tokens < 1) return false
    tokens -= 1
    return true
  }
}

/** No sliding second sees more; refused ones count too. */
const slidingSecond = (perSecond: number): Limiter => {
  const seen: number[] = []
  return (now) => {
    while ((seen[0] ?? now) <= now - 1000) seen.shift()
    seen.push(now)
    return seen.length <= perSecond
  }
}

/** A time each, evenly spaced: no bursts at all. */
const evenly = (perSecond: number): Limiter => {
  let next = startOfTime
  return (now) => {
    if (now < next) return false
    next = now + 1000 / perSecond
    return true
  }
}

interface Outcome {
  readonly at: number
  readonly isRefused: boolean
}

/** Processes that ask as fast as they may, each several at once, over the same row; a refused one pauses all for a second. */
const busy = async (clock: ManualClock, limiter: Limiter, configured: number, processes: number, untilMs: number) => {
  const account = ownAccount(clock)
  const outcomes: Outcome[] = []
  const budgets = Array.from({ length: processes }, () => createRateBudget({ requestsPerSecond: configured, clock, account }))
  for (const rate of budgets) {
    const ask = async (): Promise<void> => {
      while (clock.now() < startOfTime + untilMs) {
        const judged = await rate.take(never, 'run')
        await clock.sleep(3)
        const isRefused = !limiter(clock.now())
        outcomes.push({ at: clock.now() - startOfTime, isRefused })
        await clock.sleep(3)
        judged(isRefused ? 1_000 : null)
      }
    }
    for (let slot = 0; slot < 4; slot += 1) void ask()
  }
  await clock.run(untilMs + 5_000)
  return outcomes
}

const inMinute = (outcomes: readonly Outcome[], from: number, to: number) =>
  outcomes.filter(({ at }) => at >= from * 60_000 && at < to * 60_000)

describe('a limit nobody configured', () => {
  test.each([
    ['a bucket of tokens, 20 of 1,000', bucketOf, 20, 1_000, 1],
    ['a bucket of tokens, 5 of 10', bucketOf, 5, 10, 1],
    ['a sliding second, 20 of 1,000', slidingSecond, 20, 1_000, 1],
    ['a sliding second, 50 of 100, four processes', slidingSecond, 50, 100, 4],
    ['a bucket of tokens, 50 of 100, four processes', bucketOf, 50, 100, 4],
    ['no bursts at all, 20 of 1,000', evenly, 20, 1_000, 1],
  ] as const)(
    '%s: after a minute nothing is refused, and most of it is used',
    async (_name, limiter, allowed, configured, processes) => {
      const outcomes = await busy(manualClock(), limiter(allowed), configured, processes, 6 * 60_000)
      const later = inMinute(outcomes, 1, 6)
      const refused = later.filter(({ isRefused }) => isRefused).length
      expect(refused / later.length).toBeLessThanOrEqual(0.002)
      expect(inMinute(outcomes, 2, 6).filter(({ isRefused }) => isRefused)).toHaveLength(0)
      expect(later.length / 300 / allowed).toBeGreaterThan(0.6)
      expect(later.length / 300 / allowed).toBeLessThanOrEqual(1.01)
    },
  )
})

describe('what a refusal teaches', () => {
  const learnt: LearnedRate = { base: 10, ceiling: null, changedMsAgo: 5_000, refusedMsAgo: 5_000 }
  const refusal = { leftMsAgo: 10, succeededMsAgo: 20, perSecond: null, configured: 1_000 }

  test('halves the rate that was used, and grows by a tenth of it each second', () => {
    const first = rateAfterRefusal(null, { ...refusal, perSecond: 40 })
    expect(first).toMatchObject({ base: 20, ceiling: null })
    expect(rateOf({ ...first, changedMsAgo: 3_000 }, 1_000)).toBe(26)
  })

  test('is no ceiling where it stands alone: requests that were held up may have come together', () => {
    const first = rateAfterRefusal(null, refusal)
    expect(first).toMatchObject({ base: 500, ceiling: null })
    const late = { ...first, changedMsAgo: 121_000, refusedMsAgo: 121_000 }
    expect(rateAfterRefusal(late, refusal)).toMatchObject({ base: 500, ceiling: null })
    expect(rateAfterRefusal({ ...late, ceiling: 100 }, refusal)).toMatchObject({ ceiling: 85 })
  })

  test('is a ceiling where the budget was used wholly and it is the second, believed for an hour', () => {
    const second = rateAfterRefusal(learnt, refusal)
    expect(second).toMatchObject({ base: 7.5, ceiling: 12.75 })
    expect(rateOf({ ...second, changedMsAgo: 3_599_000, refusedMsAgo: 3_599_000 }, 1_000)).toBe(12.75)
    expect(rateOf({ ...second, changedMsAgo: 3_610_000, refusedMsAgo: 3_610_000 }, 1_000)).toBe(22.75)
  })

  test('is nothing where the request left before the last change, or nothing was answered otherwise since', () => {
    expect(rateAfterRefusal(learnt, { ...refusal, leftMsAgo: 5_001 })).toBe(learnt)
    expect(rateAfterRefusal(learnt, { ...refusal, succeededMsAgo: 5_001 })).toBe(learnt)
    expect(rateAfterRefusal(learnt, { ...refusal, succeededMsAgo: null })).toBe(learnt)
  })

  test('is never more than was configured', () => {
    expect(rateOf({ ...learnt, changedMsAgo: 1e9, refusedMsAgo: 1e9 }, 25)).toBe(25)
    expect(rateOf(null, 25)).toBe(25)
  })
})
