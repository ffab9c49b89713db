// How a packed report is cut: each half asks for every combination of its values, and the halves together for what the whole asked for.
import fc from 'fast-check'
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { WindowSize } from '../../../src/core/types.ts'
import { addWindows, windowAt, windowsBetween } from '../../../src/core/window.ts'
import type { Tables } from '../../../src/db/tables.ts'
import { halvesOfSlices } from '../../../src/ledger/slices.ts'
import { halvesOf, halvesOfSpan } from '../../../src/run/settle.ts'
import { claimedJob } from '../../support/claimed-job.ts'
import { combinations } from '../../support/definitions.ts'

type Slices = ReadonlyMap<number, readonly string[]>

/** A box as the ledger holds it: every combination of the values, numbered in no order. */
const boxes: fc.Arbitrary<Slices> = fc
  .array(fc.uniqueArray(fc.string({ maxLength: 3 }), { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 })
  .chain((lists) => {
    const slices = combinations(lists)
    const ids = fc.uniqueArray(fc.integer({ min: 1, max: 1_000_000 }), { minLength: slices.length, maxLength: slices.length })
    return ids.map((numbers) => new Map(numbers.map((id, index) => [id, slices[index] ?? []])))
  })

const part = (slices: Slices, ids: readonly number[]): Slices => new Map(ids.map((id) => [id, slices.get(id) ?? []]))

const listsOf = (slices: Slices): string[][] => {
  const [first] = slices.values()
  return (first ?? []).map((_, place) => [...new Set([...slices.values()].map((values) => values[place] ?? ''))])
}

const isProduct = (slices: Slices): boolean => {
  const asked = new Set([...slices.values()].map((values) => JSON.stringify(values)))
  return asked.size === slices.size && combinations(listsOf(slices)).every((values) => asked.has(JSON.stringify(values)))
}

describe('the halves of many values', () => {
  test('are every combination of their values again, and together the whole, nothing twice', () => {
    fc.assert(
      fc.property(
        boxes.filter((slices) => slices.size > 1),
        (slices) => {
          const halves = halvesOfSlices(slices)
          expect(halves).toHaveLength(2)
          for (const half of halves) expect([half.length > 0, isProduct(part(slices, half))]).toEqual([true, true])
          expect(halves.flat().sort()).toEqual([...slices.keys()].sort())
        },
      ),
    )
  })

  test('cut one dimension alone, the one with most values, as evenly as it goes', () => {
    fc.assert(
      fc.property(
        boxes.filter((slices) => slices.size > 1),
        (slices) => {
          const lists = listsOf(slices)
          const longest = Math.max(...lists.map((list) => list.length))
          const halves = halvesOfSlices(slices).map((half) => listsOf(part(slices, half)))
          const cut = lists.flatMap((list, place) => (halves[0]?.[place]?.length === list.length ? [] : [place]))
          expect(cut).toHaveLength(1)
          const sizes = halves.map((half) => half[cut[0] ?? 0]?.length ?? 0).sort((one, other) => one - other)
          expect(sizes).toEqual([Math.floor(longest / 2), Math.ceil(longest / 2)])
        },
      ),
    )
  })

  test('lead, cut again and again, to each unit alone in few steps', () => {
    fc.assert(
      fc.property(boxes, (slices) => {
        const steps = (whole: Slices): number =>
          whole.size === 1 ? 0 : 1 + Math.max(...halvesOfSlices(whole).map((half) => steps(part(whole, half))))
        const fewest = listsOf(slices).reduce((sum, list) => sum + Math.ceil(Math.log2(list.length)), 0)
        expect(steps(slices)).toBe(fewest)
      }),
    )
  })

  test('are the same whoever cuts: by the order of the values, not of their numbers', () => {
    const named = (entries: readonly (readonly [number, string])[]): string[][] => {
      const slices = new Map(entries.map(([id, value]) => [id, [value]]))
      return halvesOfSlices(slices).map((half) => half.flatMap((id) => slices.get(id) ?? []).sort())
    }
    const once = named([
      [7, 'c.com'],
      [3, 'a.com'],
      [9, 'b.com'],
    ])
    const other = named([
      [1, 'b.com'],
      [2, 'c.com'],
      [3, 'a.com'],
    ])
    expect(once.sort()).toEqual([['a.com', 'b.com'], ['c.com']])
    expect(other.sort()).toEqual(once)
  })
})

describe('the halves of a span', () => {
  const sizes = fc.constantFrom<WindowSize>('day', 'week', 'month')
  const firstDays = fc.integer({ min: 0, max: 4_000 }).map((days) => addWindows('2020-01-01', 'day', days))

  test('are whole windows without a gap, as evenly as it goes; one window has none', () => {
    fc.assert(
      fc.property(sizes, firstDays, fc.integer({ min: 1, max: 60 }), (every, day, count) => {
        const { from } = windowAt(day, every)
        const span = { from, to: addWindows(from, every, count) }
        const halves = halvesOfSpan(span, every)
        if (count === 1) {
          expect(halves).toBeNull()
          return
        }
        const windows = (halves ?? []).map((half) => windowsBetween(half.from, half.to, every))
        expect(windows.flat()).toEqual(windowsBetween(span.from, span.to, every))
        expect(windows.map((half) => half.length)).toEqual([Math.floor(count / 2), Math.ceil(count / 2)])
        expect([halves?.[0].from, halves?.[0].to, halves?.[1].to]).toEqual([span.from, halves?.[1].from, span.to])
      }),
    )
  })
})

/** Answers every question with nothing. */
const noDatabase = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

describe('a job', () => {
  const claim = claimedJob({ sliceIds: [4, 9], box: { ...claimedJob().box, window: { from: '2026-01-01', to: '2026-04-01' } } })

  test.each(['size', 'dates'] as const)(
    'of several windows is cut by them before its values, the newer half first (%s)',
    async (about) => {
      expect(await halvesOf(noDatabase, claim, about)).toEqual([
        { sliceIds: [4, 9], window: { from: '2026-02-01', to: '2026-04-01' } },
        { sliceIds: [4, 9], window: { from: '2026-01-01', to: '2026-02-01' } },
      ])
    },
  )

  test('of one value is cut by windows also where its values were refused', async () => {
    expect(await halvesOf(noDatabase, { ...claim, sliceIds: [4] }, 'values')).toHaveLength(2)
  })
})
