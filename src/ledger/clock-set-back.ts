// The database's clock was ahead and was set right: what was noted by then lies in the future, and would be waited for. It keeps its distance to the moment it was noted.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { databaseNow } from './database-now.ts'

/** Beyond what a lease lasts: so far ahead no process of this moment has noted anything. */
const marginMs = 5_000
const isAhead = (column: string, ms = marginMs): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} > clock_timestamp() + ${ms} * interval '1 millisecond'`

/**
 * The lease of a process tells: it is renewed every few seconds, so that one which ends later than a new one would was written by another clock. Purchases keep their
 * time, for the guard counts by it: longer rather than too short. A job that is locked is left to the next look. Nothing to do is one small question.
 */
export const settleTimes = async (db: Db, leaseMs: number): Promise<void> => {
  const fromFuture = isAhead('lease_until', leaseMs + marginMs)
  if ((await db.selectFrom('etl.processes').select('process_id').where(fromFuture).limit(1).execute()).length === 0) return
  await db.transaction().execute(async (trx) => {
    const back = (column: string) => sql<string>`${sql.ref(column)} - (updated_at - clock_timestamp())`
    const openJobs = trx.selectFrom('etl.jobs').select('job_id').where('state', '=', 'open').where(isAhead('updated_at'))
    await trx
      .updateTable('etl.jobs')
      .set({ not_before: back('not_before'), next_poll_at: back('next_poll_at'), deadline_at: back('deadline_at') })
      .set({ updated_at: databaseNow })
      .where('job_id', 'in', openJobs.orderBy('job_id').forUpdate().skipLocked())
      .execute()
    // Nights that are still to come have not been taken.
    await trx.deleteFrom('etl.ticks').where(isAhead('due_at')).execute()
    await trx.updateTable('etl.locks').set({ held_until: databaseNow }).where(isAhead('held_until')).execute()
    await trx
      .updateTable('etl.deliveries')
      .set({ next_at: databaseNow })
      .where('outcome', 'is', null)
      .where(isAhead('next_at'))
      .execute()
    const atMost = (column: string) => sql<string>`least(${sql.ref(column)}, clock_timestamp())`
    await trx
      .updateTable('etl.pace')
      .set({ changed_at: atMost('changed_at'), refused_at: atMost('refused_at'), trouble_seen_at: atMost('trouble_seen_at') })
      .execute()
    if ((await openJobs.limit(1).execute()).length > 0) return
    await trx
      .updateTable('etl.processes')
      .set({ lease_until: sql<string>`clock_timestamp() + ${leaseMs} * interval '1 millisecond'` })
      .where(fromFuture)
      .execute()
  })
}
