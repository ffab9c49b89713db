// The nightly in one long-running process: node-cron and a look every minute drive the ticker until it is stopped.
import { createTask, type ScheduledTask } from 'node-cron'
import { notify } from '../notify/notify.ts'
import { type Scheduled, scheduledOf } from './scheduled.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { createTicker, type ScheduleState } from './ticker.ts'

const tellEveryMs = 60_000
const sweepEveryMs = 60_000

export interface Scheduler {
  readonly state: ScheduleState
  /** Pipelines whose tick came and was not taken: empty while time is kept. */
  overdue(): Promise<readonly string[]>
  /** Takes no more ticks and resolves when the runs at hand are done. */
  stop(): Promise<void>
}

/** Catches up missed ticks as each pipeline's `catch_up` says, then keeps time until stopped. */
export const startScheduler = async (runtime: Runtime, signal: AbortSignal): Promise<Scheduler> => {
  const ticker = createTicker(runtime, signal)
  // What is late and what could not be sent is looked at between the nights too.
  const tell = setInterval(() => void notify(runtime), tellEveryMs)
  // node-cron leaves out a time that daylight saving skips, and all that a sleeping machine missed; what it took already is not taken twice.
  const sweep = setInterval(() => ticker.sweep(), sweepEveryMs)
  const tasks: ScheduledTask[] = []
  const stop = async (): Promise<void> => {
    clearInterval(tell)
    clearInterval(sweep)
    await Promise.all(tasks.map((task) => task.destroy()))
    await ticker.settled()
  }
  try {
    await ticker.catchUp()
    for (const entry of scheduledOf(runtime.definitions)) tasks.push(keepTime(entry, (dueMs) => ticker.take(entry, dueMs)))
  } catch (error) {
    await stop()
    throw error
  }
  return { state: ticker.state, overdue: ticker.overdue, stop }
}

const keepTime = ({ definition, schedule }: Scheduled, onTick: (dueMs: number) => void): ScheduledTask => {
  const task = createTask(schedule.cron, ({ date }) => onTick(Math.floor(date.getTime() / 60_000) * 60_000), {
    timezone: schedule.timeZone,
    name: definition.pipeline,
  })
  void task.start()
  return task
}
