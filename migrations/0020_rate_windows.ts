// Where all machines count the requests they send with the same key. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  // The columns are those the limiter wants. Unlogged: after a crash of the server a pause of a second is all that could be lost.
  `create unlogged table etl.rate_windows (
    key varchar(255) primary key,
    points integer not null default 0,
    expire bigint
  )`,
  `comment on table etl.rate_windows is 'The window of time in which each account''s requests are counted now; one row an account.'`,
]

export const up = async (db: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(db)
}
