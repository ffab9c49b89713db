// What migrations would make, tried in a transaction that is taken back.
import { sql } from 'kysely'
import type { Database } from './connect.ts'
import { databaseError, isDatabaseError } from './database-error.ts'
import { type MigrateOptions, migrationState } from './migrate.ts'
import { loadMigration, migrationFiles, statementsOf } from './migration-files.ts'
import { query } from './typed-row.ts'
import type { Db } from './tables.ts'

/** In a warehouse that is in use a load waits no longer than that, neither before a lock of ours nor behind one; an empty one has no loads. */
const patience = { inUse: ['100ms', '1s'], empty: ['2s', '30s'] } as const

/** What `read` sees once every pending migration is applied. Nothing of them stays. Throws where a migration needs longer, or a lock that another holds. */
export const afterPending = async <T>(database: Database, options: MigrateOptions, read: (db: Db) => Promise<T>): Promise<T> => {
  const { pending, applied } = await migrationState(database, options)
  const [lock, statement] = patience[applied.length === 0 ? 'empty' : 'inUse']
  const files = await migrationFiles(options.folders)
  const trial = await database.kysely.startTransaction().execute()
  try {
    await sql.raw(`set local lock_timeout = '${lock}'; set local statement_timeout = '${statement}'`).execute(trial)
    await makeRecord(trial)
    for (const name of pending) await (await loadMigration(name, files.get(name) ?? '')).up(trial)
    return await read(trial)
  } catch (error) {
    throw isDatabaseError(error) ? databaseError(error, database.display) : error
  } finally {
    await trial.rollback().execute()
  }
}

/** The record of migrations, which comments of the first one name, is made by the process that applies them; here it is taken back with the rest. */
const makeRecord = async (trial: Db): Promise<void> => {
  await query(trial)`create schema if not exists etl`
  for (const name of ['kysely_migration', 'kysely_migration_lock'])
    await query(
      trial,
    )`create table if not exists ${sql.table(`etl.${name}`)} (name varchar(255) primary key, timestamp varchar(255), id varchar(255),
      is_locked integer)`
}

/** Names of the migrations that create the table, found without a database. @param schema of the table */
export const migrationsCreating = async (
  schema: 'bi' | 'data',
  table: string,
  { folders }: MigrateOptions,
): Promise<string[]> => {
  const creates = new RegExp(`create\\s+table\\s+(if\\s+not\\s+exists\\s+)?"?${schema}"?\\."?${table}"?[\\s(]`, 'i')
  const found: string[] = []
  for (const [name, file] of await migrationFiles(folders)) {
    const statements = await statementsOf((await loadMigration(name, file)).up)
    if (statements.some((statement) => creates.test(statement))) found.push(name)
  }
  return found
}
