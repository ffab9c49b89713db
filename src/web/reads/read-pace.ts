// The request rate of each account after a 429, and the services that are in trouble now.
import { sql } from 'kysely'
import { rateOf } from '../../core/pace.ts'
import type { Db } from '../../db/tables.ts'
import { learntOf, paceColumns } from '../../ledger/account-pace.ts'

/** A process tries a service in trouble at least once a minute; an older record is of a process that has ended. */
const newsForMs = 150_000

/** Accounts that ever got a 429 or were in trouble, by name: allowed requests a second, unless fewer are set. */
export const accountStates = async (db: Db) => {
  const rows = await db
    .selectFrom('etl.pace')
    .select(['account', 'trouble_code', 'trouble_message', 'trouble_since'])
    .select(paceColumns)
    .select(sql<number>`coalesce(extract(epoch from clock_timestamp() - trouble_seen_at)::float8 * 1000, 0)`.as('seen_ago'))
    .where((or) => or.or([or('requests_per_second', 'is not', null), or('trouble_code', 'is not', null)]))
    .orderBy('account')
    .execute()
  return rows.map((row) => {
    const learnt = learntOf(row)
    return {
      account: row.account,
      requestsPerSecond: learnt === null ? null : rateOf(learnt, Number.MAX_VALUE),
      trouble:
        row.trouble_code === null || row.trouble_since === null || row.seen_ago > newsForMs
          ? null
          : { account: row.account, code: row.trouble_code, message: row.trouble_message ?? '', since: row.trouble_since },
    }
  })
}

export type AccountTrouble = NonNullable<Awaited<ReturnType<typeof accountStates>>[number]['trouble']>
