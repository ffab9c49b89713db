// Two nightly runs of one pipeline at once over many refreshes: both end, in little more than the time of one, and ask for nothing twice.
import { randomFrom } from '../storm/fault-mix.ts'
import { complaint, type Ended, run, start, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { restless, snapshot } from './ledger-state.ts'
import { differences } from './pairs.ts'
import { type Rows, wantedTruth } from './truth.ts'
import { age, currentRows } from './warehouse.ts'
import { createWorld, names, type World } from './world.ts'

export interface TwinsOptions {
  readonly refreshes: number
  readonly times: number
  readonly seed: number
}

export interface TwinsFigures {
  readonly alone: number
  /** Seconds of the slower one, of each try. */
  readonly together: readonly number[]
  readonly wrong: readonly string[]
}

/** At least so much longer may two take than 2.5 times one, whose start-up is most of a small sample. */
const slackSeconds = 2

export const tryTwins = async (databases: Databases, { refreshes, times, seed }: TwinsOptions): Promise<TwinsFigures> => {
  const random = randomFrom(seed)
  const world = await createWorld({
    database: await databases.create(),
    months: 2,
    lists: { domains: names('site', Math.ceil(refreshes / 4)), countries: ['us', 'gb'] },
    sandbox: { keywordsPerDomain: 8 },
  })
  const wrong: string[] = []
  const together: number[] = []
  try {
    const range = ['--from', world.months[0] ?? '', '--to', world.months[1] ?? '', '--json']
    const loaded = await run(world, ['backfill', 'keywords', ...range], { bound: 300 })
    if (loaded.code !== 0) return { alone: 0, together, wrong: [`the backfill ended with ${loaded.code}\n${complaint(loaded)}`] }
    await night(world)
    const alone = await run(world, ['run', 'keywords', '--json'], { bound: 300, caller: 'alone' })
    judge(world, [alone], refreshes, Number.POSITIVE_INFINITY, wrong)
    const asked = requestsOf(world, ['alone'])
    for (let round = 0; round < times && wrong.length === 0; round += 1) {
      await night(world)
      const gapMs = 200 + random() * 2_800
      const bound = 60 + alone.seconds * 5
      const first = start(world, ['run', 'keywords', '--json'], { caller: `first${round}`, bound })
      await wait(gapMs)
      const second = start(world, ['run', 'keywords', '--json'], { caller: `second${round}`, bound })
      const ends = await Promise.all([first.ended, second.ended])
      if (ends.some(({ hung }) => hung)) wrong.push(await snapshot(world.database.pool))
      judge(world, ends, refreshes, alone.seconds, wrong)
      const both = requestsOf(world, [`first${round}`, `second${round}`])
      if (both > asked * 1.1 + 20) wrong.push(`two asked ${both} pages, one asks ${asked}`)
      wrong.push(...differences(keywordsOf(wantedTruth(world)), await currentRows(world.database.pool)))
      wrong.push(...(await restless(world.database.pool)))
      together.push(Math.max(...ends.map(({ seconds }) => seconds)))
    }
    return { alone: alone.seconds, together, wrong }
  } finally {
    await world.remove()
  }
}

/** A month goes by, and the service corrects both months of the look-back. */
const night = async (world: World): Promise<void> => {
  await age(world.database.pool, 30)
  for (const month of world.months) world.sandbox.restate(month)
}

const keywordsOf = (rows: Rows): Rows => new Map([...rows].filter(([unit]) => unit.startsWith('keywords ')))

const requestsOf = ({ sandbox }: World, callers: readonly string[]): number =>
  sandbox.books().requests.filter(({ caller, endpoint }) => endpoint === 'keywords' && callers.includes(caller ?? '')).length

const judge = (world: World, ends: readonly Ended[], refreshes: number, alone: number, wrong: string[]): void => {
  for (const { name, code, hung, seconds, stderr } of ends) {
    if (hung) wrong.push(`${name} did not end within ${seconds} s`)
    else if (code !== 0) wrong.push(`${name} ended with ${code}\n${complaint({ stderr })}`)
    if (seconds > 2.5 * alone + slackSeconds) wrong.push(`${name} took ${seconds.toFixed(1)} s, alone ${alone.toFixed(1)} s`)
  }
  const loaded = ends.reduce((sum, { summary }) => sum + (summary?.units.loaded ?? 0), 0)
  const most = ends.length * refreshes
  const wanted = world.lists.domains.length * world.lists.countries.length * world.months.length
  if (loaded < wanted || loaded > most + ends.length * 4)
    wrong.push(`${loaded} units are said to be loaded, ${wanted} were to be refreshed`)
}
