// What the fast lanes of CSV and JSON share: what they know of a column, cells cast before, and writers of plain cells.
import { columnTypes } from '../core/column-types.ts'
import { isSame } from '../core/bytes.ts'
import { CellError, isNullWord } from './cast-text.ts'
import { escapeCell } from './copy-text.ts'
import type { Header } from './csv-header.ts'
import type { ParsePlan, PlannedColumn } from './parse-plan.ts'

/** How a cell is taken: not at all, as text, as digits, as digits with a point, or by its cast. */
export const kinds = { skip: 0, text: 1, whole: 2, decimal: 3, cast: 4 } as const

/** Longest cell the lane takes, in bytes. */
export const longestCell = 1_000
/** Longest key it takes, escaped; the full lane measures exactly. */
export const longestKey = 1_800
/** Bytes one cell may become with its delimiter, every byte escaped. */
export const roomForCell = 2 * longestCell + 16

/** How the cells of a column are taken. */
export interface FastColumn {
  readonly kind: number
  /** Place of the column in the COPY; -1 where the definition has none. */
  readonly place: number
  readonly isKey: boolean
  /** COPY text of an empty cell; null where only the full lane can tell. */
  readonly empty: Buffer | null
  /** Digits a whole number may have and be in range. */
  readonly digits: number
  /** COPY bytes of a cell, null where the full lane must look. */
  readonly cast: (bytes: Buffer, start: number, end: number) => Buffer | null
}

/** Returned instead of where a cell's bytes end: only the casts can tell, and nothing that was written counts. */
export const notSure = -1

/** NULL in COPY's text format. */
export const nullBytes = Buffer.from('\\N')
const noBytes = Buffer.alloc(0)

/** The file's columns in its order. */
export const fastColumns = (plan: ParsePlan, header: Header): FastColumn[] =>
  Array.from({ length: header.width }, (_, at) => fastColumn(plan, header.places.indexOf(at)))

/** The column at a place of the COPY; one to be skipped where the definition has none. */
export const fastColumn = (plan: ParsePlan, place: number): FastColumn => {
  const planned = plan.columns[place]
  if (planned === undefined) return { kind: kinds.skip, place, isKey: false, empty: noBytes, digits: 0, cast: () => noBytes }
  return {
    kind: kindOf(planned),
    place,
    isKey: plan.keyPlaces.includes(place),
    empty: emptyCell(planned),
    digits: columnTypes[planned.column.type].wholeDigits ?? 18,
    cast: memoized(planned),
  }
}

const emptyCell = ({ column, isPlain }: PlannedColumn): Buffer | null => {
  if (column.nullable) return column.isKey ? null : nullBytes
  return isPlain && column.type === 'text' ? noBytes : null
}

const kindOf = ({ column, isPlain }: PlannedColumn): number => kinds[isPlain ? columnTypes[column.type].copiedAs : 'cast']

/** Places for cells seen before; a cell may take the place its hash names or the one beside it. */
const memoBits = 12
const memoSize = 1 << memoBits

interface Known {
  readonly cell: Buffer
  readonly value: Buffer
}

/** Dates, countries and domains repeat: what they become is remembered by their bytes. */
const memoized = (planned: PlannedColumn): FastColumn['cast'] => {
  let known: (Known | null)[] | null = null
  let last: Known | null = null
  return (bytes, start, end) => {
    // A date or a country stands in row after row.
    if (last !== null && isSame(bytes, start, end, last.cell)) return last.value
    // Most columns are never asked: their cells are copied as they stand.
    known ??= new Array<Known | null>(memoSize).fill(null)
    let hash = 0
    for (let at = start; at < end; at += 1) hash = (hash * 31 + (bytes[at] ?? 0)) | 0
    const index = Math.imul(hash, 0x9e3779b1) >>> (32 - memoBits)
    const found = known[index] ?? null
    if (found !== null && isSame(bytes, start, end, found.cell)) {
      last = found
      return found.value
    }
    const beside = known[index ^ 1] ?? null
    if (beside !== null && isSame(bytes, start, end, beside.cell)) {
      last = beside
      return beside.value
    }
    const value = copyBytes(planned, bytes.toString('utf8', start, end))
    if (value === null) return null
    last = { cell: Buffer.from(bytes.subarray(start, end)), value }
    known[beside === null ? index ^ 1 : index] = last
    return value
  }
}

const copyBytes = ({ column, cast }: PlannedColumn, cell: string): Buffer | null => {
  if (column.type !== 'text' && isNullWord(cell)) return column.nullable && !column.isKey ? nullBytes : null
  try {
    const value = Buffer.from(escapeCell(cast(cell)))
    return value.length <= longestCell ? value : null
  } catch (error) {
    if (error instanceof CellError) return null
    throw error
  }
}

/** Copies a value; `notSure` for null. */
export const writeBytes = (value: Buffer | null, out: Buffer, from: number): number => {
  if (value === null) return notSure
  let to = from
  for (let index = 0; index < value.length; index += 1) out[to++] = value[index] ?? 0
  return to
}

const minus = 45
const dot = 46
const zero = 48
const nine = 57
/** Digits of a number that is taken as it is written; PostgreSQL holds far more. */
const longestNumber = 200

/**
 * Copies plain digits, with a point where the column allows one, up to the first byte that is neither; `notSure` for every other spelling. Each byte
 * is written as it is read: as many are taken from `bytes` as are written, and whoever asks checks that the cell ends there.
 */
export const writeNumber = ({ kind, digits }: FastColumn, bytes: Buffer, start: number, out: Buffer, from: number): number => {
  const most = start + longestNumber
  let at = start
  let to = from
  let byte = bytes[at] ?? 0
  if (byte === minus) {
    out[to++] = byte
    byte = bytes[++at] ?? 0
  }
  const wholeAt = at
  while (byte >= zero && byte <= nine && at < most) {
    out[to++] = byte
    byte = bytes[++at] ?? 0
  }
  const whole = at - wholeAt
  if (whole === 0) return notSure
  if (kind === kinds.whole) return isPlainWhole(bytes[wholeAt], whole, digits, wholeAt > start) ? to : notSure
  if (byte !== dot) return to
  do {
    out[to++] = byte
    byte = bytes[++at] ?? 0
  } while (byte >= zero && byte <= nine && at < most)
  return to
}

/** In range for certain, and without the zeros in front (or the minus of zero) that PostgreSQL would not write. */
const isPlainWhole = (first: number | undefined, digits: number, most: number, isNegative: boolean): boolean =>
  digits <= most && !(first === zero && (digits > 1 || isNegative))
