// Month partitions of a data table: made empty before a load, or filled in its transaction and attached at its end. Readers are never blocked.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Definition, IsoDate, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import { lockByName, makeLock, tryLockByName } from '../db/named-lock.ts'
import { ownPid, type Session } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { type Flags, query, queryColumn, type Texts } from '../db/typed-row.ts'
import { liveColumns } from './drift.ts'
import { dataTable, inWindow, keyColumns, lineage, names, periodColumn, tableName } from './table-columns.ts'

/** `keywords_v1_p202601` */
const partitionName = (definition: Definition, month: IsoDate): string =>
  `${tableName(definition)}_p${month.slice(0, 7).replace('-', '')}`

/**
 * PostgreSQL answers a query from an index alone only where autovacuum ran since the last load. By default autovacuum waits for a fifth of the
 * month; here it follows each load that is worth it. It skips pages that it has seen and that did not change.
 */
const withCleaning = sql.raw(
  'with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_scale_factor = 0.002, autovacuum_vacuum_threshold = 1000)',
)

/** Names of tables, by session. */
type Noted = WeakMap<object, Set<string>>

const known: Noted = new WeakMap()

const notedOf = (noted: Noted, { client }: Session): Set<string> => {
  const seen = noted.get(client) ?? new Set<string>()
  noted.set(client, seen)
  return seen
}

/** Call after a month that this session knew was detached or dropped. */
export const forgetPartitions = ({ client }: Session): void => void known.delete(client)

/** Makes the partitions of the window's months where they are missing. Not inside a transaction: others must see them at once. */
export const ensurePartitions = async (session: Session, definition: Definition, window: Window): Promise<void> => {
  const seen = notedOf(known, session)
  const months = monthsOf(definition, window).filter(({ name }) => !seen.has(name))
  const found = months.length === 0 ? new Set() : await placed(session, definition, months)
  for (const month of months) {
    if (!found.has(month.name)) await makePartition(session, definition, month)
    seen.add(month.name)
  }
}

type Month = ReturnType<typeof monthsOf>[number]

/** `name`: of its table. */
const monthsOf = (definition: Definition, { from, to }: Window) =>
  windowsBetween(from, to, 'month').map((month) => ({ ...month, name: partitionName(definition, month.from) }))

/**
 * Names of the months that a partition covers; it may have any name, and cover others, too. Throws TABLE_DRIFT where none covers a month and the month's name is
 * taken, as by a month that somebody detached and kept.
 */
const placed = async ({ kysely }: Session, definition: Definition, months: readonly Month[]): Promise<ReadonlySet<string>> => {
  const table = tableName(definition)
  // Not to_regclass: it may answer from a cache that lacks what another process has just committed. pg_get_expr with table 0 waits for no lock.
  const rows = await query<Texts<'name'> & Flags<'has_place' | 'is_taken'>>(kysely)`
    with places as materialized (select pg_get_expr(c.relpartbound, 0) as bound from pg_inherits i join pg_class c on c.oid = i.inhrelid
      join pg_class w on w.oid = i.inhparent join pg_namespace n on n.oid = w.relnamespace where n.nspname = 'data' and w.relname = ${table})
    select m.name,
      exists (select from places where bound like 'FOR VALUES FROM%' and coalesce(substring(bound from 'FROM [(]''([^'']+)')::date, '-infinity') < m.ends
        and coalesce(substring(bound from 'TO [(]''([^'']+)')::date, 'infinity') > m.starts) as has_place,
      exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'data' and c.relname = m.name) as is_taken
    from unnest(${months.map(({ name }) => name)}::text[], ${months.map(({ from }) => from)}::date[], ${months.map(({ to }) => to)}::date[])
      as m (name, starts, ends)`
  const stray = rows.find(({ has_place, is_taken }) => is_taken && !has_place)
  if (stray !== undefined)
    throw new EtlError(
      'TABLE_DRIFT',
      `data.${stray.name} is no partition of data.${table}: attach it again, or give it another name or schema. Nothing was loaded; the next run loads what came.`,
    )
  return new Set(rows.filter(({ has_place }) => has_place).map(({ name }) => name))
}

