// Which windows a plan looks at, and the narrowing by --only.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { windowsBetween } from '../../../src/core/window.ts'
import { checkCycle, lookBackStart, nightOf, type Scope, windowsInScope, checkOnly } from '../../../src/plan/frames.ts'
import { definitionOf, dimension } from './definition.ts'

const single = definitionOf([dimension('domain', ['a.com'])])
const noon = (day: string): number => Date.parse(`${day}T12:00:00Z`)
const months = (nowMs: number, definition = single, scope: Scope = { mode: 'due' }) =>
  windowsInScope(definition, scope, nowMs).map(({ from }) => from.slice(0, 7))
const range = (from: string, to: string): Scope => ({ mode: 'range', rangeOf: () => ({ from: `${from}-01`, to: `${to}-01` }) })

test.each([
  ['2026-04-10', "the day in the service's own zone decides", ['2026-01', '2026-02', '2026-03']],
  ['2026-04-09', 'a month is not due before it is published', ['2026-01', '2026-02']],
  ['2026-01-31', 'nothing is published yet', []],
])('on %s: %s', (day, _, expected) => {
  expect(months(noon(day))).toEqual(expected)
})

test("the publication hour is the calendar's: 04:59 UTC on the 10th is still the 9th at UTC-5", () => {
  const count = (time: string): number => months(Date.parse(`2026-04-10T${time}Z`)).length
  expect([count('04:59:59'), count('05:00:00')]).toEqual([2, 3])
})

test.each([0, 1, 2, 60])('a look-back of %i windows looks at no more of them, and at the newest', (lookBack) => {
  const definition = definitionOf(single.dimensions, { lookBack })
  const looked = windowsInScope(definition, { mode: 'due' }, noon('2026-04-20')).map(({ isInLookBack }) => isInLookBack)
  expect(looked).toEqual([lookBack > 2, lookBack > 1, lookBack > 0])
})

test('a range looks back at nothing, and says which of its windows are not published', () => {
  const windows = windowsInScope(single, range('2026-03', '2026-06'), noon('2026-04-20'))
  expect(windows.map(({ isPublished }) => isPublished)).toEqual([true, false, false])
  expect(windows.some(({ isInLookBack }) => isInLookBack)).toBe(false)
})

test('a range is half-open and is covered without gaps', () => {
  const month = fc
    .integer({ min: 0, max: 40 })
    .map((count) => `${2023 + Math.floor(count / 12)}-${String((count % 12) + 1).padStart(2, '0')}`)
  fc.assert(
    fc.property(month, month, (one, other) => {
      const [from = '', to = ''] = [one, other].sort()
      const windows = windowsInScope(single, range(from, to), noon('2026-04-20'))
      expect(windows.map((window) => ({ from: window.from, to: window.to }))).toEqual(
        windowsBetween(`${from}-01`, `${to}-01`, 'month'),
      )
      expect(windows.map(({ place }) => place)).toEqual(windows.map((_, index) => index))
    }),
  )
})

test('nothing after the end of a table is planned, by night or by range, and of one that ended long ago nothing is asked for again', () => {
  const calendar = single.window.publication
  const ended = definitionOf(single.dimensions, { publication: { ...calendar, until: '2026-03-01' } })
  expect(months(noon('2026-06-20'), ended)).toEqual(['2026-01', '2026-02'])
  expect(months(noon('2026-02-20'), ended)).toEqual(['2026-01'])
  expect(months(noon('2026-06-20'), ended, range('2026-02', '2026-05'))).toEqual(['2026-02'])
  const looked = (day: string) => windowsInScope(ended, { mode: 'due' }, noon(day)).map(({ isInLookBack }) => isInLookBack)
  expect([looked('2026-03-20'), looked('2026-04-20'), looked('2026-06-20')]).toEqual([
    [true, true],
    [false, true],
    [false, false],
  ])
})

test('a range that nobody gave is refused', () => {
  expect(() => windowsInScope(single, { mode: 'range' }, 0)).toThrow(expect.objectContaining({ code: 'USAGE' }))
})

test('weeks begin on Monday and are due when the month of their Sunday is published', () => {
  const weekly = definitionOf(single.dimensions, { every: 'week', from: '2026-03-23' })
  expect(windowsInScope(weekly, { mode: 'due' }, noon('2026-04-10')).map(({ from, to }) => [from, to])).toEqual([
    ['2026-03-23', '2026-03-30'],
  ])
})

test.each([
  [2, '2026-02-01'],
  [1, '2026-03-01'],
  [0, '2026-04-01'],
])('with a look-back of %i windows those before %s may be closed', (lookBack, expected) => {
  expect(lookBackStart(definitionOf(single.dimensions, { lookBack }), noon('2026-04-20'))).toBe(expected)
})

test('each night of a cycle comes once, whatever night it began', () => {
  const nights = Array.from({ length: 30 }, (_, day) => nightOf(single, 30, noon('2026-04-20') + day * 86_400_000))
  expect(new Set(nights).size).toBe(30)
})

test.each([2, 3, 4, 7, 9, 30, 31, 90])(
  'with a full check of %i days no unit is older, and none that is younger than half of it is asked about',
  (days) => {
    const { nights = 0, olderThanDays = 0 } = checkCycle('walk', days) ?? {}
    expect(nights).toBeGreaterThan(0)
    for (let turn = 0; turn < nights; turn += 1)
      // Loaded in the afternoon, looked at by nights that begin up to five hours late.
      for (let checked = 0.5, night = 1; night < 4 * days; night += 1) {
        const now = night + (night % 3 === 0 ? 0.2 : 0)
        expect(now - checked).toBeLessThanOrEqual(days)
        if (night % nights !== turn || now - checked <= olderThanDays) continue
        expect(now - checked).toBeGreaterThan(days / 2 - 1)
        checked = now
      }
  },
)

test('reports are left to the calendar, which has them bought again every month; a check that is more frequent has all of them in one turn', () => {
  expect([28, 30, 31, 90].map((days) => checkCycle('report', days))).toEqual([null, null, null, null])
  expect(checkCycle('report', 7)).toEqual({ nights: 1, olderThanDays: 6.5 })
})

describe('--only', () => {
  const lists = definitionOf([dimension('domain', ['a.com', 'b.com', 'c.com'], 2)])

  test('narrows in the spelling of the list', () => {
    expect([...checkOnly(lists, new Map([['domain', ['B.com']]]))]).toEqual([['domain', ['b.com']]])
  })

  test.each([
    [
      new Map([['domain', ['b.con']]]),
      "--only domain=b.con: 'b.con' is not in the list of visits (pipelines/visits.yaml). Did you mean 'b.com'?",
    ],
    [new Map([['domian', ['b.com']]]), "--only domian=...: visits has no dimension 'domian'. Did you mean 'domain'?"],
    [new Map([['foo', ['1']]]), "--only foo=...: visits has no dimension 'foo'. Known: domain."],
    [new Map([['domain', []]]), '--only domain= names no value; write --only domain=a.com.'],
  ])('that is not in the lists is refused with the nearest that is', (only, message) => {
    expect(() => checkOnly(lists, only)).toThrow(expect.objectContaining({ code: 'USAGE', message }))
  })
})
