// The nightly in one long-running process: a tick a pipeline and minute, each taken by one scheduler, each a `run` of what is due.
import { createTask, type ScheduledTask } from 'node-cron'
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { notify } from './notify.ts'
import { createPing } from './ping.ts'
import { planRun } from './plan-run.ts'
import { sweepLandings } from './retention.ts'
import { type RunResult, runUnits } from './run.ts'
import { missedTicks, type Scheduled, scheduledOf } from './scheduled.ts'
import type { Shop } from './shop.ts'
import { claimTick, finishTick, ticksBetween } from './ticks.ts'

export interface ScheduleState {
  /** Pipelines at work now. */
  readonly running: ReadonlySet<string>
  readonly lastResults: ReadonlyMap<string, RunResult['state']>
}

const tellEveryMs = 60_000
const sweepEveryMs = 60_000

export interface Scheduler {
  readonly state: ScheduleState
  /** Takes no more ticks and resolves when the runs at hand are done. */
  stop(): Promise<void>
}

/** Catches up missed ticks as each pipeline's `catch_up` says, then keeps time until stopped. */
export const startScheduler = async (shop: Shop, signal: AbortSignal): Promise<Scheduler> => {
  const running = new Set<string>()
  const lastResults = new Map<string, RunResult['state']>()
  const chains = new Map<string, Promise<void>>()

  const tick = (entry: Scheduled, dueMs: number, kind: 'on time' | 'caught up'): void => {
    const { pipeline } = entry.definition
    const before = chains.get(pipeline) ?? Promise.resolve()
    const work = async (): Promise<void> => {
      if (signal.aborted) return
      const skipped = entry.schedule.overlap === 'skip' && running.has(pipeline)
      if (!(await claimTick(shop.database.kysely, { pipeline, dueMs, owner: shop.owner, kind: skipped ? 'skipped' : kind })))
        return
      if (skipped) return
      running.add(pipeline)
      try {
        lastResults.set(pipeline, await runTick(shop, entry.definition, dueMs, signal))
      } finally {
        running.delete(pipeline)
      }
    }
    // Overlap `queue` waits for the run before it; `skip` looks at once and gives way.
    const next = (entry.schedule.overlap === 'skip' ? Promise.all([before, work()]) : before.then(work)).then(
      () => undefined,
      (error) => shop.log.error({ pipeline, error: messageOf(error) }, 'scheduled run ended in an error'),
    )
    chains.set(pipeline, next)
  }

  const tasks: ScheduledTask[] = []
  // What is late and what could not be sent is looked at between the nights too.
  const tell = setInterval(() => void notify(shop), tellEveryMs)
  // node-cron leaves out a time that daylight saving skips; what it took already is claimed and not taken twice.
  let lookedMs = shop.clock.now()
  const sweep = setInterval(() => {
    const nowMs = shop.clock.now()
    for (const entry of scheduledOf(shop.definitions))
      for (const dueMs of ticksBetween(entry.schedule, lookedMs, nowMs)) tick(entry, dueMs, 'on time')
    lookedMs = nowMs
  }, sweepEveryMs)
  for (const entry of scheduledOf(shop.definitions)) {
    for (const dueMs of await missedTicks(shop, entry)) tick(entry, dueMs, 'caught up')
    tasks.push(
      keepTime(entry, (dueMs) => {
        // The second time of a repeated hour is no tick.
        if (ticksBetween(entry.schedule, dueMs - 1, dueMs).length > 0) tick(entry, dueMs, 'on time')
      }),
    )
  }
  return {
    state: { running, lastResults },
    stop: async () => {
      clearInterval(tell)
      clearInterval(sweep)
      await Promise.all(tasks.map((task) => task.destroy()))
      await Promise.all(chains.values())
    },
  }
}

const keepTime = ({ definition, schedule }: Scheduled, onTick: (dueMs: number) => void): ScheduledTask => {
  const task = createTask(schedule.cron, ({ date }) => onTick(Math.floor(date.getTime() / 60_000) * 60_000), {
    timezone: schedule.timeZone,
    name: definition.pipeline,
  })
  void task.start()
  return task
}

const runTick = async (shop: Shop, definition: Definition, dueMs: number, signal: AbortSignal): Promise<RunResult['state']> => {
  const ping = createPing(shop.settings, shop.log)
  await ping('start')
  const units = await planRun(shop, [definition], { mode: 'due', force: false, only: null, order: 'newest-first' })
  const result = await runUnits(shop, {
    command: 'schedule',
    arguments: { pipeline: definition.pipeline, due_at: new Date(dueMs).toISOString() },
    definitions: [definition],
    units,
    signal,
  })
  await sweepLandings(shop)
  await ping(result.state === 'done' ? 'success' : 'fail')
  await notify(shop)
  await finishTick(shop.database.kysely, definition.pipeline, dueMs, result.runId, shop.clock.now())
  return result.state
}
