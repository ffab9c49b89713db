// Takes the ticks of every schedule: a tick starts one run of what is due, one after another for each pipeline. Also runs what a person approved. Has no timer,
// so that any clock can drive it.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { isTransient } from '../db/database-error.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import type { Db } from '../db/tables.ts'
import { approvedReady } from '../ledger/approved-jobs.ts'
import { isRegistered } from '../ledger/processes.ts'
import { claimTick, finishTick, lockTicks, assignTick } from '../ledger/data-releases.ts'
import { forecastBacklog } from '../plan/spread-backfill.ts'
import { planApproved, planRun } from '../plan/plan-run.ts'
import { nextTick, type Scheduled, scheduledOf } from '../plan/ticks.ts'
import { withCurrentLists } from '../plan/query-lists.ts'
import { sweep as sweepLandings } from '../run/retention.ts'
import { runJobs, type RunResult } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { alarmingOf } from './notify/receivers.ts'
import { createPing, notify, type Ping } from './notify/send-alarms.ts'

/** A tick that was not taken for so long counts as overdue: the scheduler no longer works. */
const overdueMs = 5 * 60_000

/**
 * The schedule without timers: the caller decides when to check. The ledger knows the next tick, so that no outage, sleep or kill of a process loses one.
 * @param signal aborted: no more ticks are taken, runs in progress put their jobs back
 * @param sinceMs ticks from then on count for a pipeline that never had one. Default: now
 * @param concurrency jobs in progress at once for each run; 0: another loop of this process works on them. Default: what the definition allows.
 */
export const createTicker = (
  runtime: Runtime,
  signal: AbortSignal,
  { concurrency, sinceMs }: { readonly concurrency?: number; readonly sinceMs?: number } = {},
) => {
  const scheduled = scheduledOf(runtime.definitions)
  // Wrong settings end the command now, not in its first night.
  const ping = createPing(runtime.settings, runtime.log)
  alarmingOf(runtime)
  const keeper = keeperOf(runtime, signal, { ping, concurrency, begunMs: sinceMs ?? runtime.clock.now() })
  const sweep = (): void => {
    for (const entry of scheduled) takeTicks(keeper, entry)
  }
  return {
    /** Begins a run for each pipeline with approved jobs that no process works on, without waiting for its next night. */
    approved: () => buyApproved(keeper),
    /** Sends alarms about late ticks, then takes the ticks as each pipeline's `catch_up` says. */
    catchUp: async () => {
      // Alarms first: a night that is caught up now was missed all the same.
      await notify(runtime)
      sweep()
    },
    /** Begins a run for each pipeline that has a tick, or new data announced by its service, and no run in progress. */
    sweep,
    /** Pipelines whose tick has been ready for more than five minutes, counted from the start of this ticker at the earliest. */
    overdue: async (): Promise<readonly string[]> => {
      const found: string[] = []
      for (const entry of scheduled.filter(({ pipeline }) => !keeper.running.has(pipeline))) {
        const next = await findTick(keeper, runtime.database.kysely, entry, runtime.process.name)
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

/** The state of a scheduler. `running`: pipelines with a run in progress; `chains`: the work of each pipeline, never rejects. */
const keeperOf = (runtime: Runtime, signal: AbortSignal, options: KeeperOptions) => {
  const [running, chains] = [new Set<string>(), new Map<string, Promise<void>>()]
  return { runtime, signal, ...options, running, chains }
}

/** @param idle see `TickQuery` */
const findTick = (keeper: Keeper, db: Db, entry: Scheduled, idle: string | null) => {
  const nowMs = keeper.runtime.clock.now()
  // The clock may have been ahead at the start and corrected since.
  keeper.begunMs = Math.min(keeper.begunMs, nowMs)
  return nextTick(db, entry, { nowMs, sinceMs: keeper.begunMs, idle })
}

/** Takes and runs the pipeline's ticks until none is left. While this process already runs the pipeline, only records skipped ticks. */
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
    .catch((error: unknown) => runtime.log.warn({ pipeline, error: messageOf(error) }, 'its ticks wait for the next check'))
    .finally(() => isFree && running.delete(pipeline))
  chains.set(
    pipeline,
    Promise.all([chains.get(pipeline), worked]).then(() => undefined),
  )
}

/** Claims the tick of the next run; null: no tick is due, or it must wait, or it is skipped. */
const takeNext = async (keeper: Keeper, entry: Scheduled, idle: string | null): Promise<number | null> => {
  const { process, database } = keeper.runtime
  const { pipeline } = entry
  if (keeper.signal.aborted || (await findTick(keeper, database.kysely, entry, idle)) === null) return null
  return database.kysely.transaction().execute(async (trx) => {
    await lockTicks(trx, pipeline)
    // If the clock was set back, a recorded tick lies in the future and would block all ticks until then.
    await keeper.runtime.hearClock(trx)
    const next = (await isRegistered(trx, process)) ? await findTick(keeper, trx, entry, idle) : null
    if (next === null || next.waits || (idle === null && next.kind !== 'skipped')) return null
    await claimTick(trx, { pipeline, dueMs: next.dueMs, owner: process.name, kind: next.kind })
    return next.kind === 'skipped' ? null : next.dueMs
  })
}

/** Begins a run for each pipeline that has approved jobs and no run in progress. */
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
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'a run of approved purchases ended in an error'),
    )
    chains.set(
      pipeline,
      Promise.all([chains.get(pipeline), work]).then(() => void running.delete(pipeline)),
    )
  }
}

