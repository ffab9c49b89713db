// One clock for every time in the ledger: the database's, whichever machine works and whatever its own clock says.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** Now, in a statement: also within a transaction that began earlier. */
export const databaseNow = sql<string>`clock_timestamp()`

/** The same as ISO text. */
export const databaseNowText = async (db: Db): Promise<string> =>
  (await db.selectNoFrom(databaseNow.as('now')).executeTakeFirstOrThrow()).now

/** The same as milliseconds since 1970, for arithmetic with calendars. */
export const databaseMs = async (db: Db): Promise<number> => Date.parse(await databaseNowText(db))
