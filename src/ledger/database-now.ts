// One clock for every time in the ledger: the database's, whichever machine works and whatever its own clock says.
import { sql } from 'kysely'

export const databaseNow = sql<string>`clock_timestamp()`
