// Takes the ticks of every schedule as time goes by, each one run of what is due, in turn for each pipeline; and runs what a person approved. Knows no timer, so
// that any clock can drive it.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { isPassing } from '../db/database-error.ts'
import { outlast } from '../db/outlast.ts'
import type { Db } from '../db/tables.ts'
import { approvedReady } from '../ledger/approved-jobs.ts'
import { isKnown } from '../ledger/processes.ts'
import { claimTick, finishTick, lockTicks, planTick } from '../ledger/data-releases.ts'
import { spreadRun } from '../plan/spread-backfill.ts'
import { planApproved, planRun } from '../plan/plan-run.ts'
import { nextTick, type Scheduled, scheduledOf } from '../plan/ticks.ts'
import { withCurrentLists } from '../plan/query-lists.ts'
import { sweep as sweepLandings } from '../run/retention.ts'
import { runJobs, type RunResult } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { alarmingOf } from './notify/receivers.ts'
import { createPing, notify, type Ping } from './notify/send-alarms.ts'

/** Ticks are taken as they come; who is so late does not keep time any more. */
const overdueMs = 5 * 60_000

/**
 * The schedule without timers: its holder says when to look. What is next, the ledger knows, so that no outage, sleep or death of a process loses a tick.
 * @param signal aborted: no more ticks are taken, runs in progress put their jobs back
 * @param sinceMs where a pipeline never ticked, ticks from then on count. Default: now
 * @param concurrency jobs worked on at once for each run; 0: somebody else in this process does. Default: what the definition allows.
 */
export const createTicker = (
  runtime: Runtime,
  signal: AbortSignal,
  { concurrency, sinceMs }: { readonly concurrency?: number; readonly sinceMs?: number } = {},
) => {
  const scheduled = scheduledOf(runtime.definitions)
  // Settings that are wrong end the command before the first night, not in it.
  const ping = createPing(runtime.settings, runtime.log)
  alarmingOf(runtime)
  const keeper = keeperOf(runtime, signal, { ping, concurrency, begunMs: sinceMs ?? runtime.clock.now() })
  const sweep = (): void => {
    for (const entry of scheduled) takeTicks(keeper, entry)
  }
  return {
    /** Begins a run for each pipeline with something that a person approved and no process works on: its nights need not be waited for. */
    approved: () => buyApproved(keeper),
    /** Tells which ticks are late, then takes them as each pipeline's `catch_up` says. */
    catchUp: async () => {
      // Notified before anything is taken: a night that is made up for was missed all the same.
      await notify(runtime)
      sweep()
    },
    /** Begins a run for each pipeline that has a tick, or that its service has released data for, and no run at work. */
    sweep,
    /** Pipelines with a tick that could have been taken long ago, and since this ticker began. */
    overdue: async (): Promise<readonly string[]> => {
      const found: string[] = []
      for (const entry of scheduled.filter(({ pipeline }) => !keeper.running.has(pipeline))) {
        const next = await look(keeper, runtime.database.kysely, entry, runtime.process.name)
        const readyMs = Math.max(next?.readyMs ?? Number.POSITIVE_INFINITY, keeper.begunMs)
        if (next?.waits === false && readyMs < runtime.clock.now() - overdueMs) found.push(entry.pipeline)
      }
      return found
    },
    settled: async () => void (await Promise.all(keeper.chains.values())),
  }
}

type Keeper = ReturnType<typeof keeperOf>

interface KeeperOptions {
  readonly ping: Ping
  readonly concurrency: number | undefined
  begunMs: number
}

/** What a scheduler knows of the runs it began. `chains`: what is going on of each pipeline; never rejects. */
const keeperOf = (runtime: Runtime, signal: AbortSignal, options: KeeperOptions) => {
  const [running, chains] = [new Set<string>(), new Map<string, Promise<void>>()]
  return { runtime, signal, ...options, running, chains }
}

/** @param idle see `TickLook` */
const look = (keeper: Keeper, db: Db, entry: Scheduled, idle: string | null) => {
  const nowMs = keeper.runtime.clock.now()
  // By a clock that was ahead it began in time to come.
  keeper.begunMs = Math.min(keeper.begunMs, nowMs)
  return nextTick(db, entry, { nowMs, sinceMs: keeper.begunMs, idle })
}

/** Takes what is next for the pipeline and runs it, until nothing is. Where a run of it is at work here, it only notes what is skipped. */
const takeTicks = (keeper: Keeper, entry: Scheduled): void => {
  const { runtime, running, chains } = keeper
  const { pipeline } = entry
  const isFree = !running.has(pipeline)
  if (!isFree && entry.schedule.overlap === 'queue') return
  running.add(pipeline)
  const take = () => takeNext(keeper, entry, isFree ? runtime.process.name : null)
  const work = async (): Promise<void> => {
    for (let dueMs = await take(); dueMs !== null; dueMs = await take())
      await runTick(keeper, entry, dueMs).catch((error: unknown) =>
        runtime.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
      )
  }
  const worked = work()
    .catch((error: unknown) => runtime.log.warn({ pipeline, error: messageOf(error) }, 'its ticks wait for the next look'))
    .finally(() => isFree && running.delete(pipeline))
  chains.set(
    pipeline,
    Promise.all([chains.get(pipeline), worked]).then(() => undefined),
  )
}

