// The role people read with: `bi` alone, read only, with a time limit.
import { type RawBuilder, sql } from 'kysely'
import { messageOf } from '../core/errors.ts'
import { roleExists } from '../db/catalog.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { readerRole } from '../db/read-list.ts'
import { sessionLimits } from '../db/role-statements.ts'
import type { Lists, Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { inSavepoint } from './savepoint.ts'

/** Makes the role where we may, and grants it what is published. Where roles are somebody else's to make, it is left out. */
export const grantReader = async (trx: Db): Promise<void> => {
  await turnOffJit(trx)
  if (!(await ensureRole(trx))) return
  const role = sql.id(readerRole)
  await sql`grant usage on schema bi to ${role}`.execute(trx)
  await sql`grant select on all tables in schema bi to ${role}`.execute(trx)
  await sql`grant execute on all functions in schema bi to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant select on tables to ${role}`.execute(trx)
  await sql`alter default privileges in schema bi grant execute on functions to ${role}`.execute(trx)
  await limitLogins(trx)
}

/**
 * Settings of a role are not inherited by the logins that are its members, directly or through a role of their own; so each login gets them, unless it has
 * its own: in this database alone, since it may load another one. Who works in etl or hands out the role (its maker, since PostgreSQL 16) is no reader.
 */
const limitLogins = async (trx: Db): Promise<void> => {
  const { rows } = await sql<Texts<'login' | 'database'> & Lists<Texts<'settings'>>>`
    select r.rolname as login, d.datname as database, array(select split_part(c.setting, '=', 1) from pg_db_role_setting s, unnest(s.setconfig) as c (setting)
      where s.setrole = r.oid and s.setdatabase in (0, d.oid)) as settings
    from pg_roles r join pg_database d on d.datname = current_database()
    where r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, ${readerRole}, 'member') and not has_schema_privilege(r.oid, 'etl', 'usage')
      and not exists (select from pg_auth_members m join pg_roles g on g.oid = m.roleid
        where g.rolname = ${readerRole} and m.member = r.oid and m.admin_option)`.execute(trx)
  for (const { login, database, settings } of rows)
    for (const [name, value] of Object.entries(sessionLimits.reader).filter(([name]) => !settings.includes(name)))
      await attempt(
        trx,
        sql`alter role ${sql.id(login)} in database ${sql.id(database)} set ${sql.raw(name)} = ${sql.lit(value)}`,
      )
}

/** For logins that are made later, or that we may not change: the database's own setting, unless somebody chose one. */
const turnOffJit = async (trx: Db): Promise<void> => {
  const { rows } = await sql<Texts<'name'>>`select d.datname as name from pg_database d where d.datname = current_database()
    and not exists (select from pg_db_role_setting s, unnest(s.setconfig) as c (setting)
      where s.setdatabase = d.oid and s.setrole = 0 and c.setting like 'jit=%')`.execute(trx)
  for (const { name } of rows) await attempt(trx, sql`alter database ${sql.id(name)} set jit = off`)
}

/** A right we may lack: what cannot be done is left to a role that may, and `docs/bi.md` says how. 42704: the login is gone meanwhile. */
const attempt = (trx: Db, statement: RawBuilder<unknown>): Promise<unknown> =>
  inSavepoint(
    trx,
    (error) => ['42501', '42704'].includes(sqlStateOf(error)) || isOvertaken(error),
    () => statement.execute(trx),
  )

/** Another database of the server set the same of the same role at that moment; PostgreSQL has no code of its own for it. */
const isOvertaken = (error: unknown): boolean =>
  sqlStateOf(error) === 'XX000' && messageOf(error).includes('tuple concurrently updated')

/** 42501: we may not make roles. 42710, 23505: a twin just did, in another database of the same server. */
const ensureRole = async (trx: Db): Promise<boolean> => {
  if (await roleExists(trx, readerRole)) return true
  const isForeseen = (error: unknown): boolean => ['42501', '42710', '23505'].includes(sqlStateOf(error))
  await inSavepoint(trx, isForeseen, async () => {
    await sql`create role ${sql.id(readerRole)} nologin`.execute(trx)
    for (const [name, value] of Object.entries(sessionLimits.reader))
      await sql`alter role ${sql.id(readerRole)} set ${sql.raw(name)} = ${sql.lit(value)}`.execute(trx)
  })
  return roleExists(trx, readerRole)
}
