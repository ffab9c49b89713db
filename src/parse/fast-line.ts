// One line of the fast lane: each byte looked at once, cells checked by their column's kind and written as they are read.
import type { CopyWriter } from './copy-text.ts'
import { type FastColumn, kinds, longestCell, longestKey } from './fast-cell.ts'

const tab = 9
const lf = 10
const cr = 13
const quote = 34
const comma = 44
const minus = 45
const dot = 46
const zero = 48
const nine = 57
const backslash = 92
const letterN = 78
const letterT = 116

/** What a byte means in a text cell: 0 itself, 1 the cell's end, 2 to be escaped, 3 not sure. */
const meaning = new Uint8Array(256)
meaning[comma] = meaning[lf] = meaning[cr] = 1
meaning[tab] = meaning[backslash] = 2
meaning[0] = 3

/** Digits of a number the lane takes; PostgreSQL holds far more. */
const longestNumber = 200

/** Where a cell's reading and writing stand. A line always ends in a line end, so reading needs no other bound. */
interface Cursor {
  at: number
  to: number
}

/** Reads the line at `at` and appends its row; returns where the next line begins, -1 (and appends nothing) when not sure. */
export type FastLine = (bytes: Buffer, at: number, writer: CopyWriter) => number

export const createFastLine = (columns: readonly FastColumn[], width: number): FastLine => {
  const places = columns.filter((column) => column.kind !== kinds.skip).map((column) => column.place)
  const isInOrder = places.length === width && places.every((place, index) => place === index)
  const lastIndex = columns.length - 1
  const starts = new Int32Array(width).fill(-1)
  const ends = new Int32Array(width)
  const cursor: Cursor = { at: 0, to: 0 }
  return (bytes, from, writer) => {
    const out = writer.bytes
    cursor.at = from
    cursor.to = writer.at
    let keyBytes = 0
    for (let index = 0; index <= lastIndex; index += 1) {
      const column = columns[index]
      if (column === undefined) return -1
      const cellAt = cursor.to
      if (!readCell(column, bytes, out, cursor)) return -1
      if ((bytes[cursor.at] === comma) === (index === lastIndex)) return -1
      cursor.at += 1
      if (column.kind === kinds.skip) continue
      if (column.isKey) keyBytes += cursor.to - cellAt
      if (!isInOrder) {
        starts[column.place] = cellAt
        ends[column.place] = cursor.to
      }
      out[cursor.to++] = tab
    }
    if (keyBytes > longestKey) return -1
    writer.at = isInOrder ? cursor.to : reordered(out, writer.at, cursor.to, starts, ends)
    out[writer.at - 1] = lf
    return bytes[cursor.at - 1] === cr && bytes[cursor.at] === lf ? cursor.at + 1 : cursor.at
  }
}

/** Reads one cell up to its comma or line end; false when not sure. */
const readCell = (column: FastColumn, bytes: Buffer, out: Buffer, cursor: Cursor): boolean => {
  const first = bytes[cursor.at]
  if (first === quote) return quotedCell(column, bytes, out, cursor)
  if (column.kind === kinds.skip) return skipCell(bytes, cursor)
  if (first === comma || first === lf || first === cr) return emptyCell(column, out, cursor)
  if (column.kind === kinds.text) return textCell(bytes, out, cursor)
  if (column.kind !== kinds.cast && numberCell(column, bytes, out, cursor, false)) return true
  const start = cursor.at
  skipCell(bytes, cursor)
  return castCell(column, bytes, start, cursor.at, out, cursor)
}

/** A cell in quotes, without quotes or line ends inside. */
const quotedCell = (column: FastColumn, bytes: Buffer, out: Buffer, cursor: Cursor): boolean => {
  const start = cursor.at + 1
  let end = start
  for (let byte = bytes[end]; byte !== quote; byte = bytes[end]) {
    if (byte === lf || byte === cr) return false
    end += 1
  }
  const after = bytes[end + 1]
  if (after !== comma && after !== lf && after !== cr) return false
  cursor.at = start
  const isSure = innerCell(column, bytes, start, end, out, cursor)
  cursor.at = end + 1
  return isSure
}

