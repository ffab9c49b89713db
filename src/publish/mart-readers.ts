// Marts read the pipelines' views and each other. To drop and remake a view, the marts that read it are dropped first and made again afterwards.
import { sql } from 'kysely'
import { type EtlError, settingError } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import { type Flags, query, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { dropToReplace, restoreSettings, type RelationSetting, settingsOn } from './replace-view.ts'

/** A view or table in bi by its name, or a function by name and arguments: `keywords_as_of(timestamp with time zone)`. */
type ObjectName = string

export interface MartReaders {
  /**
   * Drops our marts and functions that read the object, directly or through others. Throws CONFIGURATION naming a reader without a file, which could not
   * be made again.
   */
  dropOf(trx: Db, object: ObjectName): Promise<void>
  /** Sets again the rights and options that a mart had before it was dropped. */
  restore(trx: Db, name: string): Promise<void>
}

/** @param marts all marts that the transaction publishes after the drops */
export const openMartReaders = (marts: readonly Mart[]): MartReaders => {
  const names = new Set(marts.map(({ name }) => name))
  const settings = new Map<string, readonly RelationSetting[]>()
  const dropOf = async (trx: Db, object: ObjectName): Promise<void> => {
    for (const { reader, name, is_ours: isOurs, is_function: isFunction } of await readersOf(trx, object)) {
      if (!(isOurs || (!isFunction && reader === `bi.${name}` && names.has(name)))) throw somebodyElses(object, reader)
      // An earlier iteration may have dropped this reader, because it also reads another dropped mart.
      if (!(await isThere(trx, reader))) continue
      await dropOf(trx, isFunction ? reader.slice('bi.'.length) : name)
      if (isFunction) {
        await sql`drop function ${sql.raw(reader)}`.execute(trx)
        continue
      }
      settings.set(name, await settingsOn(trx, name))
      await dropToReplace(trx, name)
    }
  }
  return {
    dropOf,
    // The settings stay in the map: a step that meets a lock is rolled back and repeated, and needs them again.
    restore: (trx, name) => restoreSettings(trx, name, settings.get(name) ?? []),
  }
}

const somebodyElses = (object: ObjectName, reader: string): EtlError =>
  settingError(
    `bi.${object} must be replaced with other columns, but ${reader} reads it, which is not a mart of these files. Drop ${reader}, migrate, and create it again.`,
  )

const isThere = async (trx: Db, reader: string): Promise<boolean> => {
  const rows = await query(
    trx,
  )`select from (select case when ${reader} like '%)' then to_regprocedure(${reader})::oid else to_regclass(${reader})::oid end as oid) r
    where r.oid is not null`
  return rows.length > 0
}

/** `reader`: with its schema; a function with its arguments. `is_ours`: a mart, also one whose file is gone, or a pipeline's _as_of function. */
const readersOf = (trx: Db, object: ObjectName) => {
  const name = `bi.${object}`
  const oid = object.endsWith(')') ? sql`to_regprocedure(${name})` : sql`to_regclass(${name})`
  return query<Texts<'reader' | 'name'> & Flags<'is_ours' | 'is_function'>>(trx)`
    with read as (select ${oid}::oid as oid union select reltype from pg_class where oid = ${oid}::oid)
    select distinct n.nspname || '.' || v.relname as reader, v.relname as name, false as is_function,
      n.nspname = 'bi' and v.relname in (select m.name from etl.marts m) as is_ours
    from pg_depend d join read on read.oid = d.refobjid join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
      join pg_class v on v.oid = r.ev_class join pg_namespace n on n.oid = v.relnamespace
    where v.oid <> ${oid}::oid
    union select n.nspname || '.' || f.proname || '(' || oidvectortypes(f.proargtypes) || ')', f.proname, true,
      n.nspname = 'bi' and oidvectortypes(f.proargtypes) = 'timestamp with time zone' and f.proname in (select v.pipeline || '_as_of' from etl.published_versions v)
    from pg_depend d join read on read.oid = d.refobjid join pg_proc f on f.oid = d.objid and d.classid = 'pg_proc'::regclass
      join pg_namespace n on n.oid = f.pronamespace
    order by 1`
}
