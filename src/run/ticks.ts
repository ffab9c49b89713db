// Which ticks a schedule had, and the one row that says who took each of them.
import type { Kysely } from 'kysely'
import { createTask } from 'node-cron'
import type { Schedule } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'

const minuteMs = 60_000
/** Ticks older than this are not caught up one by one; what is due is derived from the ledger anyway. */
const longestGapMs = 40 * 24 * 60 * minuteMs

const inertTask = ({ cron, timeZone }: Schedule) => createTask(cron, () => undefined, { timezone: timeZone })

/**
 * Ticks in (afterMs, untilMs], oldest first, as node-cron sees them: wall-clock time of the schedule's zone, a time skipped by
 * daylight saving runs once right after the gap, a repeated time runs once.
 */
export const ticksBetween = (schedule: Schedule, afterMs: number, untilMs: number): number[] => {
  const task = inertTask(schedule)
  const first = Math.floor(Math.max(afterMs, untilMs - longestGapMs) / minuteMs) * minuteMs + minuteMs
  const ticks: number[] = []
  for (let at = first; at <= untilMs; at += minuteMs) if (task.match(new Date(at))) ticks.push(at)
  void task.destroy()
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
