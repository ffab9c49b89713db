// A new method of the service told from ordinary restatements: seeded tables over a year of nights, and method changes of 3 to 40 % in any of their nights.
import { describe, expect, test } from 'vitest'
import { isOfBreak, judgeRestated, type Restated } from '../../../src/plan/method-break.ts'

/** Tables, each from a seed; more by the variable. */
const seedsOf = (usual: number): number[] =>
  Array.from({ length: Number(process.env['MILLRACE_BREAK_SEEDS'] ?? usual) }, (_, at) => at + 1)

const randomOf = (seed: number): (() => number) => {
  let state = (seed * 2_654_435_761) | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32
  }
}

/** How a service restates a table: rows of a window, how many of them by how much, and how often whole domains alone. */
interface Table {
  readonly random: () => number
  readonly rows: number
  readonly domains: number
  readonly share: number
  readonly size: number
  /** A share of its rows has no value in a column. */
  readonly empty: number
}

const tableOf = (seed: number): Table => {
  const random = randomOf(seed)
  return {
    random,
    domains: 12 + Math.floor(random() ** 2 * 100),
    rows: 1 + Math.floor(random() ** 2 * 20),
    share: 0.02 + 0.33 * random(),
    size: 0.005 + 0.06 * random(),
    empty: 0.05 * random(),
  }
}

const month = (at: number): string => new Date(Date.UTC(2024, at, 1)).toISOString().slice(0, 10)

/** Rows one by one, so that few of them are as uneven as they are. @param factor of the method that is new; 1: none is */
const restatedOf = (table: Table, night: number, window: number, factor = 1): Restated[] => {
  const { random, domains, rows, empty } = table
  const age = Math.floor(night / 30) - window
  const all = domains * rows
  return ['visits', 'volume'].flatMap((column) => {
    // Some nights whole domains change, some nights single rows; volume settles once a month, in all rows of the newest month.
    const isByDomain = random() < 0.2
    const share = column === 'volume' && age === 0 && night % 30 === 14 ? 1 : table.share * (0.4 + 1.2 * random())
    let [changed, size, shift] = [0, 0, 0]
    let isDomainHit = false
    for (let row = 0; row < all; row += 1) {
      if (row % rows === 0) isDomainHit = random() < share
      if (random() < empty) continue
      const isHit = isByDomain ? isDomainHit : random() < share
      const ratio = (isHit ? 1 + (random() < 0.7 ? 1 : -1) * table.size * 2 * random() : 1) * factor
      if (ratio === 1) continue
      const change = (ratio - 1) / Math.max(1, ratio)
      changed += 1
      size += Math.abs(change)
      shift += change
    }
    if (changed === 0) return []
    return [
      {
        windowFrom: month(window),
        column,
        age,
        rows: all,
        units: domains,
        share: changed / all,
        size: size / changed,
        shift: shift / changed,
      },
    ]
  })
}

/** 300 nights: on two in five the service restates one of the last three months or all of them. */
const quietNights = (table: Table, nights = 300): Restated[][] =>
  Array.from({ length: nights }, (_, night) => {
    const newest = Math.floor(night / 30)
    if (night % 30 === 14) return restatedOf(table, night, newest)
    if (table.random() > 0.4) return []
    const windows = table.random() < 0.5 ? [newest - 2, newest - 1, newest] : [newest - Math.floor(table.random() * 3)]
    return windows.flatMap((window) => restatedOf(table, night, window))
  })

/** From the 60th night on: the first two months are what is learnt from. */
const judged = (nights: readonly Restated[][]) =>
  nights.map((night, at) => (at < 60 || night.length === 0 ? null : judgeRestated(night, nights.slice(0, at).flat())))

describe('over a year', () => {
  test('ordinary restatements are no break in any of 300 nights', () => {
    const alarms = seedsOf(5).map((seed) => [seed, judged(quietNights(tableOf(seed))).filter((found) => found !== null).length])
    expect(alarms.filter(([, count]) => count !== 0)).toEqual([])
  })

  test('a method that changes values by 3 to 40 %, in whatever month, is noticed in its first night with its month and its size', () => {
    const missed = seedsOf(50).flatMap((seed) => {
      const table = tableOf(seed)
      const random = randomOf(seed + 1_000)
      const night = 60 + Math.floor(random() * 240)
      const nights = quietNights(table, night)
      const change = (0.03 + 0.37 * random()) * (random() < 0.3 ? -1 : 1)
      const newest = Math.floor(night / 30)
      const since = newest - Math.floor(random() * 3)
      const windows = [newest - 2, newest - 1, newest]
      const run = windows.flatMap((window) => restatedOf(table, night, window, window >= since ? 1 + change : 1))
      const found = judgeRestated(run, nights.flat())
      const isRight = found?.startsOn === month(since) && Math.abs(found.change - change) <= 0.015 + 0.3 * Math.abs(change)
      return isRight ? [] : [{ seed, change, since: month(since), found }]
    })
    expect(missed).toEqual([])
  })
})

const one: Restated = {
  windowFrom: '2026-05-01',
  column: 'visits',
  age: 1,
  rows: 500,
  units: 40,
  share: 0.98,
  size: 0.04,
  shift: 0.04,
}

describe('a break', () => {
  test('is not told from a handful of rows, from little of a window, or from the last digits of its values', () => {
    expect(judgeRestated([one], [])).toMatchObject({ startsOn: '2026-05-01', columns: ['visits'] })
    for (const less of [{ rows: 5, units: 5 }, { share: 0.4 }, { size: 0.004, shift: 0.004 }])
      expect(judgeRestated([{ ...one, ...less }], [])).toBeNull()
  })

  test('is not what a young window always does: it settles', () => {
    const settling = Array.from({ length: 3 }, () => ({ ...one, age: 0 }))
    expect(judgeRestated([{ ...one, age: 0 }], settling)).toBeNull()
    expect(judgeRestated([one], settling)).not.toBeNull()
  })

  test('of a table that is restated whole each night is told by the size of the change', () => {
    const smooth = Array.from({ length: 20 }, (_, at) => ({
      ...one,
      windowFrom: month(at),
      size: 0.01 + at * 0.0002,
      shift: 0.001,
    }))
    expect(judgeRestated([{ ...one, size: 0.014 }], smooth)).toBeNull()
    expect(judgeRestated([{ ...one, size: 0.06, shift: -0.06 }], smooth)).toMatchObject({ change: -0.06, usualShare: 0.98 })
  })

  test('says how much the values grew or fell, as a part of what they were', () => {
    expect(judgeRestated([{ ...one, size: 0.2857, shift: 0.2857 }], [])?.change).toBeCloseTo(0.4, 3)
    expect(judgeRestated([{ ...one, size: 0.3, shift: -0.3 }], [])?.change).toBeCloseTo(-0.3, 3)
  })

  test('knows its own change again in other months, and no other change', () => {
    const found = { columns: ['visits'], change: 0.04 }
    expect(isOfBreak({ ...one, share: 0.01 }, found)).toBe(true)
    expect(isOfBreak({ ...one, shift: -0.04 }, found)).toBe(false)
    expect(isOfBreak({ ...one, shift: 0.2 }, found)).toBe(false)
    expect(isOfBreak({ ...one, column: 'volume' }, found)).toBe(false)
  })
})
