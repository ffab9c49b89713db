// Replaces a view only where it differs, and keeps the rights and options that people set on it. Compares bi before and after, to report what a migration changed.
import { type RawBuilder, sql } from 'kysely'
import { settingError } from '../core/errors.ts'
import { columnNames } from '../db/catalog.ts'
import { dependentsOf, sqlStateOf } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, query, type Texts } from '../db/typed-row.ts'

/**
 * Leaves an equal view alone, because replacing it would wait for its readers. Replaces in place where columns were only added at the end; else
 * drops and makes it again in the same transaction, with its rights and options, never cascading. @param before runs before a drop: drops dependent objects
 */
export const replaceView = async (
  trx: Db,
  name: string,
  wanted: RawBuilder<unknown>,
  before?: () => Promise<void>,
): Promise<void> => {
  const view = sql.table(`bi.${name}`)
  if (await isSame(trx, name, wanted)) return
  const settings = await settingsOn(trx, name)
  // 42P16: columns were removed or changed. 42809: the relation is a table (a mart that was a summary).
  const replaced = await inSavepoint(
    trx,
    (error) => ['42P16', '42809'].includes(sqlStateOf(error)),
    () => sql`create or replace view ${view} as ${wanted}`.execute(trx),
  )
  if (replaced === null) {
    await before?.()
    await dropToReplace(trx, name)
    await sql`create view ${view} as ${wanted}`.execute(trx)
  } else {
    // After a replace in place the view may read itself through others, which PostgreSQL notices only when it is read. PREPARE finds that without planning, which would call functions.
    await sql`prepare publish_probe as select from ${view}`.execute(trx)
    await sql`deallocate publish_probe`.execute(trx)
  }
  // A replace in place loses only the view's options; rights stay, also those that another role granted.
  await restoreSettings(trx, name, replaced === null ? settings : settings.filter(({ kinds }) => kinds === 'v'))
}

/** Drops the view or table of that name in bi, if it exists. */
export const dropRelation = async (trx: Db, name: string): Promise<void> => {
  const [found] = await query<Texts<'kind'>>(trx)`
    select c.relkind as kind from pg_class c where c.oid = to_regclass(${`bi."${name}"`})`
  if (found === undefined) return
  await sql`drop ${sql.raw(found.kind === 'v' ? 'view' : 'table')} ${sql.table(`bi.${name}`)}`.execute(trx)
}

/** Drops the relation. Throws CONFIGURATION naming objects of other people that depend on it, or that are part of it and could not be made again. */
export const dropToReplace = async (trx: Db, name: string): Promise<void> => {
  const added = await query<Texts<'what'>>(trx)`
    select 'the policy ' || polname as what from pg_policy where polrelid = to_regclass(${`bi."${name}"`})
    union all select 'the trigger ' || tgname from pg_trigger where tgrelid = to_regclass(${`bi."${name}"`}) and not tgisinternal
    union all select 'the rule ' || rulename from pg_rewrite where ev_class = to_regclass(${`bi."${name}"`}) and rulename <> '_RETURN'
    union all select 'the constraint ' || conname from pg_constraint left join pg_class r on r.oid = confrelid where conrelid = to_regclass(${`bi."${name}"`})
      and (contype in ('c', 'u', 'x') or contype = 'f' and not (r.relname like 'dim\\_%' and r.relnamespace = 'bi'::regnamespace))
    union all select 'the publication ' || pubname from pg_publication_rel join pg_publication p on p.oid = prpubid where prrelid = to_regclass(${`bi."${name}"`})
    union all select 'row level security' from pg_class where oid = to_regclass(${`bi."${name}"`}) and relrowsecurity order by 1`
  if (added.length > 0)
    throw settingError(
      `bi.${name} must be created anew, which would lose what was added to it: ${added.map(({ what }) => what).join(', ')}. Drop that, migrate, and add it again.`,
    )
  await dropRelation(trx, name).catch((error: unknown) => {
    if (sqlStateOf(error) !== '2BP01') throw error
    throw settingError(
      `bi.${name} must be replaced with other columns, but other objects depend on it: ${dependentsOf(error)}. Drop those, migrate, and create them again.`,
      error,
    )
  })
}

/** Runs a part of a transaction that may fail with an expected error. Returns its result; null: it threw an error for which `isForeseen` is true, and was rolled back. */
export const inSavepoint = async <T>(trx: Db, isForeseen: (error: unknown) => boolean, work: () => Promise<T>) => {
  await sql`savepoint publish_part`.execute(trx)
  try {
    const result = await work()
    await sql`release savepoint publish_part`.execute(trx)
    return { result }
  } catch (error) {
    // Release it, too: a savepoint stays after its rollback and would hide an outer savepoint of the same name.
    await sql`rollback to savepoint publish_part`.execute(trx)
    await sql`release savepoint publish_part`.execute(trx)
    if (isForeseen(error)) return null
    throw error
  }
}

