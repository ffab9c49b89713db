// Month partitions of a data table, made when a unit first needs them, without ever blocking readers.
import { sql } from 'kysely'
import type { Definition, IsoDate, Unit, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import type { Session } from '../db/session.ts'
import { dataTable, tableName } from './table-columns.ts'

/** `keywords_v1_p202601` */
export const partitionName = (definition: Definition, month: IsoDate): string =>
  `${tableName(definition)}_p${month.slice(0, 7).replace('-', '')}`

const known = new WeakMap<object, Set<string>>()

/** Makes the partitions of the unit's months where they are missing. Not inside a transaction: others must see them at once. */
export const ensurePartitions = async (session: Session, definition: Definition, unit: Unit): Promise<void> => {
  const seen = known.get(session.kysely) ?? new Set<string>()
  known.set(session.kysely, seen)
  for (const month of windowsBetween(unit.window.from, unit.window.to, 'month')) {
    const name = partitionName(definition, month.from)
    if (seen.has(name)) continue
    if (!(await exists(session, name))) await makePartition(session, definition, month, name)
    seen.add(name)
  }
}

const exists = async (session: Session, name: string): Promise<boolean> => {
  // Not to_regclass: it may answer from a cache that does not know yet what a twin has just committed.
  const { rows } = await sql<{ found: boolean }>`
    select exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'data' and c.relname = ${name}) as found`.execute(session.kysely)
  return rows[0]?.found === true
}

// LIKE and ATTACH take a lock that readers and writers of other partitions do not feel; PARTITION OF would stop them all.
const makePartition = async (session: Session, definition: Definition, month: Window, name: string): Promise<void> => {
  await session.kysely.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`partition/${name}`}, 0))`.execute(trx)
    if (await exists({ ...session, kysely: trx }, name)) return
    const table = sql.table(`data.${name}`)
    await sql`create table ${table} (like ${dataTable(definition)} including all)`.execute(trx)
    await sql`alter table ${dataTable(definition)} attach partition ${table}
      for values from (${sql.lit(month.from)}) to (${sql.lit(month.to)})`.execute(trx)
  })
}
