// One warehouse through a number of seeded minutes: each a few commands while the service, the database, its clock and a kill are against them.
import { readFileSync, rmSync } from 'node:fs'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { randomFrom } from '../storm/fault-mix.ts'
import { canaryKey } from '../support/canary.ts'
import { pick } from '../support/echoing-service.ts'
import { createWarmPool, type RunningWarm, type WarmPool } from '../support/warm-command.ts'
import { wait } from '../outsider/commands.ts'
import { createWorld, names, type Pipeline, pipelines, type World } from '../outsider/world.ts'
import type { HostileServer } from './hostile-server.ts'
import { type HostileService, places, startHostileService, type Trick, type TrickName, trickNames } from './hostile-service.ts'

export interface Ended {
  readonly name: string
  readonly code: number | null
  readonly signal: string | null
  readonly text: string
  readonly seconds: number
}

export interface Block {
  readonly seed: number
  readonly random: () => number
  readonly world: World
  readonly database: Database
  readonly service: HostileService
  readonly server: HostileServer
  readonly pool: WarmPool
  /** Whether the service says the key also where data should be. */
  readonly spoilsData: boolean
  readonly environment: Readonly<Record<string, string>>
  /** What happened, for those who read why it went wrong. */
  readonly story: string[]
  readonly wrong: string[]
  /** All that the commands printed. */
  output: string
  /** Times a pipeline's month was asked for by force. */
  readonly forced: Map<string, number>
  readonly restated: Set<string>
  readonly counts: Counts
}

export interface Counts {
  minutes: number
  commands: number
  kills: number
  holds: number
  jumps: number
  /** Commands that were not over after half a minute. */
  waited: number
  /** Rows compared with the truth. */
  cells: number
}

const allDomains = names('site', 9)
const allShops = names('shop', 6)

export const openBlock = async (server: HostileServer, seed: number, counts: Counts): Promise<Block> => {
  const random = randomFrom(seed)
  const own = await createOwnDatabase(server.url, `block_${seed}`)
  own.pool.on('error', () => undefined)
  const database = await openDatabase({ databaseUrl: secret('the block', own.url), home: '/nowhere' })
  database.pool.on('error', () => undefined)
  const drop = async (): Promise<void> => {
    await own.close()
    await database.close()
  }
  const world = await createWorld({
    database: { url: own.url, pool: own.pool, drop },
    months: 2,
    lists: {
      domains: allDomains.slice(0, 2),
      shops: allShops.slice(0, 1),
      categories: ['1001', '1002'],
      countries: ['us', 'gb'],
    },
    sandbox: { apiKey: canaryKey, seed, reportDurationMs: 150 },
  })
  for (const pipeline of pipelines) {
    const reports = { deadline: '3s', poll_every: '200ms', poll_max: '400ms' }
    const limits = { timeout: '1s', attempts: 2, ...(pipeline === 'keywords' ? { deadline: '4s' } : reports) }
    for (const [name, value] of Object.entries(limits)) world.set(pipeline, ['limits', name], value)
    if (pipeline !== 'keywords') world.set(pipeline, ['report'], { data_points: 'cells', resubmit_failed: true })
  }
  const spoilsData = seed % 4 === 0
  const service = await startHostileService({ upstream: world.sandbox.url, key: canaryKey, random, spoilsData })
  const environment: Record<string, string> = {
    ...world.environment('block'),
    WEB_ANALYTICS_BASE_URL: service.url,
    MILLRACE_DATABASE_SILENCE: '3',
    ...(random() < 0.5 ? { MILLRACE_LOG_LEVEL: 'trace' } : {}),
  }
  if (seed % 2 === 1) delete environment['MILLRACE_GUARD']
  const story = [`block ${seed}: guard ${environment['MILLRACE_GUARD'] ?? 'on'}${spoilsData ? ', data spoiled' : ''}`]
  return {
    ...{ seed, random, world, database, service, server, spoilsData, environment, story, counts },
    pool: createWarmPool(),
    wrong: [],
    output: '',
    forced: new Map(),
    restated: new Set(),
  }
}

export const closeBlock = async ({ service, world, server, pool }: Block): Promise<void> => {
  pool.clear()
  server.letGo()
  server.setAhead(0)
  await service.close()
  await world.remove()
  rmSync(world.folder, { recursive: true, force: true })
}

