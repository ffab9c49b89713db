// Whose each row is: its unit's number stands behind its cells, and rows are counted by unit before they reach the database.
import { type CopyWriter, ensureRoom, escapeCell } from './copy-text.ts'

/** The units that an answer is for. A unit's place is that of its window times the number of slices, plus that of its slice. */
export interface MarkedUnits {
  /** The slice's place by the values that tell slices apart: COPY text of the cells, joined by tabs, read as latin1. */
  readonly slices: ReadonlyMap<string, number>
  readonly sliceCount: number
  /** The window's place by a period as COPY writes it; -1: none of the answer's. */
  readonly windowOf: (period: string) => number
  /** Numbers by place; 0: the answer is for the unit, the job is not. */
  readonly numbers: Float64Array
}

/** Which cells of a row tell its unit. */
export interface MarkPlaces {
  /** Those that tell slices apart, in the order of the values. */
  readonly slice: readonly number[]
  /** The period; null: all rows are the first window's. */
  readonly period: number | null
  /** The same among the columns of the key, for records that are no rows. */
  readonly keySlice: readonly number[]
  readonly keyPeriod: number | null
  /** By place of the cell: 1 where a value counts, 2 where it must not be empty text either; null: nobody asks for values. */
  readonly counted: Uint8Array | null
}

/** Ends rows with what is known of their unit, and counts. */
export interface UnitMark {
  /** Rows of no unit of the answer. */
  readonly strays: number
  /** Values in counted cells. */
  readonly filled: number
  /** By place of the unit, those of other jobs included. */
  readonly rows: Uint32Array
  readonly rejects: Uint32Array
  /** Puts the constants and the number behind the row that begins at `from` and was written last. False: it is not this job's, and was taken back. */
  end(writer: CopyWriter, from: number): boolean
  /** The unit that a record's key names; null where nothing tells. @param key as in a rejected row */
  unitOf(key: readonly (string | null)[] | null): number | null
}

interface Cells {
  readonly starts: Int32Array
  readonly ends: Int32Array
}

const tab = 9
const lf = 10
const backslash = 92
const letterN = 78
/** Longer values are looked up for each row. */
const rememberedBytes = 4_096

/** @param constants COPY text of the cells that are the same in all rows, each with a tab before it */
export const createUnitMark = (units: MarkedUnits, places: MarkPlaces, constants = ''): UnitMark => {
  const { slices, sliceCount, windowOf, numbers } = units
  const { period, counted } = places
  const told = [...places.slice, ...(period === null ? [] : [period])]
  const cells = createCells(counted === null ? Math.max(-1, ...told) + 1 : counted.length)
  const sliceOf = createLookup(places.slice, (name) => slices.get(name) ?? -1)
  const windowIn = period === null ? () => 0 : createLookup([period], windowOf)
  const suffixOf = createSuffix(numbers, Buffer.from(constants))
  const mark = {
    strays: 0,
    filled: 0,
    rows: new Uint32Array(numbers.length),
    rejects: new Uint32Array(numbers.length),
    end: (writer: CopyWriter, from: number): boolean => {
      findCells(writer.bytes, from, cells)
      if (counted !== null) mark.filled += countValues(writer.bytes, cells, counted)
      const slice = sliceOf(writer.bytes, cells)
      const window = windowIn(writer.bytes, cells)
      const unit = window * sliceCount + slice
      if (slice < 0 || window < 0) mark.strays += 1
      else mark.rows[unit] = (mark.rows[unit] ?? 0) + 1
      if (slice < 0 || window < 0 || numbers[unit] === 0) {
        writer.at = from
        return false
      }
      append(writer, suffixOf(unit))
      return true
    },
    unitOf: (key: readonly (string | null)[] | null): number | null => {
      if (numbers.length === 1) return 0
      if (key === null) return null
      const name = places.keySlice.map((place) => escapeCell(key[place] ?? '')).join('\t')
      const slice = slices.get(Buffer.from(name).toString('latin1')) ?? -1
      const window = places.keyPeriod === null ? 0 : windowOf(key[places.keyPeriod] ?? '')
      return slice < 0 || window < 0 ? null : window * sliceCount + slice
    },
  }
  return mark
}

const createCells = (count: number): Cells => ({ starts: new Int32Array(count), ends: new Int32Array(count) })

/** Where the first cells of the row at `from` begin and end, as many as there is room for. */
const findCells = (bytes: Buffer, from: number, { starts, ends }: Cells): void => {
  let at = from
  for (let place = 0; place < starts.length; place += 1) {
    starts[place] = at
    while (bytes[at] !== tab && bytes[at] !== lf) at += 1
    ends[place] = at
    at += 1
  }
}

/** Rows with the same values usually follow each other, so that most are compared with the one before and not looked up. */
const createLookup = (places: readonly number[], find: (name: string) => number): ((bytes: Buffer, cells: Cells) => number) => {
  const last = Buffer.alloc(rememberedBytes)
  let lastLength = -1
  let found = -1
  const isLast = (bytes: Buffer, { starts, ends }: Cells): boolean => {
    let at = 0
    for (const place of places) {
      const end = ends[place] ?? 0
      for (let from = starts[place] ?? 0; from < end; from += 1) if (bytes[from] !== last[at++]) return false
      if (last[at++] !== tab || at > lastLength) return false
    }
    return at === lastLength
  }
  const remember = (bytes: Buffer, { starts, ends }: Cells): void => {
    let at = 0
    lastLength = -1
    for (const place of places) {
      const [start, end] = [starts[place] ?? 0, ends[place] ?? 0]
      if (at + end - start + 1 > rememberedBytes) return
      at += bytes.copy(last, at, start, end)
      last[at++] = tab
    }
    lastLength = at
  }
  return (bytes, cells) => {
    if (lastLength >= 0 && isLast(bytes, cells)) return found
    found = find(places.map((place) => bytes.toString('latin1', cells.starts[place], cells.ends[place])).join('\t'))
    remember(bytes, cells)
    return found
  }
}

const createSuffix = (numbers: Float64Array, constants: Buffer): ((unit: number) => Buffer) => {
  let last = -1
  let suffix: Buffer = constants
  return (unit) => {
    if (unit !== last) suffix = Buffer.concat([constants, Buffer.from(`\t${numbers[unit]}\n`, 'latin1')])
    last = unit
    return suffix
  }
}

/** In place of the line end. */
const append = (writer: CopyWriter, suffix: Buffer): void => {
  ensureRoom(writer, suffix.length)
  const { bytes } = writer
  let to = writer.at - 1
  for (let at = 0; at < suffix.length; at += 1) bytes[to++] = suffix[at] ?? 0
  writer.at = to
}

const countValues = (bytes: Buffer, { starts, ends }: Cells, counted: Uint8Array): number => {
  let values = 0
  for (let place = 0; place < counted.length; place += 1) {
    const how = counted[place]
    if (how === 0) continue
    const [start, end] = [starts[place] ?? 0, ends[place] ?? 0]
    const isNull = end - start === 2 && bytes[start] === backslash && bytes[start + 1] === letterN
    if (!isNull && (how === 1 || end > start)) values += 1
  }
  return values
}
