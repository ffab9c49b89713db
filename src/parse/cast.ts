// The cast of one column of one answer: how its source spells the cell, the column's type, and whether the value was asked for at all.
import { type Cast, castInteger, castPeriod, CellError } from '../core/cast-cell.ts'
import { columnTypes } from '../core/column-types.ts'
import type { AnswerForm } from '../core/source-spec.ts'
import type { Box, Column, Definition, Window } from '../core/types.ts'

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
  if (column.normalize !== 'period_start') return columnTypes[type].cast
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
