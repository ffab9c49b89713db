// Loads that take longer than leases, and processes that die or sleep between two windows of an answer, beside workers that want work.
import { complaint, type Ended, run, type Started, start, until, wait } from './commands.ts'
import type { Databases, WorldDatabase } from './databases.ts'
import { homeless, restless, snapshot } from './ledger-state.ts'
import { abandoned } from './purchases.ts'
import { rangeOf } from './takeover.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { createWorld, names, type World } from './world.ts'
import { measures, unitName, unitOfRow } from './truth.ts'

const pipeline = 'traffic_and_engagement'
const domains = names('site', 8)
const half = domains.slice(0, 4)
type Pool = WorldDatabase['pool']

/** Each day of a unit with its values, in order: what a reader sees of it. */
type Days = ReadonlyMap<string, string>

interface Stage {
  readonly world: World
  readonly pool: Pool
  /** What the service gave for its units, purchase by purchase: every state a unit may ever be seen in. */
  readonly states: Map<string, Days>
  readonly wrong: string[]
}

/** Four months by the day, loaded a while ago and corrected since; loads of a window take as long as `public.slow` says. */
const withStage = async (databases: Databases, play: (stage: Stage) => Promise<void>): Promise<string[]> => {
  const world = await createWorld({ database: await databases.create(), months: 4, lists: { domains } })
  const stage: Stage = { world, pool: world.database.pool, states: new Map(), wrong: [] }
  try {
    world.set(pipeline, ['params', 'granularity'], 'daily')
    await stage.pool.query(`
      create table public.slow (window_from date primary key, seconds float8 not null);
      create function public.take_time() returns trigger language plpgsql as $$ begin
        perform pg_sleep(s.seconds) from public.slow s where s.window_from = new.window_from; return new; end $$;
      create trigger take_time before insert on etl.load_rows for each row execute function public.take_time()`)
    const loaded = await run(world, ['backfill', pipeline, ...rangeOf(world)], { caller: 'prepare' })
    if (loaded.code !== 0) return [`the months were not loaded: ${loaded.code}\n${complaint(loaded)}`]
    noteSold(stage)
    restate(world)
    await play(stage)
    return stage.wrong
  } finally {
    await world.remove()
  }
}

const restate = (world: World): void => {
  for (const month of world.months) world.sandbox.restate(month)
}

const windowOf = ({ world }: Stage, place: number): string => `${world.months[place] ?? ''}-01`

const slow = async ({ pool }: Stage, window: string, seconds: number): Promise<void> => {
  await pool.query('insert into public.slow values ($1, $2) on conflict (window_from) do update set seconds = excluded.seconds', [
    window,
    seconds,
  ])
}

const textOf = (days: readonly string[]): string => [...days].sort().join('\n')

/** Remembers what the purchases so far gave. */
const noteSold = ({ world, states }: Stage): void => {
  for (const { id } of world.sandbox.books().submissions) {
    if (states.has(id)) continue
    const days = Map.groupBy(world.sandbox.truth.sold(id) ?? [], (row) => unitOfRow(pipeline, row))
    const line = (row: Readonly<Record<string, string | null>>): string =>
      JSON.stringify([row['date'], ...measures[pipeline].map((name) => row[name] ?? null)])
    states.set(id, new Map([...days].map(([unit, rows]) => [unit, textOf(rows.map(line))])))
  }
}

/** As an analyst reads it: one statement, one snapshot. */
const seen = async (pool: Pool): Promise<Days> => {
  const { rows } = await pool.query<{ date: string; domain: string; country: string; values: (string | null)[] }>(
    `select date::text, domain, country, array[${measures[pipeline].map((name) => `${name}::text`).join(', ')}] as values from bi.${pipeline}`,
  )
  const byUnit = Map.groupBy(rows, ({ date, domain, country }) => unitName(pipeline, date, domain, country))
  return new Map(
    [...byUnit].map(([unit, own]) => [unit, textOf(own.map(({ date, values }) => JSON.stringify([date, ...values])))]),
  )
}

interface Reader {
  /** Reads no more. */
  stop(): Promise<void>
}

/** Reads all the time; every unit must be seen whole, as one of the purchases gave it. */
const readAlways = (stage: Stage): Reader => {
  const { pool, states, wrong } = stage
  let over = false
  const met = new Map<string, Set<string>>()
  const read = async (): Promise<void> => {
    for (; !over; await wait(100))
      for (const [unit, days] of await seen(pool)) met.set(unit, (met.get(unit) ?? new Set()).add(days))
  }
  const reading = read()
  return {
    stop: async () => {
      over = true
      await reading
      noteSold(stage)
      const isAnswer = (unit: string, days: string): boolean => [...states.values()].some((state) => state.get(unit) === days)
      const torn = [...met].filter(([unit, all]) => [...all].some((days) => !isAnswer(unit, days)))
      if (torn.length > 0) wrong.push(`${torn.length} units were seen as no answer has them, such as ${torn[0]?.[0]}`)
    },
  }
}

