// The role people read with: `bi` alone, read only, with a time limit.
import { type RawBuilder, sql } from 'kysely'
import { messageOf } from '../core/errors.ts'
import { roleExists } from '../db/catalog.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { readerRole } from '../db/read-list.ts'
import { sessionLimits } from '../db/roles.ts'
import type { Lists, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'

/** Makes the role where we may, and grants it what is published. Where roles are somebody else's to make, it is left out. */
export const grantReader = async (trx: Db): Promise<void> => {
  if (!(await ensureRole(trx))) return
  const role = sql.id(readerRole)
  await sql`grant usage on schema bi to ${role}`.execute(trx)
  await sql`grant select on all tables in schema bi to ${role}`.execute(trx)
  await sql`grant execute on all functions in schema bi to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant select on tables to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant execute on functions to ${role}`.execute(trx)
  await limitLogins(trx)
}

/** Settings of a role are not inherited by the logins that are its members, so each login gets them, unless it has its own. */
const limitLogins = async (trx: Db): Promise<void> => {
  const { rows } = await sql<Texts<'login'> & Lists<Texts<'settings'>>>`
    select r.rolname as login, coalesce(array_agg(split_part(s.setting, '=', 1)) filter (where s.setting is not null), '{}') as settings
    from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles r on r.oid = m.member
    left join lateral unnest(r.rolconfig) as s (setting) on true
    where g.rolname = ${readerRole} and r.rolcanlogin and not r.rolsuper group by r.rolname`.execute(trx)
  for (const { login, settings } of rows)
    for (const [name, value] of Object.entries(sessionLimits.reader).filter(([name]) => !settings.includes(name)))
      await attempt(trx, sql`alter role ${sql.id(login)} set ${sql.raw(name)} = ${sql.lit(value)}`)
}

/** A right we may lack: what cannot be done is left to whoever can, and `docs/bi.md` says how. */
const attempt = async (trx: Db, statement: RawBuilder<unknown>): Promise<boolean> => {
  await sql`savepoint attempt_role`.execute(trx)
  try {
    await statement.execute(trx)
    await sql`release savepoint attempt_role`.execute(trx)
    return true
  } catch (error) {
    if (sqlStateOf(error) !== '42501' && !isOvertaken(error)) throw error
    await sql`rollback to savepoint attempt_role`.execute(trx)
    return false
  }
}

/** Another database of the server set the same of the same role at that moment; PostgreSQL has no code of its own for it. */
const isOvertaken = (error: unknown): boolean =>
  sqlStateOf(error) === 'XX000' && messageOf(error).includes('tuple concurrently updated')

const ensureRole = async (trx: Db): Promise<boolean> => {
  if (await roleExists(trx, readerRole)) return true
  await sql`savepoint make_role`.execute(trx)
  try {
    await sql`create role ${sql.id(readerRole)} nologin`.execute(trx)
    for (const [name, value] of Object.entries(sessionLimits.reader))
      await sql`alter role ${sql.id(readerRole)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(trx)
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
