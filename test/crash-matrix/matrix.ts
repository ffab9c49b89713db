// The whole matrix or a seeded sample of it: every boundary of every pipeline, first and restated load; then pairs of kills.
import { type Calm, type Outcome, runCalm, runCell } from './cell.ts'
import { loads, pipelines, type World } from './world.ts'

export interface MatrixOptions {
  readonly world: World
  readonly seed: number
  /** Boundaries tried; null: all. */
  readonly sample: number | null
  /** Pairs of kills, the second while recovering from the first. */
  readonly pairs: number
  /** Cells at once. */
  readonly lanes: number
  readonly progress: (done: number, of: number, wrong: number) => void
}

export interface Cell {
  readonly calm: Calm
  readonly first: string
  readonly second?: string | undefined
}

export interface Judged extends Cell {
  readonly outcome: Outcome
}

export interface MatrixFigures {
  readonly calm: readonly Calm[]
  readonly singles: readonly Judged[]
  readonly pairs: readonly Judged[]
  readonly seconds: number
}

/** A small deterministic source of numbers in [0, 1). */
export const numbers = (seed: number): (() => number) => {
  let state = seed % 2_147_483_647 || 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

export const runMatrix = async (options: MatrixOptions): Promise<MatrixFigures> => {
  const started = Date.now()
  const random = numbers(options.seed)
  const calm: Calm[] = []
  for (const pipeline of pipelines) for (const load of loads) calm.push(await runCalm(options.world, pipeline, load))
  const all = calm.flatMap((one) => one.boundaries.map((first): Cell => ({ calm: one, first })))
  const chosen = options.sample === null ? all : take(all, options.sample, random)
  const singles = await judgeAll(chosen, options)
  const pairs = await judgeAll(pairsOf(singles, options.pairs, random), options)
  return { calm, singles, pairs, seconds: Math.round((Date.now() - started) / 1000) }
}

/** Without repetition, in the order of the list. */
const take = <T>(list: readonly T[], count: number, random: () => number): T[] =>
  list
    .map((item, index) => ({ item, index, rank: random() }))
    .sort((left, right) => left.rank - right.rank)
    .slice(0, count)
    .sort((left, right) => left.index - right.index)
    .map(({ item }) => item)

/** Second kills are drawn from what the recovery after the first one really passed. */
const pairsOf = (singles: readonly Judged[], count: number, random: () => number): Cell[] => {
  const all = singles.flatMap(({ calm, first, outcome }) =>
    outcome.reached ? outcome.recovery.map((second): Cell => ({ calm, first, second })) : [],
  )
  return take(all, count, random)
}

const judgeAll = async (cells: readonly Cell[], { world, lanes, progress }: MatrixOptions): Promise<Judged[]> => {
  const judged = new Array<Judged | undefined>(cells.length)
  let next = 0
  let done = 0
  let wrong = 0
  const lane = async (): Promise<void> => {
    while (next < cells.length) {
      const at = next
      next += 1
      const cell = cells[at]
      if (cell === undefined) return
      const outcome = await runCell(world, cell.calm, cell.first, cell.second)
      judged[at] = { ...cell, outcome }
      done += 1
      wrong += outcome.wrong.length > 0 ? 1 : 0
      progress(done, cells.length, wrong)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return judged.filter((one) => one !== undefined)
}
