// The unlogged table a session stages into: named after the session, so that no lock has to say whose it is; left-over ones are dropped.
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Column, Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Numbers, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import { stagedColumns, tableName } from './table-columns.ts'

/** A table of this session alone. */
export interface StagingTable {
  /** Quoted, with its schema. */
  readonly name: string
  /** Of the column `_n`, quoted. */
  readonly sequence: string
  /** Quoted name; null where there is none. */
  index: string | null
  rowsSinceTruncate: number
}

/** Numbers of rows fetched from their sequence at a time; a session has its table to itself, so none is lost. */
const numbersAtOnce = 10_000
/** Dead rows left in the table before it is truncated rather than deleted from; truncating costs catalog writes. */
const truncateAfterRows = 5_000
/** Only a dump, or a person, holds a lock on a staging table; nobody waits for those. */
export const lockTimeout = '500ms'
/** Names tried where such a lock keeps the first from being made anew. */
const mostNames = 9
const sweptAtOnce = 20

const heldBySession = new WeakMap<object, Map<string, StagingTable>>()

/** The session's table with this definition's columns: the one it has, empty, or a new one. Not inside a transaction. */
export const stagingTableOf = async (session: Session, definition: Definition): Promise<StagingTable> => {
  const columns = stagedColumns(definition)
  const family = familyName(definition, columns)
  const tables = heldBySession.get(session.kysely) ?? new Map<string, StagingTable>()
  heldBySession.set(session.kysely, tables)
  const held = tables.get(family) ?? (await makeTable(session, family, columns))
  tables.set(family, held)
  return held
}

/** Tables with the same columns share a name but for the session at its end. */
const familyName = (definition: Definition, columns: readonly Column[]): string => {
  const list = columns.map(({ name, type }) => `${name} ${type}`)
  const hash = createHash('sha256').update(list.join()).digest('hex').slice(0, 6)
  return `${tableName(definition).slice(0, 36)}_${hash}`
}

const makeTable = async (session: Session, family: string, columns: readonly Column[]): Promise<StagingTable> => {
  await dropLeftOver(session.kysely)
  const { rows } = await sql<Numbers<'pid'>>`select pg_backend_pid() as pid`.execute(session.kysely)
  const own = `${family}_${rows[0]?.pid}`
  for (const name of [own, ...Array.from({ length: mostNames - 1 }, (_, index) => `${own}_${index + 2}`)]) {
    const made = await unlessLocked(session.kysely, (trx) => createTable(trx, name, columns))
    if (made) return { name: `staging."${name}"`, sequence: `staging."${name}__n_seq"`, index: null, rowsSinceTruncate: 0 }
  }
  throw new EtlError(
    'DATABASE',
    `The tables staging.${own} are all locked by other sessions, a dump perhaps; run the same command again once they ended.`,
  )
}

/** One of that name was another session's with the same number, which has ended. */
const createTable = async (trx: Db, name: string, columns: readonly Column[]): Promise<void> => {
  const table = sql.table(`staging.${name}`)
  const list = sql.join(columns.map((column) => sql`${sql.ref(column.name)} ${sql.raw(column.type)}`))
  await sql`drop table if exists ${table}`.execute(trx)
  await sql`create unlogged table ${table} (_n bigint generated always as identity (cache ${sql.lit(numbersAtOnce)}), ${list})
    with (autovacuum_enabled = off)`.execute(trx)
}

/** Tables of sessions that are gone: a killed process drops nothing. */
export const dropLeftOver = async (db: Db): Promise<void> => {
  const { rows } = await sql<Texts<'name'>>`
    select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'staging' and c.relkind = 'r' and c.relname ~ '_[0-9a-f]{6}_[0-9]+(_[0-9]+)?$' and not exists (
      select from pg_stat_activity a where a.pid::text = substring(c.relname from '_[0-9a-f]{6}_([0-9]+)(?:_[0-9]+)?$'))
    order by c.relname limit ${sweptAtOnce}`.execute(db)
  for (const { name } of rows)
    await unlessLocked(db, async (trx) => void (await sql`drop table if exists ${sql.table(`staging.${name}`)}`.execute(trx)))
}

/** False where somebody's lock, or somebody's ownership, was in the way: then nothing was changed. */
export const unlessLocked = async (db: Db, work: (trx: Db) => Promise<void>): Promise<boolean> => {
  try {
    await db.transaction().execute(async (trx) => {
      await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trx)
      await work(trx)
    })
    return true
  } catch (error) {
    if (isLocked(error) || (error as { code?: string }).code === '42501') return false
    throw error
  }
}

export const isLocked = (error: unknown): boolean => (error as { code?: string }).code === '55P03'

/** Leaves it empty and without index for the session's next answer; where a lock is in the way that answer gets another table. */
export const emptyStagingTable = async (session: Session, table: StagingTable): Promise<void> => {
  const isMuch = table.rowsSinceTruncate > truncateAfterRows
  const emptied = isMuch ? `truncate ${table.name}` : `delete from ${table.name}`
  const dropped = table.index === null ? '' : `drop index ${table.index};`
  try {
    await session.client.query(
      `set local lock_timeout = '${lockTimeout}'; ${dropped} ${emptied}; select setval('${table.sequence}', 1, false)`,
    )
    table.index = null
    if (isMuch) table.rowsSinceTruncate = 0
  } catch (error) {
    if (!isLocked(error)) throw error
    const tables = heldBySession.get(session.kysely)
    for (const [family, held] of tables ?? []) if (held === table) tables?.delete(family)
  }
}
