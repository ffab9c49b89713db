// Machines and containers, as namespaces of the kernel: another host name, the same process number again, a clock that is wrong.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Ended, run, start, until, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { judged, loaded, rangeOf } from './takeover.ts'
import { createWorld, names, pipelines, type World } from './world.ts'

/** A host of another name. */
const elsewhere = ['unshare', '--uts', 'sh', '-c', 'hostname elsewhere && exec "$@"', 'sh']
/** A container of this host's name: its first process has the number 1, and sees no other. */
const contained = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']

/** Whether namespaces can be made here. */
export const hasNamespaces = (): boolean => spawnSync(contained[0] ?? '', [...contained.slice(1), 'true']).status === 0

const createHostWorld = async (databases: Databases): Promise<World> =>
  createWorld({
    database: await databases.create(),
    lists: { domains: names('site', 10) },
    sandbox: { latencyMs: 40, reportDurationMs: 1500 },
  })

/** A host that dies with work at hand: who is on another waits for its lease, and no longer. */
const deadHostSeconds = 30

export const tryDeadHost = (databases: Databases): Promise<string[]> =>
  killedAndAgain(databases, { first: elsewhere, second: [], withinSeconds: deadHostSeconds })

/** A container that is killed and comes back: the same host name, the same process number. */
export const tryContainerAgain = (databases: Databases): Promise<string[]> =>
  killedAndAgain(databases, { first: contained, second: contained, withinSeconds: deadHostSeconds })

interface Places {
  readonly first: readonly string[]
  readonly second: readonly string[]
  /** Until the second has taken over, its own start and work aside. */
  readonly withinSeconds: number
}

const ownSeconds = 8

const killedAndAgain = async (databases: Databases, { first, second, withinSeconds }: Places): Promise<string[]> => {
  const world = await createHostWorld(databases)
  try {
    const command = ['backfill', ...pipelines, ...rangeOf(world)]
    const dying = start(world, command, { caller: 'first', within: first })
    const isUnderWay = async (): Promise<boolean> =>
      world.sandbox.books().submissions.length > 1 && (await loaded(world.database.pool)) > 2
    if (!(await until(isUnderWay, 30))) return [`nothing was under way\n${dying.printed().slice(-1500)}`]
    dying.signal('SIGKILL')
    await dying.ended
    const ended = await run(world, command, { caller: 'second', within: second, bound: 90 })
    const wrong = await judged(world, [ended])
    if (ended.seconds > withinSeconds + ownSeconds) wrong.push(`the second needed ${ended.seconds.toFixed(1)} s`)
    return wrong
  } finally {
    await world.remove()
  }
}

/** Two containers of one host name that cannot see each other's processes: neither is thought dead while it works. */
export const tryNeighbours = async (databases: Databases): Promise<string[]> => {
  const world = await createHostWorld(databases)
  try {
    return (await sideBySide(world, { within: contained }, { within: contained })).wrong
  } finally {
    await world.remove()
  }
}

/** What was tried of clocks: minutes behind, hours and weeks ahead. */
export const wrongClocks = [-1 / 6, 7, 24 * 24]

/** A second machine whose clock is so many hours ahead (negative: behind). It does the same work as the others, and says once that its clock is wrong. */
export const tryWrongClock = async (databases: Databases, hours: number): Promise<string[]> => {
  const world = await createHostWorld(databases)
  const folder = mkdtempSync(join(tmpdir(), 'millrace-clock-'))
  try {
    const file = join(folder, 'clock.mjs')
    writeFileSync(file, shiftedClock(hours * 3_600_000))
    const [first, second] = [{}, { environment: { NODE_OPTIONS: `--import=${file}` } }]
    const { wrong, ends } = await sideBySide(world, first, second)
    const said = ends.map(({ stdout }) => stdout.split('"code":"CLOCK"').length - 1)
    if (said.join() !== '0,1') wrong.push(`the difference was said ${said.join(' and ')} times, not 0 and 1`)
    return wrong
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await world.remove()
  }
}

const shiftedClock = (ms: number): string => `
  const real = Date.now
  const Before = Date
  globalThis.Date = class extends Before {
    constructor(...given) { given.length === 0 ? super(real() + ${ms}) : super(...given) }
    static now() { return real() + ${ms} }
  }`

type Place = Pick<Parameters<typeof start>[2] & object, 'within' | 'environment'>

/** The same backfill twice, half a second apart: nothing is asked for twice while both live. */
const sideBySide = async (
  world: World,
  first: Place,
  second: Place,
): Promise<{ readonly wrong: string[]; readonly ends: readonly Ended[] }> => {
  const command = ['backfill', ...pipelines, ...rangeOf(world)]
  const begun = start(world, command, { caller: 'first', ...first })
  await until(() => world.sandbox.books().submissions.length > 0, 30)
  await wait(500)
  const ends: Ended[] = await Promise.all([begun.ended, run(world, command, { caller: 'second', ...second })])
  return { wrong: [...(await judged(world, ends)), ...askedTwice(world), ...(await claimedOften(world)), ...tooSlow(ends)], ends }
}

/** Undisturbed it takes a few seconds: nobody waited for a moment that another's clock had set. */
const mostSeconds = 60

const tooSlow = (ends: readonly Ended[]): string[] =>
  ends.filter(({ seconds }) => seconds > mostSeconds).map(({ name, seconds }) => `${name} took ${seconds.toFixed(0)} s`)

/** A report of a second and a half is polled a few times, each by a claim. */
const mostClaims = 40

const claimedOften = async ({ database }: World): Promise<string[]> => {
  const { rows } = await database.pool.query<{ job_id: string; fence: string }>(
    'select job_id, fence from etl.jobs where fence > $1 order by fence desc limit 3',
    [mostClaims],
  )
  return rows.map(({ job_id, fence }) => `job ${job_id} was claimed ${fence} times`)
}

/** Pages of keywords that were asked for more than once. */
const askedTwice = ({ sandbox }: World): string[] => {
  const times = new Map<string, number>()
  for (const { endpoint, query } of sandbox.books().requests)
    if (endpoint === 'keywords') times.set(JSON.stringify(query), (times.get(JSON.stringify(query)) ?? 0) + 1)
  const twice = [...times].filter(([, count]) => count > 1)
  return twice.length === 0
    ? []
    : [`${twice.length} of ${times.size} pages were asked for more than once, such as ${twice[0]?.[0]}`]
}
