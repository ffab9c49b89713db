// Marks each row with its unit: the unit's number follows its cells, and rows are counted by unit before they reach the database.
import { cellText } from './copy-text.ts'

/** The units that an answer is for. A unit's place is that of its window times the number of slices, plus that of its slice. */
export interface MarkedUnits {
  /** The slice's place by the values that tell slices apart: COPY text of the cells, joined by tabs. */
  readonly slices: ReadonlyMap<string, number>
  readonly sliceCount: number
  /** The window's place by a period as COPY writes it; -1: none of the answer's. */
  readonly windowOf: (period: string) => number
  /** Numbers by place; 0: the answer is for the unit, the job is not. */
  readonly numbers: Float64Array
  /** Whether rows of units that the job is not for are kept too, under the number 0. */
  readonly keepsOthers: boolean
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
  /** By place of the cell: 1 where a value counts, 2 where it must not be empty text either; null: values do not matter. */
  readonly counted: Uint8Array | null
  /** How many fields are counted and not read. */
  readonly others: number
}

/** Places that a record's key names; null: unknown. */
export interface KeyPlaces {
  /** Place of the unit, known where both others are. */
  readonly unit: number | null
  readonly window: number | null
  readonly slice: number | null
}
export const unknownPlaces: KeyPlaces = { unit: null, window: null, slice: null }

export type UnitMark = ReturnType<typeof createUnitMark>

/** Ends rows with the number of their unit, and counts them. @param constants COPY text of the cells that are the same in all rows, each with a tab before it */
export const createUnitMark = (units: MarkedUnits, places: MarkPlaces, constants = '') => {
  const { slices, sliceCount, windowOf, numbers, keepsOthers } = units
  const { period, counted } = places
  const sliceOf = createLookup(places.slice, (cells) => slices.get(cells.map(cellText).join('\t')) ?? -1)
  let [lastUnit, suffix] = [-1, '']
  const windowIn = period === null ? () => 0 : createLookup([period], ([cell]) => windowOf(cell ?? ''))
  const sliceOfKey = (key: readonly (string | null)[]): number =>
    slices.get(places.keySlice.map((place) => cellText(key[place])).join('\t')) ?? -1
  const mark = {
    /** Rows of no unit of the answer. */
    strays: 0,
    /** Values in counted cells. */
    filled: 0,
    /** How many of them a row may have in fields that are not among its cells. */
    mostOthers: places.others,
    /** By place of the unit, those of other jobs included. */
    rows: new Uint32Array(numbers.length),
    rejects: new Uint32Array(numbers.length),
    /** By place of the slice: 1 where rows of it came for periods that were not requested. */
    others: new Uint8Array(sliceCount),
    /** Counts a row; returns the constants and the number that follow its cells. null: the row is not kept. */
    suffixOf: (values: readonly (string | null)[]): string | null => {
      if (counted !== null) mark.filled += countValues(values, counted)
      const slice = sliceOf(values)
      const window = windowIn(values)
      if (slice < 0 || window < 0) {
        mark.strays += 1
        return null
      }
      const unit = window * sliceCount + slice
      mark.rows[unit] = (mark.rows[unit] ?? 0) + 1
      if (numbers[unit] === 0 && !keepsOthers) return null
      if (unit !== lastUnit) [lastUnit, suffix] = [unit, `${constants}\t${numbers[unit]}`]
      return suffix
    },
    /** The unit of a record, by its key. @param key null in it: a cell that cannot be read */
    placesOfKey: (key: readonly (string | null)[] | null): KeyPlaces => {
      if (numbers.length === 1) return { unit: 0, window: 0, slice: 0 }
      if (key === null) return unknownPlaces
      const date = places.keyPeriod === null ? null : (key[places.keyPeriod] ?? null)
      const slice = knownPlace(sliceOfKey(key))
      const window = places.keyPeriod === null ? 0 : knownPlace(date === null ? -1 : windowOf(date))
      return { unit: slice === null || window === null ? null : window * sliceCount + slice, window, slice }
    },
    /** A row of a period that was not requested. The array ignores the place -1 of an unknown slice. @param key as in `placesOfKey` */
    addOther: (key: readonly (string | null)[]): void => {
      mark.others[sliceOfKey(key)] = 1
    },
  }
  return mark
}

const knownPlace = (place: number): number | null => (place < 0 ? null : place)

type Cell = string | null | undefined

/** Rows with the same values usually follow each other, so that most are compared with the one before and not looked up. */
const createLookup = (
  places: readonly number[],
  find: (cells: readonly Cell[]) => number,
): ((values: readonly Cell[]) => number) => {
  let last: readonly Cell[] | null = null
  let found = -1
  return (values) => {
    if (last !== null && places.every((place, at) => values[place] === last?.[at])) return found
    last = places.map((place) => values[place])
    found = find(last)
    return found
  }
}

const countValues = (values: readonly (string | null)[], counted: Uint8Array): number => {
  let filled = 0
  for (let place = 0; place < counted.length; place += 1) {
    const how = counted[place]
    if (how !== 0 && values[place] !== null && (how === 1 || values[place] !== '')) filled += 1
  }
  return filled
}