const innerCell = (column: FastColumn, bytes: Buffer, start: number, end: number, out: Buffer, cursor: Cursor): boolean => {
  if (column.kind === kinds.skip) return true
  if (start === end) return emptyCell(column, out, cursor)
  if (column.kind === kinds.text) return innerText(bytes, start, end, out, cursor)
  if (column.kind !== kinds.cast && numberCell(column, bytes, out, cursor, true)) return true
  return castCell(column, bytes, start, end, out, cursor)
}

const innerText = (bytes: Buffer, start: number, end: number, out: Buffer, cursor: Cursor): boolean => {
  if (end - start > longestCell) return false
  let { to } = cursor
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === 0) return false
    if (byte === tab || byte === backslash) {
      out[to++] = backslash
      out[to++] = byte === tab ? letterT : backslash
    } else out[to++] = byte
  }
  cursor.to = to
  return true
}

const skipCell = (bytes: Buffer, cursor: Cursor): boolean => {
  let { at } = cursor
  for (let byte = bytes[at]; byte !== comma && byte !== lf && byte !== cr; byte = bytes[at]) at += 1
  cursor.at = at
  return true
}

const emptyCell = ({ empty }: FastColumn, out: Buffer, cursor: Cursor): boolean => {
  if (empty === null) return false
  for (let index = 0; index < empty.length; index += 1) out[cursor.to++] = empty[index] ?? 0
  return true
}

const textCell = (bytes: Buffer, out: Buffer, cursor: Cursor): boolean => {
  let { at, to } = cursor
  const most = at + longestCell
  for (;;) {
    const byte = bytes[at] ?? 0
    const what = meaning[byte]
    if (what === 1) break
    if (what === 3 || at > most) return false
    if (what === 2) {
      out[to++] = backslash
      out[to++] = byte === tab ? letterT : backslash
    } else out[to++] = byte
    at += 1
  }
  cursor.at = at
  cursor.to = to
  return true
}

/** Plain digits, with a point where the column allows one; false (and nothing moved) for every other spelling. */
const numberCell = (column: FastColumn, bytes: Buffer, out: Buffer, cursor: Cursor, isQuoted: boolean): boolean => {
  let { at, to } = cursor
  const most = at + longestNumber
  let byte = bytes[at] ?? 0
  const isNegative = byte === minus
  if (isNegative) {
    out[to++] = byte
    byte = bytes[++at] ?? 0
  }
  const wholeAt = at
  while (byte >= zero && byte <= nine && at < most) {
    out[to++] = byte
    byte = bytes[++at] ?? 0
  }
  const digits = at - wholeAt
  if (digits === 0) return false
  if (column.kind === kinds.whole) {
    if (digits > column.digits || (bytes[wholeAt] === zero && (digits > 1 || isNegative))) return false
  } else if (byte === dot) {
    out[to++] = byte
    byte = bytes[++at] ?? 0
    while (byte >= zero && byte <= nine && at < most) {
      out[to++] = byte
      byte = bytes[++at] ?? 0
    }
  }
  const isEnd = isQuoted ? byte === quote : byte === comma || byte === lf || byte === cr
  if (!isEnd) return false
  cursor.at = at
  cursor.to = to
  return true
}

/** A cell that is no plain text or digits: a word for NULL, or a spelling that the column's cast knows. */
const castCell = (column: FastColumn, bytes: Buffer, start: number, end: number, out: Buffer, cursor: Cursor): boolean => {
  if (end - start > longestCell) return false
  const value = column.cast(bytes, start, end)
  if (value === null) return false
  let { to } = cursor
  for (let index = 0; index < value.length; index += 1) out[to++] = value[index] ?? 0
  cursor.to = to
  return true
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
