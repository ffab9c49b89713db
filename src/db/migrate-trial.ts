// What migrations would make, tried in a transaction that is taken back.
import { sql } from 'kysely'
import type { Database } from './connect.ts'
import { databaseError, isDatabaseError } from './database-error.ts'
import { type MigrateOptions, loadMigration, migrationFiles, migrationState } from './migrate.ts'
import { statementsOf } from './migration-sql.ts'
import type { Db } from './tables.ts'

/** Nothing here is worth making a load wait. */
const lockTimeout = '3s'

/** What `read` sees once every pending migration is applied. Nothing of them stays. */
export const afterPending = async <T>(database: Database, options: MigrateOptions, read: (db: Db) => Promise<T>): Promise<T> => {
  const { pending } = await migrationState(database, options)
  const files = await migrationFiles(options.folders)
  const trial = await database.kysely.startTransaction().execute()
  try {
    await sql`set local lock_timeout = ${sql.lit(lockTimeout)}`.execute(trial)
    for (const name of pending) await (await loadMigration(name, files.get(name) ?? '')).up(trial)
    return await read(trial)
  } catch (error) {
    throw isDatabaseError(error) ? databaseError(error, database.display) : error
  } finally {
    await trial.rollback().execute()
  }
}

/** Names of the migrations that create `data.<table>`, found without a database. */
export const migrationsCreating = async (table: string, { folders }: MigrateOptions): Promise<string[]> => {
  const creates = new RegExp(`create\\s+table\\s+(if\\s+not\\s+exists\\s+)?"?data"?\\."?${table}"?[\\s(]`, 'i')
  const found: string[] = []
  for (const [name, file] of await migrationFiles(folders)) {
    const statements = await statementsOf((await loadMigration(name, file)).up)
    if (statements.some((statement) => creates.test(statement))) found.push(name)
  }
  return found
}
