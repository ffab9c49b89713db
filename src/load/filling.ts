// A month's own table, filled by COPY before it belongs to anything: rows of a first load are written once instead of staged and inserted.
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Definition, Window } from '../core/types.ts'
import type { Texts } from '../db/row.ts'
import type { Session } from '../db/session.ts'
import type { Db } from '../db/tables.ts'
import { anotherWay } from './another-way.ts'
import { liveColumns } from './live-tables.ts'
import type { MergeScope } from './merge-scope.ts'
import { cleaned, partitionName } from './partition.ts'
import { createStaging, type Staging } from './staging.ts'
import { dropLeftOver, isLocked, lockTimeout, type StagingTable, unlessLocked } from './staging-table.ts'
import { constantColumns, stagedColumns, tableName, typed } from './table-columns.ts'

/** Staging that can become the month itself. Rows bear the number of their unit as last cell. */
export interface Filling extends Staging {
  /**
   * Makes the table the month's partition, but for key, indexes and place: all rows are the run's, first revisions of this moment. In the load's transaction.
   * @param loadedAt ISO time
   */
  adopt(session: Session, loadedAt: string): Promise<void>
  /** The transaction that adopted it was rolled back. */
  giveBack(): void
}

/** What all rows have in common. */
export interface FillingOf {
  readonly definition: Definition
  /** The one window of the month, and values of the dimensions that are no columns of the answer. */
  readonly scope: Pick<MergeScope, 'name' | 'window' | 'slice'>
  readonly month: Window
  readonly runId: number
}

const lineage = ['_unit_id', '_run_id', '_revision', '_loaded_at']

/** A table of this session alone; null where rows cannot be written as they will stand: then they are staged. Not inside a transaction. */
export const openFilling = async (session: Session, of: FillingOf): Promise<Filling | null> => {
  const own = await makeTable(session, of)
  if (own === null) return null
  const { definition, runId, month } = of
  const partition = partitionName(definition, month.from)
  let isAdopted = false
  const table: StagingTable = {
    get name() {
      return isAdopted ? `data."${partition}"` : `staging."${own}"`
    },
    ...{ sequence: '', index: null, rowsSinceTruncate: 0 },
  }
  const list = [...stagedColumns(definition).map(({ name }) => name), '_unit_id'].map((name) => `"${name}"`).join(', ')
  const staging = createStaging(session, {
    hold: async () => table,
    empty: async () => undefined,
    columns: list,
    isNumbered: false,
  })
  const { close } = staging
  return Object.assign(staging, {
    close: async () => {
      await close()
      if (!isAdopted) await drop(session, own)
    },
    adopt: async (inside: Session, loadedAt: string) => {
      await adopt(inside, of, own, { runId, loadedAt })
      isAdopted = true
    },
    giveBack: () => {
      isAdopted = false
    },
  })
}

/** Tables of a session that were locked when they were to go. */
const leftBehind = new WeakMap<object, Set<string>>()

/** Left to the session's next filling where a lock is in the way; after its end whoever makes such tables takes it away. */
const drop = async ({ kysely }: Session, own: string): Promise<void> => {
  const names = leftBehind.get(kysely) ?? new Set<string>()
  leftBehind.set(kysely, names)
  const isDropped = await unlessLocked(kysely, async (trx) => {
    await sql`drop table if exists ${sql.table(`staging.${own}`)}`.execute(trx)
  })
  if (isDropped) names.delete(own)
  else names.add(own)
}

