// A login for trying a BI tool against the demo's warehouse: reads bi, nothing else.
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { Database } from '../db/connect.ts'
import { sessionLimits } from '../db/roles.ts'

const role = 'bi_demo'

/** The address to connect with. Its password is made anew each time and guards synthetic rows on this machine. */
export const demoReader = async (database: Database): Promise<string> => {
  const password = randomBytes(9).toString('base64url')
  const found = await sql<{ found: boolean }>`select exists (select 1 from pg_roles where rolname = ${role}) as found`.execute(
    database.kysely,
  )
  if (found.rows[0]?.found !== true) await sql`create role ${sql.id(role)} login in role bi_reader`.execute(database.kysely)
  for (const [name, value] of Object.entries(sessionLimits.reader))
    await sql`alter role ${sql.id(role)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(database.kysely)
  await sql`alter role ${sql.id(role)} password ${sql.lit(password)}`.execute(database.kysely)
  const url = new URL(database.url.reveal())
  url.username = role
  url.password = password
  return url.href
}
