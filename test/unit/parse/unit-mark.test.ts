// Each row ends with its constants and its unit's number, whatever stands in its cells and wherever the values that tell stand; others have none.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { escapeCell } from '../../../src/parse/copy-text.ts'
import { createUnitMark, type MarkedUnits, type MarkPlaces } from '../../../src/parse/unit-mark.ts'
import { column, parseBody, payloadOf, planOf } from './parsing.ts'

const cell = fc.oneof(fc.constantFrom('a.com', 'b.com', 'é\tx', 'back\\slash', 'x'.repeat(5_000), ''), fc.string())
const periods = ['2026-01-01', '2026-01-02', '2026-02-01', '2026-03-01']

const nameOf = (values: readonly string[]): string => values.map(escapeCell).join('\t')

/** Windows are January and February. */
const unitsOf = (slices: readonly (readonly string[])[], numbers: readonly number[], keepsOthers = false): MarkedUnits => ({
  slices: new Map(slices.map((values, place) => [nameOf(values), place])),
  sliceCount: slices.length,
  windowOf: (period) => ['2026-01', '2026-02'].indexOf(period.slice(0, 7)),
  numbers: Float64Array.from(numbers),
  keepsOthers,
})

const places = (slice: readonly number[], more: Partial<MarkPlaces> = {}): MarkPlaces => ({
  slice,
  period: 0,
  keySlice: slice,
  keyPeriod: 0,
  others: 0,
  counted: null,
  ...more,
})

const marked = (rows: readonly (readonly (string | null)[])[], units: MarkedUnits, where: MarkPlaces, constants = '') => {
  const mark = createUnitMark(units, where, constants)
  return { suffixes: rows.map((row) => mark.suffixOf(row)), mark }
}

describe('the number of a row’s unit', () => {
  test('is that of its values and its window; rows of other jobs and of no unit are counted and get none, or 0 where those of other jobs are kept', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(...periods), cell, cell, cell), { maxLength: 12 }),
        fc.subarray([1, 2, 3], { minLength: 1 }),
        fc.integer({ min: 1, max: 3 }),
        fc.boolean(),
        (rows, slice, everyNth, keepsOthers) => {
          const valuesOf = (row: readonly string[]): string[] => slice.map((place) => row[place] ?? '')
          const known = new Map<string, string[]>()
          for (const [at, row] of rows.entries()) if (at % everyNth === 0) known.set(nameOf(valuesOf(row)), valuesOf(row))
          const slices = [...known.values()]
          // Every third unit of the answer is another job's.
          const numbers = Array.from({ length: 2 * slices.length }, (_, place) => (place % 3 === 2 ? 0 : 7_000_000_000 + place))
          const placeOf = (row: readonly string[]): number | null => {
            const found = [...known.keys()].indexOf(nameOf(valuesOf(row)))
            const window = ['2026-01', '2026-02'].indexOf((row[0] ?? '').slice(0, 7))
            return found < 0 || window < 0 ? null : window * slices.length + found
          }
          const found = marked(rows, unitsOf(slices, numbers, keepsOthers), places(slice), '\tall\tt')
          const suffixFor = (row: readonly string[]): string | null => {
            const number = numbers[placeOf(row) ?? -1]
            return number === undefined || (number === 0 && !keepsOthers) ? null : `\tall\tt\t${number}`
          }
          expect(found.suffixes).toEqual(rows.map(suffixFor))
          expect(found.mark.strays).toBe(rows.filter((row) => placeOf(row) === null).length)
          for (const [place, count] of found.mark.rows.entries())
            expect(count).toBe(rows.filter((row) => placeOf(row) === place).length)
          for (const row of rows) expect(found.mark.placesOfKey([...row]).unit).toBe(numbers.length === 1 ? 0 : placeOf(row))
        },
      ),
      { numRuns: 400 },
    )
  })

  test('of an answer for one unit is that unit’s, whoever’s the record says it is', () => {
    const { mark } = marked([], { ...unitsOf([['a']], [5]), windowOf: () => 0 }, places([1]))
    expect([mark.placesOfKey(null), mark.placesOfKey(['2026-01-01', 'b'])].map(({ unit }) => unit)).toEqual([0, 0])
    const two = marked([], unitsOf([['a']], [5, 6]), places([1]))
    expect(two.mark.placesOfKey(null)).toEqual({ unit: null, window: null, slice: null })
    expect(two.mark.placesOfKey(['2026-02-01', 'a'])).toEqual({ unit: 1, window: 1, slice: 0 })
    expect(two.mark.placesOfKey(['2026-02-01', 'b'])).toEqual({ unit: null, window: 1, slice: null })
    expect(two.mark.placesOfKey(['someday', 'a'])).toEqual({ unit: null, window: null, slice: 0 })
  })
})

test('a record is of the unit that its value and its period name, also where another cell of its key cannot be read', async () => {
  const { mark } = marked([], unitsOf([['a.com'], ['b.com']], [1, 2, 3, 4]), places([1]))
  const columns = [
    column('date', 'date', { isKey: true }),
    column('domain', 'text', { isKey: true }),
    column('brand', 'bigint', { isKey: true }),
  ]
  const plan = planOf(columns, { slice: { domain: ['a.com', 'b.com'] }, window: { from: '2026-01-01', to: '2026-03-01' } })
  const body = 'date,domain,brand\n2026-02-01,a.com,\n2026-02-01,,7\nsoon,b.com,7\n2026-02-01,c.com,7\n'
  const { report } = await parseBody({ ...plan, mark }, payloadOf('csv', body))
  expect(report.rejected.map(({ unit, key }) => [unit, key])).toEqual([2, null, null, null].map((unit) => [unit, null]))
  expect([...mark.rejects]).toEqual([0, 0, 1, 0])
})

test('values are counted where they are asked for: no NULL, and no empty text', () => {
  const rows = [
    ['2026-01-01', 'a', '1', 'x'],
    ['2026-01-01', 'a', null, ''],
    ['2026-01-01', 'a', '', '\\N'],
  ]
  const { mark } = marked(rows, unitsOf([['a']], [1, 2]), places([1], { counted: Uint8Array.of(0, 0, 1, 2) }))
  expect(mark.filled).toBe(4)
})

test.each([
  ['csv', 'date,domain,seen,sold,back\n2026-01-01,a,1,2,\n2026-01-01,a,2,null,0\n2026-01-01,a,x,5,6\n'],
  [
    'json',
    '[{"date":"2026-01-01","domain":"a","seen":1,"sold":2,"back":""},{"date":"2026-01-01","domain":"a","seen":2,"sold":null,"back":0},{"date":"2026-01-01","domain":"a","seen":"x","sold":5,"back":"6"}]',
  ],
] as const)('values in fields that no column reads are counted, too: %s', async (format, body) => {
  const columns = [column('date', 'date', { isKey: true }), column('domain', 'text', { isKey: true }), column('seen', 'bigint')]
  const plan = { ...planOf(columns, { slice: { domain: ['a'] } }), others: ['sold', 'back'] }
  const where = places([1], { counted: Uint8Array.of(0, 0, 1), others: 2 })
  const { mark } = marked([], unitsOf([['a']], [1, 2]), where)
  const { report } = await parseBody({ ...plan, mark }, payloadOf(format, body))
  expect([mark.filled, report.cellsLeftOut, report.rejected.length]).toEqual([4, { least: 3, most: 3 }, 1])
})