/** Null where the table of the data has columns or rules that the definition does not know, or where a lock is in the way. */
const makeTable = async (session: Session, { definition, scope, month }: FillingOf): Promise<string | null> => {
  const { kysely } = session
  await dropLeftOver(kysely)
  for (const left of leftBehind.get(kysely) ?? []) await drop(session, left)
  const name = tableName(definition)
  const columns = await liveColumns(kysely, [name])
  const known = new Set([...definition.columns.map((column) => column.name), ...lineage])
  const constants = constantColumns(definition, scope)
  if (columns.length !== known.size || columns.some((column) => !known.has(column.name))) return null
  if (constants.some(({ value }) => typeof value === 'object') || (await hasRules(session, name))) return null
  const written = columns.filter((column) => column.name === '_unit_id' || !lineage.includes(column.name))
  const { rows } = await sql<Texts<'pid'>>`select pg_backend_pid()::text as pid`.execute(kysely)
  const hash = createHash('sha256')
    .update(`fill ${partitionName(definition, month.from)}`)
    .digest('hex')
    .slice(0, 6)
  const own = `${name.slice(0, 36)}_${hash}_${rows[0]?.pid}`
  const table = sql.table(`staging.${own}`)
  const set = [
    ...written.filter(({ nullable }) => !nullable).map((column) => sql`alter column ${sql.ref(column.name)} set not null`),
    ...constants.map(
      ({ column, value }) => sql`alter column ${sql.ref(column.name)} set default ${typed(sql.lit(value), column.type)}`,
    ),
  ]
  const made = await unlessLocked(kysely, async (trx) => {
    await sql`drop table if exists ${table}`.execute(trx)
    await sql`create table ${table} with (autovacuum_enabled = off) as select ${sql.join(
      written.map((column) => sql.ref(column.name)),
    )} from ${sql.table(`data.${name}`)} with no data`.execute(trx)
    await sql`alter table ${table} ${sql.join(set)}`.execute(trx)
  })
  return made ? own : null
}

/** What a partition must have too before it can be attached, or what would have to run for each row. */
const hasRules = async ({ kysely }: Session, name: string): Promise<boolean> => {
  const { rows } = await sql`select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'data' and c.relname = ${name} and (c.relrowsecurity or c.relhastriggers
      or exists (select from pg_constraint r where r.conrelid = c.oid and r.contype in ('c', 'f', 'u', 'x'))
      or exists (select from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and (a.attgenerated <> '' or a.attidentity <> '')))`.execute(
    kysely,
  )
  return rows.length > 0
}

/** Columns that are the same in every row are added with their value: PostgreSQL keeps it once and writes no row anew. */
const adopt = async (
  { kysely }: Session,
  { definition, scope, month }: FillingOf,
  own: string,
  { runId, loadedAt }: { readonly runId: number; readonly loadedAt: string },
): Promise<void> => {
  const name = partitionName(definition, month.from)
  const table = sql.table(`data.${name}`)
  await lockTable(kysely, own, scope)
  await sql`alter table ${sql.table(`staging.${own}`)} set schema data`.execute(kysely)
  await sql`alter table ${sql.table(`data.${own}`)} rename to ${sql.id(name)}`.execute(kysely)
  await sql`alter table ${table} add column _run_id bigint not null default ${sql.lit(String(runId))}::bigint,
    add column _revision integer not null default 1, add column _loaded_at timestamptz not null default ${sql.lit(loadedAt)}::timestamptz`.execute(
    kysely,
  )
  const constants = constantColumns(definition, scope).map(({ column }) => column.name)
  const dropped = [...constants, ...lineage.slice(1)].map((column) => sql`alter column ${sql.ref(column)} drop default`)
  await sql`alter table ${table} ${sql.join(dropped)}`.execute(kysely)
  await sql`alter table ${table} reset (autovacuum_enabled)`.execute(kysely)
  await sql`alter table ${table} set ${sql.raw(cleaned)}`.execute(kysely)
}

/** Only a dump, or a person, holds a lock on such a table; nobody waits for those. Other locks of the transaction are waited for as before. */
const lockTable = async (trx: Db, own: string, scope: FillingOf['scope']): Promise<void> => {
  try {
    const { rows } = await sql<Texts<'before'>>`select current_setting('lock_timeout') as before`.execute(trx)
    await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx)
    await sql`lock table ${sql.table(`staging.${own}`)} in access exclusive mode`.execute(trx)
    await sql`select set_config('lock_timeout', ${rows[0]?.before ?? '0'}, true)`.execute(trx)
  } catch (error) {
    throw isLocked(error) ? anotherWay(scope, 'somebody holds a lock on its table') : error
  }
}
