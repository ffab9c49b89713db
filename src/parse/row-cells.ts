// A record's cells as COPY bytes: copied unchanged where that is certain to be right, else by their column's cast, whose results are remembered.
import { cellText, type CopyWriter, ensureRoom, writeBytes } from './copy-text.ts'
import { maxCellCharacters, maxWholeDigits } from '../core/cast-cell.ts'
import { castCell, type CellOf, type ParsePlan, type PlannedColumn } from './parse-plan.ts'

export type Cells = ReturnType<typeof createCells>

/** A cell that was cast before. */
interface Known {
  readonly cell: Buffer
  readonly value: string | null
  readonly copy: Buffer
}

/**
 * The cells of the record at hand, by planned column; one serves all records of a part. @param textOf their text, null for NULL. Throws CellError
 * @param others values in the fields that are counted and not read
 */
export const createCells = ({ columns }: ParsePlan, others: () => number, textOf: CellOf) => ({
  bytes: Buffer.alloc(0) as Buffer,
  /** Where the bytes of a cell are its text, in UTF-8; -1: only `textOf` gives the text. */
  starts: new Int32Array(columns.length),
  ends: new Int32Array(columns.length),
  textOf,
  others,
  /** Cells cast before, by column: the last one, and a hash table by their bytes with one cell a slot. */
  last: [] as (Known | undefined)[],
  known: columns.map((): (Known | undefined)[] => []),
})

/** The value returned for a cell that was copied: it has one, which identifies no unit. */
export const copied = '(copied)'

const tab = 9
const minus = 45
const dot = 46
const zero = 48
const nine = 57
const backslash = 92
const space = 32

/** Appends the cell and a tab; returns its value, `copied` where it was not read. Throws RowError. */
export const writeCell = (planned: PlannedColumn, cells: Cells, place: number, writer: CopyWriter): string | null => {
  const { bytes, starts, ends } = cells
  const start = starts[place] ?? -1
  const end = ends[place] ?? -1
  if (start >= 0 && start < end && isCopied(planned, bytes, start, end)) {
    ensureRoom(writer, end - start + 1)
    const out = writer.bytes
    let to = writer.at
    for (let at = start; at < end; at += 1) out[to++] = bytes[at] ?? 0
    out[to++] = tab
    writer.at = to
    return copied
  }
  const known = start >= 0 && planned.copiedAs === null ? remembered(planned, cells, place, start, end) : null
  const value = known === null ? castCell(planned, cells.textOf, place) : known.value
  writeBytes(writer, known === null ? copyOf(value) : known.copy)
  return value
}

const copyOf = (value: string | null): Buffer => Buffer.from(`${cellText(value)}\t`)

const mostRemembered = 4_096
/** Bytes; dates, countries and domains are shorter. */
const longestRemembered = 256

/** Casts each value once: dates, countries and domains repeat in row after row. */
const remembered = (planned: PlannedColumn, cells: Cells, place: number, start: number, end: number): Known | null => {
  const { bytes, known, last, textOf } = cells
  if (end - start > longestRemembered) return null
  let found = last[place]
  if (found !== undefined && isSame(bytes, start, end, found.cell)) return found
  let hash = 0
  for (let at = start; at < end; at += 1) hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0
  const slots = known[place] ?? []
  const index = (hash ^ (hash >>> 12)) & (mostRemembered - 1)
  found = slots[index]
  if (found === undefined || !isSame(bytes, start, end, found.cell)) {
    const value = castCell(planned, textOf, place)
    found = { cell: Buffer.from(bytes.subarray(start, end)), value, copy: copyOf(value) }
    slots[index] = found
  }
  last[place] = found
  return found
}

/** Whether `[start, end)` holds exactly these bytes. */
export const isSame = (bytes: Buffer, start: number, end: number, other: Buffer): boolean => {
  if (other.length !== end - start) return false
  for (let at = 0; at < other.length; at += 1) if (bytes[start + at] !== other[at]) return false
  return true
}

/** Whether the cast would give exactly these bytes, and COPY takes them unchanged. False where that is not certain. */
const isCopied = ({ copiedAs }: PlannedColumn, bytes: Buffer, start: number, end: number): boolean => {
  if (copiedAs === null) return false
  return copiedAs === 'text' ? isPlainText(bytes, start, end) : isPlainNumber(bytes, start, end, copiedAs)
}

const isPlainText = (bytes: Buffer, start: number, end: number): boolean => {
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte < space || byte === backslash) return false
  }
  return end - start <= maxCellCharacters
}

/** Digits, with a point where the type has one; whole numbers of at most so many, without zeros in front. */
const isPlainNumber = (bytes: Buffer, start: number, end: number, most: 'numeric' | number): boolean => {
  const first = bytes[start] === minus ? start + 1 : start
  let at = first
  while (isDigit(bytes[at]) && at < end) at += 1
  if (at === first || end - start >= maxWholeDigits) return false
  if (most !== 'numeric') return at === end && end - first <= most && (bytes[first] !== zero || end - start === 1)
  if (at === end) return true
  if (bytes[at] !== dot || at + 1 === end) return false
  at += 1
  while (isDigit(bytes[at]) && at < end) at += 1
  return at === end
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= zero && byte <= nine
