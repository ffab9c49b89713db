// Ask numbers of jobs: what decides which answer is newer.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Db } from '../db/tables.ts'
import { fenced, type Hold, isHeldBy } from './hold.ts'

/** The number the job was asked for under. Throws INTERNAL where nothing was asked for yet. */
export const askNumberOf = async (db: Db, { jobId }: Hold): Promise<string> => {
  const row = await db.selectFrom('etl.jobs').select('ask_number').where('job_id', '=', String(jobId)).executeTakeFirst()
  if (row === undefined || row.ask_number === null)
    throw new EtlError('INTERNAL', `Job ${jobId} has an answer and was never asked for; please report this defect.`)
  return row.ask_number
}

/** For pages that are read anew, whose answer is newer than that of the reading before. Draws a new number for the job and forgets an answer that turned out unusable; the number. Throws FENCED. */
export const askAnew = async (db: Db, hold: Hold): Promise<string> => {
  const row = await db
    .updateTable('etl.jobs')
    .set({
      ask_number: sql<string>`nextval('etl.ask_numbers')`,
      asked_at: sql<string>`clock_timestamp()`,
      answer_id: null,
      updated_at: sql<string>`clock_timestamp()`,
    })
    .where(isHeldBy(hold))
    .returning('ask_number')
    .executeTakeFirst()
  if (row === undefined || row.ask_number === null) throw fenced(hold)
  return row.ask_number
}

/** Landing of the first pages of a walk that was stopped; null: there is none. */
export const begunLanding = async (db: Db, { jobId }: Hold): Promise<string | null> => {
  const row = await db.selectFrom('etl.jobs').select('begun_landing').where('job_id', '=', String(jobId)).executeTakeFirst()
  return row?.begun_landing ?? null
}

/** null: there is none any more. */
export const setBegun = async (db: Db, hold: Hold, landing: string | null): Promise<void> => {
  await db.updateTable('etl.jobs').set({ begun_landing: landing }).where(isHeldBy(hold)).execute()
}
