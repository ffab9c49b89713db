// `millrace new migration NAME`: the table of a definition, or what it lacks by now, as the next migration.
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Settings } from '../core/env.ts'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { openDatabase } from '../db/connect.ts'
import { migrationState } from '../db/migrate.ts'
import { shippedMigrations } from '../db/migration-files.ts'
import { afterPending, migrationsCreating } from '../db/migrate-trial.ts'
import { writeNewFile } from '../definition/dataset-files.ts'
import { changeMigration, datasetMigration, dimensionsOf, type NewDimension } from '../definition/dataset-migration.ts'
import { type TableChanges, tableChanges } from '../load/drift.ts'
import { tableName } from '../load/table-columns.ts'
import { migrationFolders, openDefinitions } from './open-runtime.ts'

export interface NewMigration {
  readonly pipeline: string
  readonly pipelinesFolder: string
  /** Asked for only where the table has a migration already. */
  readonly settings: () => Settings
}

export interface MadeMigration {
  /** null: the table is as defined. */
  readonly file: string | null
  readonly kind: 'table' | 'change' | 'none'
}

/** Throws DEFINITION for a wrong YAML, USAGE where no migration of the same version can bring what is asked. */
export const newMigration = async (request: NewMigration): Promise<MadeMigration> => {
  const { definitions } = await openDefinitions(request.pipelinesFolder, [request.pipeline])
  const definition = definitions.reduce((newest, one) => (one.version > newest.version ? one : newest))
  const folders = migrationFolders(request.pipelinesFolder)
  const creating = await migrationsCreating('data', tableName(definition), { folders })
  const dimensions = await newDimensions(definition, folders)
  if (creating.length === 0)
    return { kind: 'table', file: await writeMigration(folders, tableName(definition), datasetMigration(definition, dimensions)) }
  const { changes, pending } = await changesOf(request.settings(), folders, definition)
  refuse(
    definition,
    changes,
    creating.filter((name) => pending.includes(name)),
  )
  if (changes.columns.length + changes.indexes.length + dimensions.length === 0) return { kind: 'none', file: null }
  const name = `${tableName(definition)}_${suffixOf(changes)}`
  return { kind: 'change', file: await writeMigration(folders, name, changeMigration(definition, changes, dimensions)) }
}

/** Dimension tables that no migration makes yet; another dataset may have brought one. */
const newDimensions = async (definition: Definition, folders: readonly string[]): Promise<NewDimension[]> => {
  const missing: NewDimension[] = []
  for (const one of dimensionsOf(definition))
    if ((await migrationsCreating('bi', one.table.name, { folders })).length === 0) missing.push(one)
  return missing
}

const changesOf = async (
  { databaseUrl, home }: Settings,
  folders: readonly string[],
  definition: Definition,
): Promise<{ readonly changes: TableChanges; readonly pending: readonly string[] }> => {
  const database = await openDatabase({ databaseUrl, home, maxConnections: 2 })
  try {
    const { pending } = await migrationState(database, { folders })
    return { changes: await afterPending(database, { folders }, (db) => tableChanges(db, definition)), pending }
  } finally {
    await database.close()
  }
}

/** @param pending the migrations that create the table, where they are not applied yet */
const refuse = ({ file, pipeline }: Definition, { refused }: TableChanges, pending: readonly string[]): void => {
  if (refused.length === 0) return
  const remedy =
    pending.length === 0
      ? ''
      : `\nMigration ${pending.join(', ')} is not applied here yet: delete its file and run \`millrace new migration ${pipeline}\` to write it anew.`
  throw new EtlError(
    'USAGE',
    `${file}: no migration was written, its table cannot become what it says.\n${refused.join('\n')}${remedy}`,
  )
}

/** Names of a migration are for people; the number decides. */
const suffixOf = ({ columns, indexes }: TableChanges): string => {
  const [first] = columns
  if (first === undefined) return ['dimensions', 'index'][indexes.length] ?? 'indexes'
  return columns.length === 1 ? `add_${first.name}` : 'add_columns'
}

const writeMigration = async (folders: readonly string[], name: string, text: string): Promise<string> => {
  const [folder = '.'] = folders
  await mkdir(folder, { recursive: true })
  const taken = (await Promise.all([shippedMigrations, folder].map((one) => readdir(one)))).flat()
  const file = join(folder, `${nextNumber(taken)}_${name}.ts`)
  await writeNewFile(file, text)
  return file
}

const nextNumber = (migrations: readonly string[]): string => {
  const numbers = migrations.map((file) => Number(/^(\d{4})_/.exec(file)?.[1] ?? 0))
  return String(Math.max(0, ...numbers) + 1).padStart(4, '0')
}
