// One function per column from a cell's text to PostgreSQL's spelling of it, or a reason why the cell does not fit: numbers with every digit, dates checked
// against the calendar, lists as array literals.
import type { AnswerForm } from '../core/source-spec.ts'
import type { Box, Column, Definition, RoundingMode, Window } from '../core/types.ts'
import { castText, CellError, refuse } from './cast-text.ts'
import { maxFractionDigits, maxWholeDigits } from './parse-limits.ts'
import { excerpt } from './raw-text.ts'

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

/** Canonical digits: no plus, no leading zeros, no fraction. `12.0` and `1.2e1` are 12; `12.5` is rounded where the definition says how, else refused. */
const castInteger =
  (type: 'bigint' | 'integer', rounding: RoundingMode | null = null) =>
  (cell: string): string => {
    const text = cell.trim()
    if (/^(?:0|-?[1-9]\d{0,8})$/.test(text)) return text
    const number = read(text)
    if (number === null) return refuse(cell, 'a whole number')
    const digits = wholeDigits(number, rounding)
    if (digits === null) return refuse(cell, 'a whole number')
    const value = digits.length > 20 ? null : BigInt(`${number.sign === '-' ? '-' : ''}${digits}`)
    const [least, most] = bounds[type]
    if (value === null || value < least || value > most) return refuse(cell, `in the range of ${type} (${least} to ${most})`)
    return value.toString()
  }

/** The digits of a whole number, leading zeros gone; null where it has a fraction and no rule to round it. */
const wholeDigits = ({ whole, fraction, exponent }: Decimal, rounding: RoundingMode | null): string | null => {
  const all = `${whole}${fraction}`
  const point = whole.length + exponent
  // Zeros that belong between the point and the first digit are left out: they round nothing up, but `0.05` must not read as a half.
  const after = point < 0 ? `0${all}` : all.slice(point)
  const before = point <= 0 ? '' : all.slice(0, point).replace(/^0+/, '')
  // Enough to know that it is out of range, without making a million zeros.
  const digits = before === '' ? '0' : before + '0'.repeat(Math.min(Math.max(point - all.length, 0), 30))
  if (!/[^0]/.test(after)) return digits
  if (rounding === null) return null
  return isRoundedUp(digits, after, rounding) && digits.length <= 20 ? (BigInt(digits) + 1n).toString() : digits
}

/** Away from zero. @param after digits behind the point, one of them not 0 */
const isRoundedUp = (digits: string, after: string, rounding: RoundingMode): boolean => {
  if (rounding === 'down') return false
  const isHalf = /^50*$/.test(after)
  return isHalf && rounding === 'half_even' ? /[13579]$/.test(digits) : after >= '5'
}

/** The number as it is written; PostgreSQL keeps its scale. NaN and Infinity are no measurements. */
const castNumeric = (cell: string): string => {
  if (cell.length < maxWholeDigits && /^-?\d+(?:\.\d+)?$/.test(cell)) return cell
  const text = cell.trim()
  const number = read(text)
  if (number === null) return refuse(cell, 'a number')
  const { whole, fraction, exponent } = number
  if (whole.length + exponent > maxWholeDigits || fraction.length - exponent > maxFractionDigits)
    return refuse(
      cell,
      `a number of a length that can be indexed (${maxWholeDigits} digits before the point, ${maxFractionDigits} after it)`,
    )
  return text
}

const daysIn = (year: number, month: number): number =>
  month === 2 ? (year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31

/** Whether ISO text `YYYY-MM-DD` is a day of the calendar. */
const isDay = (text: string): boolean => {
  const year = Number(text.slice(0, 4))
  const month = Number(text.slice(5, 7))
  const day = Number(text.slice(8, 10))
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

const clock = String.raw`[T ]([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?`
const zone = String.raw`(?:Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)`
const dateForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})(?:${clock}${zone}?)?$`)
const timeForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})${clock}${zone}$`)

/** `YYYY-MM-DD`, also where a time of day stands behind it. */
const castDate = (cell: string): string => {
  const day = dateForm.exec(cell.trim())?.[1]
  return day !== undefined && isDay(day) ? day : refuse(cell, 'a date (YYYY-MM-DD)')
}

/** First day of the period a row is for: `YYYY-MM`, a date, or a time. @param monthly dates become the first of their month */
const castPeriod =
  (monthly: boolean) =>
  (cell: string): string => {
    const text = cell.trim()
    const day = /^\d{4}-\d{2}$/.test(text) ? `${text}-01` : dateForm.exec(text)?.[1]
    if (day === undefined || !isDay(day)) return refuse(cell, 'a period (YYYY-MM or YYYY-MM-DD)')
    return monthly ? `${day.slice(0, 8)}01` : day
  }

