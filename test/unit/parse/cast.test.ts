import { describe, expect, test } from 'vitest'
import type { Column } from '../../../src/core/types.ts'
import { column, parseBody, payloadOf, planOf } from './parsing.ts'

/** What a cell of a type becomes, or why not; in quotes and without. */
const cast = async (
  type: Column['type'],
  cell: string,
  rounding: Column['rounding'] = null,
): Promise<string | null | undefined> => {
  const quoted = await outcome(type, rounding, `"${cell.replaceAll('"', '""')}"`)
  if (!/[",\n]/.test(cell)) expect(await outcome(type, rounding, cell)).toBe(quoted)
  return quoted
}

const outcome = async (
  type: Column['type'],
  rounding: Column['rounding'],
  written: string,
): Promise<string | null | undefined> => {
  const plan = planOf([column('id', 'text', { isKey: true }), column('value', type, { rounding })])
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

describe('a whole number is rounded as the definition says', () => {
  test.each<[string, readonly [halfUp: string, halfEven: string, down: string]]>([
    ['12', ['12', '12', '12']],
    ['12.4', ['12', '12', '12']],
    ['12.5', ['13', '12', '12']],
    ['13.5', ['14', '14', '13']],
    ['12.50', ['13', '12', '12']],
    ['12.5001', ['13', '13', '12']],
    ['-12.5', ['-13', '-12', '-12']],
    ['-0.4', ['0', '0', '0']],
    ['.5', ['1', '0', '0']],
    ['0.05', ['0', '0', '0']],
    ['5e-2', ['0', '0', '0']],
    ['5e-1', ['1', '0', '0']],
    ['15e-1', ['2', '2', '1']],
    ['1.25e1', ['13', '12', '12']],
    ['9.99e2', ['999', '999', '999']],
    ['9007199254740993.5', ['9007199254740994', '9007199254740994', '9007199254740993']],
    ['9223372036854775806.5', ['9223372036854775807', '9223372036854775806', '9223372036854775806']],
  ])('%s', async (cell, [halfUp, halfEven, down]) => {
    expect(await cast('bigint', cell, 'half_up')).toBe(halfUp)
    expect(await cast('bigint', cell, 'half_even')).toBe(halfEven)
    expect(await cast('bigint', cell, 'down')).toBe(down)
  })

  test('and is still refused where it is no number, or too large', async () => {
    expect(await cast('integer', '2147483647.4', 'half_up')).toBe('2147483647')
    expect(await cast('integer', '2147483647.5', 'half_up')).toMatch(/^refused: .*range of integer/)
    expect(await cast('bigint', '9223372036854775807.5', 'half_up')).toMatch(/^refused: .*range of bigint/)
    expect(await cast('bigint', `${'9'.repeat(100_000)}.5`, 'half_up')).toMatch(/^refused: /)
    expect(await cast('bigint', '12.3x', 'half_up')).toMatch(/^refused: .*not a whole number/)
  })
})
