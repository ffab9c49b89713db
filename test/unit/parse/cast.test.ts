import { describe, expect, test } from 'vitest'
import type { Column } from '../../../src/core/types.ts'
import { column, parseBody, payloadOf, planOf } from './parsing.ts'

/** What a cell of a type becomes, or why not; in quotes and without, so that both lanes have their say. */
const cast = async (type: Column['type'], cell: string): Promise<string | null | undefined> => {
  const quoted = await outcome(type, `"${cell.replaceAll('"', '""')}"`)
  if (!/[",\n]/.test(cell)) expect(await outcome(type, cell)).toBe(quoted)
  return quoted
}

const outcome = async (type: Column['type'], written: string): Promise<string | null | undefined> => {
  const plan = planOf([column('id', 'text', { isKey: true }), column('value', type)])
  const { rows, report } = await parseBody(plan, payloadOf('csv', `id,value\nx,${written}\n`))
  return report.rejects === 1 ? `refused: ${report.rejected[0]?.reason}` : rows[0]?.[1]
}

describe('a cell of type', () => {
  test.each<[Column['type'], string, string | null]>([
    ['bigint', '9223372036854775807', '9223372036854775807'],
    ['bigint', '-9223372036854775808', '-9223372036854775808'],
    ['bigint', ' +0012.000 ', '12'],
    ['bigint', '-0', '0'],
    ['bigint', '1.50e1', '15'],
    ['bigint', '120e-1', '12'],
    ['bigint', '0e999999', '0'],
    ['bigint', '0.0e-5', '0'],
    ['bigint', '007', '7'],
    ['bigint', '-05', '-5'],
    ['integer', '2147483647', '2147483647'],
    ['integer', '-2147483648', '-2147483648'],
    ['numeric', '9007199254740993.10', '9007199254740993.10'],
    ['numeric', `${'9'.repeat(40)}.${'1'.repeat(60)}`, `${'9'.repeat(40)}.${'1'.repeat(60)}`],
    ['numeric', '+.5', '+.5'],
    ['numeric', '1e-7', '1e-7'],
    ['numeric', `${'9'.repeat(400)}`, `${'9'.repeat(400)}`],
    ['boolean', 'YES', 't'],
    ['boolean', '0', 'f'],
    ['date', '2024-02-29', '2024-02-29'],
    ['date', '2024-02-29T10:00:00Z', '2024-02-29'],
    ['date', '0001-01-01', '0001-01-01'],
    ['date', '9999-12-31', '9999-12-31'],
    ['timestamptz', '2026-01-31T23:59:59.123456Z', '2026-01-31T23:59:59.123456Z'],
    ['timestamptz', '2026-01-31 10:00+05:30', '2026-01-31 10:00+05:30'],
    ['text[]', '["a","b c"]', '{"a","b c"}'],
    ['text[]', 'a, "b"', '{"a","\\"b\\""}'],
    ['text[]', '', null],
    ['text', '  kept  ', '  kept  '],
  ])('%s takes %j as %j', async (type, cell, expected) => {
    expect(await cast(type, cell)).toBe(expected)
  })

  test.each<[Column['type'], string]>([
    ['bigint', '12.5'],
    ['bigint', '9223372036854775808'],
    ['bigint', '1e40'],
    ['bigint', '1e999999'],
    ['bigint', '1e-1'],
    ['bigint', '1,000'],
    ['bigint', '0x10'],
    ['bigint', '１２'],
    ['bigint', '.'],
    ['bigint', 'e5'],
    ['integer', '2147483648'],
    ['numeric', 'NaN'],
    ['numeric', 'Infinity'],
    ['numeric', '-inf'],
    ['numeric', '1.2.3'],
    ['numeric', '12 345'],
    ['numeric', '1e400'],
    ['numeric', '9'.repeat(100_000)],
    ['numeric', `0.${'1'.repeat(401)}`],
    ['numeric', '1e-16384'],
    ['numeric', `0.${'1'.repeat(16_384)}`],
    ['numeric', '1e99999999'],
    ['boolean', '2'],
    ['date', '2026-02-29'],
    ['date', '2026-00-10'],
    ['date', '0000-01-01'],
    ['date', '2026-01-32'],
    ['date', '2026-1-1'],
    ['date', '10000-01-01'],
    ['date', '2026-01-01T25:00:00Z'],
    ['timestamptz', '2026-01-31T10:00:00'],
    ['timestamptz', '2026-02-30T10:00:00Z'],
    ['timestamptz', '2026-01-31'],
    ['text[]', '["a",'],
    ['text[]', '[{"a":1}]'],
  ])('%s refuses %j', async (type, cell) => {
    expect(await cast(type, cell)).toMatch(/^refused: /)
  })
})
