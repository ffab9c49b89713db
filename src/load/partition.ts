// Month partitions of a data table, made when a load first needs them, without ever blocking readers.
import { type RawBuilder, sql } from 'kysely'
import type { Definition, IsoDate, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Session } from '../db/session.ts'
import { dataTable, keyColumns, names, tableName } from './table-columns.ts'
import type { Flags, Texts } from '../db/row.ts'

/** `keywords_v1_p202601` */
export const partitionName = (definition: Definition, month: IsoDate): string =>
  `${tableName(definition)}_p${month.slice(0, 7).replace('-', '')}`

/**
 * A question is answered from an index alone only where autovacuum has been since the last load. Its defaults wait for a fifth of the month;
 * here it follows each load that is worth it. Pages it has seen and nobody changed cost it nothing.
 */
export const cleaned =
  '(autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_scale_factor = 0.002, autovacuum_vacuum_threshold = 1000)'

const withCleaning = sql.raw(`with ${cleaned}`)

const known = new WeakMap<object, Set<string>>()

/** Makes the partitions of the window's months where they are missing. Not inside a transaction: others must see them at once. */
export const ensurePartitions = async (session: Session, definition: Definition, window: Window): Promise<void> => {
  const seen = known.get(session.kysely) ?? new Set<string>()
  known.set(session.kysely, seen)
  for (const month of windowsBetween(window.from, window.to, 'month')) {
    const name = partitionName(definition, month.from)
    if (seen.has(name)) continue
    if (!(await exists(session, name))) await makePartition(session, definition, month, name)
    seen.add(name)
  }
}

const exists = async (session: Session, name: string): Promise<boolean> => {
  // Not to_regclass: it may answer from a cache that does not know yet what a twin has just committed.
  const { rows } = await sql<Flags<'found'>>`
    select exists (select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'data' and c.relname = ${name}) as found`.execute(session.kysely)
  return rows[0]?.found === true
}

/** A table this small is read in no time whatever the plan. */
const smallBytes = 1_000_000

const counted = new WeakMap<object, Set<string>>()

/**
 * Counts what nobody has counted yet: autovacuum comes within minutes of a load, and until then the planner takes a month of many rows for one
 * of hardly any, and goes through all of them for each row that it looks for. Not inside a transaction.
 */
export const ensureStatistics = async (session: Session, definition: Definition, window: Window): Promise<void> => {
  const done = counted.get(session.kysely) ?? new Set<string>()
  counted.set(session.kysely, done)
  const months = windowsBetween(window.from, window.to, 'month').map(({ from }) => partitionName(definition, from))
  const open = [...months, `${tableName(definition)}_history`].filter((name) => !done.has(name))
  if (open.length === 0) return
  const { rows } = await sql<Texts<'name'> & Flags<'is_large' | 'is_counted'>>`
    select c.relname as name, pg_relation_size(c.oid) > ${smallBytes}::bigint as is_large,
      pg_stat_get_analyze_count(c.oid) + pg_stat_get_autoanalyze_count(c.oid) > 0 as is_counted
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'data' and c.relname = any(${open}::text[])`.execute(session.kysely)
  for (const { name, is_large, is_counted } of rows) {
    if (is_large && !is_counted) await sql`analyze ${sql.table(`data.${name}`)}`.execute(session.kysely)
    if (is_large || is_counted) done.add(name)
  }
}

/** Below this the month's table is made empty first; filling it apart would cost more than it saves. */
const fillFromRows = 5_000

/** The window's month where no partition of it exists yet and the rows are worth filling it apart; null otherwise. */
export const emptyMonthOf = async (
  session: Session,
  definition: Definition,
  window: Window,
  rows: number,
): Promise<Window | null> => {
  const [month, ...others] = windowsBetween(window.from, window.to, 'month')
  if (rows < fillFromRows || month === undefined || others.length > 0) return null
  const name = partitionName(definition, month.from)
  return known.get(session.kysely)?.has(name) === true || (await exists(session, name)) ? null : month
}

// LIKE and ATTACH take a lock that readers and writers of other partitions do not feel; PARTITION OF would stop them all.
const makePartition = async (session: Session, definition: Definition, month: Window, name: string): Promise<void> => {
  await session.kysely.transaction().execute(async (trx) => {
    const inside = { ...session, kysely: trx }
    await lockName(inside, name)
    if (!(await exists(inside, name))) await makeEmpty(inside, definition, month, name)
  })
}

/** Until the transaction ends only its holder makes this partition. */
const lockName = (session: Session, name: string): Promise<void> => lockByName(session.kysely, `partition/${name}`)

const makeEmpty = async (session: Session, definition: Definition, month: Window, name: string): Promise<void> => {
  await sql`create table ${sql.table(`data.${name}`)} (like ${dataTable(definition)} including all) ${withCleaning}`.execute(
    session.kysely,
  )
  await attach(session, definition, month, name)
}

const attach = async (session: Session, definition: Definition, month: Window, name: string): Promise<void> => {
  await sql`alter table ${dataTable(definition)} attach partition ${sql.table(`data.${name}`)}
    for values from (${sql.lit(month.from)}) to (${sql.lit(month.to)})`.execute(session.kysely)
}

/** One that fits the table's own is taken over by the attach, which would otherwise build it while it keeps other months from being attached. */
const addIndex = async (
  session: Session,
  table: RawBuilder<unknown>,
  columns: readonly string[],
  include: readonly string[],
): Promise<void> => {
  const list = (wanted: readonly string[]): RawBuilder<unknown> => sql.join(wanted.map((name) => sql.ref(name)))
  const carried = include.length === 0 ? sql`` : sql`include (${list(include)})`
  await sql`create index on ${table} (${list(columns)}) ${carried}`.execute(session.kysely)
}

/** How a month comes to its rows. */
export interface MonthFill {
  /** Makes the month's table, under its name, from one that is filled. Default: it is made empty. */
  readonly make?: () => Promise<void>
  /** Puts rows into it, or counts those that are there; how many. */
  readonly fill: (table: RawBuilder<unknown>) => Promise<number>
}

/**
 * Makes the month's table, lets `fill` put rows into it while it has no key, then keys and attaches it: all in the caller's transaction,
 * so that readers see the whole month or none of it. null when nothing was filled: the partition was there, or a key came twice (then
 * it is there now, empty).
 */
export const fillPartition = async (
  session: Session,
  definition: Definition,
  month: Window,
  { make, fill }: MonthFill,
): Promise<number | null> => {
  const name = partitionName(definition, month.from)
  const table = sql.table(`data.${name}`)
  await lockName(session, name)
  if (await exists(session, name)) return null
  await sql`savepoint filling`.execute(session.kysely)
  try {
    if (make === undefined)
      await sql`create table ${table} (like ${dataTable(definition)} including all excluding indexes) ${withCleaning}`.execute(
        session.kysely,
      )
    else await make()
    const rows = await fill(table)
    await sql`set local maintenance_work_mem = '256MB'`.execute(session.kysely)
    await sql`alter table ${table} add primary key (${names(keyColumns(definition))})`.execute(session.kysely)
    for (const { columns, include } of definition.indexes) await addIndex(session, table, columns, include)
    await attach(session, definition, month, name)
    await sql`release savepoint filling`.execute(session.kysely)
    return rows
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    await sql`rollback to savepoint filling`.execute(session.kysely)
    await makeEmpty(session, definition, month, name)
    return null
  }
}

/** Two rows with one key. */
export const isUniqueViolation = (error: unknown): boolean =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === '23505'
