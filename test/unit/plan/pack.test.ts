// Packing: every needed cell exactly once, within the limits, in products only.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  fittingLimits,
  type NeededSlice,
  type PackedBox,
  type PackLimits,
  pack as packRun,
  piecesOf,
  collectNeeds,
  mostUnitsAStep,
  stepsOf,
  tasksOf,
} from '../../../src/plan/pack.ts'

interface Needed extends NeededSlice {
  readonly places: readonly number[]
}

/** As planning has them: collected window by window from the oldest, then packed. */
const pack = (slices: readonly Needed[], limits: PackLimits): PackedBox[] => {
  const needs = collectNeeds<string>()
  for (const place of [...new Set(slices.flatMap((one) => one.places))].sort((left, right) => left - right)) {
    const here = slices.filter((one) => one.places.includes(place)).map(({ sliceId }) => sliceId)
    needs.add(place, 'new', here)
  }
  const known = new Map(slices.map((one) => [one.sliceId, one.values]))
  const valued = (sliceId: number): NeededSlice => ({ sliceId, values: known.get(sliceId) ?? [] })
  return needs.groups().flatMap(({ run, sliceIds }) => packRun(run, sliceIds.map(valued), limits))
}

const runsOf = (at: readonly number[]): { first: number; count: number }[] =>
  at.filter((place) => !at.includes(place - 1)).map((first) => ({ first, count: endOf(at, first) - first }))

const endOf = (at: readonly number[], place: number): number => (at.includes(place) ? endOf(at, place + 1) : place)

const places = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index)

const product = (domains: number, countries: readonly string[], windows: readonly number[]): Needed[] =>
  Array.from({ length: domains }, (_, domain) =>
    countries.map((country, index) => ({
      sliceId: domain * countries.length + index + 1,
      values: [`d${String(domain).padStart(4, '0')}.com`, country],
      places: windows,
    })),
  ).flat()

const traffic: PackLimits = { values: [100, 250], windows: 60, cells: mostUnitsAStep }

test('1,000 domains, 3 countries and 36 months are 10 reports', () => {
  const boxes = pack(product(1000, ['gb', 'us', 'world'], places(0, 36)), traffic)
  expect(boxes).toHaveLength(10)
  expect(boxes.map(({ sliceIds, first, count }) => [sliceIds.length, first, count])).toEqual(Array(10).fill([300, 0, 36]))
})

test('what some slices lack more of than others is asked for in a report of its own', () => {
  const added = product(3, ['us'], places(0, 36)).map((slice) => (slice.sliceId === 3 ? slice : { ...slice, places: [35] }))
  expect(pack(added, traffic)).toEqual([
    { sliceIds: [3], first: 0, count: 36 },
    { sliceIds: [1, 2], first: 35, count: 1 },
  ])
})

test('a walk is asked for unit by unit', () => {
  const boxes = pack(product(2, ['gb', 'us'], places(0, 2)), { values: [1, 1], windows: 1, cells: mostUnitsAStep })
  expect(boxes).toHaveLength(8)
  expect(boxes.every(({ sliceIds, count }) => sliceIds.length === 1 && count === 1)).toBe(true)
})

test('where a whole box holds too many cells, windows give way before values', () => {
  expect(fittingLimits({ values: [100, 100], windows: 60, cells: 50_000 }, [1000, 2000], 36)).toMatchObject({
    values: [100, 100],
    windows: 5,
  })
  expect(fittingLimits({ values: [100, 100], windows: 60, cells: 1000 }, [100, 100], 36)).toMatchObject({
    values: [10, 100],
    windows: 1,
  })
})

test('a span that is too long is cut from its newest window on', () => {
  expect(piecesOf({ first: 0, count: 5 }, 2)).toEqual([
    { first: 3, count: 2 },
    { first: 1, count: 2 },
    { first: 0, count: 1 },
  ])
})

const limits = fc.record({
  values: fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 })),
  windows: fc.integer({ min: 1, max: 4 }),
  cells: fc.integer({ min: 1, max: 20 }),
})
const needs = fc
  .uniqueArray(
    fc.record({
      domain: fc.integer({ min: 0, max: 6 }),
      country: fc.integer({ min: 0, max: 4 }),
      places: fc.uniqueArray(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 7 }),
    }),
    { selector: ({ domain, country }) => `${domain} ${country}`, maxLength: 30 },
  )
  .map((slices) =>
    slices.map(
      ({ domain, country, places }, index): Needed => ({
        sliceId: index + 1,
        values: [`d${domain}`, `c${country}`],
        places,
      }),
    ),
  )

