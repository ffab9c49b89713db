// Questions to PostgreSQL's catalog: which tables, views and roles exist, and whether the database is a Citus cluster.
import type { Database } from './connect.ts'
import type { Db } from './tables.ts'
import { type Maybe, query, type Texts } from './typed-row.ts'

/** The tables and views that do not exist, in the order given. @param names with their schema */
export const missingRelations = async (db: Db, names: readonly string[]): Promise<string[]> => {
  const rows = await query<Texts<'name'>>(db)`
    select name from unnest(${[...names]}::text[]) with ordinality as wanted (name, at) where to_regclass(name) is null order by at`
  return rows.map(({ name }) => name)
}

/** Columns of a table or view in its order, `about` from their comments; empty where it does not exist. @param relation with its schema */
export const relationColumns = (db: Db, relation: string) =>
  query<Texts<'name' | 'type'> & Maybe<Texts<'about'>>>(db)`
    select attname as name, format_type(atttypid, atttypmod) as type, col_description(attrelid, attnum) as about from pg_attribute
    where attrelid = to_regclass(${relation}) and attnum > 0 and not attisdropped order by attnum`

export const columnNames = async (db: Db, relation: string): Promise<string[]> =>
  (await relationColumns(db, relation)).map(({ name }) => name)

/** Roles belong to the server, not to the database. */
export const roleExists = async (db: Db, role: string): Promise<boolean> => {
  const rows = await query(db)`select 1 from pg_roles where rolname = ${role}`
  return rows.length > 0
}

const clusters = new WeakMap<Database, boolean>()

/**
 * Whether this is Citus: one statement cannot write both distributed and local tables there. The result is cached for the pool's life,
 * a failed query is not.
 */
export const isCluster = async (database: Database): Promise<boolean> => {
  const known = clusters.get(database) ?? (await askCluster(database))
  clusters.set(database, known)
  return known
}

const askCluster = async ({ kysely }: Database): Promise<boolean> =>
  (await query(kysely)`select 1 from pg_extension where extname = 'citus'`).length > 0
