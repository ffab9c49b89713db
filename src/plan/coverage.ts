// Which combinations of a definition's values an existing unit answers for, and which none does.

/** Values for each dimension, in the order of the dimensions: every combination of them. */
export type Box = readonly (readonly string[])[]

/** A box all of whose combinations have the same owner: an index into the units given, or null for none. */
export interface Piece {
  readonly box: Box
  readonly owner: number | null
}

export const cells = (box: Box): number => box.reduce((product, values) => product * values.length, 1)

/**
 * Cuts the whole of `wanted` into pieces by owner. Where units overlap, the one that stands earlier in `units` owns.
 * Unowned neighbours are joined, so that what is new can be packed together. Depends on the sets alone, not on their order.
 */
export const piecesOf = (wanted: Box, units: readonly Box[]): readonly Piece[] => {
  const sorted = wanted.map((values) => [...values].sort())
  return cut(
    sorted,
    units,
    units.map((_, index) => index),
    0,
  )
}

const cut = (wanted: Box, units: readonly Box[], candidates: readonly number[], level: number): readonly Piece[] => {
  const values = wanted[level]
  if (values === undefined) return [{ box: [], owner: candidates.length === 0 ? null : Math.min(...candidates) }]
  const pieces: Piece[] = []
  for (const group of groupsOf(values, units, candidates, level)) {
    for (const rest of cut(wanted, units, group.candidates, level + 1)) {
      pieces.push({ box: [group.values, ...rest.box], owner: rest.owner })
    }
  }
  return joined(pieces)
}

interface Group {
  readonly values: string[]
  readonly candidates: readonly number[]
}

/** Values that the same units hold behave alike from here on. */
const groupsOf = (
  values: readonly string[],
  units: readonly Box[],
  candidates: readonly number[],
  level: number,
): Iterable<Group> => {
  const holders = new Map<string, number[]>(values.map((value) => [value, []]))
  for (const index of candidates) for (const value of units[index]?.[level] ?? []) holders.get(value)?.push(index)
  const groups = new Map<string, Group>()
  for (const [value, held] of holders) {
    const signature = held.join()
    const group = groups.get(signature)
    if (group === undefined) groups.set(signature, { values: [value], candidates: held })
    else group.values.push(value)
  }
  return groups.values()
}

// Unowned pieces that differ in their first dimension alone are one piece.
const joined = (pieces: readonly Piece[]): readonly Piece[] => {
  const unowned = new Map<string, string[]>()
  const result: Piece[] = []
  for (const piece of pieces) {
    const [first = [], ...rest] = piece.box
    const key = JSON.stringify(rest)
    const known = piece.owner === null ? unowned.get(key) : undefined
    if (known !== undefined) {
      known.push(...first)
      known.sort()
      continue
    }
    const values = [...first]
    if (piece.owner === null) unowned.set(key, values)
    result.push({ box: [values, ...rest], owner: piece.owner })
  }
  return result
}