test('every needed cell stands in exactly one box, and nothing else does', () => {
  fc.assert(
    fc.property(needs, limits, (slices, most) => {
      const asked = pack(slices, most).flatMap(({ sliceIds, first, count }) =>
        sliceIds.flatMap((id) => places(first, count).map((place) => `${id}@${place}`)),
      )
      const wanted = slices.flatMap(({ sliceId, places: at }) => at.map((place) => `${sliceId}@${place}`))
      expect(asked.toSorted()).toEqual(wanted.toSorted())
    }),
  )
})

test('every box is every combination of its values, within the limits', () => {
  fc.assert(
    fc.property(needs, limits, (slices, most) => {
      const valuesOf = new Map(slices.map(({ sliceId, values }) => [sliceId, values]))
      for (const { sliceIds, count } of pack(slices, most)) {
        const lists = [0, 1].map((level) => new Set(sliceIds.map((id) => valuesOf.get(id)?.[level])))
        expect(sliceIds.length).toBe(lists.reduce((total, { size }) => total * size, 1))
        lists.forEach(({ size }, level) => {
          expect(size).toBeLessThanOrEqual(most.values[level] ?? 0)
        })
        expect(count).toBeLessThanOrEqual(most.windows)
        expect(count * sliceIds.length).toBeLessThanOrEqual(most.cells)
      }
    }),
  )
})

test('neither the order of the slices nor that of their windows matters', () => {
  fc.assert(
    fc.property(needs, limits, (slices, most) => {
      const turned = slices.toReversed().map((slice) => ({ ...slice, places: slice.places.toReversed() }))
      const shown = (boxes: ReturnType<typeof pack>) =>
        boxes.map(({ sliceIds, first, count }) => `${sliceIds.toSorted((left, right) => left - right)} ${first} ${count}`).sort()
      expect(shown(pack(turned, most))).toEqual(shown(pack(slices, most)))
    }),
  )
})

test('needs collected window by window give each slice the runs it needs, and no reason is mixed with another', () => {
  const cell = fc.record({
    slice: fc.integer({ min: 1, max: 5 }),
    place: fc.integer({ min: 0, max: 6 }),
    group: fc.constantFrom('new', 'look-back'),
  })
  fc.assert(
    fc.property(fc.uniqueArray(cell, { selector: ({ slice, place }) => `${slice} ${place}` }), (cells) => {
      const collected = collectNeeds<string>()
      for (let place = 0; place <= 6; place += 1) {
        for (const group of ['new', 'look-back']) {
          const slices = cells.filter((one) => one.place === place && one.group === group).map(({ slice }) => slice)
          if (slices.length > 0) collected.add(place, group, slices)
        }
      }
      const found = collected
        .groups()
        .flatMap(({ run, group, sliceIds }) =>
          sliceIds.flatMap((slice) => places(run.first, run.count).map((place) => `${slice}@${place} ${group}`)),
        )
      expect(found.toSorted()).toEqual(cells.map(({ slice, place, group }) => `${slice}@${place} ${group}`).toSorted())
      for (const { run, group, sliceIds } of collected.groups())
        for (const slice of sliceIds) {
          const own = cells.filter((one) => one.slice === slice && one.group === group).map(({ place }) => place)
          expect(runsOf(own)).toContainEqual(run)
        }
    }),
  )
})

test('no step holds more than 50,000 units, blocks stay whole, and nothing is left out', () => {
  const blocks = Array.from({ length: 93 }, (_, block) => places(block * 300, 300))
  const steps = stepsOf(tasksOf({ first: 0, count: 36 }, blocks, { ...traffic, windows: 36 }))
  const cells = steps.map((tasks) => tasks.reduce((total, { run, sliceIds }) => total + run.count * sliceIds.length, 0))
  expect(Math.max(...cells)).toBeLessThanOrEqual(mostUnitsAStep)
  expect(cells.reduce((total, count) => total + count, 0)).toBe(93 * 300 * 36)
  expect(steps.every((tasks) => tasks.every(({ sliceIds }) => sliceIds.length % 300 === 0))).toBe(true)
})
