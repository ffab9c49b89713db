// Each row ends with its constants and its unit's number, whatever stands in its cells and wherever the values that tell stand; others are taken back.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCopyWriter, escapeCell, writeRow } from '../../../src/parse/copy-text.ts'
import { createUnitMark, type MarkedUnits, type MarkPlaces } from '../../../src/parse/unit-mark.ts'

const cell = fc.oneof(fc.constantFrom('a.com', 'b.com', 'é\tx', 'back\\slash', 'x'.repeat(5_000), ''), fc.string())
const periods = ['2026-01-01', '2026-01-02', '2026-02-01', '2026-03-01']

const nameOf = (values: readonly string[]): string => Buffer.from(values.map(escapeCell).join('\t')).toString('latin1')

/** Windows are January and February. */
const unitsOf = (slices: readonly (readonly string[])[], numbers: readonly number[]): MarkedUnits => ({
  slices: new Map(slices.map((values, place) => [nameOf(values), place])),
  sliceCount: slices.length,
  windowOf: (period) => ['2026-01', '2026-02'].indexOf(period.slice(0, 7)),
  numbers: Float64Array.from(numbers),
})

const places = (slice: readonly number[], more: Partial<MarkPlaces> = {}): MarkPlaces => ({
  slice,
  period: 0,
  keySlice: slice,
  keyPeriod: 0,
  counted: null,
  ...more,
})

const marked = (rows: readonly (readonly (string | null)[])[], units: MarkedUnits, where: MarkPlaces, constants = '') => {
  const writer = createCopyWriter()
  const mark = createUnitMark(units, where, constants)
  const kept = rows.map((row) => {
    const from = writer.at
    writeRow(writer, row)
    return mark.end(writer, from)
  })
  return { text: writer.bytes.toString('utf8', 0, writer.at), kept, mark }
}

describe('the number of a row’s unit', () => {
  test('is that of its values and its window; rows of other jobs and of no unit are counted and taken back', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(...periods), cell, cell, cell), { maxLength: 12 }),
        fc.subarray([1, 2, 3], { minLength: 1 }),
        fc.integer({ min: 1, max: 3 }),
        (rows, slice, everyNth) => {
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
          const found = marked(rows, unitsOf(slices, numbers), places(slice), '\tall\tt')
          const ours = rows.filter((row) => (numbers[placeOf(row) ?? -1] ?? 0) > 0)
          const expected = ours.map((row) => `${row.map(escapeCell).join('\t')}\tall\tt\t${numbers[placeOf(row) ?? -1]}\n`)
          // Lone surrogates are no text; the parser lets none through.
          expect(found.text.toWellFormed()).toBe(Buffer.from(expected.join('')).toString('utf8'))
          expect(found.kept).toEqual(rows.map((row) => ours.includes(row)))
          expect(found.mark.strays).toBe(rows.filter((row) => placeOf(row) === null).length)
          for (const [place, count] of found.mark.rows.entries())
            expect(count).toBe(rows.filter((row) => placeOf(row) === place).length)
          for (const row of rows) expect(found.mark.unitOf([...row])).toBe(numbers.length === 1 ? 0 : placeOf(row))
        },
      ),
      { numRuns: 400 },
    )
  })

  test('of an answer for one unit is that unit’s, whoever’s the record says it is', () => {
    const { mark } = marked([], { ...unitsOf([['a']], [5]), windowOf: () => 0 }, places([1]))
    expect([mark.unitOf(null), mark.unitOf(['2026-01-01', 'b'])]).toEqual([0, 0])
    const two = marked([], unitsOf([['a']], [5, 6]), places([1]))
    expect([two.mark.unitOf(null), two.mark.unitOf(['2026-02-01', 'a']), two.mark.unitOf(['2026-02-01', 'b'])]).toEqual([
      null,
      1,
      null,
    ])
  })

  test('finds room in a full buffer', () => {
    const writer = createCopyWriter()
    const mark = createUnitMark({ ...unitsOf([['a']], [123_456]), windowOf: () => 0 }, places([0], { period: null }))
    const filler = 'f'.repeat(writer.bytes.length - 3)
    writeRow(writer, ['a', filler])
    mark.end(writer, 0)
    expect(writer.bytes.toString('utf8', 0, writer.at)).toBe(`a\t${filler}\t123456\n`)
  })
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
