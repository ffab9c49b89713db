// Each row ends with its unit's number, whatever stands in its cells and wherever the values that tell stand.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCopyWriter, escapeCell, writeRow } from '../../../src/parse/copy-text.ts'
import { createUnitMark, unitNumbers } from '../../../src/parse/unit-mark.ts'

const cell = fc.oneof(fc.constantFrom('a.com', 'b.com', 'é\tx', 'back\\slash', 'x'.repeat(5_000), ''), fc.string())

const marked = (rows: readonly (readonly string[])[], places: readonly number[], units: ReadonlyMap<string, number>) => {
  const writer = createCopyWriter()
  const mark = createUnitMark(places, units)
  for (const row of rows) {
    const from = writer.at
    writeRow(writer, row)
    mark.end(writer, from)
  }
  return { text: writer.bytes.toString('utf8', 0, writer.at), strays: mark.strays }
}

describe('the number of a row’s unit', () => {
  test('is that of its values, and 0 where no unit has them', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(cell, cell, cell, cell), { maxLength: 12 }),
        fc.subarray([0, 1, 2, 3], { minLength: 1 }),
        fc.integer({ min: 1, max: 3 }),
        (rows, places, everyNth) => {
          const valuesOf = (row: readonly string[]): string => places.map((place) => escapeCell(row[place] ?? '')).join('\t')
          const units = new Map<string, number>()
          for (const [at, row] of rows.entries()) if (at % everyNth === 0) units.set(valuesOf(row), 7_000_000_000 + at)
          const expected = rows.map((row) => `${row.map(escapeCell).join('\t')}\t${units.get(valuesOf(row)) ?? 0}\n`)
          const lines = [...units].map(([values, number]) => `${values}\t${number}`)
          const found = marked(rows, places, unitNumbers(lines.join('\n')))
          // Lone surrogates are no text; the parser lets none through.
          expect(found.text.toWellFormed()).toBe(Buffer.from(expected.join('')).toString('utf8'))
          expect(found.strays).toBe(rows.filter((row) => !units.has(valuesOf(row))).length)
        },
      ),
      { numRuns: 400 },
    )
  })

  test('finds room in a full buffer', () => {
    const writer = createCopyWriter()
    const mark = createUnitMark([0], new Map([['a', 123_456]]))
    const filler = 'f'.repeat(writer.bytes.length - 3)
    writeRow(writer, ['a', filler])
    mark.end(writer, 0)
    expect(writer.bytes.toString('utf8', 0, writer.at)).toBe(`a\t${filler}\t123456\n`)
  })
})
