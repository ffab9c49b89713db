// Two of everything at once on one warehouse: each ends by itself, none fails a unit, and in the end the warehouse is what the service has.
import { randomFrom } from '../storm/fault-mix.ts'
import { type Action, type ActionName, actionNames, begin, type Ending, lookNames } from './actions.ts'
import { complaint, type Ended, run, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { homeless, restless, snapshot } from './ledger-state.ts'
import { abandoned, boughtTooOften, timesBought, uncertainCells } from './purchases.ts'
import { type Rows, wantedTruth } from './truth.ts'
import { age, currentRows, type HeldUnit, unfinishedUnits } from './warehouse.ts'
import { createWorld, names, pipelines, type World } from './world.ts'

export interface Pair {
  readonly first: ActionName
  readonly second: ActionName
  readonly gapMs: number
  readonly ending: Ending
  readonly killAfterMs: number
  readonly force: boolean
  readonly button: 'cancel' | 'release' | 'retry'
}

/** Every ordered pair of what works once, then each beside what looks; the seed decides the order, the gaps and the endings. */
export const drawPairs = (count: number, seed: number): Pair[] => {
  const random = randomFrom(seed)
  const pick = <T>(list: readonly [T, ...T[]]): T => list[Math.floor(random() * list.length)] ?? list[0]
  const shuffle = <T>(list: readonly T[]): T[] =>
    list
      .map((value) => ({ value, at: random() }))
      .sort((left, right) => left.at - right.at)
      .map(({ value }) => value)
  const works = shuffle(actionNames.flatMap((first) => actionNames.map((second) => ({ first, second }))))
  const looks = shuffle(actionNames.flatMap((first) => lookNames.map((second) => ({ first, second }))))
  const shuffled = [...works, ...looks]
  return Array.from({ length: count }, (_, index) => {
    const { first, second } = shuffled[index % shuffled.length] ?? { first: 'run', second: 'run' }
    const ending = pick<Ending>(['by itself', 'by itself', 'by itself', 'kill -9', 'closed pipe'])
    return {
      first,
      second,
      // Most of what runs here takes a few seconds: short gaps show more.
      gapMs: Math.round(random() ** 2 * 5_000),
      ending,
      killAfterMs: 300 + Math.round(random() * 3_000),
      force: random() < 0.25,
      button: pick(['cancel', 'release', 'retry']),
    }
  })
}

export const describePair = ({ first, second, gapMs, ending, killAfterMs, force, button }: Pair): string =>
  [
    `${first}, ${gapMs} ms later ${second}`,
    ending === 'by itself' ? '' : `; the first ends by ${ending}${ending === 'kill -9' ? ` after ${killAfterMs} ms` : ''}`,
    force && `${first} ${second}`.includes('backfill') ? '; backfills by force' : '',
    `${first} ${second}`.includes('page') ? `; button ${button}` : '',
  ].join('')

/** What went wrong; empty when every promise held. */
export const tryPair = async (databases: Databases, pair: Pair): Promise<string[]> => {
  const world = await createWorld({ database: await databases.create(), sandbox: { latencyMs: 25, reportDurationMs: 700 } })
  try {
    const wrong: string[] = []
    const held = await prepare(world, wrong)
    if (wrong.length > 0) return wrong
    const ended = await together(world, pair, wrong)
    judgeEnds(pair, ended, wrong)
    await settle(world, held, wrong)
    await judgeWarehouse(world, pair, held, wrong)
    return wrong
  } finally {
    await world.remove()
  }
}

const added = { domains: names('site', 6), shops: names('shop', 3) }

/** Three months loaded a month ago, one bad record held; since then the newest month was restated and domains were added. @returns what is held. */
const prepare = async (world: World, wrong: string[]): Promise<ReadonlySet<string>> => {
  const { sandbox, database, months } = world
  const range = ['--from', months[0] ?? '', '--to', months.at(-1) ?? '', '--json']
  sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit-report', row: 3, times: 1 }] })
  const loaded = await run(world, ['backfill', ...pipelines, ...range], { caller: 'prepare' })
  sandbox.configure({ faults: [] })
  if (loaded.summary === null || loaded.summary.units.failed > 0)
    wrong.push(`the world could not be prepared: exit ${loaded.code}\n${complaint(loaded)}`)
  await age(database.pool, 30)
  sandbox.restate(months.at(-1) ?? '')
  world.setLists(added)
  return new Set((await unfinishedUnits(database.pool)).map(({ unit }) => unit))
}

const together = async (world: World, pair: Pair, wrong: string[]): Promise<Ended[]> => {
  const options = { force: pair.force, button: pair.button }
  const pipe = pair.ending === 'closed pipe' ? 'closed' : 'whole'
  const first = await begin(world, pair.first, { ...options, pipe })
  if (pair.ending === 'kill -9') setTimeout(() => first.kill(), pair.killAfterMs)
  await wait(pair.gapMs)
  const second = await begin(world, pair.second, { ...options, pipe: 'whole' })
  const ends = await finishBoth(first, second)
  if (ends.some(({ hung }) => hung)) wrong.push(`at the moment of the hang: ${await snapshot(world.database.pool)}`)
  return ends
}

/** Two that last stop together, a while later. */
const finishBoth = async (first: Action, second: Action): Promise<Ended[]> => {
  const lasts = ({ name }: Action): boolean => name === 'worker' || name === 'page'
  const a = Promise.withResolvers<void>()
  const b = Promise.withResolvers<void>()
  if (lasts(first) && lasts(second)) setTimeout(() => [a, b].map(({ resolve }) => resolve()), 3_000)
  const endOf = async (action: Action, own: PromiseWithResolvers<void>, other: PromiseWithResolvers<void>): Promise<Ended> => {
    const ended = await action.finish(other.promise)
    own.resolve()
    return ended
  }
  return Promise.all([endOf(first, a, b), endOf(second, b, a)])
}

/** 0: done; 1: something is held, or the run was cancelled; 130: told to stop. */
const judgeEnds = (pair: Pair, ended: readonly Ended[], wrong: string[]): void => {
  for (const [index, { name, code, signal, hung, summary, stderr, stdout, seconds }] of ended.entries()) {
    const say = (what: string): number =>
      wrong.push(
        `${index === 0 ? 'the first' : 'the second'}, ${name}, ${what} after ${seconds.toFixed(1)} s\n${complaint({ stderr })}`,
      )
    if (hung) say('did not end')
    else if (signal === 'SIGKILL' && index === 0 && pair.ending === 'kill -9') continue
    else if (![0, 1, 130].includes(code ?? -1)) say(`ended with ${code ?? signal}`)
    if (summary !== null && summary.units.failed > 0) say(`failed ${summary.units.failed} units`)
    if (/\[INTERNAL\]|deadlock detected|\bdefect\b/.test(stderr + stdout)) say('met an error of the program')
  }
}

const calmRuns = 3

/** What is left is done by calm runs; then what a person has to allow: an uncertain purchase, and a row that is gone. */
const settle = async (world: World, held: ReadonlySet<string>, wrong: string[]): Promise<void> => {
  const { pool } = world.database
  const others = async (): Promise<HeldUnit[]> => (await unfinishedUnits(pool)).filter(({ unit }) => !held.has(unit))
  let left = await others()
  for (let round = 0; round < calmRuns && (round === 0 || left.some(({ state }) => state !== 'held')); round += 1) {
    const calm = await run(world, ['run', '--json'], { caller: 'calm' })
    if (calm.hung || ![0, 1].includes(calm.code ?? -1)) wrong.push(`the calm run ended with ${calm.code}\n${complaint(calm)}`)
    if (calm.hung) wrong.push(await snapshot(pool))
    left = await others()
  }
  for (const { unit, state, code } of left.filter((entry) => entry.state !== 'held'))
    wrong.push(`after calm runs ${unit} is ${state} (${code})`)
  if (left.length > 0) await mend(world, ['run', '--resubmit-uncertain', '--json'], wrong)
  const shrunk = (await others()).filter(({ state }) => state === 'held')
  if (shrunk.length === 0) return
  await mend(world, ['release', ...shrunk.map(({ unitId }) => String(unitId))], wrong)
  await mend(world, ['run', '--json'], wrong)
}

const mend = async (world: World, args: readonly string[], wrong: string[]): Promise<void> => {
  const ended = await run(world, args, { caller: 'mend' })
  if (![0, 1].includes(ended.code ?? -1)) wrong.push(`the mending ${ended.name} ended with ${ended.code}\n${complaint(ended)}`)
}

const judgeWarehouse = async (world: World, pair: Pair, held: ReadonlySet<string>, wrong: string[]): Promise<void> => {
  const { pool } = world.database
  const truth = [...wantedTruth(world)].filter(([unit]) => !held.has(unit))
  wrong.push(...differences(new Map(truth), await currentRows(pool)))
  for (const { unit, state, code } of await unfinishedUnits(pool))
    if (!held.has(unit)) wrong.push(`in the end ${unit} is ${state} (${code})`)
  wrong.push(...(await restless(pool)), ...(await homeless(pool)))
  const uncertain = new Set(await uncertainCells(pool))
  if (uncertain.size === 0) wrong.push(...(await abandoned(world)))
  wrong.push(...tooOften(world, pair, uncertain))
}

/** Without those of the mending run, which a person allowed. */
const tooOften = (world: World, pair: Pair, uncertain: ReadonlySet<string>): string[] => {
  const submissions = world.sandbox.books().submissions.filter(({ caller }) => caller !== 'mend')
  const newest = world.months.slice(-2)
  const reasons = (cell: string): number => {
    const [pipeline = '', month = '', domain = ''] = cell.split(' ')
    const isNew = [...added.domains.slice(4), ...added.shops.slice(2)].includes(domain)
    const refreshed = !isNew && newest.includes(month) ? 1 : 0
    const forced = pair.force ? [pair.first, pair.second].filter((name) => name === `backfill ${pipeline}`).length : 0
    return 1 + refreshed + forced + (uncertain.has(cell) ? 1 : 0)
  }
  return boughtTooOften(timesBought(submissions), reasons).slice(0, 8)
}

/** Units whose rows are others than the service has. */
export const differences = (truth: Rows, held: Rows): string[] => {
  const wrong = [...truth].flatMap(([unit, rows]) => {
    const own = held.get(unit) ?? []
    if (own.join('\n') === rows.join('\n')) return []
    const [only] = own.filter((row) => !rows.includes(row))
    const [missing] = rows.filter((row) => !own.includes(row))
    return [
      `${unit} holds ${own.length} rows of ${rows.length}; one that is not the service's: ${only ?? '-'}; one missing: ${missing ?? '-'}`,
    ]
  })
  return wrong.length > 8 ? [...wrong.slice(0, 8), `and ${wrong.length - 8} more units`] : wrong
}