/** Compares both queries as PostgreSQL prints them: equal text means the same view. */
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

/** Something that people set on a view or table. `statement` sets it again, on relations of `kinds`; `needs`: the column that must exist for it. */
export type RelationSetting = Texts<'statement' | 'kinds'> & Maybe<Texts<'needs'>>

/** Rights of others than the owner, options, indexes and statistics of a table; the owner, where a superuser or a member of it makes it again. */
export const settingsOn = (trx: Db, name: string): Promise<readonly RelationSetting[]> =>
  query<RelationSetting>(trx)`
    with relation as (select * from pg_class where oid = to_regclass(${`bi."${name}"`})), acl as (
      select relacl as rights, null::name as "column" from relation
      union all select a.attacl, a.attname from pg_attribute a join relation r on r.oid = a.attrelid where not a.attisdropped)
    select format('grant %s %s on bi.%I to %s %s', g.privilege_type, '(' || quote_ident(a."column") || ')', r.relname,
        case g.grantee when 0 then 'public' else quote_ident(o.rolname) end, case when g.is_grantable then 'with grant option' else '' end) as statement,
      case when g.privilege_type = 'SELECT' or r.relkind = 'v' then 'rv' else 'r' end as kinds, a."column" as needs
    from relation r cross join acl a cross join aclexplode(a.rights) g left join pg_roles o on o.oid = g.grantee where g.grantee <> r.relowner
    union all select format('alter table bi.%I set (%s)', relname, array_to_string(reloptions, ', ')), relkind::text, null
    from relation where reloptions is not null
    union all select pg_get_indexdef(i.indexrelid), 'r', null from pg_index i join relation r on r.oid = i.indrelid
    where not exists (select from pg_constraint c where c.conindid = i.indexrelid)
    union all select pg_get_statisticsobjdef(s.oid), 'r', null from pg_statistic_ext s join relation r on r.oid = s.stxrelid
    union all select format('alter table bi.%I owner to %I', relname, pg_get_userbyid(relowner)), 'rv', null
    from relation where pg_get_userbyid(relowner) <> current_user and ((select rolsuper from pg_roles where rolname = current_user)
      -- Until PostgreSQL 15 a member may always give to its role.
      or pg_has_role(relowner, case when current_setting('server_version_num')::int < 160000 then 'MEMBER' else 'SET' end)
        and has_schema_privilege(relowner, 'bi', 'create'))`

/** Runs the statements of `settings`; an index whose column is gone is left out. */
export const restoreSettings = async (trx: Db, name: string, settings: readonly RelationSetting[]): Promise<void> => {
  const [made] = await query<Texts<'kind'>>(trx)`select relkind as kind from pg_class where oid = to_regclass(${`bi."${name}"`})`
  const columns = await columnNames(trx, `bi.${name}`)
  for (const { statement } of settings.filter(
    ({ kinds, needs }) => kinds.includes(made?.kind ?? '-') && (needs === null || columns.includes(needs)),
  ))
    await inSavepoint(
      trx,
      (error) => sqlStateOf(error) === '42703',
      () => sql.raw(statement).execute(trx),
    )
}

/** By name of a view or table: a digest of its query and columns. Empty before the first migration. */
export const shapesOf = async (db: Db): Promise<ReadonlyMap<string, string>> => {
  for (let tries = 1; ; tries += 1) {
    try {
      return await readShapes(db)
    } catch (error) {
      // Beside another that publishes each may wait for the other, and what is being read may go (XX000).
      if (tries >= 20 || !['40P01', 'XX000'].includes(sqlStateOf(error))) throw error
    }
  }
}

const readShapes = async (db: Db): Promise<ReadonlyMap<string, string>> => {
  const rows = await query<Texts<'name' | 'digest'>>(db)`
    select c.relname as name, md5(coalesce(case when c.relkind = 'v' then pg_get_viewdef(c.oid) end, '') || coalesce((
      select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ',' order by a.attnum) from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '')) as digest
    from pg_class c where c.relnamespace = to_regnamespace('bi') and c.relkind in ('r', 'v', 'p') order by 1`
  return new Map(rows.map(({ name, digest }) => [name, digest]))
}

/** `made`: names that are new; `changed`: names whose query or columns differ. */
export const changedShapes = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) => ({
  made: [...after.keys()].filter((name) => !before.has(name)),
  changed: [...after].filter(([name, digest]) => before.has(name) && before.get(name) !== digest).map(([name]) => name),
})
