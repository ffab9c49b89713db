// What each account's refusals have taught about its rate, and since when its service is in trouble: one row an account, for all machines.
import { sql } from 'kysely'
import { type LearntPace, type RateRefusal, slowerBy } from '../core/pace.ts'
import { databaseError } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import { databaseNow } from './database-now.ts'

/** What the account's refusals have taught, shared by every machine. */
export interface AccountPace {
  read(): Promise<LearntPace | null>
  refused(refusal: RateRefusal): Promise<LearntPace>
}

/** @param account its name, unlike that of any other API's. `refused` throws what the database throws, `read` an EtlError: whoever asks has sent nothing. */
export const createAccountPace = (db: Db, account: string): AccountPace => ({
  read: () =>
    learntOf(db, account, false).catch((error: unknown) => {
      throw databaseError(error, 'cannot tell the rate')
    }),
  refused: (refusal) =>
    db.transaction().execute(async (trx) => {
      await trx
        .insertInto('etl.pace')
        .values({ account })
        .onConflict((conflict) => conflict.column('account').doNothing())
        .execute()
      const before = await learntOf(trx, account, true)
      const learnt = slowerBy(before, refusal)
      if (learnt === before) return before
      const { base, ceiling } = learnt
      await trx
        .updateTable('etl.pace')
        .set({ requests_per_second: base, ceiling, changed_at: databaseNow, refused_at: databaseNow })
        .where('account', '=', account)
        .execute()
      return learnt
    }),
})

const msSince = (column: string) => sql<number | null>`extract(epoch from clock_timestamp() - ${sql.ref(column)})::float8 * 1000`

const learntOf = async (db: Db, account: string, isLocked: boolean): Promise<LearntPace | null> => {
  const rows = db
    .selectFrom('etl.pace')
    .select(['requests_per_second', 'ceiling'])
    .select([msSince('changed_at').as('changed_ago'), msSince('refused_at').as('refused_ago')])
    .where('account', '=', account)
  const row = await (isLocked ? rows.forUpdate() : rows).executeTakeFirst()
  if (row === undefined || row.requests_per_second === null) return null
  const { requests_per_second, ceiling, changed_ago, refused_ago } = row
  return { base: requests_per_second, ceiling, changedMsAgo: changed_ago ?? 0, refusedMsAgo: refused_ago ?? 0 }
}

/** A trouble as it is on record. */
export interface NotedTrouble {
  /** What is in trouble: the account as a whole, or a path. */
  readonly place: string
  readonly code: string
  readonly message: string
  readonly sinceMsAgo: number
}

/** For the page and the metrics; the newest trouble of an account stands. */
export const noteTrouble = async (db: Db, account: string, trouble: NotedTrouble): Promise<void> => {
  const values = {
    trouble_place: trouble.place,
    trouble_code: trouble.code,
    trouble_message: trouble.message,
    trouble_since: sql<string>`clock_timestamp() - ${Math.round(trouble.sinceMsAgo)}::float8 * interval '1 millisecond'`,
    trouble_seen_at: databaseNow,
  }
  await db
    .insertInto('etl.pace')
    .values({ account, ...values })
    .onConflict((conflict) => conflict.column('account').doUpdateSet(values))
    .execute()
}

/** It is over. */
export const endTrouble = async (db: Db, account: string, place: string): Promise<void> => {
  await db
    .updateTable('etl.pace')
    .set({ trouble_place: null, trouble_code: null, trouble_message: null, trouble_since: null, trouble_seen_at: null })
    .where('account', '=', account)
    .where('trouble_place', '=', place)
    .execute()
}
