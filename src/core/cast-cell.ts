// Casts a cell's text to PostgreSQL's spelling, or says why the cell does not fit: text that PostgreSQL can store, numbers with every digit, dates
// checked against the calendar, lists as array literals.
import { z } from 'zod'

/** What becomes of a fraction in a column of whole numbers; ties of `half_up` go away from zero, as in SQL's `round`. */
export const roundingModes = ['half_up', 'half_even', 'down'] as const
export type RoundingMode = (typeof roundingModes)[number]

/** Characters of one cell. */
export const maxCellCharacters = 1_000_000
/** Most digits before the decimal point. PostgreSQL stores more, but an index entry beside the key does not hold them; no measurement has them. */
export const maxWholeDigits = 400
/** Most digits after the decimal point; far more than any figure has, far fewer than PostgreSQL allows. */
const maxFractionDigits = 400

/** The first characters of `text` on one line, for messages; without characters that steer a terminal. */
export const excerpt = (text: string, most = 80): string => {
  const line = text
    .slice(0, most * 2)
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .toWellFormed()
  return line.length > most ? `${line.slice(0, most - 1)}…` : line
}

/** A valid row whose period was not requested. */
export interface UnrequestedRow {
  readonly period: string
  /** The request covers the period, because the service offers no smaller span. */
  readonly isExpected: boolean
}

/** Thrown by casts; the message says what was found and what was expected. */
export class CellError extends Error {
  override readonly name = 'CellError'
  /** See `RowError`. */
  readonly stray: UnrequestedRow | null

  constructor(message: string, stray: UnrequestedRow | null = null) {
    super(message)
    this.stray = stray
  }
}

/** The cell names a value that was not requested. */
export class UnaskedError extends CellError {}

/** Throws a CellError: the record is rejected, parsing continues. */
const rejectCell = (cell: string, expected: string): never => {
  throw new CellError(`'${excerpt(cell, 60)}' is not ${expected}`)
}

/** The text as it is. Throws CellError for NUL, half a surrogate pair, or too many characters. */
export const castText = (cell: string): string => {
  if (cell.length > maxCellCharacters)
    throw new CellError(`the cell has ${cell.length} characters, at most ${maxCellCharacters} are allowed`)
  if (cell.includes('\u0000')) throw new CellError('the text has a NUL character (\\x00), which PostgreSQL cannot store')
  if (!cell.isWellFormed()) throw new CellError('the text has half of a surrogate pair, which is no character')
  return cell
}

const digitZero = 48
const digitNine = 57
/** A null word may have blanks around it; a longer cell is not compared. */
const longestPadded = 40
const nullWords = new Set(['', 'null', 'n/a', 'na', '-', 'none'])

/** Whether a cell means NULL. Not for text columns: there these are words. */
export const isNullWord = (cell: string): boolean => {
  const first = cell.charCodeAt(0)
  if (first >= digitZero && first <= digitNine) return false
  return cell.length < longestPadded && nullWords.has(cell.trim().toLowerCase())
}

/** Every whole number with at most so many digits fits into `bits` bits, signed. */
export const safeDigits = (bits: bigint): number => String(2n ** (bits - 1n) - 1n).length - 1

const decimal = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,6}))?$/

type Decimal = NonNullable<ReturnType<typeof read>>

const read = (text: string) => {
  const found = decimal.exec(text)
  if (found === null) return null
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = found
  return whole.length + fraction.length === 0 ? null : { sign, whole, fraction, exponent: Number(exponent) }
}

/** Canonical digits: no plus, no leading zeros, no fraction. `12.0` and `1.2e1` are 12; `12.5` is rounded where the definition says how, else refused. */
export const castInteger = (type: string, bits: bigint, rounding: RoundingMode | null = null): Cast => {
  const plain = new RegExp(`^(?:0|-?[1-9]\\d{0,${safeDigits(bits) - 1}})$`)
  const [least, most] = [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n]
  return (cell) => {
    const text = cell.trim()
    if (plain.test(text)) return text
    const number = read(text)
    if (number === null) return rejectCell(cell, 'a whole number')
    const digits = wholeDigits(number, rounding)
    if (digits === null) return rejectCell(cell, 'a whole number')
    const value = digits.length > 20 ? null : BigInt(`${number.sign === '-' ? '-' : ''}${digits}`)
    if (value === null || value < least || value > most) return rejectCell(cell, `in the range of ${type} (${least} to ${most})`)
    return value.toString()
  }
}

