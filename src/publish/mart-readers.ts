// Marts read the pipelines' views and each other: what must be dropped to be made anew takes the marts that read it along, which are made again after it.
import { sql } from 'kysely'
import { type EtlError, settingError } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import { query, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { missingRelations } from '../db/catalog.ts'
import { type Grant, giveRights, grantsOn } from './replace-view.ts'

/** A view or table in bi by its name, or a function by name and arguments: `keywords_as_of(timestamptz)`. */
type ObjectName = string

export interface MartReaders {
  /** Drops the marts that read it, and those that read them. Throws CONFIGURATION naming what no file is of, which could not be made again. */
  dropOf(trx: Db, object: ObjectName): Promise<void>
  /** Rights that somebody gave on a mart before it was dropped. */
  restoreRights(trx: Db, name: string): Promise<void>
}

/** @param marts all that are published in the transaction, after what is dropped */
export const openMartReaders = (marts: readonly Mart[]): MartReaders => {
  const names = new Set(marts.map(({ name }) => name))
  const rights = new Map<string, readonly Grant[]>()
  const dropOf = async (trx: Db, object: ObjectName): Promise<void> => {
    for (const { schema, view } of await readersOf(trx, object)) {
      if (schema !== 'bi' || !(names.has(view) || (await wasMart(trx, view)))) throw somebodyElses(object, `${schema}.${view}`)
      // Two may read each other's source: the first takes the second along.
      if (!(await isThere(trx, view))) continue
      await dropOf(trx, view)
      rights.set(view, await grantsOn(trx, view))
      await sql`drop view ${sql.table(`bi.${view}`)}`.execute(trx)
    }
  }
  return {
    dropOf,
    restoreRights: async (trx, name) => {
      await giveRights(trx, name, rights.get(name) ?? [])
      rights.delete(name)
    },
  }
}

const somebodyElses = (object: ObjectName, reader: string): EtlError =>
  settingError(
    `bi.${object} changes its shape, but ${reader} reads it, which is no mart of these files. Drop that first, migrate, and make it again.`,
  )

/** A mart whose file is gone goes, too. */
const wasMart = async (trx: Db, view: string): Promise<boolean> =>
  (await trx.selectFrom('etl.marts').select('name').where('name', '=', view).execute()).length > 0

const isThere = async (trx: Db, view: string): Promise<boolean> => (await missingRelations(trx, [`bi.${view}`])).length === 0

const readersOf = (trx: Db, object: ObjectName): Promise<readonly Texts<'schema' | 'view'>[]> => {
  const name = `bi.${object}`
  const oid = object.endsWith(')') ? sql`to_regprocedure(${name})` : sql`to_regclass(${name})`
  return query<Texts<'schema' | 'view'>>(trx)`select distinct n.nspname as schema, v.relname as view
    from pg_depend d join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
      join pg_class v on v.oid = r.ev_class join pg_namespace n on n.oid = v.relnamespace
    where d.refobjid = ${oid}::oid and v.oid <> ${oid}::oid order by 1, 2`
}