/** A moment. Without its zone it could be any of 24. */
const castTimestamp = (cell: string): string => {
  const text = cell.trim()
  const day = timeForm.exec(text)?.[1]
  return day !== undefined && isDay(day) ? text : refuse(cell, 'a time with its zone (2026-01-31T12:00:00Z)')
}

/** Every element quoted, so that commas, braces and the word NULL stay words. */
const arrayLiteral = (items: readonly (string | null)[]): string => `{${items.map(element).join(',')}}`

const element = (item: string | null): string =>
  item === null ? 'NULL' : `"${castText(item).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** A JSON array in a string, or words between commas; an empty list where there is nothing. */
const castTextArray = (cell: string): string => {
  const text = cell.trim()
  if (text === '') return '{}'
  if (!text.startsWith('[')) return arrayLiteral(text.split(',').map((item) => item.trim()))
  return arrayLiteral(jsonItems(text))
}

/** Elements of a JSON array of words; numbers and truth values as they are written. Throws CellError. */
const jsonItems = (text: string): (string | null)[] => {
  const value = parseJson(text)
  if (isWords(value)) return value
  const exact = numbersAsWritten(text)
  if (!Array.isArray(exact)) throw new CellError(`'${excerpt(text, 60)}' is not a list`)
  return exact.map((item: unknown) => {
    if (item === null || typeof item === 'string') return item
    if (typeof item === 'object') throw new CellError('the list holds a list or an object, expected words')
    return String(item)
  })
}

const isWords = (value: unknown): value is (string | null)[] =>
  Array.isArray(value) && value.every((item) => item === null || typeof item === 'string')

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new CellError(`'${excerpt(text, 60)}' is not a list`)
  }
}

// A number's own text where the platform gives it (Node 21 and newer), else the shortest that means the same.
const numbersAsWritten = (text: string): unknown =>
  JSON.parse(text, (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value,
  )

/** The cell as PostgreSQL reads it. Throws CellError. */
export type Cast = (cell: string) => string

const yes = new Set(['true', 't', '1', 'yes'])
const no = new Set(['false', 'f', '0', 'no'])

const castBoolean: Cast = (cell) => {
  const word = cell.trim().toLowerCase()
  return yes.has(word) ? 't' : no.has(word) ? 'f' : refuse(cell, 'true or false')
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

/** What an answer may hold: the box that wants it, and the span it was asked for, which may be wider. */
export interface AskedFor extends Box {
  readonly span: Window
}

/** The cast of one column of one answer: its spelling, its type, and whether the value was asked for at all. */
export const compileCast = (column: Column, definition: Definition, box: AskedFor, form: AnswerForm): Cast => {
  const typed = typedCast(column, definition)
  const spell = spellingOf(column, form)
  const belongs = membership(column, box, (value) => typed(spell === null ? value : spell(value)))
  if (spell === null && belongs === null) return typed
  return (cell) => {
    const value = typed(spell === null ? cell : spell(cell))
    belongs?.(value)
    return value
  }
}

/** How the source spells the column's cells; null where they are taken as they come. */
const spellingOf = ({ normalize }: Column, { spellings }: AnswerForm): Cast | null =>
  normalize === null || normalize === 'period_start' ? null : (spellings?.[normalize]?.write ?? null)

/** Whether a cell is taken as it stands, so that its bytes need no cast. */
export const isPlain = (column: Column, box: Box): boolean =>
  column.normalize === null && !isPeriod(column) && box.slice[column.name] === undefined

const typedCast = (column: Column, definition: Definition): Cast => {
  const { type, rounding } = column
  if (rounding !== null && (type === 'bigint' || type === 'integer')) return castInteger(type, rounding)
  if (column.normalize !== 'period_start') return casts[type]
  return castPeriod(definition.window.every === 'month' && definition.period.every === 'month')
}

const isPeriod = (column: Column): boolean => column.normalize === 'period_start' || (column.isKey && column.type === 'date')

/**
 * Rows that were not asked for must not come in. Null where the column does not tell units apart.
 * @param canonical a value of the slice as the answer would spell it after its cast: `007` is category 7
 */
const membership = (column: Column, box: AskedFor, canonical: Cast): ((value: string) => void) | null => {
  if (isPeriod(column)) return insideWindow(column, box)
  const wanted = box.slice[column.name]
  if (wanted === undefined) return null
  const values = new Set([wanted].flat().map(canonical))
  return (value) => {
    // It may be a wanted one that is spelled otherwise: so it is no stray.
    if (!values.has(value)) throw new CellError(`${column.name} '${value.slice(0, 60)}' was not asked for`)
  }
}

const insideWindow = (column: Column, { window: { from, to }, span }: AskedFor): ((value: string) => void) => {
  return (value) => {
    if (value >= from && value < to) return
    const isExpected = value >= span.from && value < span.to
    throw new CellError(`${column.name} ${value} lies outside what was asked for, from ${span.from} to before ${span.to}`, {
      ...{ period: value, isExpected },
    })
  }
}