/** The tick of the next run; null: nothing is owed, or it waits, or is skipped. */
const takeNext = async (keeper: Keeper, entry: Scheduled, idle: string | null): Promise<number | null> => {
  const { process, database } = keeper.runtime
  const { pipeline } = entry
  if (keeper.signal.aborted || (await look(keeper, database.kysely, entry, idle)) === null) return null
  return database.kysely.transaction().execute(async (trx) => {
    await lockTicks(trx, pipeline)
    // Where the clock was set back, a tick of the time before would keep all until then from being taken.
    await keeper.runtime.hearClock(trx)
    const next = (await isKnown(trx, process)) ? await look(keeper, trx, entry, idle) : null
    if (next === null || next.waits || (idle === null && next.kind !== 'skipped')) return null
    await claimTick(trx, { pipeline, dueMs: next.dueMs, owner: process.name, kind: next.kind })
    return next.kind === 'skipped' ? null : next.dueMs
  })
}

/** Begins a run for each pipeline that has something approved and no run at work. */
const buyApproved = async (keeper: Keeper): Promise<void> => {
  const { runtime, signal, running, chains } = keeper
  const free = runtime.definitions.filter(({ pipeline }) => !running.has(pipeline))
  const ready = await approvedReady(runtime.database.kysely, free)
  for (const pipeline of ready) {
    if (running.has(pipeline) || signal.aborted) continue
    running.add(pipeline)
    const versions = free.filter((one) => one.pipeline === pipeline)
    const work = loadOne(keeper, { pipeline, versions }, null).then(
      () => notify(runtime),
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'a run of what was approved ended in an error'),
    )
    chains.set(
      pipeline,
      Promise.all([chains.get(pipeline), work]).then(() => void running.delete(pipeline)),
    )
  }
}

/** One run of what is due. Whatever happens to it, people hear of it and the tick is over, unless the database was away for too long: then it is taken anew. */
const runTick = async (keeper: Keeper, entry: Scheduled, dueMs: number): Promise<void> => {
  const { runtime, ping, signal } = keeper
  const { kysely } = runtime.database
  const tick = { pipeline: entry.pipeline, dueMs, owner: runtime.process.name }
  let result: RunResult | null = null
  let end = () => finishTick(kysely, tick)
  // Other schedulers wait for it.
  const untilEnded = (): Promise<void> =>
    outlast(runtime, signal, end).catch((error) => (isPassing(error) && !signal.aborted ? untilEnded() : Promise.reject(error)))
  try {
    await ping('start')
    // The night is not lost over a database that restarts while it is planned.
    result = await outlast(runtime, signal, () => loadOne(keeper, entry, dueMs))
    await sweepLandings(runtime)
  } catch (error) {
    if (result === null && isPassing(error)) end = () => planTick(kysely, tick, null)
    throw error
  } finally {
    await ping(result?.state === 'done' ? 'success' : 'fail')
    // Stopped in the middle, it stays open: it is lost when its process ends, and the next one takes it.
    if (!signal.aborted || !['interrupted', undefined].includes(result?.state)) await untilEnded()
    await notify(runtime)
  }
}

/** @param dueMs the tick whose run it is; null: what a person approved, and nothing else */
const loadOne = async (
  { runtime, signal, concurrency }: Keeper,
  { pipeline, versions }: Pick<Scheduled, 'pipeline' | 'versions'>,
  dueMs: number | null,
): Promise<RunResult> => {
  const { definitions, gone } = await currentOf(runtime, versions)
  // What is ready may be of the one that is gone alone: that would be a run a minute, for nothing.
  if (dueMs === null && gone !== undefined && (await approvedReady(runtime.database.kysely, definitions)).length === 0)
    throw gone.reason
  const dueAt = dueMs === null ? null : new Date(dueMs).toISOString()
  const result = await runJobs(runtime, {
    command: 'schedule',
    arguments: dueAt === null ? { pipeline, approved: true } : { pipeline, due_at: dueAt },
    definitions,
    plan: async (runId, stop) => {
      if (dueMs === null) return planApproved(runtime, runId, definitions, stop)
      const planned = await planRun(runtime, runId, definitions, { mode: 'due' }, stop)
      await planTick(runtime.database.kysely, { pipeline, dueMs, owner: runtime.process.name }, runId)
      return planned
    },
    concurrency,
    signal,
  })
  const { runId, state, summary } = result
  await spreadRun(runtime, definitions)
  if (dueAt !== null) {
    const [entry] = scheduledOf(versions)
    runtime.progress.emit({
      event: 'tick',
      pipeline,
      due_at: dueAt,
      time_zone: entry?.schedule.timeZone ?? 'UTC',
      run_id: runId,
      state,
      units: summary.units,
    })
  }
  // The others have run; such a night is no success all the same.
  if (gone !== undefined) throw gone.reason
  return result
}

/** As their files are now, and why one is left out: it is gone, and the others run all the same. Throws where none is left. */
const currentOf = async (runtime: Runtime, versions: readonly Definition[]) => {
  const read = await Promise.allSettled(versions.map((one) => withCurrentLists(runtime, one)))
  const definitions = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const gone = read.find((one) => one.status === 'rejected')
  if (definitions.length === 0 && gone !== undefined) throw gone.reason
  return { definitions, gone }
}
