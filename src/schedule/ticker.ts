// Takes the ticks of every schedule as time goes by, each tick one run of what is due; knows no timer, so that any clock can drive it.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { notify } from '../notify/notify.ts'
import { createPing } from '../notify/ping.ts'
import { planRun } from '../pipeline/plan-run.ts'
import { sweepLandings } from '../pipeline/retention.ts'
import { type RunResult, runUnits } from '../pipeline/run.ts'
import { missedTicks, type Scheduled, scheduledOf } from './scheduled.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { claimTick, finishTick, lastTickMs, ticksBetween } from './ticks.ts'

export interface ScheduleState {
  /** Pipelines at work now. */
  readonly running: ReadonlySet<string>
  readonly lastResults: ReadonlyMap<string, RunResult['state']>
}

export interface Ticker {
  readonly state: ScheduleState
  /** Tells which ticks are late, then takes those that came while no scheduler ran, as each pipeline's `catch_up` says. */
  catchUp(): Promise<void>
  /** Takes the ticks that came since the last look. */
  sweep(): void
  /** Takes the tick of that minute, where the schedule has one; taking it again does nothing. */
  take(entry: Scheduled, dueMs: number): void
  /** Pipelines with a tick that came since this ticker began, that nobody took and that no run at hand makes wait. */
  overdue(): Promise<readonly string[]>
  /** Resolves when the runs at hand are done. */
  settled(): Promise<void>
}

/** A tick is looked for each minute and taken at once; who is so late does not keep time any more. */
const overdueMs = 5 * 60_000

/** Looks from now on. @param signal aborted: no more ticks are taken, runs at hand park their units. */
export const createTicker = (runtime: Runtime, signal: AbortSignal): Ticker => {
  const running = new Set<string>()
  const lastResults = new Map<string, RunResult['state']>()
  const chains = new Map<string, Promise<void>>()
  const scheduled = scheduledOf(runtime.definitions)
  const begunMs = runtime.clock.now()
  let lookedMs = begunMs

  const tick = (entry: Scheduled, dueMs: number, kind: 'on time' | 'caught up'): void => {
    const { pipeline } = entry.definition
    const before = chains.get(pipeline) ?? Promise.resolve()
    const work = async (): Promise<void> => {
      if (signal.aborted) return
      const skipped = entry.schedule.overlap === 'skip' && running.has(pipeline)
      if (
        !(await claimTick(runtime.database.kysely, { pipeline, dueMs, owner: runtime.owner, kind: skipped ? 'skipped' : kind }))
      )
        return
      if (skipped) return
      running.add(pipeline)
      try {
        lastResults.set(pipeline, await runTick(runtime, entry.definition, dueMs, signal))
      } finally {
        running.delete(pipeline)
      }
    }
    // Overlap `queue` waits for the run before it; `skip` looks at once and gives way.
    const next = (entry.schedule.overlap === 'skip' ? Promise.all([before, work()]) : before.then(work)).then(
      () => undefined,
      (error) => runtime.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
    )
    chains.set(pipeline, next)
  }

  return {
    state: { running, lastResults },
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

const runTick = async (
  runtime: Runtime,
  definition: Definition,
  dueMs: number,
  signal: AbortSignal,
): Promise<RunResult['state']> => {
  const due = new Date(dueMs).toISOString()
  const ping = createPing(runtime.settings, runtime.log)
  await ping('start')
  const units = await planRun(runtime, [definition], { mode: 'due', force: false, only: null, order: 'newest-first' })
  const result = await runUnits(runtime, {
    command: 'schedule',
    arguments: { pipeline: definition.pipeline, due_at: due },
    definitions: [definition],
    units,
    signal,
  })
  const { runId, state } = result
  runtime.progress.emit({
    event: 'tick',
    pipeline: definition.pipeline,
    due_at: due,
    run_id: runId,
    state,
    units: result.summary.units,
  })
  await sweepLandings(runtime)
  await ping(result.state === 'done' ? 'success' : 'fail')
  await notify(runtime)
  await finishTick(runtime.database.kysely, definition.pipeline, dueMs, result.runId, runtime.clock.now())
  return result.state
}
