// Packs cells to ask for into boxes, each for one report. Pure. A place is the index of a window in the calendar: consecutive windows have consecutive places.

/** One slice, and one value of each dimension. */
export interface NeededSlice {
  readonly sliceId: number
  readonly values: readonly string[]
}

/** The most values of each dimension, windows in a row, and combinations of both. */
export interface PackLimits {
  readonly values: readonly number[]
  readonly windows: number
  readonly cells: number
}

/** Consecutive windows, by the place of the first. */
export type Run = Readonly<Record<'first' | 'count', number>>

/** Every combination of some values, over consecutive windows. */
export interface PackedBox extends Run {
  readonly sliceIds: readonly number[]
}

/** Packs slices that need the same consecutive windows: every cell is in exactly one box, and no box has other cells. */
export const pack = (run: Run, slices: readonly NeededSlice[], limits: PackLimits): PackedBox[] => {
  const tree = treeOf(slices)
  return productsOf(tree).flatMap((product) => {
    const counts = product.map((values) => values.length)
    const fitting = fittingLimits(limits, counts, run.count)
    const parts = cut(product, fitting.values).map((lists) => idsOf(tree, lists))
    return piecesOf(run, fitting.windows).flatMap((piece) => parts.map((sliceIds) => ({ sliceIds, ...piece })))
  })
}

/** Slices by their values, one level a dimension: tens of thousands need no text key each. */
type Tree = number | Map<string, Tree>

const treeOf = (slices: readonly NeededSlice[]): Tree => {
  const root = new Map<string, Tree>()
  for (const { sliceId, values } of slices) {
    if (values.length === 0) return sliceId
    let level = root
    for (const value of values.slice(0, -1)) {
      const known = level.get(value)
      const next = known instanceof Map ? known : new Map<string, Tree>()
      if (known !== next) level.set(value, next)
      level = next
    }
    level.set(values.at(-1) ?? '', sliceId)
  }
  return root
}

/** Slice ids of every combination; the last dimension changes first. */
const idsOf = (tree: Tree | undefined, [list, ...rest]: readonly (readonly string[])[]): number[] =>
  list === undefined || !(tree instanceof Map)
    ? [typeof tree === 'number' ? tree : Number.NaN]
    : list.flatMap((value) => idsOf(tree.get(value), rest))

/** The limits for so many values and windows: where a full box would have too many cells, it gets fewer windows first, then fewer values of the longest list. */
export const fittingLimits = (limits: PackLimits, counts: readonly number[], windows: number): PackLimits => {
  const values = limits.values.map((most, level) => Math.max(1, Math.min(most, counts[level] ?? 1)))
  const product = (): number => values.reduce((total, count) => total * count, 1)
  while (product() > limits.cells) {
    const longest = values.indexOf(Math.max(...values))
    const others = product() / (values[longest] ?? 1)
    values[longest] = Math.max(1, Math.floor(limits.cells / others))
    if (others >= limits.cells) values[longest] = 1
  }
  const most = Math.max(1, Math.floor(limits.cells / product()))
  return { values, windows: Math.max(1, Math.min(limits.windows, windows, most)), cells: limits.cells }
}

/** Cut from the newest window on, so that only the oldest piece may be short. Newest first. */
export const piecesOf = ({ first, count }: Run, most: number): Run[] => {
  const pieces: Run[] = []
  for (let end = first + count; end > first; end -= most) {
    const start = Math.max(first, end - most)
    pieces.push({ first: start, count: end - start })
  }
  return pieces
}

/** The slices as products of value lists: values of the first dimension that go with the same rest make one. */
const productsOf = (tree: Tree): string[][][] => {
  if (typeof tree === 'number') return [[]]
  const alike = new Map<string, { firsts: string[]; rest: Tree }>()
  for (const [first, rest] of inOrder(tree)) {
    const signature = signatureOf(rest)
    const group = alike.get(signature)
    if (group === undefined) alike.set(signature, { firsts: [first], rest })
    else group.firsts.push(first)
  }
  return [...alike.values()].flatMap(({ firsts, rest }) => productsOf(rest).map((lists) => [firsts, ...lists]))
}

const inOrder = (level: ReadonlyMap<string, Tree>): [string, Tree][] =>
  [...level].sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))

