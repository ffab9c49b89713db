// The whole matrix or a seeded sample of it: every boundary of every subject, first and restated load; then pairs of kills.
import { type Calm, type Outcome, runCalm, runCell } from './cell.ts'
import { loads, subjects, type World } from './world.ts'

export interface MatrixOptions {
  readonly world: World
  readonly seed: number
  /** Boundaries tried; null: all. */
  readonly sample: number | null
  /** Boundaries tried besides the sample: the name of what is loaded, a blank, the boundary. */
  readonly always?: RegExp
  /** Only boundaries whose name has it. */
  readonly at?: RegExp | null | undefined
  /** Only these subjects, by name; null: all. */
  readonly only?: readonly string[] | null
  /** Pairs of kills, the second while recovering from the first. */
  readonly pairs: number
  /** Cells at once. */
  readonly lanes: number
  /** After so many no further kill is tried; those before are a seeded sample. Default: all are tried. */
  readonly minutes?: number | null
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
  /** Single kills and pairs that were to be tried; fewer were where the time was up. */
  readonly wanted: { readonly singles: number; readonly pairs: number }
  readonly singles: readonly Judged[]
  readonly pairs: readonly Judged[]
  readonly seed: number
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
  const chosenSubjects = subjects.filter(({ name }) => options.only?.includes(name) ?? true)
  const runs = chosenSubjects.flatMap((subject) => loads.map((load) => ({ subject, load })))
  const calm = await inLanes(runs, options.lanes, ({ subject, load }) => runCalm(options.world, subject, load))
  const all = calm.flatMap((one) => one.boundaries.map((first): Cell => ({ calm: one, first })))
  const wanted = all.filter(({ first }) => options.at?.test(first) ?? true)
  const isAlways = ({ calm: { subject }, first }: Cell): boolean => options.always?.test(`${subject.name} ${first}`) ?? false
  const sampled = options.sample === null ? wanted : take(wanted, options.sample, random)
  const chosen = wanted.filter((cell) => sampled.includes(cell) || isAlways(cell))
  const isTimeUp = (): boolean => typeof options.minutes === 'number' && Date.now() > started + options.minutes * 60_000
  const singles = await judgeAll(shuffled(chosen, random), options, isTimeUp)
  const doubles = pairsOf(singles, options.pairs, random)
  const pairs = await judgeAll(doubles, options, isTimeUp)
  const counts = { singles: chosen.length, pairs: doubles.length }
  return { calm, wanted: counts, singles, pairs, seed: options.seed, seconds: Math.round((Date.now() - started) / 1000) }
}

/** In an order that depends on the seed alone. */
const shuffled = <T>(list: readonly T[], random: () => number): T[] =>
  list
    .map((item) => ({ item, rank: random() }))
    .sort((left, right) => left.rank - right.rank)
    .map(({ item }) => item)

/** Without repetition. */
const take = <T>(list: readonly T[], count: number, random: () => number): T[] => shuffled(list, random).slice(0, count)

/** Second kills are drawn from what the recovery after the first one really passed. */
const pairsOf = (singles: readonly Judged[], count: number, random: () => number): Cell[] => {
  const all = singles.flatMap(({ calm, first, outcome }) =>
    outcome.reached ? outcome.recovery.map((second): Cell => ({ calm, first, second })) : [],
  )
  return take(all, count, random)
}

/** As many of the cells as the time allows. */
const judgeAll = async (
  cells: readonly Cell[],
  { world, lanes, progress }: MatrixOptions,
  isTimeUp: () => boolean,
): Promise<Judged[]> => {
  let done = 0
  let wrong = 0
  const judged = await inLanes(cells, lanes, async (cell): Promise<Judged | null> => {
    if (isTimeUp()) return null
    const outcome = await runCell(world, cell.calm, cell.first, cell.second)
    done += 1
    wrong += outcome.wrong.length > 0 ? 1 : 0
    progress(done, cells.length, wrong)
    return { ...cell, outcome }
  })
  return judged.filter((cell) => cell !== null)
}

/** Results in the order of the items, so many at once. */
const inLanes = async <T, R>(items: readonly T[], lanes: number, work: (item: T) => Promise<R>): Promise<R[]> => {
  const results = new Map<number, R>()
  const waiting = items.entries()
  const lane = async (): Promise<void> => {
    for (const [at, item] of waiting) results.set(at, await work(item))
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return [...results].sort(([left], [right]) => left - right).map(([, result]) => result)
}
