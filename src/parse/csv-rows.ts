// Records of a table become rows, or rejects with their line and text; a record that may have swallowed rows fails the part.
import { isUtf8 } from 'node:buffer'
import { EtlError } from '../core/errors.ts'
import { CellError, isNullWord } from './cast-text.ts'
import type { Header } from './csv-header.ts'
import { type CsvRecord, readRecord } from './csv-record.ts'
import { type CellOf, RowError, tryRow } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import { type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** A record, its first line, and where its text comes from. */
export interface Found {
  readonly record: CsvRecord
  readonly line: number
  /** The record's bytes. */
  readonly bytes: () => Buffer
  /** Whether its cells are text; else they are bytes, one a character. */
  readonly isText: boolean
}

/** Takes record after record. Throws BAD_RESPONSE or TRUNCATED where rows cannot be told apart. */
export const createRows = (sink: RowSink, header: Header): ((found: Found) => void) => {
  const isText = sink.plan.columns.map(({ column }) => column.type === 'text')
  const isNullable = sink.plan.columns.map(({ column }) => column.nullable)
  // Cells of these columns tell a row from any other text.
  const canTell = sink.plan.columns.some(
    ({ column, isPlain }, place) => header.places[place] !== -1 && (!isPlain || column.type !== 'text'),
  )
  let cells: readonly string[] = []
  let isBroken = false

  const cellOf: CellOf = (place) => {
    const at = header.places[place] ?? -1
    if (at < 0) return null
    const cell = cells[at]
    if (cell === undefined) throw new CellError('the record ends before this cell')
    if (isBroken && cell.includes('\ufffd')) throw new CellError('the cell has bytes that are not UTF-8')
    if (isText[place] === true) return cell === '' && isNullable[place] === true ? null : cell
    return isNullWord(cell) ? null : cell
  }

  /** Whether all lines of the record are rows in their own right: two stray quotes look just like it. */
  const isLookalike = (lines: readonly (readonly string[])[]): boolean => {
    const own = cells
    const isRow = (line: readonly string[]): boolean => {
      cells = line
      return line.length === header.width && tryRow(sink.plan, cellOf, []) === null
    }
    const isAll = lines.every(isRow)
    cells = own
    return isAll
  }

  return ({ record, line, bytes, isText: isClean }) => {
    const { breaks, isMalformed, next, end } = record
    cells = isClean ? record.cells : record.cells.map((cell) => Buffer.from(cell, 'latin1').toString('utf8'))
    isBroken = !isClean && !isUtf8(bytes())
    const place = { line, raw: () => rawText(bytes()) }
    const lines = breaks > 0 ? naiveLines(bytes().toString('utf8')) : []
    const refuseSwallowed = (): void => {
      // A rejected record that holds whole lines of the table's width may have swallowed rows: they would be missing, and end.
      if (lines.some((one) => one.length === header.width)) throw misplacedQuote(sink.part, line)
    }
    if (isMalformed || cells.length !== header.width) {
      if (next === end && !isMalformed && cells.length < header.width) throw cutRecord(sink.part, line)
      refuseSwallowed()
      // Cells that are one too many may stand in each other's places; where some lack, those that are there stand in their own.
      const canBeRead = !isMalformed && cells.length < header.width
      rejectRow(sink, isMalformed ? malformed : wrongWidth(cells.length, header.width), place, canBeRead ? cellOf : null)
      return
    }
    if (breaks > 0 && canTell && isLookalike(lines)) throw misplacedQuote(sink.part, line)
    if (takeRow(sink, cellOf, place)) refuseSwallowed()
  }
}

const malformed = new RowError(null, 'a closing quote is followed by something else than a comma or the end of the line')

const wrongWidth = (cells: number, width: number): RowError =>
  new RowError(null, `the record has ${cells} cells, the header ${width}`)

/** Cells of the record's lines, as if no quote meant anything. */
const naiveLines = (text: string): (readonly string[])[] => {
  const lines: (readonly string[])[] = []
  for (let at = 0; ; ) {
    const line = readRecord(text, at, false)
    if (line === null) return lines
    lines.push(line.cells)
    if (line.next === line.end) return lines
    at = line.next
  }
}

const misplacedQuote = (part: number, line: number): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part}, line ${line}: a quoted cell spans lines that look like rows of their own, so a quote is misplaced and rows ` +
      'cannot be distinguished. Nothing was loaded; check the landed file.',
  )

const cutRecord = (part: number, line: number): EtlError =>
  new EtlError(
    'TRUNCATED',
    `Part ${part}, line ${line}: the last record has too few cells and no line end, so the body was cut off. ` +
      'Nothing was loaded.',
  )
