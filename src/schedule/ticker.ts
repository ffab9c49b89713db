// Takes the ticks of every schedule as time goes by, each tick one run of what is due; knows no timer, so that any clock can drive it.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { notificationTargets, notify } from '../notify/notify.ts'
import { createPing, type Ping } from '../notify/ping.ts'
import { paceRun, readyToBuy } from '../pipeline/pace.ts'
import { planApproved, planRun, type Scope } from '../pipeline/plan-run.ts'
import { sweep } from '../pipeline/retention.ts'
import { type RunResult, runJobs } from '../pipeline/run.ts'
import { missedTicks, type Scheduled, scheduledOf } from '../pipeline/scheduled.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { ticksBetween } from '../plan/ticks.ts'
import { claimTick, finishTick, lastTickMs } from '../ledger/ticks.ts'

export interface ScheduleState {
  /** Pipelines at work now. */
  readonly running: ReadonlySet<string>
  readonly lastResults: ReadonlyMap<string, RunResult['state']>
}

export interface Ticker {
  readonly state: ScheduleState
  /** Tells which ticks are late, then takes those that came while no scheduler ran, as each pipeline's `catch_up` says. */
  catchUp(): Promise<void>
  /** Takes the ticks that came since the last check. */
  sweep(): void
  /** Begins a run for each pipeline with something that a person approved and nobody works on: its nights need not be waited for. */
  approved(): Promise<void>
  /** Takes the tick of that minute, where the schedule has one; taking it again does nothing. */
  take(entry: Scheduled, dueMs: number): void
  /** Pipelines with a tick that came since this ticker began, that nobody took and that no run in progress makes wait. */
  overdue(): Promise<readonly string[]>
  /** Resolves when the runs in progress are done. */
  settled(): Promise<void>
}

/** Ticks are checked for each minute and taken at once; who is so late does not keep time any more. */
const overdueMs = 5 * 60_000

export interface TickerOptions {
  /** Jobs worked on at once for each run; 0: somebody else in this process does. Default: what the definition allows. */
  readonly concurrency?: number
}

/** A timer may be that much early by the database's clock. */
const timerSlackMs = 5_000