interface Holder {
  readonly jobId: string
  readonly fence: string
  readonly holder: number | null
  readonly hasEnded: boolean
}

/** Who holds the job that is loaded so slowly: the first of those that are not done. */
const holderOfSlow = async (pool: Pool): Promise<Holder | null> => {
  const { rows } = await pool.query<Holder>(
    `select j.job_id as "jobId", j.fence::text as fence, j.holder, p.ended_at is not null as "hasEnded"
     from etl.jobs j left join etl.processes p on p.process_id = j.holder where j.state = 'open' order by j.job_id limit 1`,
  )
  return rows[0] ?? null
}

const isAsleep = async (pool: Pool): Promise<boolean> =>
  (
    await pool.query(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep' and query like '%etl.load_rows%'`,
    )
  ).rows.length > 0

const newestAnswer = async (pool: Pool): Promise<number> =>
  (await pool.query<{ id: number }>('select max(answer_id)::int as id from etl.answers')).rows[0]?.id ?? 0

const windowsLoaded = async (pool: Pool, answerId: number): Promise<{ window: string; at: string; times: number }[]> =>
  (
    await pool.query<{ window: string; at: string; times: number }>(
      `select window_from::text as window, max(loaded_at)::text as at, count(*)::int as times from etl.loads where answer_id = $1 group by 1 order by 1`,
      [answerId],
    )
  ).rows

const startWorkers = (world: World): Started[] =>
  ['one', 'two'].map((caller) => start(world, ['worker', '--json'], { caller, bound: 300 }))

const stopWorkers = async (workers: readonly Started[], wrong: string[]): Promise<void> => {
  for (const worker of workers) worker.signal('SIGTERM')
  for (const { code, hung, stderr } of await Promise.all(workers.map(({ ended }) => ended)))
    if (hung || code !== 130) wrong.push(`a worker, told to stop, ended with ${code}\n${complaint({ stderr })}`)
}

const judgeEnd = async ({ pool, wrong }: Stage, { name, code, hung, stderr }: Ended): Promise<void> => {
  if (!hung && code === 0) return
  wrong.push(`${name} ${hung ? 'did not end' : `ended with ${code}`}\n${complaint({ stderr })}`)
  if (hung) wrong.push(await snapshot(pool))
}

/** Each unit holds its newest answer and was bought so often; each answer was downloaded, and loaded into each of its windows, once; each revision leads to its answer. */
const judge = async (stage: Stage, times: (unit: string) => number): Promise<void> => {
  const { world, pool, states, wrong } = stage
  noteSold(stage)
  const rows = await seen(pool)
  const given = new Map<string, string[]>()
  for (const state of states.values()) for (const [unit, days] of state) given.set(unit, [...(given.get(unit) ?? []), days])
  const off = [...given].filter(([unit, all]) => rows.get(unit) !== all.at(-1))
  if (off.length > 0) wrong.push(`${off.length} units do not hold their newest answer, such as ${off[0]?.[0]}`)
  const often = [...given].filter(([unit, all]) => all.length !== times(unit))
  if (often.length > 0)
    wrong.push(
      `${often.length} units were not bought as often as asked for, such as ${often[0]?.[0]}: ${often[0]?.[1].length} times`,
    )
  for (const { id, downloads } of world.sandbox.books().submissions)
    if (downloads !== 1) wrong.push(`report ${id} was downloaded ${downloads} times`)
  const { rows: twice } = await pool.query<{ line: string }>(
    'select x::text as line from (select answer_id, window_from, count(*) from etl.loads group by 1, 2 having count(*) > 1) x',
  )
  wrong.push(...twice.map(({ line }) => `loaded again: ${line}`))
  wrong.push(...(await abandoned(world)), ...(await restless(pool)), ...(await homeless(pool)))
}

export interface SlowOptions {
  /** How long the load of one window takes: three leases of 20 s and more. */
  readonly seconds: number
}

/** A load that takes three leases, two workers that want work, and another answer for half of the units that arrives meanwhile. */
export const trySlowMerge = (databases: Databases, { seconds }: SlowOptions): Promise<string[]> =>
  withStage(databases, async (stage) => {
    const { world, pool, wrong } = stage
    await slow(stage, windowOf(stage, 1), seconds)
    // Long enough for the second purchase to be made before the first is there.
    world.sandbox.configure({ reportDurationMs: 8_000 })
    const range = rangeOf(world)
    const bound = 300
    const first = start(world, ['backfill', pipeline, '--force', ...range], { caller: 'first', bound })
    const others: Started[] = []
    try {
      const isBought = (reports: number) => (): boolean => world.sandbox.books().submissions.length >= reports
      if (!(await until(isBought(2), 60))) return void wrong.push(`nothing was bought\n${first.printed().slice(-1500)}`)
      restate(world)
      const only = `domain=${half.join(',')}`
      const later = start(world, ['backfill', pipeline, '--force', '--only', only, ...range], { caller: 'later', bound })
      others.push(later)
      if (!(await until(isBought(3), 60))) return void wrong.push(`nothing more was bought\n${later.printed().slice(-1500)}`)
      if (!(await until(() => isAsleep(pool), 60))) return void wrong.push(`no load began\n${first.printed().slice(-1500)}`)
      const workers = startWorkers(world)
      others.push(...workers)
      const reader = readAlways(stage)
      await watchHolder(stage, seconds)
      for (const ended of await Promise.all([first.ended, later.ended])) await judgeEnd(stage, ended)
      await reader.stop()
      await stopWorkers(workers, wrong)
      await judge(stage, (unit) => (half.some((domain) => unit.includes(` ${domain} `)) ? 3 : 2))
    } finally {
      for (const one of [first, ...others]) one.signal('SIGKILL')
    }
  })

