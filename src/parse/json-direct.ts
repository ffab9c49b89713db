// The fast lane of JSON: cells from the record's bytes to COPY bytes. Whatever it is not sure of it leaves to the casts.
import { columnTypes } from '../core/column-types.ts'
import { CellError } from './cast-text.ts'
import { ensureRoom, escapeCell } from './copy-text.ts'
import {
  type FastColumn,
  fastColumn,
  kinds,
  longestCell,
  longestKey,
  notSure,
  nullBytes,
  roomForCell,
  writeBytes,
  writeNumber,
} from './fast-cell.ts'
import type { PlannedColumn } from './parse-plan.ts'
import { countRows, type RowSink } from './row-sink.ts'

/** Rank of a column whose field the record lacks. */
export const absent = 1_000_000

/** Appends the row whose values stand at `[starts, ends)`; false (and appends nothing) when not sure. The bytes are valid UTF-8. */
export type DirectRow = (bytes: Buffer, starts: Int32Array, ends: Int32Array, ranks: Int32Array) => boolean

const tab = 9
const lf = 10
const quote = 34
const comma = 44
const openBracket = 91
const backslash = 92
const closeBracket = 93
const letterN = 110
const openBrace = 123
const closeBrace = 125

interface DirectColumn extends FastColumn {
  readonly isList: boolean
  /** COPY bytes where the field is absent, or null; null where only the casts can tell. */
  readonly whenAbsent: Buffer | null
  readonly whenNull: Buffer | null
}

/** Writes a record from its bytes where nothing in it needs a cast. */
export const createDirectRow = (sink: RowSink): DirectRow => {
  const { writer, plan } = sink
  const columns = plan.columns.map((planned, place) => directColumn(fastColumn(plan, place), planned))
  const room = columns.length * roomForCell
  return (bytes, starts, ends, ranks) => {
    ensureRoom(writer, room)
    const out = writer.bytes
    let to = writer.at
    let keyBytes = 0
    for (let place = 0; place < columns.length; place += 1) {
      const column = columns[place]
      if (column === undefined) return false
      const cellAt = to
      to =
        ranks[place] === absent
          ? writeBytes(column.whenAbsent, out, to)
          : writeValue(column, bytes, starts[place] ?? 0, ends[place] ?? 0, out, to)
      if (to === notSure) return false
      if (column.isKey) keyBytes += to - cellAt
      out[to++] = tab
    }
    if (keyBytes > longestKey) return false
    out[to - 1] = lf
    const begin = writer.at
    writer.at = to
    const isOurs = plan.mark?.end(writer, begin) ?? true
    countRows(sink, isOurs ? 1 : 0, isOurs ? 0 : 1)
    return true
  }
}

const directColumn = (column: FastColumn, planned: PlannedColumn): DirectColumn => {
  const whenNull = planned.column.nullable && !planned.column.isKey ? nullBytes : null
  const { ifAbsent } = planned.column
  const whenAbsent = ifAbsent === null ? whenNull : castDefault(planned, ifAbsent)
  return { ...column, whenNull, whenAbsent, isList: planned.isPlain && columnTypes[planned.column.type].isList }
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

const writeValue = (column: DirectColumn, bytes: Buffer, start: number, end: number, out: Buffer, to: number): number => {
  if (end - start > longestCell) return notSure
  const first = bytes[start]
  if (first === letterN) return writeBytes(column.whenNull, out, to)
  if (first === quote) {
    if (column.kind === kinds.text) return writeText(bytes, start + 1, end - 1, out, to)
    return hasEscape(bytes, start, end) ? notSure : writeBytes(column.cast(bytes, start + 1, end - 1), out, to)
  }
  if (first === openBracket) return column.isList ? writeList(bytes, start, end, out, to) : notSure
  if (column.kind !== kinds.whole && column.kind !== kinds.decimal) return notSure
  const after = writeNumber(column, bytes, start, out, to)
  return start + after - to === end ? after : notSure
}

/** A string's inside: no control characters, so that only a backslash would need more than copying. */
const writeText = (bytes: Buffer, start: number, end: number, out: Buffer, from: number): number => {
  let to = from
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === backslash) return notSure
    out[to++] = byte
  }
  return to
}

const hasEscape = (bytes: Buffer, start: number, end: number): boolean => {
  for (let at = start; at < end; at += 1) if (bytes[at] === backslash) return true
  return false
}

/** A list of strings without escapes, as an array literal: JSON's quotes are PostgreSQL's. */
const writeList = (bytes: Buffer, start: number, end: number, out: Buffer, from: number): number => {
  let to = from
  let isInside = false
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte === backslash) return notSure
    if (byte === quote) isInside = !isInside
    if (isInside || byte === quote || byte === comma) out[to++] = byte
    else if (byte === openBracket && at === start) out[to++] = openBrace
    else if (byte === closeBracket && at === end - 1) out[to++] = closeBrace
    else if (byte > 32) return notSure
  }
  return to
}
