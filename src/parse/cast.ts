// One function per column from a cell's text to PostgreSQL's spelling of it, or a reason why the cell does not fit.
import type { AnswerForm } from '../core/source-spec.ts'
import type { Box, Column, Definition, Window } from '../core/types.ts'
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
