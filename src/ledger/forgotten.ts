// What a ledger that was restored from a backup cannot remember: reports that were bought after the backup was taken, and left no receipt.
import { type RawBuilder, sql } from 'kysely'
import type { Forgotten } from '../core/report-shape.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'

/** So long after a person declared it restored the service is asked for what it made before; reports are kept there for days. */
const searchedFor = sql`interval '30 days'`

/**
 * From the last run that the backup knew to the moment a person declared that this database goes on. null where that was never, or long ago, or where the
 * job's units have rows: what is asked for then is something newer.
 */
export const forgottenSpan = async (db: Db, { jobId, forced }: ClaimedJob): Promise<Forgotten | null> => {
  const until = forced ? null : await lastEvent(db, 'continues', null)
  if (until === null || (await hasRows(db, jobId))) return null
  const copied = (await lastEvent(db, 'copy', until)) ?? until
  const { at: since } = await db
    .selectFrom('etl.runs')
    .select((eb) => eb.fn.max<string | null>('started_at').as('at'))
    .where('started_at', '<', copied)
    .executeTakeFirstOrThrow()
  const before = sql<string>`${copied}::timestamptz - ${searchedFor}`
  const row = await db
    .selectNoFrom([msAgo(since === null ? before : since).as('since'), msAgo(until).as('until')])
    .executeTakeFirstOrThrow()
  return { sinceMsAgo: row.since, untilMsAgo: row.until }
}

const msAgo = (at: unknown): RawBuilder<number> =>
  sql<number>`extract(epoch from clock_timestamp() - ${at}::timestamptz)::float8 * 1000`

/** @param until null: up to now */
const lastEvent = async (db: Db, kind: string, until: string | null): Promise<string | null> => {
  const { at } = await db
    .selectFrom('etl.events')
    .select((eb) => eb.fn.max<string | null>('at').as('at'))
    .where('kind', '=', kind)
    .where('at', '>', sql<string>`clock_timestamp() - ${searchedFor}`)
    .$if(until !== null, (events) => events.where('at', '<=', until ?? ''))
    .executeTakeFirstOrThrow()
  return at
}

const hasRows = async (db: Db, jobId: number): Promise<boolean> => {
  const unit = await db
    .selectFrom('etl.units')
    .select('unit_id')
    .where('job_id', '=', String(jobId))
    .where('ask_number', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return unit !== undefined
}
