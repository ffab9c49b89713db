import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Dimension, Slice, UnitState } from '../../../src/core/types.ts'
import { windowsBetween } from '../../../src/core/window.ts'
import type { ExistingUnit } from '../../../src/plan/plan.ts'
import { definitionOf, dimension, existing, months, plan } from './planning.ts'

const january = { mode: 'range', range: months('2026-01', '2026-02') } as const
const states: readonly UnitState[] = ['planned', 'running', 'waiting', 'landed', 'loaded', 'failed', 'held']

const domains = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g'), { minLength: 1 })
const countries = fc.uniqueArray(fc.constantFrom('us', 'gb', 'de'), { minLength: 1 })
const bucket = fc.option(fc.integer({ min: 1, max: 4 }))

const dimensionsOf = fc
  .tuple(domains, bucket, countries, bucket)
  .map(([sites, siteBucket, lands, landBucket]): readonly Dimension[] => [
    dimension('domain', sites, siteBucket),
    dimension('country', lands, landBucket),
  ])

const slice: fc.Arbitrary<Slice> = fc.record({
  domain: fc.oneof(
    fc.constantFrom('a', 'b', 'x'),
    fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'x', 'y'), { minLength: 1 }),
  ),
  country: fc.oneof(fc.constantFrom('us', 'gb'), fc.uniqueArray(fc.constantFrom('us', 'gb', 'fr'), { minLength: 1 })),
})

/** Any ledger, also one no history could have made: overlapping units in any state. */
const ledger = fc
  .array(fc.tuple(slice, fc.constantFrom(...states), fc.integer({ min: 10, max: 28 })), { maxLength: 6 })
  .map((all) => all.map(([one, state, day]) => existing('2026-01', one, state, state === 'loaded' ? `2026-03-${day}` : null)))
  .map((all) => [...new Map(all.map((one) => [one.unit.key, one])).values()])

const values = (slice: Slice, name: string): readonly string[] => [slice[name] ?? []].flat()

/** Every combination a slice answers for. */
const combinations = (one: Slice): string[] =>
  values(one, 'domain').flatMap((domain) => values(one, 'country').map((country) => `${domain}/${country}`))

const wantedOf = (dimensions: readonly Dimension[]): string[] =>
  combinations(Object.fromEntries(dimensions.map(({ name, values }) => [name, values]))).sort()

const asLoaded = (slices: readonly Slice[]): ExistingUnit[] =>
  slices.map((one) => existing('2026-01', one, 'loaded', '2026-02-11'))

test('from nothing, every wanted combination is in exactly one unit and no unit is over its bucket', () => {
  fc.assert(
    fc.property(dimensionsOf, (dimensions) => {
      const { units } = plan(definitionOf(dimensions), [], january)
      expect(units.flatMap(({ slice }) => combinations(slice)).sort()).toEqual(wantedOf(dimensions))
      expect(new Set(units.map(({ key }) => key)).size).toBe(units.length)
      for (const { name, bucket } of dimensions) {
        for (const { slice } of units) {
          if (bucket === null) expect(typeof slice[name]).toBe('string')
          else expect(values(slice, name).length).toBeLessThanOrEqual(bucket)
        }
      }
    }),
  )
})

test('whatever the ledger holds, every wanted combination is planned, held or done, and no key is planned twice', () => {
  fc.assert(
    fc.property(dimensionsOf, ledger, fc.boolean(), (dimensions, units, force) => {
      const result = plan(definitionOf(dimensions), units, { ...january, force })
      const covered = new Set(result.units.flatMap(({ slice }) => combinations(slice)))
      expect(wantedOf(dimensions).filter((one) => !covered.has(one))).toEqual([])
      expect(new Set(result.units.map(({ key }) => key)).size).toBe(result.units.length)
    }),
    { numRuns: 500 },
  )
})