/** Tables of months that somebody detached and kept. */
export const detachedMonths = (db: Db, definition: Definition): Promise<string[]> =>
  queryColumn<Texts<'name'>>(db)`select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'data' and c.relname ~ ${`^${tableName(definition)}_p[0-9]{6}$`} and not c.relispartition order by 1`

/** A table this small is read in no time whatever the plan. */
const smallBytes = 1_000_000

const counted: Noted = new WeakMap()

/**
 * Analyzes tables that were not analyzed yet: autovacuum comes minutes after a load, and until then the planner takes a large month for a nearly
 * empty one, and scans all of it for each row that it looks up. Not inside a transaction.
 */
export const ensureStatistics = async (session: Session, definition: Definition, window: Window): Promise<void> => {
  const done = notedOf(counted, session)
  const months = monthsOf(definition, window).map(({ name }) => name)
  const open = [...months, `${tableName(definition)}_history`].filter((name) => !done.has(name))
  if (open.length === 0) return
  const rows = await query<Texts<'name'> & Flags<'is_large' | 'is_counted'>>(session.kysely)`
    select c.relname as name, pg_relation_size(c.oid) > ${smallBytes}::bigint as is_large,
      pg_stat_get_analyze_count(c.oid) + pg_stat_get_autoanalyze_count(c.oid) > 0 as is_counted
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'data' and c.relname = any(${open}::text[])`
  for (const { name, is_large, is_counted } of rows) {
    if (is_large && !is_counted) await sql`analyze ${sql.table(`data.${name}`)}`.execute(session.kysely)
    if (is_large || is_counted) done.add(name)
  }
}

// LIKE and ATTACH take a lock that does not block readers and writers of other partitions; PARTITION OF would block them all.
const makePartition = async (session: Session, definition: Definition, month: Month): Promise<void> => {
  await session.kysely.transaction().execute(async (trx) => {
    const inside = { ...session, kysely: trx }
    await lockByName(trx, lockOf(month))
    if ((await placed(inside, definition, [month])).size > 0 || (await holdsByDefault(inside, definition, month))) return
    await sql`create table ${tableOf(month)} (like ${dataTable(definition)} including all) ${withCleaning}`.execute(trx)
    await attach(inside, dataTable(definition), month)
  })
}

/** Lock whose holder alone makes this partition, until its transaction ends. */
const lockOf = ({ name }: Month): string => `partition/${name}`

const tableOf = ({ name }: Month): RawBuilder<unknown> => sql.table(`data.${name}`)

/** Whether a DEFAULT partition, which somebody added, has rows of the month: they stay there, and new ones join them. */
const holdsByDefault = async ({ kysely }: Session, definition: Definition, month: Window): Promise<boolean> => {
  const [found] = await query<Texts<'name'>>(kysely)`
    select format('%I.%I', n.nspname, c.relname) as name from pg_partitioned_table p join pg_class c on c.oid = p.partdefid
      join pg_namespace n on n.oid = c.relnamespace join pg_class whole on whole.oid = p.partrelid
      join pg_namespace w on w.oid = whole.relnamespace and w.nspname = 'data' where whole.relname = ${tableName(definition)}`
  if (found === undefined) return false
  const held = await query(kysely)`select 1 from ${sql.raw(found.name)} t where ${inWindow(definition, month, 't')} limit 1`
  return held.length > 0
}

const attach = async ({ kysely }: Session, whole: RawBuilder<unknown>, month: Month): Promise<void> => {
  await sql`alter table ${whole} attach partition ${tableOf(month)}
    for values from (${sql.lit(month.from)}) to (${sql.lit(month.to)})`.execute(kysely)
}

/** Bytes of an answer; below this, months are made empty first: filling them apart would cost more than it saves. */
const fillFromBytes = 1_000_000

