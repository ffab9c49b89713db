// Ticks of schedules on record: each is taken by one process, whichever comes first.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** A tick that a process wants to take. */
export interface TickClaim {
  readonly pipeline: string
  readonly dueMs: number
  readonly owner: string
  readonly kind: 'on time' | 'caught up' | 'skipped' | 'released'
}

/** True when this process took the tick, false when another had. */
export const claimTick = async (db: Db, { pipeline, dueMs, owner, kind }: TickClaim): Promise<boolean> => {
  const taken = await db
    .insertInto('etl.ticks')
    .values({ pipeline, due_at: new Date(dueMs).toISOString(), claimed_by: owner, kind })
    .onConflict((conflict) => conflict.columns(['pipeline', 'due_at']).doNothing())
    .returning('pipeline')
    .execute()
  return taken.length > 0
}

/** @param runId null: it ended before it had a run */
export const finishTick = async (db: Db, pipeline: string, dueMs: number, runId: number | null): Promise<void> => {
  await db
    .updateTable('etl.ticks')
    .set({ run_id: runId, finished_at: sql<string>`clock_timestamp()` })
    .where('pipeline', '=', pipeline)
    .where('due_at', '=', new Date(dueMs).toISOString())
    .execute()
}

/** When the pipeline last ticked, or null when it never has. */
export const lastTickMs = async (db: Db, pipeline: string): Promise<number | null> => {
  const row = await db
    .selectFrom('etl.ticks')
    .select((eb) => eb.fn.max('due_at').as('due_at'))
    .where('pipeline', '=', pipeline)
    .executeTakeFirst()
  return row?.due_at ? Date.parse(row.due_at) : null
}