test('whatever the ledger holds, new work covers no combination twice and none that is unwanted', () => {
  fc.assert(
    fc.property(dimensionsOf, ledger, fc.boolean(), (dimensions, units, force) => {
      const known = new Set(units.map(({ unit }) => unit.key))
      const { units: planned } = plan(definitionOf(dimensions), units, { ...january, force })
      const fresh = planned.filter(({ key }) => !known.has(key)).flatMap(({ slice }) => combinations(slice))
      expect(new Set(fresh).size).toBe(fresh.length)
      const wanted = new Set(wantedOf(dimensions))
      expect(fresh.filter((one) => !wanted.has(one))).toEqual([])
    }),
    { numRuns: 500 },
  )
})

test('once all is loaded nothing is new, and a second look changes no unit', () => {
  fc.assert(
    fc.property(dimensionsOf, (dimensions) => {
      const first = plan(definitionOf(dimensions), [], january).units
      const second = plan(definitionOf(dimensions), asLoaded(first.map(({ slice }) => slice)), january).units
      expect(second.map(({ key, reason }) => [key, reason])).toEqual(first.map(({ key }) => [key, 'done']))
      const forced = plan(definitionOf(dimensions), asLoaded(first.map(({ slice }) => slice)), { ...january, force: true }).units
      expect(forced.map(({ key, newEdition }) => [key, newEdition])).toEqual(first.map(({ key }) => [key, true]))
    }),
  )
})

test('adding a value anywhere in a list leaves every other unit as it is and asks only for what the value adds', () => {
  fc.assert(
    fc.property(dimensionsOf, fc.constantFrom('domain', 'country'), fc.nat(), (dimensions, grown, at) => {
      const before = plan(definitionOf(dimensions), [], january).units
      const more = dimensions.map((one) =>
        one.name === grown ? { ...one, values: one.values.toSpliced(at % (one.values.length + 1), 0, 'added') } : one,
      )
      const after = plan(definitionOf(more), asLoaded(before.map(({ slice }) => slice)), january).units
      expect(after.filter(({ reason }) => reason === 'done').map(({ key }) => key)).toEqual(before.map(({ key }) => key))
      const added = after.filter(({ reason }) => reason === 'new')
      expect(added.every(({ slice }) => values(slice, grown).join() === 'added')).toBe(true)
    }),
  )
})

test('only never plans new work outside the values named', () => {
  fc.assert(
    fc.property(dimensionsOf, ledger, fc.boolean(), (dimensions, units, force) => {
      const named = dimensions[0]?.values[0] ?? ''
      const known = new Set(units.map(({ unit }) => unit.key))
      const { units: planned } = plan(definitionOf(dimensions), units, {
        ...january,
        force,
        only: new Map([['domain', [named]]]),
      })
      const fresh = planned.filter(({ key }) => !known.has(key))
      expect(fresh.filter(({ slice }) => values(slice, 'domain').join() !== named)).toEqual([])
    }),
    { numRuns: 300 },
  )
})

test('a range is half-open and is covered without gaps', () => {
  const month = fc
    .integer({ min: 0, max: 40 })
    .map((count) => `${2023 + Math.floor(count / 12)}-${String((count % 12) + 1).padStart(2, '0')}`)
  fc.assert(
    fc.property(month, month, (one, other) => {
      const [from = '', to = ''] = [one, other].sort()
      const { units } = plan(definitionOf([dimension('domain', ['a'])]), [], {
        mode: 'range',
        range: months(from, to),
        order: 'oldest-first',
      })
      expect(units.map(({ window }) => window)).toEqual(windowsBetween(`${from}-01`, `${to}-01`, 'month'))
      expect(units.every(({ window }) => window.from >= `${from}-01` && window.to <= `${to}-01`)).toBe(true)
      for (const [index, { window }] of units.entries()) if (index > 0) expect(window.from).toBe(units[index - 1]?.window.to)
    }),
  )
})

test('a plan of 36 months, 10,000 domains and two countries takes seconds, not minutes', () => {
  const many = Array.from({ length: 10_000 }, (_, index) => `domain-${index}.com`)
  const started = performance.now()
  const { units } = plan(definitionOf([dimension('domain', many, 100), dimension('country', ['us', 'gb'])]), [], {
    mode: 'range',
    range: months('2023-01', '2026-01'),
  })
  expect(units).toHaveLength(36 * 2 * 100)
  expect(performance.now() - started).toBeLessThan(5000)
})
