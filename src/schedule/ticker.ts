// Takes the ticks of every schedule as time goes by, each one run of what is due, in turn for each pipeline; and runs what a person approved. Knows no timer, so
// that any clock can drive it.
import { messageOf } from '../core/errors.ts'
import { dataOf } from '../core/release-month.ts'
import { accountName } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { outlast } from '../db/outlast.ts'
import { approvedReady } from '../ledger/approved-jobs.ts'
import { claimTick, finishTick, lastTickMs, lostTickMs, planTick, releasesSince, type WakingRelease } from '../ledger/releases.ts'
import { paceRun } from '../plan/pace-backfill.ts'
import { planApproved, planRun } from '../plan/plan-run.ts'
import { missedTicks, type Scheduled, scheduledOf, ticksBetween } from '../plan/ticks.ts'
import { withCurrentLists } from '../plan/query-lists.ts'
import { sweep } from '../run/retention.ts'
import { runJobs, type RunResult } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { alarmingOf } from './notify/receivers.ts'
import { createPing, notify, type Ping } from './notify/send-alarms.ts'

/** Ticks are checked for each minute and taken at once; who is so late does not keep time any more. */
const overdueMs = 5 * 60_000

/** A timer may be that much early by the database's clock. */
const timerSlackMs = 5_000

/**
 * The schedule without timers, which keeps time from now on: its holder says when time has passed.
 * @param signal aborted: no more ticks are taken, runs in progress put their jobs back
 * @param sinceMs ticks from then on are its own. Default: now
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
  const keeper = keeperOf(runtime, signal, ping, concurrency)
  const begunMs = sinceMs ?? runtime.clock.now()
  let lookedMs = begunMs

  return {
    /** Begins a run for each pipeline with something that a person approved and no process works on: its nights need not be waited for. */
    approved: () => buyApproved(keeper),
    /** Tells which ticks are late, then takes those that came while no scheduler ran, as each pipeline's `catch_up` says. */
    catchUp: async () => {
      // Notified before anything is taken: a night that is made up for was missed all the same.
      await notify(runtime)
      for (const entry of scheduled)
        for (const dueMs of await missedTicks(runtime, entry)) takeTick(keeper, entry, dueMs, 'caught up')
    },
    /** Takes the ticks that came since the last check. */
    sweep: () => {
      const nowMs = runtime.clock.now()
      for (const entry of scheduled)
        for (const dueMs of ticksBetween(entry.schedule, lookedMs, nowMs)) takeTick(keeper, entry, dueMs, 'on time')
      lookedMs = nowMs
    },
    /** Takes the tick of a process that died before it had planned what is due. */
    lost: async () => {
      for (const entry of scheduled.filter(({ schedule }) => schedule.catchUp !== 'none')) {
        const dueMs = await lostTickMs(runtime.database.kysely, entry.definition.pipeline)
        if (dueMs !== null) takeTick(keeper, entry, dueMs, 'caught up')
      }
    },
    /** Begins a run for each pipeline whose service said, since it last ran, that there are new data: once for each release. */
    released: wakeOnRelease(keeper, scheduled, begunMs),
    /** Takes the tick of that minute, where the schedule has one; taking it again does nothing. */
    take: (entry: Scheduled, dueMs: number) => {
      // The timer runs by the machine's clock: where that is ahead, the tick is not due yet, and the check every minute takes it when it is.
      if (dueMs > runtime.clock.now() + timerSlackMs) return
      // The second time of a repeated hour is no tick.
      if (ticksBetween(entry.schedule, dueMs - 1, dueMs).length > 0) takeTick(keeper, entry, dueMs, 'on time')
    },
    /** Pipelines with a tick that came since this ticker began, that were not taken and that no run in progress makes wait. */
    overdue: () =>
      overdueOf(
        runtime,
        scheduled.filter(({ definition }) => !keeper.running.has(definition.pipeline)),
        begunMs,
      ),
    settled: async () => void (await Promise.all(keeper.chains.values())),
  }
}

/** Each release once in this process; whether another one has taken it the ledger knows. */
const wakeOnRelease = (keeper: Keeper, scheduled: readonly Scheduled[], begunMs: number): (() => Promise<void>) => {
  const { kysely } = keeper.runtime.database
  const seen = new Set<string>()
  let sinceMs: ReadonlyMap<string, number> | null = null
  return async () => {
    sinceMs ??= await lastTicks(keeper, scheduled, begunMs)
    const earliest = Math.min(...sinceMs.values())
    for (const release of await releasesSince(kysely, earliest))
      for (const entry of scheduled) {
        const { pipeline } = entry.definition
        const name = `${pipeline} ${release.every} ${release.availableTo}`
        if (seen.has(name) || !concerns(entry, release) || release.heardMs <= (sinceMs.get(pipeline) ?? begunMs)) continue
        seen.add(name)
        takeTick(keeper, entry, release.heardMs, 'released')
      }
  }
}

/** From when on each pipeline is woken: what came while no schedule ran is made up for as its `catch_up` says. */
const lastTicks = async ({ runtime }: Keeper, scheduled: readonly Scheduled[], begunMs: number) => {
  const found = new Map<string, number>()
  for (const { definition, schedule } of scheduled) {
    const last = schedule.catchUp === 'none' ? null : await lastTickMs(runtime.database.kysely, definition.pipeline)
    found.set(definition.pipeline, last ?? begunMs)
  }
  return found
}

