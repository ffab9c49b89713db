// Numbers as text: every digit kept, ranges checked here so that PostgreSQL never refuses a whole unit for one cell.

import { refuse } from './cast-text.ts'
import { maxFractionDigits, maxWholeDigits } from './limits.ts'

const bounds: Readonly<Record<'bigint' | 'integer', readonly [bigint, bigint]>> = {
  bigint: [-(2n ** 63n), 2n ** 63n - 1n],
  integer: [-(2n ** 31n), 2n ** 31n - 1n],
}

const decimal = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/

interface Decimal {
  readonly sign: string
  readonly whole: string
  readonly fraction: string
  readonly exponent: number
}

const read = (text: string): Decimal | null => {
  const found = decimal.exec(text)
  if (found === null) return null
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = found
  return whole.length + fraction.length === 0 ? null : { sign, whole, fraction, exponent: Number(exponent) }
}

/** Canonical digits: no plus, no leading zeros, no fraction. `12.0` and `1.2e1` are 12; `12.5` is refused. */
export const castInteger =
  (type: 'bigint' | 'integer') =>
  (cell: string): string => {
    const text = cell.trim()
    if (/^(?:0|-?[1-9]\d{0,8})$/.test(text)) return text
    const number = read(text)
    if (number === null) return refuse(cell, 'a whole number')
    const digits = wholeDigits(number)
    if (digits === null) return refuse(cell, 'a whole number')
    const value = digits.length > 20 ? null : BigInt(`${number.sign === '-' ? '-' : ''}${digits}`)
    const [least, most] = bounds[type]
    if (value === null || value < least || value > most) return refuse(cell, `in the range of ${type} (${least} to ${most})`)
    return value.toString()
  }

/** The digits of a number without a fraction, leading zeros gone; null where it has one. */
const wholeDigits = ({ whole, fraction, exponent }: Decimal): string | null => {
  const all = `${whole}${fraction}`
  const point = whole.length + exponent
  const after = point < 0 ? all : all.slice(point)
  if (/[^0]/.test(after)) return null
  const before = point <= 0 ? '' : all.slice(0, point).replace(/^0+/, '')
  if (before === '') return '0'
  // Enough to know that it is out of range, without making a million zeros.
  return before + '0'.repeat(Math.min(Math.max(point - all.length, 0), 30))
}

/** The number as it is written; PostgreSQL keeps its scale. NaN and Infinity are no measurements. */
export const castNumeric = (cell: string): string => {
  if (cell.length < 1_000 && /^-?\d+(?:\.\d+)?$/.test(cell)) return cell
  const text = cell.trim()
  const number = read(text)
  if (number === null) return refuse(cell, 'a number')
  const { whole, fraction, exponent } = number
  if (whole.length + exponent > maxWholeDigits || fraction.length - exponent > maxFractionDigits)
    return refuse(cell, `a number PostgreSQL can hold (${maxWholeDigits} digits before the point, ${maxFractionDigits} after it)`)
  return text
}