/** Within its `limits.deadline`, the tries of a service that is down, and the time a database may hang. */
const patienceMs = 30_000
/** By then it has to have said what it waits for; it is told to stop. */
const longestMs = 75_000
/** From SIGINT to its end. */
const stopMs = 20_000

const begin = (block: Block, args: readonly string[]): Promise<RunningWarm> =>
  block.pool.start(args, block.environment, block.world.folder)

/** Milliseconds that the process stood ready and no processor was free for it; 0 where the system does not tell. */
const queuedMs = (pid: number): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

/** To its end, which comes within its deadline, or it says what it waits for. */
export const toItsEnd = async (block: Block, args: readonly string[], running: RunningWarm): Promise<Ended> => {
  const began = performance.now()
  const name = args.join(' ')
  const queued = queuedMs(running.pid)
  const isSaid = (): boolean =>
    /wait|until|again|answers 429|is down|no whole answer|has not answered/i.test(running.printed().slice(-2_000))
  const stages: (readonly [afterMs: number, act: () => void])[] = [
    [
      patienceMs,
      () => {
        block.counts.waited += 1
        if (!isSaid())
          block.wrong.push(`${name} does not end and does not say what it waits for: ${running.printed().slice(-600)}`)
      },
    ],
    [longestMs, () => running.kill('SIGINT')],
    [
      longestMs + stopMs,
      () => {
        block.wrong.push(`${name} did not end ${stopMs / 1000} s after it was told to: ${running.printed().slice(-600)}`)
        running.kill('SIGKILL')
      },
    ],
  ]
  // What a busy machine keeps it from is not its own waiting.
  const watch = setInterval(() => {
    const waitedMs = performance.now() - began - (queuedMs(running.pid) - queued)
    if (waitedMs >= (stages[0]?.[0] ?? Number.POSITIVE_INFINITY)) stages.shift()?.[1]()
  }, 500)
  const { code, signal, stdout, stderr } = await running.result
  clearInterval(watch)
  const ended = { name, code, signal, text: `${stdout}\n${stderr}`, seconds: (performance.now() - began) / 1000 }
  block.output += ended.text
  block.counts.commands += 1
  block.story.push(`    ${name}: ${code ?? signal} after ${ended.seconds.toFixed(1)} s`)
  judgeEnd(block, ended)
  return ended
}

const judgeEnd = ({ wrong }: Block, { name, code, signal, text }: Ended): void => {
  // Where it was told to stop and something hung, it ends by itself with the second.
  if (signal === 'SIGKILL' || signal === 'SIGINT') return
  const stack = /\n +at .*\/src\/.*/.exec(text)?.[0]
  if (code === null || ![0, 1, 2, 130].includes(code) || /\[INTERNAL\]|deadlock detected/.test(text) || stack !== undefined)
    wrong.push(`${name} ended with ${code ?? signal ?? 'its process'}: ${text.trim().slice(-900)}`)
}

export const runTo = async (block: Block, args: readonly string[]): Promise<Ended> =>
  toItsEnd(block, args, await begin(block, args))

const chance = ({ random }: Block, share: number): boolean => random() < share

/** A seeded minute. */
export const liveMinute = async (block: Block): Promise<void> => {
  const { random, service, story, counts } = block
  const tricks = drawTricks(block)
  service.play(tricks)
  story.push(
    `  minute ${counts.minutes + 1}: ${tricks.map(({ name, often, where }) => `${name} ${often.toFixed(2)} ${where.source}`).join(', ')}`,
  )
  if (chance(block, 0.3)) changeLists(block)
  if (chance(block, 0.06)) restate(block)
  const trouble = Promise.all([holdDatabase(block), jumpClock(block)])
  const running: Promise<unknown>[] = []
  for (let left = 2 + Math.floor(random() * 4); left > 0; left -= 1) {
    const one = command(block)
    running.push(one)
    if (!chance(block, 0.35)) await one
    else await wait(100 + random() * 500)
  }
  await Promise.all(running)
  await trouble
  counts.minutes += 1
}

const drawTricks = ({ random }: Block): Trick[] => {
  const draw = (name: TrickName): Trick => {
    const [, where = /./] = pick(Object.entries(places), random)
    const storms = random() < 0.2
    return { name, often: storms ? 1 : 0.05 + random() * 0.45, where }
  }
  const count = 1 + Math.floor(random() * 5)
  return Array.from({ length: count }, () => draw(pick(trickNames, random)))
}