const concerns = ({ definition }: Scheduled, { account, every }: WakingRelease): boolean =>
  accountName(definition) === account && dataOf(definition.window.every) === every

/** Pipelines with a tick that came since `begunMs`, long ago by now, and that were not taken. */
const overdueOf = async (runtime: Runtime, scheduled: readonly Scheduled[], begunMs: number): Promise<readonly string[]> => {
  const found: string[] = []
  for (const { definition, schedule } of scheduled) {
    const last = await lastTickMs(runtime.database.kysely, definition.pipeline)
    const since = Math.max(last ?? begunMs, begunMs)
    if (ticksBetween(schedule, since, runtime.clock.now() - overdueMs).length > 0) found.push(definition.pipeline)
  }
  return found
}

type Keeper = ReturnType<typeof keeperOf>

/** What a scheduler knows of the runs it began. `chains`: by pipeline, one after the other; never rejects. */
const keeperOf = (runtime: Runtime, signal: AbortSignal, ping: Ping, concurrency: number | undefined) => {
  const [running, chains] = [new Set<string>(), new Map<string, Promise<void>>()]
  return { runtime, signal, ping, concurrency, running, chains }
}

/** `released`: the service said that there are new data. */
type TickKind = 'on time' | 'caught up' | 'released'

/**
 * Begins the run of one tick, unless another process has taken it. Overlap `queue` waits for the run before it; `skip` checks at once and gives
 * way. Never rejects: what goes wrong is logged.
 */
const takeTick = (keeper: Keeper, entry: Scheduled, dueMs: number, kind: TickKind): void => {
  const { runtime, signal, running, chains } = keeper
  const { pipeline } = entry.definition
  const before = chains.get(pipeline) ?? Promise.resolve()
  // New data are not left to the next night because this one is still at work.
  const mayWait = kind === 'released' || entry.schedule.overlap === 'queue'
  const work = async (): Promise<void> => {
    if (signal.aborted) return
    const skipped = !mayWait && running.has(pipeline)
    const owner = runtime.process.name
    const isMine = await claimTick(runtime.database.kysely, { pipeline, dueMs, owner, kind: skipped ? 'skipped' : kind })
    if (!isMine || skipped) return
    running.add(pipeline)
    try {
      await runTick(keeper, entry.definition, dueMs)
    } finally {
      running.delete(pipeline)
    }
  }
  const next = (mayWait ? before.then(work) : Promise.all([before, work()])).then(
    () => undefined,
    (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
  )
  chains.set(pipeline, next)
}

/** Begins a run for each pipeline that has something approved and no run at work. */
const buyApproved = async (keeper: Keeper): Promise<void> => {
  const { runtime, signal, running, chains } = keeper
  const free = runtime.definitions.filter(({ pipeline }) => !running.has(pipeline))
  const ready = await approvedReady(runtime.database.kysely, free)
  for (const definition of free.filter(({ pipeline }) => ready.includes(pipeline) && !signal.aborted)) {
    const { pipeline } = definition
    running.add(pipeline)
    const work = loadOne(keeper, definition, null).then(
      () => notify(runtime),
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'a run of what was approved ended in an error'),
    )
    chains.set(
      pipeline,
      Promise.all([chains.get(pipeline), work]).then(() => void running.delete(pipeline)),
    )
  }
}

/** One run of what is due. Whatever happens to it, people hear of it and the tick is over. */
const runTick = async (keeper: Keeper, definition: Definition, dueMs: number): Promise<void> => {
  const { runtime, ping } = keeper
  let result: RunResult | null = null
  try {
    await ping('start')
    // The night is not lost over a database that restarts while it is planned.
    result = await outlast(runtime, keeper.signal, () => loadOne(keeper, definition, dueMs))
    await sweep(runtime)
  } finally {
    await ping(result?.state === 'done' ? 'success' : 'fail')
    await notify(runtime)
    const tick = { pipeline: definition.pipeline, dueMs }
    await outlast(runtime, keeper.signal, () => finishTick(runtime.database.kysely, tick, keeper.signal.aborted))
  }
}

/** @param dueMs the tick whose run it is; null: what a person approved, and nothing else */
const loadOne = async ({ runtime, signal, concurrency }: Keeper, known: Definition, dueMs: number | null): Promise<RunResult> => {
  const definition = await withCurrentLists(runtime, known)
  const { pipeline } = definition
  const dueAt = dueMs === null ? null : new Date(dueMs).toISOString()
  const result = await runJobs(runtime, {
    command: 'schedule',
    arguments: dueAt === null ? { pipeline, approved: true } : { pipeline, due_at: dueAt },
    definitions: [definition],
    plan: async (runId, stop) => {
      if (dueMs === null) return planApproved(runtime, runId, definition, stop)
      const planned = await planRun(runtime, runId, [definition], { mode: 'due' }, stop)
      await planTick(runtime.database.kysely, { pipeline, dueMs }, runId)
      return planned
    },
    concurrency,
    signal,
  })
  const { runId, state, summary } = result
  await paceRun(runtime, [definition], runId, null)
  if (dueAt !== null) {
    const zone = definition.schedule?.timeZone ?? 'UTC'
    runtime.progress.emit({ event: 'tick', pipeline, due_at: dueAt, time_zone: zone, run_id: runId, state, units: summary.units })
  }
  return result
}
