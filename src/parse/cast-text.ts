// Text cells: what PostgreSQL can store, and what is said of a cell that does not fit.

import { maxCellCharacters } from './parse-limits.ts'
import { excerpt } from './raw-text.ts'

/** Of a row that nothing is wrong with but its period, which is not wanted. */
export interface Stray {
  readonly period: string
  /** It was asked for, since the service cannot be asked for less. */
  readonly isExpected: boolean
}

/** Thrown by casts; the message says what was found and what was expected. */
export class CellError extends Error {
  override readonly name = 'CellError'
  /** See `RowError`. */
  readonly stray: Stray | null

  constructor(message: string, stray: Stray | null = null) {
    super(message)
    this.stray = stray
  }
}

/** A CellError: the record is rejected, the others go on. */
export const refuse = (cell: string, expected: string): never => {
  throw new CellError(`'${excerpt(cell, 60)}' is not ${expected}`)
}

/** The text as it is. Throws CellError for NUL, half a surrogate pair, or too much of it. */
export const castText = (cell: string): string => {
  if (cell.length > maxCellCharacters)
    throw new CellError(`the cell has ${cell.length} characters, at most ${maxCellCharacters} are allowed`)
  if (cell.includes('\u0000')) throw new CellError('the text has a NUL character (\\x00), which PostgreSQL cannot store')
  if (!cell.isWellFormed()) throw new CellError('the text has half of a surrogate pair, which is no character')
  return cell
}

const digitZero = 48
const digitNine = 57
/** A word for no data may have blanks around it, but not more than this. */
const longestPadded = 40
const nullWords = new Set(['', 'null', 'n/a', 'na', '-', 'none'])

/** Whether a cell of a column that is not text stands for no data. In a text column these are words. */
export const isNullWord = (cell: string): boolean => {
  const first = cell.charCodeAt(0)
  if (first >= digitZero && first <= digitNine) return false
  return cell.length < longestPadded && nullWords.has(cell.trim().toLowerCase())
}