/** As long as the slow load lasts its job must stay with the process that began it, which lives. */
const watchHolder = async ({ pool, wrong }: Stage, seconds: number): Promise<void> => {
  const begun = performance.now()
  const before = await holderOfSlow(pool)
  let lasted = 0
  for (; await isAsleep(pool); await wait(200)) {
    lasted = (performance.now() - begun) / 1000
    const now = await holderOfSlow(pool)
    if (JSON.stringify(now) === JSON.stringify(before) && now?.hasEnded === false) continue
    wrong.push(`the load was taken from a living process after ${lasted.toFixed(1)} s: ${JSON.stringify({ before, now })}`)
    return
  }
  if (lasted < seconds - 3) wrong.push(`the slow load was over after ${lasted.toFixed(1)} s: nothing was shown`)
}

export interface StopOptions {
  readonly signal: 'SIGKILL' | 'SIGSTOP'
  /** `between`: two windows of four are committed and the third is not begun. `inside`: the second is written and not committed. */
  readonly where: 'between' | 'inside'
  /** Within which the other windows must be loaded: of a dead process at once, of one that sleeps when its lease, or its transaction, is over. */
  readonly withinSeconds: number
}

export const stopsOfLoads: readonly StopOptions[] = [
  { signal: 'SIGKILL', where: 'between', withinSeconds: 10 },
  { signal: 'SIGSTOP', where: 'between', withinSeconds: 35 },
  { signal: 'SIGKILL', where: 'inside', withinSeconds: 15 },
  { signal: 'SIGSTOP', where: 'inside', withinSeconds: 75 },
]

/** A process that is killed or falls asleep over an answer of four windows; a worker does what is not done and nothing else, and other commands are not in its way. */
export const tryStopped = (databases: Databases, { signal, where, withinSeconds }: StopOptions): Promise<string[]> =>
  withStage(databases, async (stage) => {
    const { world, pool, wrong } = stage
    const second = windowOf(stage, 1)
    const proxy = await startTcpProxy(world.database.url)
    const others: Started[] = []
    await slow(stage, second, 1.5)
    const environment = { DATABASE_URL: proxy.url }
    const bound = withinSeconds + 60
    const command = ['backfill', pipeline, '--force', ...rangeOf(world)]
    const first = start(world, command, { caller: 'first', bound: bound * 3, environment })
    try {
      if (!(await until(() => isAsleep(pool), 60))) return void wrong.push(`no load began\n${first.printed().slice(-1500)}`)
      const reader = readAlways(stage)
      if (where === 'between')
        await Promise.race([proxy.holdAfterCommit((statements) => statements.includes(second)), wait(20_000)])
      first.signal(signal)
      const stopped = performance.now()
      const answerId = await newestAnswer(pool)
      const before = await windowsLoaded(pool, answerId)
      const [expected] = where === 'between' ? [2] : [1]
      if (before.length !== expected) wrong.push(`${before.length} windows were loaded when it was stopped, not ${expected}`)
      const workers = startWorkers(world)
      const planner = start(world, ['run', pipeline, '--json'], { caller: 'planner', bound })
      others.push(...workers, planner)
      const isDone = async (): Promise<boolean> => (await windowsLoaded(pool, answerId)).length === 4
      if (!(await until(isDone, withinSeconds + 30))) wrong.push(`nobody went on\n${await snapshot(pool)}`)
      const took = (performance.now() - stopped) / 1000
      if (took > withinSeconds) wrong.push(`the other windows were loaded after ${took.toFixed(1)} s`)
      await judgeEnd(stage, await planner.ended)
      proxy.release()
      first.signal('SIGCONT')
      const ended = await first.ended
      if (signal === 'SIGSTOP') await judgeEnd(stage, ended)
      const again = (await windowsLoaded(pool, answerId)).slice(0, expected)
      if (JSON.stringify(again) !== JSON.stringify(before)) wrong.push(`loaded again: ${JSON.stringify({ before, again })}`)
      await reader.stop()
      await stopWorkers(workers, wrong)
      await judge(stage, () => 2)
    } finally {
      for (const one of [first, ...others]) one.signal('SIGKILL')
      await proxy.close()
    }
  })
