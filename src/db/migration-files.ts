// The files of numbered migrations: where they lie, what one of them is, and the SQL it would send.
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import type { Migration } from 'kysely/migration'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { EtlError } from '../core/errors.ts'
import { shipped } from '../core/shipped.ts'
import { shareOurModules } from '../core/user-modules.ts'

/** Folder of the migrations that come with the program. */
export const shippedMigrations = shipped('migrations')

/** Migration files by name (without extension). The same name in two folders must be the same file. */
export const migrationFiles = async (folders: readonly string[]): Promise<ReadonlyMap<string, string>> => {
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
export const loadMigration = async (name: string, file: string): Promise<Migration> => {
  shareOurModules()
  const loaded: unknown = await import(pathToFileURL(file).href)
  if (typeof loaded !== 'object' || loaded === null || !('up' in loaded) || typeof loaded.up !== 'function') {
    throw new EtlError('CONFIGURATION', `Migration ${name} (${file}) exports no function \`up\`; see docs/adding-a-dataset.md.`)
  }
  const { up } = loaded
  return { up: async (database) => void (await up(database)) }
}

/** Statements in order. A migration that asks the database before it decides sees an empty answer here. */
export const statementsOf = async (up: (database: Kysely<unknown>) => Promise<unknown>): Promise<string[]> => {
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
