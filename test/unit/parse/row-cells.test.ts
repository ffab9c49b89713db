// What is copied as it stands is what its cast would have made of it, and what is remembered is what stands there.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { typeNames } from '../../../src/core/column-types.ts'
import { castInteger, CellError, isNullWord, safeDigits } from '../../../src/core/cast-cell.ts'
import { cellText } from '../../../src/parse/copy-text.ts'
import { column, parseBody, payloadOf, planOf } from './parsing.ts'

const digits = fc.stringMatching(/^-?0{0,2}\d{0,20}(\.\d{0,5})?(e[+-]?\d{1,2})?$/)
const odd = [
  '007',
  '-0',
  '-',
  '.5',
  '5.',
  '1.2.3',
  '1-2',
  '999999999',
  '1000000000',
  '9'.repeat(19),
  '9'.repeat(420),
  '\u0000',
  '\t',
  '\\',
  '\\N',
  'é',
  ' 1',
]
const cell = fc.oneof(
  digits,
  fc.constantFrom(...odd),
  fc.string(),
  fc.constantFrom('2026-01-01', '2026-02-30', 'true', 'F', '[]', '["a\\\\b"]', 'a,b'),
)

test.each(typeNames)('cells of %s become what the cast says, in CSV and in JSON', async (type) => {
  const plan = planOf([column('v', type)])
  const cast = plan.columns[0]?.cast ?? ((text: string) => text)
  const expected = (text: string): string[] => {
    if (type === 'text' ? text === '' : isNullWord(text)) return ['\\N']
    try {
      return [cellText(cast(text))]
    } catch (error) {
      if (error instanceof CellError) return []
      throw error
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(cell, { minLength: 1, maxLength: 30 }), async (drawn) => {
      // Each twice: the second time it may be remembered. Line ends in a cell are another test's.
      const cells = [...drawn, ...drawn].map((text) => text.replaceAll(/[\r\n]/g, ' '))
      const lines = cells.flatMap(expected).map((line) => `${line}\n`)
      const csv = `v\n${cells.map((text) => `"${text.replaceAll('"', '""')}"\n`).join('')}`
      expect((await parseBody(plan, payloadOf('csv', csv, 50))).copy).toBe(lines.join(''))
      const json = cells.map((text) => `${JSON.stringify({ v: text })}\n`).join('')
      const words = cells.flatMap((text) => (type === 'text' && text === '' ? [''] : expected(text)))
      expect((await parseBody(plan, payloadOf('json', json))).copy).toBe(words.map((line) => `${line}\n`).join(''))
    }),
    { numRuns: 100 },
  )
})

test.each([16n, 32n, 64n])(
  'whole numbers of %s bits are taken up to the last one, and none of more digits as they stand',
  (bits) => {
    const cast = castInteger('whole', bits)
    const [least, most] = [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n]
    for (const number of [least, most, 0n]) expect(cast(String(number))).toBe(String(number))
    for (const number of [least - 1n, most + 1n]) expect(() => cast(String(number))).toThrow('in the range of whole')
    expect(BigInt('9'.repeat(safeDigits(bits)))).toBeLessThanOrEqual(most)
  },
)
