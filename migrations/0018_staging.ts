// The schema of the staging tables, which processes make and use again. Frozen once applied. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

export const up = async (database: Kysely<unknown>): Promise<void> => {
  await sql.raw('create schema if not exists staging').execute(database)
  await sql
    .raw(`comment on schema staging is 'Rows on their way; unlogged, emptied after each unit. Nobody reads it.'`)
    .execute(database)
}
