// Numbered migrations, shipped and the user's own: their files, applied in one order; safe when two start at once; never backwards.
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, type RawBuilder, sql } from 'kysely'
import { type Migration, type MigrationProvider, Migrator } from 'kysely/migration'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { EtlError, isEtlError, messageOf, settingError } from '../core/errors.ts'
import { docPage, shipped } from '../core/shipped.ts'
import { shareOurModules } from '../core/user-modules.ts'
import { missingRelations } from './catalog.ts'
import type { Database } from './connect.ts'
import { databaseError, dependentsOf, isDatabaseError, isTransient, sqlStateOf } from './database-error.ts'
import { inRetriedTransaction, lockViewsOf, type LockWait } from './lock-retry.ts'
import type { Db } from './tables.ts'
import { query, type Texts } from './typed-row.ts'

/** Folder of the migrations that come with the program. */
export const shippedMigrations = shipped('migrations')

/** Migration files by name (without extension). The same name in two folders must be the same file. */
const migrationFiles = async (folders: readonly string[]): Promise<ReadonlyMap<string, string>> => {
  const files = new Map<string, string>()
  for (const folder of new Set([shippedMigrations, ...folders])) {
    if (!existsSync(folder)) continue
    for (const name of (await readdir(folder)).sort()) {
      const [, base] = /^(\d{4}_[a-z0-9_]+)\.(?:ts|js|mjs)$/.exec(name) ?? []
      if (base !== undefined && !name.endsWith('.d.ts') && !files.has(base)) files.set(base, join(folder, name))
    }
  }
  return files
}

/** Throws CONFIGURATION where the file is no migration. */
const loadMigration = async (name: string, file: string): Promise<Migration> => {
  shareOurModules()
  const loaded: unknown = await import(pathToFileURL(file).href)
  if (typeof loaded !== 'object' || loaded === null || !('up' in loaded) || typeof loaded.up !== 'function') {
    throw settingError(`Migration ${name} (${file}) exports no function \`up\`; see ${docPage('adding-a-dataset.md')}.`)
  }
  const { up } = loaded
  return { up: async (database) => void (await up(database)) }
}

/** The migration's statements in order, recorded without a database: every query that it sends gets an empty result. */
const statementsOf = async (up: (database: Kysely<unknown>) => Promise<unknown>): Promise<string[]> => {
  const statements: string[] = []
  const database = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ level, query }) => {
      if (level === 'query') statements.push(withValues(query.sql, query.parameters))
    },
  })
  await up(database)
  return statements
}

const withValues = (text: string, values: readonly unknown[]): string =>
  values.length === 0 ? text : `${text} -- with ${JSON.stringify(values)}`

/** The ledger's schema also holds the record of migrations. */
const migrationSchema = 'etl'

/** Which migrations, and how. */
interface MigrateOptions {
  /** Folders of the user's own migrations; those shipped always count. A folder that is not there is empty. */
  readonly folders: readonly string[]
  readonly dryRun?: boolean
  /** How long it waits for sessions that use the tables and views it changes. */
  readonly patience?: LockWait
}

const provider = (files: ReadonlyMap<string, string>): MigrationProvider => ({
  getMigrations: async () => {
    const migrations: Record<string, Migration> = {}
    for (const [name, file] of files) migrations[name] = await loadMigration(name, file)
    return migrations
  },
})

/**
 * Names of migrations in the order of application; `unknown`: applied by another program, without a file here. Changes nothing; in a new warehouse all are
 * pending.
 */
export const migrationState = async (database: Database, options: MigrateOptions) => {
  const known = await migrationFiles(options.folders)
  const applied = await appliedMigrations(database)
  return {
    applied,
    pending: [...known.keys()].filter((name) => !applied.includes(name)).sort(),
    unknown: applied.filter((name) => !known.has(name)),
  }
}

const appliedMigrations = async (database: Database): Promise<string[]> => {
  try {
    if ((await missingRelations(database.kysely, ['etl.kysely_migration'])).length > 0) return []
    const rows = await query<Texts<'name'>>(database.kysely)`select name from etl.kysely_migration order by name`
    return rows.map(({ name }) => name)
  } catch (error) {
    throw databaseError(error, database.display)
  }
}

/** The SQL of every pending migration, by name, in the order they would be applied; nothing is sent. */
export const pendingSql = async (
  database: Database,
  options: MigrateOptions,
): Promise<ReadonlyMap<string, readonly string[]>> => {
  const { pending } = await migrationState(database, options)
  const files = await migrationFiles(options.folders)
  const statements = new Map<string, readonly string[]>()
  for (const name of pending) statements.set(name, await statementsOf((await loadMigration(name, files.get(name) ?? '')).up))
  return statements
}

/**
 * Applies pending migrations and records them in one transaction. Throws SCHEMA_AHEAD before changing anything.
 * @param afterwards runs in the same transaction, which rolls back if it fails; not called where nothing is pending
 */
