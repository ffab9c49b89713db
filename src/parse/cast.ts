// One function per column from a cell's text to PostgreSQL's spelling of it, or a reason why the cell does not fit.
import type { Box, Column, Definition, Normalize, Window } from '../core/types.ts'
import { castDate, castInteger, castNumeric, castPeriod, castTextArray, castTimestamp } from './typed-casts.ts'
import { CellError, castText, refuse } from './cast-text.ts'

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

const worldwide = new Set(['ww', 'worldwide'])

// A slice's domains never begin with www. (a definition that writes it is refused), so the answer's lose it too.
const spellings: Readonly<Record<Exclude<Normalize, 'period_start'>, Cast>> = {
  country: (cell) => {
    const code = cell.trim().toLowerCase()
    return worldwide.has(code) ? 'world' : code
  },
  domain: (cell) => {
    const domain = cell.trim().toLowerCase().replace(/\.$/, '')
    return /^www\.[^.]+\./.test(domain) ? domain.slice(4) : domain
  },
}

/** What an answer may hold: the box that wants it, and the span it was asked for, which may be wider. */
export interface AskedFor extends Box {
  readonly span: Window
}

/** The cast of one column of one answer: its spelling, its type, and whether the value was asked for at all. */
export const compileCast = (column: Column, definition: Definition, box: AskedFor): Cast => {
  const typed = typedCast(column, definition)
  const spell = column.normalize === null || column.normalize === 'period_start' ? null : spellings[column.normalize]
  const belongs = membership(column, box, typed)
  if (spell === null && belongs === null) return typed
  return (cell) => {
    const value = typed(spell === null ? cell : spell(cell))
    belongs?.(value)
    return value
  }
}

/** Whether a cell is taken as it stands, so that its bytes need no cast. */
export const isPlain = (column: Column, box: Box): boolean =>
  column.normalize === null && !isPeriod(column) && box.slice[column.name] === undefined

const typedCast = (column: Column, definition: Definition): Cast => {
  if (column.normalize !== 'period_start') return casts[column.type]
  const granularity = definition.params['granularity']
  return castPeriod(definition.window.every === 'month' && (granularity === undefined || granularity === 'monthly'))
}

const isPeriod = (column: Column): boolean => column.normalize === 'period_start' || (column.isKey && column.type === 'date')

/** Rows that were not asked for must not come in. Null where the column does not tell units apart. */
const membership = (column: Column, box: AskedFor, typed: Cast): ((value: string) => void) | null => {
  if (isPeriod(column)) return insideWindow(column, box)
  const wanted = box.slice[column.name]
  if (wanted === undefined) return null
  const values = new Set([wanted].flat().map((value) => canonical(value, column, typed)))
  return (value) => {
    if (!values.has(value)) throw new CellError(`${column.name} '${value.slice(0, 60)}' was not asked for`)
  }
}

const insideWindow = (column: Column, { window: { from, to }, span }: AskedFor): ((value: string) => void) => {
  return (value) => {
    if (value >= from && value < to) return
    const isElsewhere = value >= span.from && value < span.to
    throw new CellError(
      `${column.name} ${value} lies outside what was asked for, from ${span.from} to before ${span.to}`,
      isElsewhere,
    )
  }
}

// The slice as the answer would spell it after its cast: `007` is category 7.
const canonical = (value: string, column: Column, typed: Cast): string =>
  typed(column.normalize === null || column.normalize === 'period_start' ? value : spellings[column.normalize](value))
