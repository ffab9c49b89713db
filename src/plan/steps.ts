// Needed cells of many slices and windows -> steps of planning, each small enough for one transaction. Numbers only: there may be a million slices.
import { type PackLimits, piecesOf, type Run } from './pack.ts'

/** Most units of one transaction of planning. */
export const mostUnitsAStep = 50_000

/** Slices that need the same consecutive windows for the same reason. */
export interface NeedGroup {
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
