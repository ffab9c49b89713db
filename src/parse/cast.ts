// One function per column from a cell's text to COPY text, or a reason why the cell does not fit.
import type { Column, Definition, Normalize, Unit } from '../core/types.ts'

/** Text of the cell as PostgreSQL reads it, null for NULL. */
export type Cast = (cell: string) => string | null

/** Thrown by casts; the message says what was found and what was expected. */
export class CellError extends Error {
  override readonly name = 'CellError'
}

const fail = (cell: string, expected: string): never => {
  throw new CellError(`'${cell.length > 60 ? `${cell.slice(0, 57)}...` : cell}' is not ${expected}`)
}

const longestCell = 1_000_000
const nullWords = new Set(['', 'null', 'n/a', 'na', '-', 'none', 'nan'])

/** Whether a CSV cell of a column that is not text stands for no data. */
export const isNullWord = (cell: string): boolean => cell.length <= 4 && nullWords.has(cell.trim().toLowerCase())

const bounds: Readonly<Record<'bigint' | 'integer', readonly [bigint, bigint]>> = {
  bigint: [-(2n ** 63n), 2n ** 63n - 1n],
  integer: [-(2n ** 31n), 2n ** 31n - 1n],
}

const castInteger =
  (type: 'bigint' | 'integer'): Cast =>
  (cell) => {
    const text = cell.trim()
    const [, sign = '', digits = ''] = /^([+-]?)(\d+)(?:\.0*)?$/.exec(text) ?? []
    const whole = digits === '' ? scientificInteger(text) : `${sign === '-' ? '-' : ''}${digits}`
    if (whole === null) return fail(cell, 'a whole number')
    if (whole.length > 9) {
      const [least, most] = bounds[type]
      const value = BigInt(whole)
      if (value < least || value > most) return fail(cell, `in the range of ${type}`)
    }
    return whole
  }

/** `1.2e3` is whole, `1.25e1` is not. */
const scientificInteger = (text: string): string | null => {
  const [, sign = '', whole = '', fraction = '', exponentText = ''] =
    /^([+-]?)(\d+)(?:\.(\d*))?[eE]([+-]?\d{1,4})$/.exec(text) ?? []
  if (whole === '') return null
  const digits = whole + fraction
  const point = whole.length + Number(exponentText)
  if (point > 40 || point < 0) return null
  const integer = digits.slice(0, Math.max(point, 0)).padEnd(point, '0') || '0'
  if (/[^0]/.test(digits.slice(point))) return null
  return `${sign === '-' ? '-' : ''}${BigInt(integer)}`
}

