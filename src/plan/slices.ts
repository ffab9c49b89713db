// For-each lists and the units there are -> which units answer for which values. Buckets are stable: what a unit covers stays in it.
import { EtlError } from '../core/errors.ts'
import type { Dimension, Slice } from '../core/types.ts'
import { type Box, cells, type Piece, piecesOf } from './coverage.ts'

/** A unit of one window as far as slices matter. */
export interface Covering {
  readonly slice: Slice
  /** When its rows were last proved current; null: it never was loaded. */
  readonly loadedAtMs: number | null
  readonly key: string
}

/** What becomes of one existing unit. */
export interface Share<Unit> {
  readonly unit: Unit
  /** It covers exactly what is wanted of it and is cut as the definition cuts. */
  readonly whole: boolean
  /** What is still wanted of it, cut as the definition cuts; used in its place when it is not whole and is asked for anew. */
  readonly remains: readonly Slice[]
}

export interface Slices<Unit> {
  readonly fresh: readonly Slice[]
  readonly shares: readonly Share<Unit>[]
  /** Units none of whose values are wanted any more, or that newer units replaced. */
  readonly retired: readonly Unit[]
}

/** Values by dimension; a dimension that is not named is not narrowed. */
export type Only = ReadonlyMap<string, readonly string[]>

/** `existing` are the units of one window. `only` narrows what is looked at, not what is wanted: nothing retires by it. */
export const slicesOf = <Unit extends Covering>(
  dimensions: readonly Dimension[],
  existing: readonly Unit[],
  only: Only = new Map(),
): Slices<Unit> => {
  const order = inPackingOrder(dimensions)
  const wanted = order.map(({ values }) => values)
  const ranked = rank(existing, order)
  const boxes = ranked.map((unit) => boxOf(unit.slice, order))
  const pieces = piecesOf(wanted, boxes)
  const narrowed = narrow(pieces, order, only)
  const owners = new Set(pieces.map(({ owner }) => owner))
  const byOwner = Map.groupBy(narrowed, ({ owner }) => owner)
  const shares = ranked.flatMap((unit, index): readonly Share<Unit>[] => {
    const owned = byOwner.get(index)
    const box = boxes[index]
    if (owned === undefined || box === undefined) return []
    const whole = sum(owned) === cells(box) && isCutAsDefined(unit.slice, dimensions)
    return [{ unit, whole, remains: owned.flatMap((piece) => slicesIn(piece.box, order)) }]
  })
  const fresh = (byOwner.get(null) ?? []).flatMap((piece) => slicesIn(piece.box, order))
  return { fresh, shares, retired: ranked.filter((_, index) => !owners.has(index)) }
}

const sum = (pieces: readonly Piece[]): number => pieces.reduce((total, piece) => total + cells(piece.box), 0)

// Dimensions without buckets come first: within one of their values all that is new can be packed together.
const inPackingOrder = (dimensions: readonly Dimension[]): readonly Dimension[] => [
  ...dimensions.filter(({ bucket }) => bucket === null),
  ...dimensions.filter(({ bucket }) => bucket !== null),
]

/**
 * Who owns a combination that several units hold: first units all of whose values are wanted, then those still open (a unit is
 * made over a loaded one only to replace it), then the one loaded last.
 */
const rank = <Unit extends Covering>(existing: readonly Unit[], dimensions: readonly Dimension[]): readonly Unit[] => {
  const lists = dimensions.map(({ values }) => new Set(values))
  const unwanted = new Map(
    existing.map((unit) => [
      unit,
      boxOf(unit.slice, dimensions).some((values, level) => values.some((value) => !lists[level]?.has(value))),
    ]),
  )
  const loadedAt = (unit: Unit): number => unit.loadedAtMs ?? Number.MAX_SAFE_INTEGER
  return [...existing].sort(
    (left, right) =>
      Number(unwanted.get(left)) - Number(unwanted.get(right)) ||
      loadedAt(right) - loadedAt(left) ||
      (left.key < right.key ? -1 : left.key > right.key ? 1 : 0),
  )
}

const boxOf = (slice: Slice, dimensions: readonly Dimension[]): Box => {
  const names = Object.keys(slice)
  if (names.length !== dimensions.length) throw otherDimensions(names, dimensions)
  return dimensions.map(({ name }) => {
    const value = slice[name]
    if (value === undefined) throw otherDimensions(names, dimensions)
    return typeof value === 'string' ? [value] : value
  })
}

const otherDimensions = (found: readonly string[], dimensions: readonly Dimension[]): EtlError =>
  new EtlError(
    'DEFINITION',
    `for_each names [${dimensions.map(({ name }) => name).join(', ')}], but units already loaded were made for [${found.join(', ')}]. ` +
      'Rows of both would mix in one table: raise version in the definition and write its migration.',
  )

const isCutAsDefined = (slice: Slice, dimensions: readonly Dimension[]): boolean =>
  dimensions.every(({ name, bucket }) => {
    const value = slice[name]
    return bucket === null ? typeof value === 'string' : Array.isArray(value) && value.length <= bucket
  })

const narrow = (pieces: readonly Piece[], dimensions: readonly Dimension[], only: Only): readonly Piece[] => {
  if (only.size === 0) return pieces
  const lists = dimensions.map(({ name }) => (only.has(name) ? new Set(only.get(name)) : null))
  return pieces
    .map(({ box, owner }) => ({
      owner,
      box: box.map((values, level) => values.filter((value) => lists[level]?.has(value) ?? true)),
    }))
    .filter(({ box }) => cells(box) > 0)
}

/** The box cut into slices: one value where there is no bucket, else at most `bucket` values, in sorted order. */
const slicesIn = (box: Box, dimensions: readonly Dimension[]): readonly Slice[] =>
  dimensions.reduce<readonly Slice[]>(
    (slices, { name, bucket }, level) => {
      const parts = chunks(box[level] ?? [], bucket)
      return slices.flatMap((slice) => parts.map((part) => ({ ...slice, [name]: part })))
    },
    [{}],
  )

const chunks = (values: readonly string[], bucket: number | null): readonly (string | readonly string[])[] => {
  if (bucket === null) return values
  const parts: string[][] = []
  for (let start = 0; start < values.length; start += bucket) parts.push(values.slice(start, start + bucket))
  return parts
}
