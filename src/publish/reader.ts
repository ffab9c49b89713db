// The role people read with: `bi` alone, read only, with a time limit.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../db/tables.ts'

export const readerRole = 'bi_reader'

/** Makes the role where we may, and grants it what is published. Where roles are somebody else's to make, it is left out. */
export const grantReader = async (trx: Kysely<Tables>): Promise<void> => {
  if (!(await ensureRole(trx))) return
  const role = sql.id(readerRole)
  await sql`grant usage on schema bi to ${role}`.execute(trx)
  await sql`grant select on all tables in schema bi to ${role}`.execute(trx)
  await sql`grant execute on all functions in schema bi to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant select on tables to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant execute on functions to ${role}`.execute(trx)
}

const ensureRole = async (trx: Kysely<Tables>): Promise<boolean> => {
  const found = await sql<{
    found: boolean
  }>`select exists (select 1 from pg_roles where rolname = ${readerRole}) as found`.execute(trx)
  if (found.rows[0]?.found === true) return true
  await sql`savepoint make_role`.execute(trx)
  try {
    await sql`create role ${sql.id(readerRole)} nologin`.execute(trx)
    await sql`alter role ${sql.id(readerRole)} set default_transaction_read_only = on`.execute(trx)
    await sql`alter role ${sql.id(readerRole)} set statement_timeout = '60s'`.execute(trx)
    await sql`release savepoint make_role`.execute(trx)
    return true
  } catch (error) {
    await sql`rollback to savepoint make_role`.execute(trx)
    const code = (error as { code?: string }).code
    // 42501: we may not make roles. 42710, 23505: a twin just did, in another database of the same server.
    if (code === '42501') return false
    if (code === '42710' || code === '23505') return true
    throw error
  }
}
