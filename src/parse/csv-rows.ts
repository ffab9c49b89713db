// Records of a table become rows, or rejects with their line and text; a record that may have swallowed rows fails the part.
import { isUtf8 } from 'node:buffer'
import { EtlError } from '../core/errors.ts'
import { CellError, isNullWord } from './cast-text.ts'
import type { Header } from './csv-header.ts'
import { cellTextOf, createRecord, type CsvRecord, readRecord } from './csv-record.ts'
import { RowError } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import { createCells } from './row-cells.ts'
import { isRow, type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** A record among whole lines, and its first line. */
export interface Found {
  readonly lines: Buffer
  readonly record: CsvRecord
  /** Where it begins. */
  start: number
  line: number
  /** Whether the lines are UTF-8. */
  readonly isText: boolean
}

/** Takes record after record. Throws BAD_RESPONSE or TRUNCATED where rows cannot be told apart. */
export const createRows = (sink: RowSink, header: Header): ((found: Found) => void) => {
  const { columns } = sink.plan
  // Cells of these columns tell a row from any other text.
  const canTell = columns.some(
    ({ column, isPlain }, place) => header.places[place] !== -1 && (!isPlain || column.type !== 'text'),
  )
  let record = createRecord()
  let isBroken = false

  const cells = createCells(sink.plan, (place) => {
    const at = header.places[place] ?? -1
    const column = columns[place]?.column
    if (at < 0 || column === undefined) return null
    if (at >= record.count) throw new CellError('the record ends before this cell')
    const isText = column.type === 'text'
    if (record.starts[at] === record.ends[at]) return isText && !column.nullable ? '' : null
    const cell = cellTextOf(cells.bytes, record, at)
    if (isBroken && cell.includes('\ufffd')) throw new CellError('the cell has bytes that are not UTF-8')
    return !isText && isNullWord(cell) ? null : cell
  })

  const pointAt = (bytes: Buffer, found: CsvRecord): void => {
    record = found
    cells.bytes = bytes
    for (let place = 0; place < columns.length; place += 1) {
      const at = header.places[place] ?? -1
      const isAsItStands = at >= 0 && at < found.count && found.doubled[at] !== true && !isBroken
      cells.starts[place] = isAsItStands ? (found.starts[at] ?? -1) : -1
      cells.ends[place] = found.ends[at] ?? -1
    }
  }

  /** Whether all lines of the record are rows in their own right: two stray quotes look just like it. */
  const isLookalike = (own: Buffer, lines: readonly CsvRecord[]): boolean =>
    lines.every((line) => {
      if (line.count !== header.width) return false
      pointAt(own, line)
      return isRow(sink, cells)
    })

  return ({ lines, record: found, start, line, isText }) => {
    const { breaks, isMalformed, next, end, count } = found
    const own = (): Buffer => lines.subarray(start, end)
    isBroken = !isText && !isUtf8(own())
    const place = { line, raw: () => rawText(own()) }
    const within = breaks > 0 ? naiveLines(own()) : []
    const refuseSwallowed = (): void => {
      // A rejected record that holds whole lines of the table's width may have swallowed rows: they would be missing, and end.
      if (within.some((one) => one.count === header.width)) throw misplacedQuote(sink.part, line)
    }
    if (breaks > 0 && canTell && !isMalformed && count === header.width && isLookalike(own(), within))
      throw misplacedQuote(sink.part, line)
    pointAt(lines, found)
    if (isMalformed || count !== header.width) {
      if (next === end && !isMalformed && count < header.width) throw cutRecord(sink.part, line)
      refuseSwallowed()
      // Cells that are one too many may stand in each other's places; where some lack, those that are there stand in their own.
      const canBeRead = !isMalformed && count < header.width
      rejectRow(sink, isMalformed ? malformed : wrongWidth(count, header.width), place, canBeRead ? cells.textOf : null)
      return
    }
    if (takeRow(sink, cells, place)) refuseSwallowed()
  }
}

const malformed = new RowError(null, 'a closing quote is followed by something else than a comma or the end of the line')

const wrongWidth = (cells: number, width: number): RowError =>
  new RowError(null, `the record has ${cells} cells, the header ${width}`)

/** The record's lines, as if no quote meant anything. */
const naiveLines = (bytes: Buffer): readonly CsvRecord[] => {
  const lines: CsvRecord[] = []
  for (let at = 0; ; ) {
    const line = createRecord()
    readRecord(bytes, at, line, false)
    lines.push(line)
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