/** The digits of a whole number without leading zeros; null where it has a fraction and no rounding rule. */
const wholeDigits = ({ whole, fraction, exponent }: Decimal, rounding: RoundingMode | null): string | null => {
  const all = `${whole}${fraction}`
  const point = whole.length + exponent
  // One zero stands for all between the point and the first digit: without it `0.05` would round as a half.
  const after = point < 0 ? `0${all}` : all.slice(point)
  const before = point <= 0 ? '' : all.slice(0, point).replace(/^0+/, '')
  // 30 zeros are enough to be out of range; `1e999999` must not make a million.
  const digits = before === '' ? '0' : before + '0'.repeat(Math.min(Math.max(point - all.length, 0), 30))
  if (!/[^0]/.test(after)) return digits
  if (rounding === null) return null
  return isRoundedUp(digits, after, rounding) && digits.length <= 20 ? (BigInt(digits) + 1n).toString() : digits
}

/** Whether the number is rounded away from zero. @param after digits after the point, at least one of them not 0 */
const isRoundedUp = (digits: string, after: string, rounding: RoundingMode): boolean => {
  if (rounding === 'down') return false
  const isHalf = /^50*$/.test(after)
  return isHalf && rounding === 'half_even' ? /[13579]$/.test(digits) : after >= '5'
}

/** The number as written; PostgreSQL keeps its scale. NaN and Infinity are refused. */
export const castNumeric = (cell: string): string => {
  if (cell.length < maxWholeDigits && /^-?\d+(?:\.\d+)?$/.test(cell)) return cell
  const text = cell.trim()
  const number = read(text)
  if (number === null) return rejectCell(cell, 'a number')
  const { whole, fraction, exponent } = number
  if (whole.length + exponent > maxWholeDigits || fraction.length - exponent > maxFractionDigits)
    return rejectCell(
      cell,
      `a number of a length that can be indexed (${maxWholeDigits} digits before the point, ${maxFractionDigits} after it)`,
    )
  return text
}

/** Whether ISO text `YYYY-MM-DD` is a day of the calendar. PostgreSQL's begins with the year 1. */
export const isDay = (text: string): boolean => z.core.regexes.date.test(text) && !text.startsWith('0000')

const clock = String.raw`[T ]([01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?`
const zone = String.raw`(?:Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)`
const dateForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})(?:${clock}${zone}?)?$`)
const timeForm = new RegExp(`^(\\d{4}-\\d{2}-\\d{2})${clock}${zone}$`)

/** `YYYY-MM-DD`, also where a time of day follows. */
export const castDate = (cell: string): string => {
  const day = dateForm.exec(cell.trim())?.[1]
  return day !== undefined && isDay(day) ? day : rejectCell(cell, 'a date (YYYY-MM-DD)')
}

/** First day of the period a row is for: `YYYY-MM`, a date, or a time. @param monthly dates become the first of their month */
export const castPeriod =
  (monthly: boolean) =>
  (cell: string): string => {
    const text = cell.trim()
    const day = /^\d{4}-\d{2}$/.test(text) ? `${text}-01` : dateForm.exec(text)?.[1]
    if (day === undefined || !isDay(day)) return rejectCell(cell, 'a period (YYYY-MM or YYYY-MM-DD)')
    return monthly ? `${day.slice(0, 8)}01` : day
  }

/** A time with its zone. A time without a zone is refused: it could be any of 24 moments. */
export const castTimestamp = (cell: string): string => {
  const text = cell.trim()
  const day = timeForm.exec(text)?.[1]
  return day !== undefined && isDay(day) ? text : rejectCell(cell, 'a time with its zone (2026-01-31T12:00:00Z)')
}

/** Every element quoted, so that commas, braces and the word NULL stay words. */
const arrayLiteral = (items: readonly (string | null)[]): string => `{${items.map(element).join(',')}}`

const element = (item: string | null): string =>
  item === null ? 'NULL' : `"${castText(item).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** A JSON array in a string, or words between commas; an empty list where there is nothing. */
export const castTextArray = (cell: string): string => {
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
    if (typeof item === 'object') throw new CellError('the list contains a list or an object, expected plain values')
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

export const castBoolean: Cast = (cell) => {
  const word = cell.trim().toLowerCase()
  return yes.has(word) ? 't' : no.has(word) ? 'f' : rejectCell(cell, 'true or false')
}
