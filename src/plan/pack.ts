// Cells that are to be asked for -> boxes, each of which one request asks for. Pure; the order of the cells does not matter.

/** One slice and the windows it needs, by their place in the calendar (consecutive windows have consecutive places). */
export interface NeededSlice {
  readonly sliceId: number
  /** One value of each dimension. */
  readonly values: readonly string[]
  readonly places: readonly number[]
}

export interface PackLimits {
  /** Most values of each dimension. */
  readonly values: readonly number[]
  /** Most consecutive windows. */
  readonly windows: number
  /** Most combinations of values and windows. */
  readonly cells: number
}

/** Every combination of some values, over consecutive windows. */
export interface PackedBox {
  readonly sliceIds: readonly number[]
  /** Place of the first window. */
  readonly first: number
  readonly count: number
}

export interface Run {
  readonly first: number
  readonly count: number
}

/** Every needed cell stands in exactly one box, and nothing else does. Slices that need the same consecutive windows go together. */
export const pack = (needed: readonly NeededSlice[], limits: PackLimits): PackedBox[] => {
  const groups = new Map<string, { run: Run; slices: NeededSlice[] }>()
  // Nearly all slices need the same places.
  for (const [, alike] of Map.groupBy(needed, ({ places }) => places.join())) {
    for (const run of runsOf(alike[0]?.places ?? [])) {
      const key = `${run.first}+${run.count}`
      const group = groups.get(key) ?? { run, slices: [] }
      groups.set(key, group)
      for (const slice of alike) group.slices.push(slice)
    }
  }
  return [...groups.values()].flatMap(({ run, slices }) => packGroup(run, slices, limits))
}

/** Places in runs without gaps, oldest first. */
export const runsOf = (places: readonly number[]): Run[] => {
  const runs: { first: number; count: number }[] = []
  for (const place of [...places].sort((left, right) => left - right)) {
    const last = runs.at(-1)
    if (last !== undefined && last.first + last.count === place) last.count += 1
    else runs.push({ first: place, count: 1 })
  }
  return runs
}

const packGroup = (run: Run, slices: readonly NeededSlice[], limits: PackLimits): PackedBox[] => {
  const tree = treeOf(slices)
  return productsOf(tree).flatMap((product) => {
    const fitting = fittingLimits(
      limits,
      product.map((values) => values.length),
      run.count,
    )
    const parts = cut(product, fitting.values).map((lists) => idsOf(tree, lists))
    return piecesOf(run, fitting.windows).flatMap((piece) => parts.map((sliceIds) => ({ sliceIds, ...piece })))
  })
}

/** Slices by their values, one level a dimension: tens of thousands are told apart without a text for each. */
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

/** Numbers of the slices of every combination, the last dimension first to change. */
const idsOf = (tree: Tree | undefined, [list, ...rest]: readonly (readonly string[])[]): number[] =>
  list === undefined || !(tree instanceof Map)
    ? [typeof tree === 'number' ? tree : Number.NaN]
    : list.flatMap((value) => idsOf(tree.get(value), rest))

/** The limits as they are used on so many values and windows: where a whole box would hold too many cells, windows give way first, then the longest list. */
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

/** The same for the same values, whatever slices they stand for. */
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

/** Slices that need the same consecutive windows for the same reason. */
interface NeedGroup {
  readonly run: Run
  readonly group: string
  readonly sliceIds: number[]
}

/**
 * Collects which slices need which windows, window after window from the oldest, and tells them apart by the runs of windows they need. Slices with the
 * same history share one entry, so that memory grows by one small number a slice.
 */
export const collectNeeds = () => {
  const states: { readonly before: number; readonly place: number; readonly group: string }[] = []
  const next = new Map<string, number>()
  const stateOf = new Map<number, number>()
  return {
    /** @param group what tells cells apart that may not be asked for together */
    add(place: number, group: string, sliceIds: readonly number[]): void {
      for (const sliceId of sliceIds) {
        const before = stateOf.get(sliceId) ?? -1
        const key = `${before} ${place} ${group}`
        const known = next.get(key)
        const state = known ?? states.push({ before, place, group }) - 1
        if (known === undefined) next.set(key, state)
        stateOf.set(sliceId, state)
      }
    },
    groups(): NeedGroup[] {
      const runs = new Map<number, readonly { run: Run; group: string; key: string }[]>()
      const groups = new Map<string, NeedGroup>()
      for (const [sliceId, state] of stateOf) {
        const known = runs.get(state) ?? runsOfState(states, state)
        runs.set(state, known)
        for (const { run, group, key } of known) {
          const found = groups.get(key)
          if (found === undefined) groups.set(key, { run, group, sliceIds: [sliceId] })
          else found.sliceIds.push(sliceId)
        }
      }
      return [...groups.values()]
    },
  }
}

const runsOfState = (
  states: readonly { readonly before: number; readonly place: number; readonly group: string }[],
  state: number,
): { run: Run; group: string; key: string }[] => {
  const runs: { first: number; count: number; group: string }[] = []
  for (let at = states[state]; at !== undefined; at = states[at.before]) {
    const last = runs.at(-1)
    if (last !== undefined && last.group === at.group && last.first === at.place + 1) {
      last.first -= 1
      last.count += 1
    } else runs.push({ first: at.place, count: 1, group: at.group })
  }
  return runs.map(({ first, count, group }) => ({ run: { first, count }, group, key: `${first}+${count} ${group}` }))
}

/** What is planned together: some slices over some windows. */
export interface Task {
  readonly run: Run
  readonly sliceIds: readonly number[]
}

/** A group's blocks over its windows, as tasks that fit into a step each: whole blocks together, as many as fit. Newest windows first. */
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
