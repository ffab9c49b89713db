// How fast each account may ask since it was refused, and which services are in trouble now.
import { sql } from 'kysely'
import { type LearntPace, rateOf } from '../../core/pace.ts'
import type { Db } from '../../db/tables.ts'

export interface AccountTrouble {
  /** The API and the account in it. */
  readonly account: string
  readonly code: string
  readonly message: string
  readonly since: string
}

export interface AccountState {
  readonly account: string
  /** Requests a second allowed now, unless fewer are set. */
  readonly requestsPerSecond: number | null
  readonly trouble: AccountTrouble | null
}

/** Whoever is in trouble tries at least once a minute; older news is of a process that ended. */
const newsForMs = 150_000

const msSince = (column: string) =>
  sql<number>`coalesce(extract(epoch from clock_timestamp() - ${sql.ref(column)})::float8 * 1000, 0)`

/** Accounts that were ever refused or in trouble, by name. */
export const accountStates = async (db: Db): Promise<AccountState[]> => {
  const rows = await db
    .selectFrom('etl.pace')
    .select(['account', 'requests_per_second', 'ceiling', 'trouble_code', 'trouble_message', 'trouble_since'])
    .select([msSince('changed_at').as('changed_ago'), msSince('refused_at').as('refused_ago')])
    .select(msSince('trouble_seen_at').as('seen_ago'))
    .orderBy('account')
    .execute()
  return rows.map((row) => ({
    account: row.account,
    requestsPerSecond: row.requests_per_second === null ? null : rateOf(learntOf(row, row.requests_per_second), Number.MAX_VALUE),
    trouble:
      row.trouble_code === null || row.trouble_since === null || row.seen_ago > newsForMs
        ? null
        : { account: row.account, code: row.trouble_code, message: row.trouble_message ?? '', since: row.trouble_since },
  }))
}

const learntOf = (
  row: { readonly ceiling: number | null; readonly changed_ago: number; readonly refused_ago: number },
  base: number,
): LearntPace => ({ base, ceiling: row.ceiling, changedMsAgo: row.changed_ago, refusedMsAgo: row.refused_ago })
