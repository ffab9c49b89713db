// A process that dies or sleeps while it holds work: another goes on, soon, and does only the rest.
import { complaint, type Ended, run, start, until, wait } from './commands.ts'
import type { Databases, WorldDatabase } from './databases.ts'
import { homeless, restless, snapshot } from './ledger-state.ts'
import { differences } from './pairs.ts'
import { abandoned, boughtTooOften, timesBought, uncertainCells } from './purchases.ts'
import { wantedTruth } from './truth.ts'
import { currentRows } from './warehouse.ts'
import { createWorld, names, pipelines, type World } from './world.ts'

export const rangeOf = ({ months }: World): string[] => ['--from', months[0] ?? '', '--to', months.at(-1) ?? '', '--json']
export const loaded = async (pool: WorldDatabase['pool']): Promise<number> =>
  (await pool.query<{ n: number }>('select count(*)::int as n from etl.loads')).rows[0]?.n ?? 0

/** What must hold once all is over; `hung` ends are told with what they waited for. */
export const judged = async (world: World, ends: readonly Ended[]): Promise<string[]> => {
  const { pool } = world.database
  const uncertain = new Set(await uncertainCells(pool))
  // A kill may fall between a submission and its answer: that purchase waits for a person.
  const isFine = (code: number | null): boolean => code === 0 || (code === 1 && uncertain.size > 0)
  const wrong = ends.flatMap(({ name, code, hung, stderr }) =>
    hung || !isFine(code) ? [`${name} ${hung ? 'did not end' : `ended with ${code}`}\n${complaint({ stderr })}`] : [],
  )
  if (ends.some(({ hung }) => hung)) wrong.push(await snapshot(pool))
  if (uncertain.size === 0) wrong.push(...differences(wantedTruth(world), await currentRows(pool)), ...(await abandoned(world)))
  wrong.push(...boughtTooOften(timesBought(world.sandbox.books().submissions), () => 1))
  return [...wrong, ...(await restless(pool)), ...(await homeless(pool))]
}

/** Seconds a command may need to begin and to find that the other process is gone. */
const atOnceSeconds = 6

/** `kill -9` while reports are under way and walks are at hand; the same command again goes on at once. */
export const tryKill = async (databases: Databases): Promise<string[]> => {
  const world = await createWorld({
    database: await databases.create(),
    lists: { domains: names('site', 10) },
    sandbox: { latencyMs: 40, reportDurationMs: 1500 },
  })
  try {
    const first = start(world, ['backfill', ...pipelines, ...rangeOf(world)], { caller: 'first' })
    const { pool } = world.database
    const isUnderWay = async (): Promise<boolean> => world.sandbox.books().submissions.length > 1 && (await loaded(pool)) > 2
    if (!(await until(isUnderWay, 30))) return [`nothing was under way\n${first.printed().slice(-1500)}`]
    await wait(150)
    first.signal('SIGKILL')
    await first.ended
    const second = await run(world, ['backfill', ...pipelines, ...rangeOf(world)], { caller: 'second' })
    const alone = await timeAlone(databases)
    const wrong = await judged(world, [second])
    if (second.seconds > alone + atOnceSeconds)
      wrong.push(`it took ${second.seconds.toFixed(1)} s; all of it, undisturbed, takes ${alone.toFixed(1)} s`)
    return wrong
  } finally {
    await world.remove()
  }
}

const timeAlone = async (databases: Databases): Promise<number> => {
  const world = await createWorld({
    database: await databases.create(),
    lists: { domains: names('site', 10) },
    sandbox: { latencyMs: 40, reportDurationMs: 1500 },
  })
  try {
    return (await run(world, ['backfill', ...pipelines, ...rangeOf(world)])).seconds
  } finally {
    await world.remove()
  }
}