/** Keeps time from now on. @param signal aborted: no more ticks are taken, runs in progress put their jobs back. */
export const createTicker = (runtime: Runtime, signal: AbortSignal, { concurrency }: TickerOptions = {}): Ticker => {
  const running = new Set<string>()
  const lastResults = new Map<string, RunResult['state']>()
  const chains = new Map<string, Promise<void>>()
  const scheduled = scheduledOf(runtime.definitions)
  // Settings that are wrong end the command before the first night, not in it.
  const ping = createPing(runtime.settings, runtime.log)
  notificationTargets(runtime.settings)
  const begunMs = runtime.clock.now()
  let lookedMs = begunMs

  const tick = (entry: Scheduled, dueMs: number, kind: 'on time' | 'caught up'): void => {
    const { pipeline } = entry.definition
    const before = chains.get(pipeline) ?? Promise.resolve()
    const work = async (): Promise<void> => {
      if (signal.aborted) return
      const skipped = entry.schedule.overlap === 'skip' && running.has(pipeline)
      const owner = runtime.process.name
      const isMine = await claimTick(runtime.database.kysely, { pipeline, dueMs, owner, kind: skipped ? 'skipped' : kind })
      if (!isMine || skipped) return
      running.add(pipeline)
      try {
        lastResults.set(pipeline, await runTick(runtime, { ping, definition: entry.definition, dueMs, concurrency, signal }))
      } finally {
        running.delete(pipeline)
      }
    }
    // Overlap `queue` waits for the run before it; `skip` checks at once and gives way.
    const next = (entry.schedule.overlap === 'skip' ? Promise.all([before, work()]) : before.then(work)).then(
      () => undefined,
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
    )
    chains.set(pipeline, next)
  }

  const buyApproved = async (): Promise<void> => {
    const free = runtime.definitions.filter(({ pipeline }) => !running.has(pipeline))
    const ready = await readyToBuy(runtime, free)
    for (const definition of free.filter(({ pipeline }) => ready.includes(pipeline) && !signal.aborted)) {
      const { pipeline } = definition
      running.add(pipeline)
      const work = runApproved(runtime, definition, concurrency, signal).then(
        () => undefined,
        (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'a run of what was approved ended in an error'),
      )
      chains.set(
        pipeline,
        Promise.all([chains.get(pipeline), work]).then(() => void running.delete(pipeline)),
      )
    }
  }

  return {
    state: { running, lastResults },
    approved: buyApproved,
    catchUp: async () => {
      // Told before anything is taken: a night that is made up for was missed all the same.
      await notify(runtime)
      for (const entry of scheduled) for (const dueMs of await missedTicks(runtime, entry)) tick(entry, dueMs, 'caught up')
    },
    sweep: () => {
      const nowMs = runtime.clock.now()
      for (const entry of scheduled)
        for (const dueMs of ticksBetween(entry.schedule, lookedMs, nowMs)) tick(entry, dueMs, 'on time')
      lookedMs = nowMs
    },
    take: (entry, dueMs) => {
      // The timer runs by the machine's clock: where that is ahead, the tick is not due yet, and the check every minute takes it when it is.
      if (dueMs > runtime.clock.now() + timerSlackMs) return
      // The second time of a repeated hour is no tick.
      if (ticksBetween(entry.schedule, dueMs - 1, dueMs).length > 0) tick(entry, dueMs, 'on time')
    },
    overdue: async () => {
      const found: string[] = []
      for (const { definition, schedule } of scheduled) {
        if (running.has(definition.pipeline)) continue
        const last = await lastTickMs(runtime.database.kysely, definition.pipeline)
        const since = Math.max(last ?? begunMs, begunMs)
        if (ticksBetween(schedule, since, runtime.clock.now() - overdueMs).length > 0) found.push(definition.pipeline)
      }
      return found
    },
    settled: async () => void (await Promise.all(chains.values())),
  }
}

interface Tick {
  readonly ping: Ping
  readonly definition: Definition
  readonly dueMs: number
  readonly concurrency: number | undefined
  readonly signal: AbortSignal
}

/** One run of what is due. Whatever happens to it, people are told and the tick is over. */
const runTick = async (runtime: Runtime, tick: Tick): Promise<RunResult['state']> => {
  const { ping, definition, dueMs } = tick
  let result: RunResult | null = null
  try {
    await ping('start')
    result = await runDue(runtime, tick)
    await sweep(runtime)
    return result.state
  } finally {
    await ping(result?.state === 'done' ? 'success' : 'fail')
    await notify(runtime)
    await finishTick(runtime.database.kysely, definition.pipeline, dueMs, result?.runId ?? null)
  }
}

/** One run of what a person approved, and nothing else. */
const runApproved = async (
  runtime: Runtime,
  definition: Definition,
  concurrency: number | undefined,
  signal: AbortSignal,
): Promise<void> => {
  const { runId } = await runJobs(runtime, {
    command: 'schedule',
    arguments: { pipeline: definition.pipeline, approved: true },
    definitions: [definition],
    plan: (run) => planApproved(runtime, run, definition),
    concurrency,
    signal,
  })
  await paceRun(runtime, [definition], runId, null)
  await notify(runtime)
}

const runDue = async (runtime: Runtime, { definition, dueMs, concurrency, signal }: Tick): Promise<RunResult> => {
  const { pipeline } = definition
  const due = new Date(dueMs).toISOString()
  const scope: Scope = { mode: 'due' }
  const result = await runJobs(runtime, {
    command: 'schedule',
    arguments: { pipeline, due_at: due },
    definitions: [definition],
    plan: (runId) => planRun(runtime, runId, [definition], scope, signal),
    concurrency,
    signal,
  })
  const { runId, state, summary } = result
  await paceRun(runtime, [definition], runId, null)
  runtime.progress.emit({ event: 'tick', pipeline, due_at: due, run_id: runId, state, units: summary.units })
  return result
}