/** The window's months, where their first answer fills them before they get keys and are attached; null: one exists, or rows must go through the whole table. */
export const monthsToMake = async (
  session: Session,
  definition: Definition,
  window: Window,
  bytes: number,
): Promise<readonly Month[] | null> => {
  const months = monthsOf(definition, window)
  if (bytes < fillFromBytes || months.some(({ name }) => notedOf(known, session).has(name))) return null
  if ((await placed(session, definition, months)).size > 0 || (await hasRules(session, definition))) return null
  for (const month of months) await makeLock(session.kysely, lockOf(month))
  return months
}

/** Whether the table has columns that somebody added, or anything that must see each row: triggers, row security, constraints, publications, a DEFAULT partition. */
const hasRules = async ({ kysely }: Session, definition: Definition): Promise<boolean> => {
  const name = tableName(definition)
  const columns = await liveColumns(kysely, [name])
  if (columns.length !== definition.columns.length + Object.keys(lineage).length) return true
  const rows = await query(kysely)`select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'data' and c.relname = ${name} and (c.relrowsecurity or exists (select from pg_trigger g where g.tgrelid = c.oid)
      or exists (select from pg_constraint r where r.conrelid = c.oid and r.contype in ('c', 'f', 'u', 'x'))
      or exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and (a.attgenerated <> '' or a.attidentity <> ''))
      or exists (select from pg_partitioned_table p where p.partrelid = c.oid and p.partdefid <> 0)
      or exists (select from pg_publication p where p.puballtables)
      or exists (select from pg_publication_rel p where p.prrelid = c.oid)
      or exists (select from pg_publication_namespace p where p.pnnspid = n.oid))`
  return rows.length > 0
}

/** Months that are made in a load's transaction. */
export type MadeMonths = NonNullable<Awaited<ReturnType<typeof makeMonths>>>

/**
 * Makes tables that are not attached and have no keys, for rows of the caller's transaction; null where one exists by now, or another load is making it. `target`:
 * quoted name of the table that takes the rows: the month's, or one that holds several months until they are attached.
 */
export const makeMonths = async (session: Session, definition: Definition, months: readonly Month[]) => {
  const { kysely } = session
  for (const month of months) if (!(await tryLockByName(kysely, lockOf(month)))) return null
  const [first] = months
  if (first === undefined || (await placed(session, definition, months)).size > 0) return null
  for (const month of months)
    await sql`create table ${tableOf(month)} (like ${dataTable(definition)} including all excluding indexes) ${withCleaning}`.execute(
      kysely,
    )
  if (months.length === 1) return { months, target: `data."${first.name}"` }
  const target = `data."months_${await ownPid(session)}"`
  await sql`create table ${sql.raw(target)} (like ${dataTable(definition)} including defaults)
    partition by range (${sql.ref(periodColumn(definition))})`.execute(kysely)
  for (const month of months) await attach(session, sql.raw(target), month)
  return { months, target }
}

/** Their rows, before they are attached and after. */
export const rowsOfMonths = ({ months }: MadeMonths): RawBuilder<unknown> =>
  sql`(${sql.join(months.map((month) => sql`select * from ${tableOf(month)}`), sql` union all `)})` // biome-ignore format: one look

/** Gives the filled months their keys, their indexes and their places. Throws the server's unique violation where a key came twice. */
export const attachMonths = async (session: Session, definition: Definition, { months, target }: MadeMonths): Promise<void> => {
  const { kysely } = session
  await sql`set local maintenance_work_mem = '256MB'`.execute(kysely)
  for (const month of months) {
    const table = tableOf(month)
    if (months.length > 1) await sql`alter table ${sql.raw(target)} detach partition ${table}`.execute(kysely)
    await sql`alter table ${table} add primary key (${names(keyColumns(definition))})`.execute(kysely)
    // ATTACH takes over indexes that match the table's own; else it would build them, and other months could not be attached meanwhile.
    for (const { columns, include } of definition.indexes) await addIndex(session, table, columns, include)
    await sql`create index on ${table} using brin (_unit_id)`.execute(kysely)
  }
  for (const month of months) await attach(session, dataTable(definition), month)
  if (months.length > 1) await sql`drop table ${sql.raw(target)}`.execute(kysely)
}

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