/** An answer is on record, and a session that has written rows has not committed. */
const isLoading = async (pool: WorldDatabase['pool']): Promise<boolean> => {
  const { rows } = await pool.query(`select 1 from etl.answers, pg_stat_activity a
    where a.datname = current_database() and a.backend_xid is not null and a.query ~* '^copy data' limit 1`)
  return rows.length > 0
}

/** Longer than a lease. */
const asleepMs = 27_000

/** A backfill that sleeps with work at hand beside two workers, and wakes when they have done it. */
export const trySleep = async (databases: Databases): Promise<string[]> => {
  const world = await createWorld({
    database: await databases.create(),
    lists: { domains: names('site', 12) },
    sandbox: { latencyMs: 60, reportDurationMs: 1500 },
  })
  const workers = ['one', 'two'].map((caller) => start(world, ['worker', '--json'], { caller, bound: 150 }))
  try {
    const first = start(world, ['backfill', ...pipelines, ...rangeOf(world)], { caller: 'sleeper', bound: 150 })
    const { pool } = world.database
    if (!(await until(async () => (await loaded(pool)) > 3, 30)))
      return [`nothing was under way\n${first.printed().slice(-1500)}`]
    first.signal('SIGSTOP')
    await wait(asleepMs)
    const doneMeanwhile = await loaded(pool)
    await wait(1_000)
    const wrong = (await loaded(pool)) === doneMeanwhile ? [] : ['the workers were still at it when a lease and more was over']
    first.signal('SIGCONT')
    const ended = await first.ended
    for (const worker of workers) worker.signal('SIGTERM')
    const ends = await Promise.all(workers.map((worker) => worker.ended))
    for (const { code, hung, stderr } of ends)
      if (hung || code !== 130) wrong.push(`a worker, told to stop, ended with ${code}\n${complaint({ stderr })}`)
    return [...wrong, ...(await judged(world, [ended]))]
  } finally {
    for (const worker of workers) worker.signal('SIGKILL')
    await world.remove()
  }
}

/** `kill -9` in the middle of the load of an answer for many windows: nothing of it is there; the next command loads it whole and downloads nothing again. */
export const tryMidLoad = async (databases: Databases): Promise<string[]> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 36,
    lists: { domains: names('site', 80), countries: ['us', 'gb', 'world'] },
  })
  try {
    const command = ['backfill', 'traffic_and_engagement', ...rangeOf(world)]
    const { pool } = world.database
    const first = start(world, command, { caller: 'first' })
    if (!(await until(() => isLoading(pool), 40))) return [`no load was seen\n${first.printed().slice(-1500)}`]
    first.signal('SIGKILL')
    await first.ended
    const left = await pool.query<{ n: number }>('select count(*)::int as n from data.traffic_and_engagement_v1')
    if ((await loaded(pool)) > 0) return ['the load was over at the kill: nothing was shown']
    if (left.rows[0]?.n !== 0) return [`${left.rows[0]?.n} rows of a load that was killed are there`]
    const second = await run(world, command, { caller: 'second' })
    const wrong = second.code === 0 ? [] : [`${second.name} ended with ${second.code}\n${complaint(second)}`]
    const truth = [...wantedTruth(world)].filter(([unit]) => unit.startsWith('traffic'))
    wrong.push(...differences(new Map(truth), await currentRows(pool)), ...(await abandoned(world)))
    for (const { downloads } of world.sandbox.books().submissions)
      if (downloads !== 1) wrong.push(`the report was downloaded ${downloads} times`)
    const { rows } = await pool.query<{ line: string }>(
      `select x::text as line from (select answer_id, window_from, count(*) from etl.loads group by 1, 2 having count(*) > 1) x
       union all select x::text from (select count(*) as revisions from data.traffic_and_engagement_v1_history having count(*) > 0) x`,
    )
    wrong.push(...rows.map(({ line }) => `loaded again: ${line}`))
    return [...wrong, ...(await restless(pool)), ...(await homeless(pool))]
  } finally {
    await world.remove()
  }
}
