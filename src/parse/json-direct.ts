// The fast lane of JSON: cells from the record's bytes to COPY bytes. Whatever it is not sure of it leaves to the casts.
import { CellError } from './cast-text.ts'
import { ensureRoom, escapeCell } from './copy-text.ts'
import { type FastColumn, fastColumn, kinds, longestCell, longestKey, nullBytes, roomForCell } from './fast-cell.ts'
import type { PlannedColumn } from './plan.ts'
import { countRows, type RowSink } from './row-sink.ts'

/** Rank of a column whose field the record lacks. */
export const absent = 1_000_000

/** Appends the row whose values stand at `[starts, ends)`; false (and appends nothing) when not sure. The bytes are valid UTF-8. */
export type DirectRow = (bytes: Buffer, starts: Int32Array, ends: Int32Array, ranks: Int32Array) => boolean

const tab = 9
const lf = 10
const quote = 34
const comma = 44
const minus = 45
const dot = 46
const zero = 48
const nine = 57
const openBracket = 91
const backslash = 92
const closeBracket = 93
const letterN = 110
const openBrace = 123
const closeBrace = 125

const longestNumber = 200

interface Target {
  out: Buffer
  to: number
}

interface DirectColumn extends FastColumn {
  readonly isList: boolean
  /** COPY bytes where the field is absent, or null; null where only the casts can tell. */
  readonly whenAbsent: Buffer | null
  readonly whenNull: Buffer | null
}

export const createDirectRow = (sink: RowSink): DirectRow => {
  const { writer, plan } = sink
  const columns = plan.columns.map((planned, place) => directColumn(fastColumn(plan, place), planned))
  const room = columns.length * roomForCell
  const target: Target = { out: writer.bytes, to: 0 }
  return (bytes, starts, ends, ranks) => {
    ensureRoom(writer, room)
    target.out = writer.bytes
    target.to = writer.at
    let keyBytes = 0
    for (let place = 0; place < columns.length; place += 1) {
      const column = columns[place]
      if (column === undefined) return false
      const cellAt = target.to
      const isSure =
        ranks[place] === absent
          ? append(target, column.whenAbsent)
          : appendValue(target, column, bytes, starts[place] ?? 0, ends[place] ?? 0)
      if (!isSure) return false
      if (column.isKey) keyBytes += target.to - cellAt
      target.out[target.to++] = tab
    }
    if (keyBytes > longestKey) return false
    target.out[target.to - 1] = lf
    writer.at = target.to
    countRows(sink, 1)
    return true
  }
}

const directColumn = (column: FastColumn, planned: PlannedColumn): DirectColumn => {
  const whenNull = planned.column.nullable && !planned.column.isKey ? nullBytes : null
  const { ifAbsent } = planned.column
  const whenAbsent = ifAbsent === null ? whenNull : castDefault(planned, ifAbsent)
  return { ...column, whenNull, whenAbsent, isList: planned.isPlain && planned.column.type === 'text[]' }
}

const castDefault = ({ cast }: PlannedColumn, text: string): Buffer | null => {
  try {
    const bytes = Buffer.from(escapeCell(cast(text)))
    return bytes.length <= longestCell ? bytes : null
  } catch (error) {
    if (error instanceof CellError) return null
    throw error
  }
}

const append = (target: Target, value: Buffer | null): boolean => {
  if (value === null) return false
  for (let index = 0; index < value.length; index += 1) target.out[target.to++] = value[index] ?? 0
  return true
}

const appendValue = (target: Target, column: DirectColumn, bytes: Buffer, start: number, end: number): boolean => {
  if (end - start > longestCell) return false
  const first = bytes[start]
  if (first === letterN) return append(target, column.whenNull)
  if (first === quote) {
    if (column.kind === kinds.text) return appendText(target, bytes, start + 1, end - 1)
    return !hasEscape(bytes, start, end) && append(target, column.cast(bytes, start + 1, end - 1))
  }
  if (first === openBracket) return column.isList && appendList(target, bytes, start, end)
  return appendNumber(target, column, bytes, start, end)
}

/** A string's inside: no control characters, so that only a backslash would need more than copying. */
const appendText = (target: Target, bytes: Buffer, start: number, end: number): boolean => {
  const { out } = target
  let { to } = target
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === backslash) return false
    out[to++] = byte
  }
  target.to = to
  return true
}

const hasEscape = (bytes: Buffer, start: number, end: number): boolean => {
  for (let at = start; at < end; at += 1) if (bytes[at] === backslash) return true
  return false
}

/** Digits, with a point where the column allows one, as they are written. */
const appendNumber = (target: Target, column: DirectColumn, bytes: Buffer, start: number, end: number): boolean => {
  const isWhole = column.kind === kinds.whole
  if (!isWhole && column.kind !== kinds.decimal) return false
  const digitsAt = bytes[start] === minus ? start + 1 : start
  if (isWhole && end - digitsAt > column.digits) return false
  if (isWhole && bytes[digitsAt] === zero && end - start > 1) return false
  if (end - start > longestNumber) return false
  const { out } = target
  let { to } = target
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    const isDigit = byte >= zero && byte <= nine
    if (!isDigit && !(byte === minus && at === start) && !(byte === dot && !isWhole)) return false
    out[to++] = byte
  }
  target.to = to
  return true
}

/** A list of strings without escapes, as an array literal: JSON's quotes are PostgreSQL's. */
const appendList = (target: Target, bytes: Buffer, start: number, end: number): boolean => {
  const { out } = target
  let { to } = target
  let isInside = false
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === backslash) return false
    if (byte === quote) isInside = !isInside
    if (isInside || byte === quote || byte === comma) out[to++] = byte
    else if (byte === openBracket && at === start) out[to++] = openBrace
    else if (byte === closeBracket && at === end - 1) out[to++] = closeBrace
    else if (byte > 32) return false
  }
  target.to = to
  return true
}