/** PostgreSQL takes 131072 digits before the point and 16383 after it. */
const castNumeric: Cast = (cell) => {
  const text = cell.trim()
  const [, whole, fraction = '', exponent] = /^[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  if (whole === undefined || whole.length + fraction.length === 0) return fail(cell, 'a number')
  const size = Math.abs(Number(exponent ?? 0))
  if (whole.length + size > 131_000 || fraction.length + size > 16_383) return fail(cell, 'a number PostgreSQL can hold')
  return text
}

const booleans: Readonly<Record<string, string>> = {
  true: 't',
  false: 'f',
  '1': 't',
  '0': 'f',
  yes: 't',
  no: 'f',
  t: 't',
  f: 'f',
}
const castBoolean: Cast = (cell) => booleans[cell.trim().toLowerCase()] ?? fail(cell, 'true or false')

const daysIn = (year: number, month: number): number =>
  month === 2 ? (year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31

const isDate = (text: string): boolean => {
  const year = Number(text.slice(0, 4))
  const month = Number(text.slice(5, 7))
  const day = Number(text.slice(8, 10))
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

const castDate: Cast = (cell) => {
  const [, date] = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?$/.exec(cell.trim()) ?? []
  return date !== undefined && isDate(date) ? date : fail(cell, 'a date (YYYY-MM-DD)')
}

/** `YYYY-MM` and dates as the first day of the period; monthly rows are dated by their month. */
const castPeriod =
  (monthly: boolean): Cast =>
  (cell) => {
    const text = cell.trim()
    const date = /^\d{4}-\d{2}$/.test(text) ? `${text}-01` : castDate(text)
    if (date === null || !isDate(date)) return fail(cell, 'a period (YYYY-MM or YYYY-MM-DD)')
    return monthly ? `${date.slice(0, 8)}01` : date
  }

const castTimestamp: Cast = (cell) => {
  const text = cell.trim()
  const [, date, hour, minute, second = '0'] =
    /^(\d{4}-\d{2}-\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)$/.exec(text) ?? []
  const fits = date !== undefined && isDate(date) && Number(hour) < 24 && Number(minute) < 60 && Number(second) < 60
  return fits ? text : fail(cell, 'a time with its zone (2026-01-31T12:00:00Z)')
}

const castText: Cast = (cell) => {
  if (cell.length > longestCell) return fail(cell, `shorter than ${longestCell} characters`)
  if (cell.includes('\u0000'))
    return fail(cell.replaceAll('\u0000', '\\u0000'), 'text PostgreSQL can hold: it has a NUL character')
  if (!cell.isWellFormed() || cell.includes('\ufffd')) return wellFormed(cell)
  return cell
}

// U+FFFD may be a character of the data or the mark of bytes that were no UTF-8; the reader tells those apart before.
const wellFormed = (cell: string): string =>
  cell.isWellFormed() ? cell : fail(cell.toWellFormed(), 'valid text: it has half a character')

/** A PostgreSQL array literal; every element quoted, so that NULL and commas stay words. */
export const arrayLiteral = (items: readonly (string | null)[]): string =>
  `{${items.map((item) => (item === null ? 'NULL' : `"${castText(item)?.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`)).join(',')}}`

/** A JSON array in a string, a PostgreSQL literal, or words between commas. */
const castTextArray: Cast = (cell) => {
  const text = cell.trim()
  if (text.startsWith('[')) {
    const parsed = parseArray(text)
    if (parsed === null) return fail(cell, 'a list')
    return arrayLiteral(parsed)
  }
  return arrayLiteral(text === '' ? [] : text.split(',').map((item) => item.trim()))
}

const parseArray = (text: string): (string | null)[] | null => {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every((item) => item === null || typeof item === 'string' || typeof item === 'number')
      ? value.map((item) => (item === null ? null : String(item)))
      : null
  } catch {
    return null
  }
}

const casts: Readonly<Record<Column['type'], Cast>> = {
  text: castText,
  bigint: castInteger('bigint'),
  integer: castInteger('integer'),
  numeric: castNumeric,
  boolean: castBoolean,
  date: castDate,
  timestamptz: castTimestamp,
  'text[]': castTextArray,
}

const normalizers: Readonly<Record<Exclude<Normalize, 'period_start'>, (text: string) => string>> = {
  country: (text) => {
    const code = text.trim().toLowerCase()
    return code === 'ww' || code === 'worldwide' ? 'world' : code
  },
  domain: (text) => text.trim().toLowerCase().replace(/\.$/, ''),
}

/** The cast of one column of one unit: type, spelling, and whether the value belongs to the unit at all. */
export const compileCast = (column: Column, definition: Definition, unit: Unit): Cast => {
  const granularity = definition.params['granularity']
  const monthly = definition.window.every === 'month' && (granularity === undefined || granularity === 'monthly')
  const typed = column.normalize === 'period_start' ? castPeriod(monthly) : casts[column.type]
  const normalize = column.normalize === null || column.normalize === 'period_start' ? null : normalizers[column.normalize]
  const inUnit = membership(column, unit)
  return (cell) => {
    const value = typed(normalize === null ? cell : normalize(cell))
    if (inUnit !== null && value !== null) inUnit(value)
    return value
  }
}

/** Rows of another unit must not come in with this one's. */
const membership = (column: Column, unit: Unit): ((value: string) => void) | null => {
  if (column.normalize === 'period_start' || (column.isKey && column.type === 'date')) {
    const { from, to } = unit.window
    return (value) => {
      if (value < from || value >= to)
        throw new CellError(`${column.name} ${value} lies outside the unit's window ${from} to ${to}`)
    }
  }
  const wanted = unit.slice[column.name]
  if (wanted === undefined) return null
  const values = new Set([wanted].flat().map((value) => (column.normalize === 'domain' ? value.toLowerCase() : value)))
  return (value) => {
    if (!values.has(value)) throw new CellError(`${column.name} '${value}' was not asked for in this unit`)
  }
}