/** One run of what is due. Always ends with alarms and the end of the tick; only if the database was unreachable for too long is the tick taken again. */
const runTick = async (keeper: Keeper, entry: Scheduled, dueMs: number): Promise<void> => {
  const { runtime, ping, signal } = keeper
  const { kysely } = runtime.database
  const tick = { pipeline: entry.pipeline, dueMs, owner: runtime.process.name }
  let result: RunResult | null = null
  let end = () => finishTick(kysely, tick)
  // Retried without end, because other schedulers wait for the end of this tick.
  const untilEnded = (): Promise<void> =>
    retryWhileAway(runtime, signal, end).catch((error) =>
      isTransient(error) && !signal.aborted ? untilEnded() : Promise.reject(error),
    )
  try {
    await ping('start')
    // A database restart during planning must not lose the night.
    result = await retryWhileAway(runtime, signal, () => loadOne(keeper, entry, dueMs))
    await sweepLandings(runtime)
  } catch (error) {
    if (result === null && isTransient(error)) end = () => assignTick(kysely, tick, null)
    throw error
  } finally {
    await ping(result?.state === 'done' ? 'success' : 'fail')
    // After a stop in the middle the tick stays open: the next scheduler takes it once this process has ended.
    if (!signal.aborted || !['interrupted', undefined].includes(result?.state)) await untilEnded()
    await notify(runtime)
  }
}

/** Plans and runs. @param dueMs the tick of the run; null: only what a person approved */
const loadOne = async (
  { runtime, signal, concurrency }: Keeper,
  { pipeline, versions }: Pick<Scheduled, 'pipeline' | 'versions'>,
  dueMs: number | null,
): Promise<RunResult> => {
  const { definitions, gone } = await currentOf(runtime, versions)
  // The approved jobs may belong only to the version whose file is gone: each minute would then start an empty run.
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
      await assignTick(runtime.database.kysely, { pipeline, dueMs, owner: runtime.process.name }, runId)
      return planned
    },
    concurrency,
    signal,
  })
  const { runId, state, summary } = result
  await forecastBacklog(runtime, definitions)
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
  // The other versions have run, but a night with a missing file is no success.
  if (gone !== undefined) throw gone.reason
  return result
}

/** The definitions as their files are now. `gone`: why a version is missing; the others still run. Throws where none is left. */
const currentOf = async (runtime: Runtime, versions: readonly Definition[]) => {
  const read = await Promise.allSettled(versions.map((one) => withCurrentLists(runtime, one)))
  const definitions = read.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const gone = read.find((one) => one.status === 'rejected')
  if (definitions.length === 0 && gone !== undefined) throw gone.reason
  return { definitions, gone }
}