/** Equal for equal values, whatever their slices. */
const signatureOf = (tree: Tree): string =>
  typeof tree === 'number' ? '' : `[${inOrder(tree).map(([value, rest]) => `${JSON.stringify(value)}${signatureOf(rest)}`)}]`

const cut = (lists: readonly (readonly string[])[], most: readonly number[]): string[][][] =>
  lists.reduce<string[][][]>(
    (boxes, list, level) => {
      const parts = chunks([...list].sort(), most[level] ?? 1)
      return boxes.flatMap((box) => parts.map((part) => [...box, part]))
    },
    [[]],
  )

const chunks = (list: readonly string[], most: number): string[][] =>
  Array.from({ length: Math.ceil(list.length / most) }, (_, index) => list.slice(index * most, (index + 1) * most))

/** Most units of one transaction of planning. */
export const mostUnitsAStep = 50_000

/** Slices that need the same consecutive windows and may be asked for together. */
export interface NeedGroup<Group> {
  readonly run: Run
  readonly group: Group
  readonly sliceIds: number[]
}

interface NeedState<Group> {
  readonly before: number
  readonly place: number
  readonly group: Group
  readonly name: string
}

/**
 * Collects which slices need which windows, window by window from the oldest, and groups slices by the runs of windows that they need. Slices with the
 * same history share one entry, so that memory grows by one small number a slice.
 */
export const collectNeeds = <Group>() => {
  const states: NeedState<Group>[] = []
  const next = new Map<string, number>()
  const stateOf = new Map<number, number>()
  return {
    /** @param group cells of different groups are not asked for together */
    add(place: number, group: Group, sliceIds: readonly number[]): void {
      const name = JSON.stringify(group)
      for (const sliceId of sliceIds) {
        const before = stateOf.get(sliceId) ?? -1
        const key = `${before} ${place} ${name}`
        const known = next.get(key)
        const state = known ?? states.push({ before, place, group, name }) - 1
        if (known === undefined) next.set(key, state)
        stateOf.set(sliceId, state)
      }
    },
    groups(): NeedGroup<Group>[] {
      const groups = new Map<string, NeedGroup<Group>>()
      const known = new Map<number, readonly NeedGroup<Group>[]>()
      const groupsOf = (state: number) =>
        runsOf(states, state).map(({ first, count, group, name }) => {
          const key = `${first}+${count} ${name}`
          const found: NeedGroup<Group> = groups.get(key) ?? { run: { first, count }, group, sliceIds: [] }
          groups.set(key, found)
          return found
        })
      for (const [sliceId, state] of stateOf) {
        const these = known.get(state) ?? groupsOf(state)
        known.set(state, these)
        for (const { sliceIds } of these) sliceIds.push(sliceId)
      }
      return [...groups.values()]
    },
  }
}

/** The windows of a history in runs without gaps, the newest first. */
const runsOf = <Group>(states: readonly NeedState<Group>[], state: number) => {
  const runs: (Pick<NeedState<Group>, 'group' | 'name'> & { first: number; count: number })[] = []
  for (let at = states[state]; at !== undefined; at = states[at.before]) {
    const { place, group, name } = at
    const last = runs.at(-1)
    if (last !== undefined && last.name === name && last.first === place + 1) {
      last.first = place
      last.count += 1
    } else runs.push({ first: place, count: 1, group, name })
  }
  return runs
}

/** What is planned together: some slices over some windows. */
export interface Task {
  readonly run: Run
  readonly sliceIds: readonly number[]
}

/** A group's blocks over its windows as tasks, each small enough for a step: as many whole blocks as fit. Newest windows first. */
export const tasksOf = (run: Run, blocks: readonly (readonly number[])[], limits: PackLimits): Task[] =>
  piecesOf(run, limits.windows).flatMap((piece) =>
    inBins(blocks, (block) => block.length * piece.count).map((bin) => ({ run: piece, sliceIds: bin.flat() })),
  )

/** Tasks in steps: as many together as fit. */
export const stepsOf = (tasks: readonly Task[]): Task[][] => inBins(tasks, ({ run, sliceIds }) => run.count * sliceIds.length)

const inBins = <Item>(items: readonly Item[], cellsOf: (item: Item) => number): Item[][] => {
  const bins: Item[][] = []
  let room = 0
  for (const item of items) {
    const cells = cellsOf(item)
    if (cells > room) {
      bins.push([])
      room = mostUnitsAStep
    }
    bins.at(-1)?.push(item)
    room -= cells
  }
  return bins
}
