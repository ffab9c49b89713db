// Which ticks a schedule had, and the one row that says who took each of them.
import type { Kysely } from 'kysely'
import { createTask } from 'node-cron'
import { Temporal } from '../core/temporal.ts'
import type { Schedule } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'

const minuteMs = 60_000
/** Ticks older than this are not caught up one by one; what is due is derived from the ledger anyway. */
const longestGapMs = 40 * 24 * 60 * minuteMs

const inertTask = ({ cron, timeZone }: Schedule) => createTask(cron, () => undefined, { timezone: timeZone })

/**
 * Ticks in (afterMs, untilMs], oldest first, by the wall clock of the schedule's zone. A time that daylight saving skips ticks once, at the
 * first minute after the gap; a repeated one ticks once, the first time. A schedule of every hour knows no such times: it ticks by the hour.
 */
export const ticksBetween = (schedule: Schedule, afterMs: number, untilMs: number): number[] => {
  const task = inertTask(schedule)
  const first = Math.floor(Math.max(afterMs, untilMs - longestGapMs) / minuteMs) * minuteMs + minuteMs
  const ticks: number[] = []
  for (let at = first; at <= untilMs; at += minuteMs) if (task.match(new Date(at))) ticks.push(at)
  void task.destroy()
  if (isHourly(schedule.cron)) return ticks
  const once = ticks.filter((at) => !isRepetition(at, schedule.timeZone))
  return [...new Set([...once, ...ticksAfterGaps(schedule, first, untilMs)])].sort((a, b) => a - b)
}

/** The hour field, second of five or third of six. */
const isHourly = (cron: string): boolean => {
  const fields = cron.trim().split(/\s+/)
  return (fields[fields.length - 4] ?? '').startsWith('*')
}

const zoned = (ms: number, timeZone: string) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timeZone)

/** Whether the same wall-clock time came before. */
const isRepetition = (ms: number, timeZone: string): boolean => {
  const at = zoned(ms, timeZone)
  return at.toPlainDateTime().toZonedDateTime(timeZone, { disambiguation: 'earlier' }).epochMilliseconds < ms
}

/** Ends of gaps in (firstMs - 1 minute, untilMs] in whose skipped time the schedule has a tick. */
const ticksAfterGaps = (schedule: Schedule, firstMs: number, untilMs: number): number[] => {
  const ticks: number[] = []
  const wall = inertTask({ ...schedule, timeZone: 'UTC' })
  for (let at = zoned(firstMs - minuteMs, schedule.timeZone); ; ) {
    const change = at.getTimeZoneTransition('next')
    if (change === null || change.epochMilliseconds > untilMs) break
    const before = change.subtract({ nanoseconds: 1 })
    const skippedMs = (change.offsetNanoseconds - before.offsetNanoseconds) / 1e6
    const endMs = change.toPlainDateTime().toZonedDateTime('UTC').epochMilliseconds
    for (let skipped = endMs - skippedMs; skipped < endMs; skipped += minuteMs)
      if (wall.match(new Date(skipped))) {
        ticks.push(change.epochMilliseconds)
        break
      }
    at = change
  }
  void wall.destroy()
  return ticks
}

/** The next `count` ticks from now, in milliseconds since the epoch. */
export const nextTicks = (schedule: Schedule, count: number): number[] => {
  const task = inertTask(schedule)
  const dates = task.getNextRuns(count).map((date) => date.getTime())
  void task.destroy()
  return dates
}

export interface TickClaim {
  readonly pipeline: string
  readonly dueMs: number
  readonly owner: string
  readonly kind: 'on time' | 'caught up' | 'skipped'
}

/** True when this process took the tick, false when another had. */
export const claimTick = async (kysely: Kysely<Tables>, { pipeline, dueMs, owner, kind }: TickClaim): Promise<boolean> => {
  const taken = await kysely
    .insertInto('etl.ticks')
    .values({ pipeline, due_at: new Date(dueMs).toISOString(), claimed_by: owner, kind })
    .onConflict((conflict) => conflict.columns(['pipeline', 'due_at']).doNothing())
    .returning('pipeline')
    .execute()
  return taken.length > 0
}

export const finishTick = async (
  kysely: Kysely<Tables>,
  pipeline: string,
  dueMs: number,
  runId: number,
  atMs: number,
): Promise<void> => {
  await kysely
    .updateTable('etl.ticks')
    .set({ run_id: runId, finished_at: new Date(atMs).toISOString() })
    .where('pipeline', '=', pipeline)
    .where('due_at', '=', new Date(dueMs).toISOString())
    .execute()
}

/** When the pipeline last ticked, or null when it never has. */
export const lastTickMs = async (kysely: Kysely<Tables>, pipeline: string): Promise<number | null> => {
  const row = await kysely
    .selectFrom('etl.ticks')
    .select((eb) => eb.fn.max('due_at').as('due_at'))
    .where('pipeline', '=', pipeline)
    .executeTakeFirst()
  return row?.due_at ? Date.parse(row.due_at) : null
}
