// The fast lane of CSV: cells of a tokenized record, checked by their column's kind, to COPY bytes. What it is not sure of it leaves to the full lane.
import { type CopyWriter, ensureRoom } from './copy-text.ts'
import type { Header } from './csv-header.ts'
import { afterBreak, type CsvCell, comma, createCell, isCellEnd, readCell } from './csv-tokens.ts'
import {
  type FastColumn,
  fastColumns,
  kinds,
  longestCell,
  longestKey,
  notSure,
  roomForCell,
  writeBytes,
  writeNumber,
} from './fast-cell.ts'
import { countRows, type RowSink } from './row-sink.ts'

/** Reads plain lines without making strings of cells. */
export interface FastLane {
  /**
   * Takes whole lines of valid UTF-8 from `[from, to)`, where a record begins, up to the first it is not sure of.
   * Returns where that begins (`to` where there is none) and how many lines were taken.
   */
  take(bytes: Buffer, from: number, to: number): { sureTo: number; lines: number }
}

const tab = 9
const lf = 10
const backslash = 92
const letterN = 78
const letterT = 116

/** Null where a file's column is wanted twice: then every cell is looked up by its column. */
export const createFastLane = (sink: RowSink, header: Header): FastLane | null => {
  const used = header.places.filter((place) => place >= 0)
  if (new Set(used).size < used.length) return null
  const columns = fastColumns(sink.plan, header)
  const row = createRow(columns, sink.plan.columns.length)
  const room = (columns.length + sink.plan.columns.length) * roomForCell
  const { writer } = sink
  const { mark } = sink.plan
  return {
    take: (bytes, from, to) => {
      let at = from
      let lines = 0
      let rows = 0
      let elsewhere = 0
      while (at < to) {
        // An empty line is no record.
        let next = afterBreak(bytes, at)
        if (next === at) {
          ensureRoom(writer, room)
          const begin = writer.at
          next = row(bytes, at, writer)
          if (next === notSure) break
          if (mark === undefined || mark.end(writer, begin)) rows += 1
          else elsewhere += 1
        }
        at = next
        lines += 1
      }
      countRows(sink, rows, elsewhere)
      return { sureTo: at, lines }
    },
  }
}

/** Appends the row of the record at `at`; returns where the next record begins, or `notSure` (and appends nothing). */
type Row = (bytes: Buffer, at: number, writer: CopyWriter) => number

const createRow = (columns: readonly FastColumn[], width: number): Row => {
  const places = columns.filter((column) => column.kind !== kinds.skip).map((column) => column.place)
  const isInOrder = places.length === width && places.every((place, index) => place === index)
  const lastIndex = columns.length - 1
  const starts = new Int32Array(width).fill(-1)
  const ends = new Int32Array(width)
  const cell = createCell()
  return (bytes, from, writer) => {
    const out = writer.bytes
    let to = writer.at
    let keyBytes = 0
    cell.behind = from - 1
    for (let index = 0; index <= lastIndex; index += 1) {
      const column = columns[index]
      if (column === undefined) return notSure
      const cellAt = to
      to = takeCell(column, bytes, cell.behind + 1, cell, out, to)
      if (to === notSure || (bytes[cell.behind] === comma) === (index === lastIndex)) return notSure
      if (column.kind === kinds.skip) continue
      if (column.isKey) keyBytes += to - cellAt
      if (!isInOrder) {
        starts[column.place] = cellAt
        ends[column.place] = to
      }
      out[to++] = tab
    }
    if (keyBytes > longestKey) return notSure
    writer.at = isInOrder ? to : reordered(out, writer.at, to, starts, ends)
    out[writer.at - 1] = lf
    return afterBreak(bytes, cell.behind)
  }
}

/** Reads the cell at `at` and writes its bytes; returns their end, or `notSure`. Of `cell` only what is behind it is to be relied on. */
const takeCell = (column: FastColumn, bytes: Buffer, at: number, cell: CsvCell, out: Buffer, to: number): number => {
  const isNumber = column.kind === kinds.whole || column.kind === kinds.decimal
  if (isNumber) {
    // Digits are copied as they are read: most cells of a report need no second look.
    const after = writeNumber(column, bytes, at, out, to)
    const behind = at + after - to
    if (after !== notSure && isCellEnd(bytes[behind])) {
      cell.behind = behind
      return after
    }
  }
  if (readCell(bytes, at, false, cell) !== 'whole' || !cell.isVerbatim) return notSure
  const { start, end } = cell
  if (column.kind === kinds.skip) return to
  if (start === end) return writeBytes(column.empty, out, to)
  if (end - start > longestCell) return notSure
  if (column.kind === kinds.text) return writeText(bytes, start, end, out, to)
  if (isNumber && start > at) {
    const after = writeNumber(column, bytes, start, out, to)
    if (after !== notSure && start + after - to === end) return after
  }
  // A word for NULL, or a spelling that the column's cast knows.
  return writeBytes(column.cast(bytes, start, end), out, to)
}

/** What a byte means in a text cell: 0 itself, 1 to be escaped, 2 not sure. */
const meaning = new Uint8Array(256)
meaning[tab] = meaning[backslash] = 1
meaning[0] = 2

const writeText = (bytes: Buffer, start: number, end: number, out: Buffer, from: number): number => {
  let to = from
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    const what = meaning[byte]
    if (what === 2) return notSure
    if (what === 1) {
      out[to++] = backslash
      out[to++] = byte === tab ? letterT : backslash
    } else out[to++] = byte
  }
  return to
}

/** Puts the cells written in the file's order into the COPY's; columns the file lacks become NULL. Returns the row's end. */
const reordered = (out: Buffer, begin: number, end: number, starts: Int32Array, ends: Int32Array): number => {
  let to = end
  for (let place = 0; place < starts.length; place += 1) {
    const start = starts[place] ?? -1
    if (start < 0) {
      out[to++] = backslash
      out[to++] = letterN
    } else {
      for (let at = start; at < (ends[place] ?? 0); at += 1) out[to++] = out[at] ?? 0
    }
    out[to++] = tab
  }
  out.copyWithin(begin, end, to)
  return begin + (to - end)
}
