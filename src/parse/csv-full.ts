// The full lane: csv-parse reads the cells of framed records; every record becomes a row or a reject with its line and text.
import { isUtf8 } from 'node:buffer'
import { type Options, parse } from 'csv-parse/sync'
import { EtlError } from '../core/errors.ts'
import { CellError, isNullWord } from './cast-text.ts'
import type { Header } from './csv-header.ts'
import { afterBreak, type CsvRecord, comma, createCell, readCell } from './csv-tokens.ts'
import { type CellOf, RowError, tryRow } from './parse-plan.ts'
import { rawText } from './raw-text.ts'
import { type RecordPlace, type RowSink, rejectRow, takeRow } from './row-sink.ts'

/** A record that the tokenizer found, where it begins, and on which line. */
export interface Frame extends CsvRecord {
  readonly start: number
  readonly line: number
}

const options: Options = {
  relax_quotes: true,
  relax_column_count: true,
  skip_empty_lines: true,
  record_delimiter: ['\r\n', '\n', '\r'],
}

/** Cells of whole, well-formed records that follow each other. */
export const readCells = (bytes: Buffer, frames: readonly Frame[]): readonly (readonly string[])[] => {
  const first = frames[0]?.start ?? 0
  const records: string[][] = parse(bytes.subarray(first, frames.at(-1)?.next ?? first), options)
  if (records.length !== frames.length)
    throw new EtlError(
      'INTERNAL',
      `${frames.length} CSV records were framed and ${records.length} read. Report it with the file.`,
    )
  return records
}

/** Reads what the fast lane is not sure of, with csv-parse. */
export interface FullLane {
  /** Takes records in order. Throws BAD_RESPONSE or TRUNCATED where rows cannot be told apart. */
  take(bytes: Buffer, frames: readonly Frame[]): void
}

/** Both lanes write the same; test/unit/parse/lanes.test.ts compares them. */
export const createFullLane = (sink: RowSink, header: Header): FullLane => {
  const isText = sink.plan.columns.map(({ column }) => column.type === 'text')
  const isNullable = sink.plan.columns.map(({ column }) => column.nullable)
  // Cells of these columns tell a row from any other text.
  const canTell = sink.plan.columns.some(
    ({ column, isPlain }, place) => header.places[place] !== -1 && (!isPlain || column.type !== 'text'),
  )

  const reader =
    (cells: readonly string[], isBroken: boolean): CellOf =>
    (place) => {
      const at = header.places[place] ?? -1
      if (at < 0) return null
      const cell = cells[at]
      if (cell === undefined) throw new CellError('the record ends before this cell')
      if (isBroken && cell.includes('\ufffd')) throw new CellError('the cell has bytes that are not UTF-8')
      if (isText[place] === true) return cell === '' && isNullable[place] === true ? null : cell
      return isNullWord(cell) ? null : cell
    }

  const row = (bytes: Buffer, frame: Frame, cells: readonly string[] | null): void => {
    const { line } = frame
    const record = bytes.subarray(frame.start, frame.end)
    const place: RecordPlace = { line, raw: () => rawText(record) }
    const problem = cells === null ? malformed : widthProblem(cells.length, header.width)
    if (cells === null || problem !== null) {
      if (frame.next === frame.end && cells !== null && cells.length < header.width) throw cutRecord(sink.part, line)
      if (frame.breaks > 0) refuseSwallowed(record, line)
      // Cells that are one too many may stand in each other's places; where some lack, those that are there stand in their own.
      rejectRow(
        sink,
        problem ?? malformed,
        place,
        cells === null || cells.length > header.width ? null : reader(cells, !isUtf8(record)),
      )
      return
    }
    if (frame.breaks > 0 && canTell) refuseLookalike(record, line)
    const isRejected = takeRow(sink, reader(cells, !isUtf8(record)), place)
    if (isRejected && frame.breaks > 0) refuseSwallowed(record, line)
  }

  /** A rejected record that holds whole lines of the table's width may have swallowed rows: they would be missing, and end. */
  const refuseSwallowed = (record: Buffer, line: number): void => {
    if (naiveLines(record).some((cells) => cells.length === header.width)) throw misplacedQuote(sink.part, line)
  }

  /** A record all of whose lines are rows in their own right: two stray quotes look just like it. */
  const refuseLookalike = (record: Buffer, line: number): void => {
    const isRow = (cells: readonly string[]): boolean =>
      cells.length === header.width && tryRow(sink.plan, reader(cells, false), []) === null
    if (naiveLines(record).every(isRow)) throw misplacedQuote(sink.part, line)
  }

  return {
    take: (bytes, frames) => {
      for (let from = 0; from < frames.length; ) {
        let to = from
        while (frames[to]?.isMalformed === false) to += 1
        const run = frames.slice(from, to)
        if (run.length > 0) for (const [index, cells] of readCells(bytes, run).entries()) row(bytes, run[index] ?? lost(), cells)
        const broken = frames[to]
        if (broken !== undefined) row(bytes, broken, null)
        from = to + 1
      }
    },
  }
}

const lost = (): never => {
  throw new EtlError('INTERNAL', 'A CSV record lost its frame. Report it with the file.')
}

const malformed = new RowError(null, 'a closing quote is followed by something else than a comma or the end of the line')

const widthProblem = (cells: number, width: number): RowError | null =>
  cells === width ? null : new RowError(null, `the record has ${cells} cells, the header ${width}`)

/** Cells of the record's lines, as if no quote meant anything. */
const naiveLines = (record: Buffer): string[][] => {
  const lines: string[][] = []
  const cell = createCell()
  let line: string[] = []
  for (let at = 0; ; at = record[cell.behind] === comma ? cell.behind + 1 : afterBreak(record, cell.behind)) {
    readCell(record, at, true, cell, false)
    line.push(record.toString('utf8', cell.start, cell.end))
    if (record[cell.behind] === comma) continue
    lines.push(line)
    line = []
    if (cell.behind >= record.length) return lines
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
