// One row for each account, shared by all machines: when its next request may be sent, its rate since a refusal, and since when its service is in trouble.
import { sql } from 'kysely'
import { type AccountRow, slotToleranceMs, type LearnedRate, rateAfterRefusal } from '../core/pace.ts'
import { missingRelations } from '../db/catalog.ts'
import { databaseError } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import type { Maybe, Numbers, Texts } from '../db/typed-row.ts'
import { databaseNow } from '../db/database-clock.ts'

/** Whether the table etl.pace exists: the warehouse may not be set up that far. */
export const hasAccountPace = async (db: Db): Promise<boolean> => (await missingRelations(db, ['etl.pace'])).length === 0

/** The next free moment by the database's clock. Where that clock was set back since, the moment keeps its distance from `noted_at`. */
const nextFree = sql<string>`greatest(pace.next_at - greatest(pace.noted_at - clock_timestamp(), interval '0'), clock_timestamp() - ${sql.lit(`${slotToleranceMs} ms`)}::interval)`

const span = (ms: number) => sql<string>`${ms}::float8 * interval '1 millisecond'`

/**
 * @param account a name that no other API's account has. Throws errors of the database as EtlError; nothing has been sent then. Commits are asynchronous
 * (`synchronous_commit` off): a crash of the server can lose about one second of them.
 */
export const createAccountPace = (db: Db, account: string): AccountRow => ({
  reserve: (ms) =>
    db
      .insertInto('etl.pace')
      .values({ account, next_at: sql`clock_timestamp() + ${span(ms)}`, noted_at: databaseNow })
      .onConflict((conflict) =>
        conflict.column('account').doUpdateSet({ next_at: sql`${nextFree} + ${span(ms)}`, noted_at: databaseNow }),
      )
      .returning(sql<number>`extract(epoch from next_at - noted_at)::float8 * 1000 - ${ms}::float8`.as('wait_ms'))
      .returning(sql`set_config('synchronous_commit', 'off', true)`.as('asynchronous'))
      .returning(paceColumns)
      .executeTakeFirstOrThrow()
      .then((row) => ({ waitMs: row.wait_ms, learnt: learntOf(row) }), inOurWords),
  refused: (refusal, pauseMs) =>
    db
      .transaction()
      .execute(async (trx) => {
        const paused = sql<string>`greatest(${nextFree}, clock_timestamp() + ${span(pauseMs)})`
        const own = trx.updateTable('etl.pace').where('account', '=', account)
        const before = await own
          .set({ next_at: paused, noted_at: databaseNow })
          .returning(paceColumns)
          .executeTakeFirstOrThrow()
          .then(learntOf)
        const learnt = rateAfterRefusal(before, refusal)
        const { base, ceiling } = learnt
        if (learnt !== before)
          await own.set({ requests_per_second: base, ceiling, changed_at: databaseNow, refused_at: databaseNow }).execute()
        return learnt
      })
      .catch(inOurWords),
})

const inOurWords = (error: unknown): never => {
  throw databaseError(error, 'cannot read the shared request rate')
}

const msSince = (column: string) =>
  sql<number>`coalesce(extract(epoch from clock_timestamp() - ${sql.ref(column)})::float8 * 1000, 0)`

/** Columns of etl.pace that `learntOf` reads. */
export const paceColumns = [
  sql<number | null>`requests_per_second`.as('requests_per_second'),
  sql<number | null>`ceiling`.as('ceiling'),
  msSince('changed_at').as('changed_ago'),
  msSince('refused_at').as('refused_ago'),
] as const

type PaceRow = Maybe<Numbers<'requests_per_second' | 'ceiling'>> & Numbers<'changed_ago' | 'refused_ago'>

/** null: it was never refused. */
export const learntOf = ({ requests_per_second, ceiling, changed_ago, refused_ago }: PaceRow): LearnedRate | null =>
  requests_per_second === null
    ? null
    : { base: requests_per_second, ceiling, changedMsAgo: changed_ago, refusedMsAgo: refused_ago }

/** A recorded trouble. `place`: the account as a whole, or a path. */
type NotedTrouble = Texts<'place' | 'code' | 'message'> & Numbers<'sinceMsAgo'>

/** For the page and the metrics; the newest trouble of an account replaces an earlier one. */
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

/** Ends the trouble of that place. */
export const endTrouble = async (db: Db, account: string, place: string): Promise<void> => {
  await db
    .updateTable('etl.pace')
    .set({ trouble_place: null, trouble_code: null, trouble_message: null, trouble_since: null, trouble_seen_at: null })
    .where((eb) => eb.and({ account, trouble_place: place }))
    .execute()
}
