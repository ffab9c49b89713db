import { expect, test } from 'vitest'
import { definitionOf, dimension, existing, lines, months, noon, plan } from './planning.ts'

const single = definitionOf([dimension('domain', ['a.com'])])
const bucketed = definitionOf([dimension('domain', ['a.com', 'b.com', 'c.com'], 2)])

test('an empty warehouse owes every published window since the first, newest first', () => {
  expect(lines(plan(single, []))).toEqual(['2026-03/domain=a.com new', '2026-02/domain=a.com new', '2026-01/domain=a.com new'])
})

test('oldest first turns the order round', () => {
  expect(lines(plan(single, [], { order: 'oldest-first' }))[0]).toBe('2026-01/domain=a.com new')
})

test.each([
  ['2026-04-10', "the day in the service's own zone decides", ['2026-03', '2026-02', '2026-01']],
  ['2026-04-09', 'a month is not due before it is published', ['2026-02', '2026-01']],
  ['2026-01-31', 'nothing is published yet', []],
])('on %s: %s', (day, _, expected) => {
  expect(plan(single, [], { nowMs: noon(day) }).units.map(({ window }) => window.from.slice(0, 7))).toEqual(expected)
})

test("the publication hour is the calendar's: 04:59 UTC on the 10th is still the 9th at UTC-5", () => {
  const count = (time: string): number => plan(single, [], { nowMs: Date.parse(`2026-04-10T${time}Z`) }).units.length
  expect([count('04:59:59'), count('05:00:00')]).toEqual([2, 3])
})

test.each([
  ['planned', 'unfinished'],
  ['failed', 'unfinished'],
  ['waiting', 'unfinished'],
  ['landed', 'unfinished'],
  ['running', 'unfinished'],
  ['held', 'held'],
] as const)('a unit that is %s is planned as %s, in its edition', (state, reason) => {
  const units = [
    existing('2026-01', { domain: 'a.com' }, state),
    existing('2026-02', { domain: 'a.com' }, 'loaded', '2026-04-16'),
  ]
  expect(lines(plan(single, units))).toEqual(['2026-03/domain=a.com new', `2026-01/domain=a.com ${reason}`])
})

test.each([
  ['report', '2026-04-14', ['2026-03 look-back +', '2026-02 look-back +']],
  ['report', '2026-04-16', []],
  ['walk', '2026-04-19', ['2026-03 look-back +', '2026-02 look-back +']],
] as const)('a %s loaded on %s is looked at again on the 20th: %j', (kind, loadedOn, expected) => {
  const units = ['2026-01', '2026-02', '2026-03'].map((month) => existing(month, { domain: 'a.com' }, 'loaded', loadedOn))
  expect(lines(plan(single, units, { kind })).map((line) => line.replace('/domain=a.com', ''))).toEqual(expected)
})

test.each([0, 1, 2, 60])('a look-back of %i windows looks at no more of them', (lookBack) => {
  const units = ['2026-01', '2026-02', '2026-03'].map((month) => existing(month, { domain: 'a.com' }, 'loaded', '2026-04-01'))
  const { units: planned } = plan(definitionOf(single.dimensions, { lookBack }), units, { kind: 'walk' })
  expect(planned).toHaveLength(Math.min(lookBack, 3))
})

test('a nightly run leaves unfinished units before the first window to the backfill that made them', () => {
  expect(lines(plan(single, [existing('2025-06', { domain: 'a.com' }, 'failed')])).join()).not.toContain('2025-06')
})

test('a backfill plans what is missing, shows what is done and touches nothing outside its range', () => {
  const units = [
    existing('2026-01', { domain: 'a.com' }, 'loaded', '2026-02-11'),
    existing('2026-03', { domain: 'a.com' }, 'failed'),
  ]
  expect(lines(plan(single, units, { mode: 'range', range: months('2025-12', '2026-03') }))).toEqual([
    '2026-02/domain=a.com new',
    '2026-01/domain=a.com done',
    '2025-12/domain=a.com new',
  ])
})

test('force asks for loaded units again and finishes the others in their edition', () => {
  const units = [
    existing('2026-01', { domain: 'a.com' }, 'loaded', '2026-02-11'),
    existing('2026-02', { domain: 'a.com' }, 'waiting', '2026-02-11'),
    existing('2026-03', { domain: 'a.com' }, 'held'),
  ]
  expect(lines(plan(single, units, { mode: 'range', range: months('2026-01', '2026-04'), force: true }))).toEqual([
    '2026-03/domain=a.com held',
    '2026-02/domain=a.com unfinished',
    '2026-01/domain=a.com forced +',
  ])
})

test('a backfill shows months that are not published yet without calling for them', () => {
  const units = [existing('2026-05', { domain: 'a.com' }, 'failed'), existing('2026-06', { domain: 'a.com' }, 'waiting')]
  expect(lines(plan(single, units, { mode: 'range', range: months('2026-03', '2026-07') }))).toEqual([
    '2026-06/domain=a.com unfinished',
    '2026-05/domain=a.com not-published',
    '2026-04/domain=a.com not-published',
    '2026-03/domain=a.com new',
  ])
})

test('only narrows the plan, in the spelling of the list', () => {
  const only = new Map([['domain', ['B.com']]])
  expect(lines(plan(bucketed, [], { only, mode: 'range', range: months('2026-01', '2026-02') }))).toEqual([
    '2026-01/domain=[b.com] new',
  ])
})

test.each([
  [
    new Map([['domain', ['b.con']]]),
    "--only domain=b.con: 'b.con' is not in the list of visits (pipelines/visits.yaml); the nearest is 'b.com'.",
  ],
  [new Map([['domian', ['b.com']]]), "--only domian=...: visits does not run for each 'domian'; the nearest is 'domain'."],
  [new Map([['domain', []]]), '--only domain= names no value; write --only domain=a.com.'],
])('an only that is not in the lists is refused with the nearest that is', (only, message) => {
  expect(() => plan(bucketed, [], { only })).toThrow(expect.objectContaining({ code: 'USAGE', message }))
})

test('units made with another window size are refused, for two sizes would overlap in one table', () => {
  const weekly = definitionOf(single.dimensions, { every: 'week', from: '2026-01-05' })
  expect(() => plan(weekly, [existing('2026-01', { domain: 'a.com' }, 'loaded')])).toThrow(/made for 2026-01\..*raise version/s)
})

test('units made for other dimensions are refused', () => {
  const units = [existing('2026-01', { domain: 'a.com', country: 'us' }, 'loaded')]
  expect(() => plan(single, units)).toThrow(/for_each names \[domain\].*made for \[domain, country\].*raise version/s)
})

test("units of another pipeline or version are none of this plan's business", () => {
  const one = existing('2026-01', { domain: 'a.com' }, 'loaded')
  const units = [
    { ...one, unit: { ...one.unit, version: 2 } },
    { ...one, unit: { ...one.unit, pipeline: 'other' } },
  ]
  expect(plan(single, units).units).toHaveLength(3)
})

test('weeks begin on Monday and are due when the month of their Sunday is published', () => {
  const weekly = definitionOf(single.dimensions, { every: 'week', from: '2026-03-23' })
  expect(lines(plan(weekly, [], { nowMs: noon('2026-04-10') }))).toEqual(['2026-03-23..2026-03-29/domain=a.com new'])
})