const changeLists = ({ world, random, story }: Block): void => {
  const some = (all: readonly string[], most: number): string[] => {
    const from = Math.floor(random() * all.length)
    return Array.from({ length: 1 + Math.floor(random() * most) }, (_, index) => all[(from + index) % all.length] ?? '')
  }
  world.setLists({ domains: some(allDomains, 3), shops: some(allShops, 2), countries: random() < 0.5 ? ['us', 'gb'] : ['us'] })
  story.push(`    lists: ${world.lists.domains} | ${world.lists.shops} | ${world.lists.countries}`)
}

const restate = (block: Block): void => {
  const month = pick(block.world.months, block.random)
  block.world.sandbox.restate(month)
  block.restated.add(month)
  block.story.push(`    ${month} is restated`)
}

const holdDatabase = async (block: Block): Promise<void> => {
  if (!chance(block, 0.25)) return
  await wait(block.random() * 1_500)
  const ms = 1_000 + block.random() * 5_000
  block.server.hold()
  block.counts.holds += 1
  block.story.push(`    the database hangs for ${Math.round(ms)} ms`)
  await wait(ms)
  block.server.letGo()
}

/** Back and forth: by seconds, by hours, by days. */
const jumps = [-2, -30, -600, -3_600, -7_200, -3 * 86_400, 5, 60, 1_800, 7_200, 2 * 86_400]

const jumpClock = async (block: Block): Promise<void> => {
  if (!block.server.movesClock || !chance(block, 0.25)) return
  await wait(block.random() * 1_500)
  const seconds = chance(block, 0.3) ? 0 : pick(jumps, block.random)
  block.server.setAhead(seconds)
  block.counts.jumps += 1
  block.story.push(`    the clock of the database is ${seconds} s ahead`)
}

const range = ({ world, random }: Block): string[] => {
  const from = pick(world.months, random)
  const to = pick(world.months, random)
  return from <= to ? ['--from', from, '--to', to] : ['--from', to, '--to', from]
}

/** What was asked for by force may be bought once more, whether or not the command came so far. */
export const noteForced = (block: Block, asked: readonly string[], from: string, to: string): void => {
  for (const pipeline of asked)
    for (const month of block.world.months)
      if (month >= from && month <= to)
        block.forced.set(`${pipeline} ${month}`, (block.forced.get(`${pipeline} ${month}`) ?? 0) + 1)
}

const drawCommand = (block: Block): readonly string[] => {
  const { random } = block
  const pipeline: Pipeline = pick(pipelines, random)
  const months = range(block)
  const backfill = ['backfill', pipeline, ...months, '--yes']
  const drawn = random()
  if (drawn < 0.1) return ['run']
  if (drawn < 0.25) return ['run', pipeline, '--json']
  if (drawn < 0.5) return [...backfill, ...(random() < 0.5 ? ['--json'] : [])]
  if (drawn < 0.6) {
    noteForced(block, [pipeline], months[1] ?? '', months[3] ?? '')
    return [...backfill, '--force']
  }
  return pick(
    [
      ['plan'],
      ['check'],
      ['replay', pipeline, ...months],
      ['status', '--json'],
      ['quarantine', 'list', '--json'],
      ['quarantine', 'retry', pipeline],
      ['reports', 'list', '--json'],
      ['notify', 'list'],
      ['approve'],
      ['quota'],
      ['capabilities', '--json'],
      ['cancel'],
      ['migrate'],
    ],
    random,
  )
}

const command = async (block: Block): Promise<void> => {
  const { random, counts, story } = block
  let args = drawCommand(block)
  if (args[0] === 'cancel') {
    const { rows } = await block.database.pool.query<{ id: string }>('select coalesce(max(run_id), 1)::text as id from etl.runs')
    args = ['cancel', rows[0]?.id ?? '1']
  }
  const works = ['run', 'backfill', 'replay'].includes(args[0] ?? '')
  const fate = works ? random() : 1
  const running = await begin(block, args)
  if (fate < 0.15) {
    const signal = fate < 0.1 ? 'SIGKILL' : 'SIGINT'
    const afterMs = 100 + random() * 1_400
    story.push(`    ${args.join(' ')}: ${signal} after ${Math.round(afterMs)} ms`)
    setTimeout(() => running.kill(signal), afterMs)
    if (signal === 'SIGKILL') counts.kills += 1
  }
  await toItsEnd(block, args, running)
}