export const migrate = async (
  database: Database,
  options: MigrateOptions,
  afterwards: (trx: Db) => Promise<void> = async () => undefined,
): Promise<{ applied: string[] }> => {
  const state = await migrationState(database, options)
  refuseNewer(state, database.display)
  if (options.dryRun === true || state.pending.length === 0) return { applied: [...state.pending] }
  const files = await migrationFiles(options.folders)
  const texts = await Promise.all(state.pending.map((name) => readFile(files.get(name) ?? '', 'utf8')))
  /** The migration that threw; null: none did. */
  let stopped: string | null = null
  const toLatest = async (trx: Db): Promise<string[]> => {
    const migrator = new Migrator({
      db: trx,
      provider: provider(files),
      migrationTableSchema: migrationSchema,
      // A user's own numbers may lie between two of ours.
      allowUnorderedMigrations: true,
    })
    await lockViewsOf(trx, texts.join('\n').match(/\w+/g) ?? [])
    const { error, results = [] } = await migrator.migrateToLatest()
    stopped = results.find(({ status }) => status === 'Error')?.migrationName ?? null
    if (error !== undefined) throw error
    await afterwards(trx)
    return results.map(({ migrationName }) => migrationName)
  }
  try {
    for (const statement of makingRecord()) await makeDespiteTwins(database.kysely, statement)
    return { applied: await inRetriedTransaction(database, 'migrate', options.patience ?? {}, toLatest) }
  } catch (error) {
    throw notMigrated(stopped, error, files, database)
  }
}

/** Kysely's own tables, made before the transaction: inside it, a conflict with a second process that makes them would abort it. */
const makingRecord = (): readonly RawBuilder<unknown>[] => {
  const [schema, record, lock] = ['', '.kysely_migration', '.kysely_migration_lock'].map((name) =>
    sql.raw(`${migrationSchema}${name}`),
  )
  return [
    sql`create schema if not exists ${schema}`,
    sql`create table if not exists ${record} (name varchar(255) primary key, timestamp varchar(255) not null)`,
    sql`create table if not exists ${lock} (id varchar(255) primary key, is_locked integer not null default 0)`,
    sql`insert into ${lock} (id) values ('migration_lock') on conflict do nothing`,
  ]
}

/** `if not exists` fails where a second process makes the same at the same moment; the next try finds it. */
const makeDespiteTwins = async (db: Db, statement: RawBuilder<unknown>): Promise<void> => {
  for (let tries = 1; ; tries += 1) {
    try {
      await statement.execute(db)
      return
    } catch (error) {
      if (tries >= 5 || !['23505', '42710', '42P06', '42P07', 'XX000'].includes(sqlStateOf(error))) throw error
    }
  }
}

/** @param name of the migration that threw; null: none did */
const notMigrated = (name: string | null, error: unknown, files: ReadonlyMap<string, string>, database: Database): EtlError => {
  if (name === null && (isEtlError(error) || isDatabaseError(error))) return databaseError(error, database.display)
  const about = name === null ? 'Migrating' : `Migration ${name} (${files.get(name) ?? 'no file'})`
  // An error that any migration could get (server, connection, rights); other errors are the migration's own.
  if (isTransient(error) || (isDatabaseError(error) && databaseError(error, '').code !== 'DATABASE')) {
    const { code, message } = databaseError(error, database.display)
    return new EtlError(code, `${about} was interrupted; nothing of it was applied. ${message}`, { cause: error })
  }
  if (sqlStateOf(error) === '2BP01')
    return new EtlError(
      'CONFIGURATION',
      `${about} failed: ${messageOf(error)} (${dependentsOf(error)}). Nothing of it was applied. ` +
        'If a view of bi is named: migrate once without this file, and the view loses columns that its definition no longer has. Drop other objects that are named; then migrate again.',
      { cause: error },
    )
  return new EtlError(
    'CONFIGURATION',
    `${about} failed: ${messageOf(error)}. Nothing of it was applied; correct it and migrate again.`,
    { cause: error },
  )
}

const refuseNewer = ({ unknown }: { readonly unknown: readonly string[] }, display: string): void => {
  if (unknown.length === 0) return
  throw new EtlError(
    'SCHEMA_AHEAD',
    `The warehouse ${display} has migrations this program does not know: ${unknown.join(', ')}. ` +
      'Use the newer Millrace that applied them, or put the missing files back under migrations/.',
  )
}

/** Throws SCHEMA_BEHIND when migrations are pending, SCHEMA_AHEAD when some have no file here (unless `allowUnknown`). */
export const assertMigrated = async (
  database: Database,
  options: MigrateOptions & { readonly allowUnknown?: boolean },
): Promise<void> => {
  const state = await migrationState(database, options)
  if (options.allowUnknown !== true) refuseNewer(state, database.display)
  if (state.pending.length === 0) return
  throw new EtlError(
    'SCHEMA_BEHIND',
    `The warehouse ${database.display} lacks ${state.pending.join(', ')}. Run \`millrace migrate\`.`,
  )
}

/** Lock and statement timeouts of a trial: short in a warehouse in use, because loads queue behind its locks; an empty one has no loads. */
const patience = { inUse: ['100ms', '1s'], empty: ['2s', '30s'] } as const

/** The result of `read` with every pending migration applied, then rolled back. Throws where a migration takes too long or waits for a lock. */
export const afterPending = async <T>(database: Database, options: MigrateOptions, read: (db: Db) => Promise<T>): Promise<T> => {
  const { pending, applied } = await migrationState(database, options)
  const [lock, statement] = patience[applied.length === 0 ? 'empty' : 'inUse']
  const files = await migrationFiles(options.folders)
  const trial = await database.kysely.startTransaction().execute()
  try {
    await sql.raw(`set local lock_timeout = '${lock}'; set local statement_timeout = '${statement}'`).execute(trial)
    // The first migration comments these tables, so they must exist; the rollback removes them, too.
    for (const statement of makingRecord()) await statement.execute(trial)
    for (const name of pending)
      await (await loadMigration(name, files.get(name) ?? '')).up(trial).catch((error: unknown) => {
        throw notMigrated(name, error, files, database)
      })
    return await read(trial)
  } catch (error) {
    throw isDatabaseError(error) ? databaseError(error, database.display) : error
  } finally {
    await trial.rollback().execute()
  }
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
