import { describe, expect, test } from 'vitest'
import type { Endpoint, Fault } from '../../../src/sandbox/fault-kinds.ts'
import { createFaults } from '../../../src/sandbox/faults.ts'

const acts = (fault: Omit<Fault, 'kind'>, asked: readonly Endpoint[], seed = 1, domains: readonly string[] = []): number[] => {
  const faults = createFaults([{ kind: 'status-500', ...fault }], seed)
  return asked.flatMap((endpoint, index) => (faults.begin({ endpoint, domains })('status-500') === null ? [] : [index + 1]))
}
const keywords = (times: number): Endpoint[] => Array.from({ length: times }, () => 'keywords')

describe('faults', () => {
  test('act each time unless told otherwise', () => {
    expect(acts({}, keywords(3))).toEqual([1, 2, 3])
  })

  test('act on the n-th request, on several, on each n-th, and no more often than allowed', () => {
    expect(acts({ nth: 2 }, keywords(4))).toEqual([2])
    expect(acts({ nth: [1, 4] }, keywords(4))).toEqual([1, 4])
    expect(acts({ every: 2 }, keywords(5))).toEqual([2, 4])
    expect(acts({ times: 2 }, keywords(5))).toEqual([1, 2])
  })

  test('count only requests of their place', () => {
    expect(acts({ on: 'status', nth: 2 }, ['keywords', 'status', 'keywords', 'status'])).toEqual([4])
    expect(acts({ on: 'submit' }, ['submit-report', 'keywords', 'submit-shopper'])).toEqual([1, 3])
    expect(acts({ on: 'submit-shopper' }, ['submit-report', 'submit-shopper'])).toEqual([2])
  })

  test('may act for one domain alone', () => {
    expect(acts({ domain: 'a.example' }, keywords(1), 1, ['b.example'])).toEqual([])
    expect(acts({ domain: 'a.example' }, keywords(1), 1, ['b.example', 'a.example'])).toEqual([1])
  })

  test('a probability is decided by the seed, the same in each run', () => {
    const once = acts({ probability: 0.3 }, keywords(1000))
    expect(once).toEqual(acts({ probability: 0.3 }, keywords(1000)))
    expect(once).not.toEqual(acts({ probability: 0.3 }, keywords(1000), 2))
    expect(once.length).toBeGreaterThan(240)
    expect(once.length).toBeLessThan(360)
  })

  test('the first of the list that is due acts, and each is counted', () => {
    const faults = createFaults(
      [
        { kind: 'slow', nth: 2 },
        { kind: 'slow', delayMs: 5 },
      ],
      1,
    )
    const point = { endpoint: 'status', domains: [] } as const
    expect([faults.begin(point)('slow'), faults.begin(point)('slow')]).toEqual([
      { kind: 'slow', delayMs: 5 },
      { kind: 'slow', nth: 2 },
    ])
    expect(faults.acted()).toEqual([1, 1])
  })

  test('of the exchange count requests, those of the data count when their place is reached', () => {
    const faults = createFaults(
      [
        { kind: 'drop-reply', nth: 2 },
        { kind: 'count-drift', nth: 2 },
      ],
      1,
    )
    const point = { endpoint: 'keywords', domains: [] } as const
    faults.begin(point)
    const second = faults.begin(point)
    expect([second('drop-reply')?.nth, second('count-drift')]).toEqual([2, null])
    expect(faults.begin(point)('count-drift')?.nth).toBe(2)
  })
})
