// Replaces a view only where it differs, keeps the rights given on it, and never takes it away. What bi holds before and after says what a migration changed.
import { type RawBuilder, sql } from 'kysely'
import { sqlStateOf } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, query, type Texts } from '../db/typed-row.ts'

/**
 * Leaves an equal view alone, because replacing it would wait for its readers. Replaces in place where columns were only added at the end; else
 * drops and makes it again in the same transaction, with the grants it had, never cascading. @param before run ahead of a drop: what hangs on the view
 */
export const replaceView = async (
  trx: Db,
  name: string,
  wanted: RawBuilder<unknown>,
  before?: () => Promise<void>,
): Promise<void> => {
  const view = sql.table(`bi.${name}`)
  if (await isSame(trx, name, wanted)) return
  // 42P16: the columns are others than before. 42809: it was a summary, whose rows loaders write.
  const replaced = await inSavepoint(
    trx,
    (error) => ['42P16', '42809'].includes(sqlStateOf(error)),
    () => sql`create or replace view ${view} as ${wanted}`.execute(trx),
  )
  if (replaced !== null) return
  const grants = await grantsOn(trx, name)
  await before?.()
  const kind = await dropRelation(trx, name)
  await sql`create view ${view} as ${wanted}`.execute(trx)
  await giveRights(trx, name, kind === 'view' ? grants : grants.filter(({ privilege }) => privilege === 'SELECT'))
}

/** The view or table of that name in bi, if there is one; what it was. */
export const dropRelation = async (trx: Db, name: string): Promise<'view' | 'table' | null> => {
  const [found] = await query<Texts<'kind'>>(trx)`
    select c.relkind as kind from pg_class c where c.oid = to_regclass(${`bi."${name}"`})`
  if (found === undefined) return null
  const kind = found.kind === 'v' ? 'view' : 'table'
  await sql`drop ${sql.raw(kind)} ${sql.table(`bi.${name}`)}`.execute(trx)
  return kind
}

/** A part of a transaction that may fail in a way that is foreseen, and then never was: what the work gave. Where it throws what `isForeseen` knows, it is taken back and the answer is null. */
export const inSavepoint = async <T>(trx: Db, isForeseen: (error: unknown) => boolean, work: () => Promise<T>) => {
  await sql`savepoint publish_part`.execute(trx)
  try {
    const result = await work()
    await sql`release savepoint publish_part`.execute(trx)
    return { result }
  } catch (error) {
    await sql`rollback to savepoint publish_part`.execute(trx)
    if (isForeseen(error)) return null
    throw error
  }
}

/** On a table or view in bi. */
export const giveRights = async (trx: Db, name: string, grants: readonly Grant[]): Promise<void> => {
  for (const { grantee, privilege } of grants)
    await sql`grant ${sql.raw(privilege)} on ${sql.table(`bi.${name}`)} to ${sql.id(grantee)}`.execute(trx)
}

/** PostgreSQL writes both queries down in its own words; equal words are the same view. */
const isSame = async (trx: Db, name: string, wanted: RawBuilder<unknown>): Promise<boolean> => {
  const [old] = await query<Maybe<Texts<'definition'>>>(trx)`
    select pg_get_viewdef(c.oid) as definition from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relname = ${name} and c.relkind = 'v'`
  if (old === undefined) return false
  await sql`create temporary view publish_probe as ${wanted}`.execute(trx)
  const [probe] = await query<Texts<'definition'>>(trx)`
    select pg_get_viewdef('pg_temp.publish_probe'::regclass) as definition`
  await sql`drop view pg_temp.publish_probe`.execute(trx)
  return probe?.definition === old.definition
}

/** One right of one role. */
export type Grant = Texts<'grantee' | 'privilege'>

/** What others than the owner may do with it. */
export const grantsOn = (trx: Db, name: string): Promise<readonly Grant[]> =>
  query<Grant>(trx)`select r.rolname as grantee, g.privilege_type as privilege
    from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral aclexplode(c.relacl) g join pg_roles r on r.oid = g.grantee
    where n.nspname = 'bi' and c.relname = ${name} and g.grantee <> c.relowner`

/** By name of a view or table: a digest of its query and columns. Empty before the first migration. */
export const shapesOf = async (db: Db): Promise<ReadonlyMap<string, string>> => {
  const rows = await query<Texts<'name' | 'digest'>>(db)`
    select c.relname as name, md5(coalesce(case when c.relkind = 'v' then pg_get_viewdef(c.oid) end, '') || coalesce((
      select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ',' order by a.attnum) from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '')) as digest
    from pg_class c where c.relnamespace = to_regnamespace('bi') and c.relkind in ('r', 'v', 'p') order by 1`
  return new Map(rows.map(({ name, digest }) => [name, digest]))
}

/** Names that came, and names that are made in another way. */
export const changedShapes = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) => ({
  made: [...after.keys()].filter((name) => !before.has(name)),
  changed: [...after].filter(([name, digest]) => before.has(name) && before.get(name) !== digest).map(([name]) => name),
})
