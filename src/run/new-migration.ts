// `millrace new migration NAME`: writes the next migration, with the table of a definition or what that table lacks.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Settings } from '../core/env.ts'
import { usageError } from '../core/errors.ts'
import type { Definition, Column, TableIndex } from '../core/types.ts'
import { openDatabase } from '../db/connect.ts'
import { afterPending, migrationsCreating, migrationState, shippedMigrations } from '../db/migrate.ts'
import { writeNewFile } from '../definition/dataset-files.ts'
import { type TableChanges, tableChanges } from '../load/drift.ts'
import { tableName } from '../load/table-columns.ts'
import { openDefinitions, ownFolders } from './open-runtime.ts'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { ColumnType } from '../core/column-types.ts'
import { makeFolders } from '../core/disk-error.ts'

export interface NewMigration {
  readonly pipeline: string
  readonly pipelinesFolder: string
  /** Called only where the table has a migration already. */
  readonly settings: () => Settings
}

/** `none`: the table is as defined. Throws DEFINITION for a wrong YAML, USAGE where no migration of this version can make the change. */
export const newMigration = async (request: NewMigration) => {
  const { definitions } = await openDefinitions(request.pipelinesFolder, [request.pipeline])
  const folders = ownFolders(request.pipelinesFolder, 'migrations')
  const { definition, creating } = await versionToMake(definitions, folders, request.settings)
  const dimensions = await newDimensions(definition, folders)
  if (creating.length === 0)
    return {
      kind: 'table' as const,
      file: await writeMigration(folders, tableName(definition), datasetMigration(definition, dimensions)),
    }
  const { changes, pending } = await changesOf(request.settings(), folders, definition)
  refuse(definition, changes, { folders, creating, unapplied: creating.filter((name) => pending.includes(name)) })
  if (changes.columns.length + changes.indexes.length + dimensions.length === 0) return { kind: 'none' as const, file: null }
  const name = `${tableName(definition)}_${suffixOf(changes)}`
  return { kind: 'change' as const, file: await writeMigration(folders, name, changeMigration(definition, changes, dimensions)) }
}

/** The oldest version without a table; else the oldest whose table lacks something; else the newest. */
const versionToMake = async (definitions: readonly Definition[], folders: readonly string[], settings: () => Settings) => {
  const versions: { readonly definition: Definition; readonly creating: readonly string[] }[] = []
  for (const definition of definitions.toSorted((a, b) => a.version - b.version))
    versions.push({ definition, creating: await migrationsCreating('data', tableName(definition), { folders }) })
  const unmade = versions.find(({ creating }) => creating.length === 0)
  if (unmade !== undefined) return unmade
  const newest = versions.at(-1)
  assert(newest !== undefined)
  for (const version of versions.slice(0, -1)) {
    const { changes } = await changesOf(settings(), folders, version.definition)
    if (changes.columns.length + changes.indexes.length > 0) return version
  }
  return newest
}

/** Dimension tables that no migration makes yet; another dataset may have brought one. */
const newDimensions = async (definition: Definition, folders: readonly string[]): Promise<NewDimension[]> => {
  const missing: NewDimension[] = []
  for (const one of dimensionsOf(definition))
    if ((await migrationsCreating('bi', one.table.name, { folders })).length === 0) missing.push(one)
  return missing
}

const changesOf = async ({ databaseUrl, home }: Settings, folders: readonly string[], definition: Definition) => {
  const database = await openDatabase({ databaseUrl, home, maxConnections: 2 })
  try {
    const { pending } = await migrationState(database, { folders })
    return { changes: await afterPending(database, { folders }, (db) => tableChanges(db, definition)), pending }
  } finally {
    await database.close()
  }
}

/** The migrations that create the table, and those of them that are not applied yet. */
type Creating = Readonly<Record<'folders' | 'creating' | 'unapplied', readonly string[]>>

const refuse = ({ file, pipeline }: Definition, { refused }: TableChanges, { folders, creating, unapplied }: Creating): void => {
  if (refused.length === 0) return
  const own = folders.flatMap((folder) => (existsSync(folder) ? readdirSync(folder) : []))
  const isShipped = !creating.some((name) => own.some((one) => one.startsWith(`${name}.`)))
  const remedy = isShipped
    ? '\nIts table comes with Millrace: give the pipeline another name, or a new version.'
    : unapplied.length === 0
      ? ''
      : `\nMigration ${unapplied.join(', ')} is not applied here yet: delete its file and run \`millrace new migration ${pipeline}\` to write it again.`
  throw usageError(
    `${file}: no migration was written: none can change the table to match the definition.\n${refused.join('\n')}${remedy}`,
  )
}

/** The name of a migration is for people; its number decides the order. */
const suffixOf = ({ columns, indexes }: TableChanges): string => {
  const [first] = columns
  if (first === undefined) return ['dimensions', 'index'][indexes.length] ?? 'indexes'
  return columns.length === 1 ? `add_${first.name}` : 'add_columns'
}

const writeMigration = async (folders: readonly string[], name: string, text: string): Promise<string> => {
  const [folder = '.'] = folders
  await makeFolders(folder)
  const taken = (await Promise.all([shippedMigrations, folder].map((one) => readdir(one)))).flat()
  const file = join(folder, `${nextNumber(taken)}_${name}.ts`)
  await writeNewFile(file, text)
  return file
}

const nextNumber = (migrations: readonly string[]): string => {
  const numbers = migrations.map((file) => Number(/^(\d{4})_/.exec(file)?.[1] ?? 0))
  return String(Math.max(0, ...numbers) + 1).padStart(4, '0')
}

const quoted = (name: string): string => `"${name}"`

const columnLine = ({ name, type, nullable }: Column): string => `${quoted(name)} ${type}${nullable ? '' : ' not null'}`

const lineage = [
  '_unit_id bigint not null',
  '_run_id bigint not null',
  '_revision integer not null',
  '_loaded_at timestamptz not null',
]
/** For current rows: defaults supply what is the same in all rows of a load, so that COPY need not send it. */
const lineageOfLoad = [
  '_unit_id bigint not null',
  "_run_id bigint not null default current_setting('millrace.run_id')::bigint",
  '_revision integer not null default 1',
  '_loaded_at timestamptz not null default transaction_timestamp()',
]
const ended = ['_valid_from timestamptz not null', '_valid_to timestamptz not null', '_ended_run_id bigint not null']

const table = (name: string, lines: readonly string[], tail: string): string =>
  ['  `create table ' + name + ' (', lines.map((line) => `    ${line}`).join(',\n'), `  )${tail}\`,`].join('\n')

/** A dimension table to make, and the type its key has in the facts. */
interface NewDimension {
  readonly table: DimensionTable
  readonly type: ColumnType
}

/** Dimension tables of the definition, each with the type of the column that joins to it. */
export const dimensionsOf = ({ dimensionTables, columns }: Definition): readonly NewDimension[] =>
  dimensionTables.map((table) => ({ table, type: columns.find(({ name }) => name === table.column)?.type ?? 'text' }))

const dimensionTable = ({ table: { name, column, columns = {} }, type }: NewDimension): string => {
  const others = Object.keys(columns).map((other) => `${quoted(other)} text`)
  const lines = [`${quoted(column)} ${type} primary key`, ...others, 'first_seen_at timestamptz not null default now()']
  return table(`bi.${name}`, lines, '')
}

/** Without a name: PostgreSQL finds one that is free and short enough, here and for each month. */
const indexStatement = (name: string, { columns, include }: TableIndex): string => {
  const carried = include.length === 0 ? '' : ` include (${include.map(quoted).join(', ')})`
  return `  'create index on data.${name} (${columns.map(quoted).join(', ')})${carried}',`
}

/**
 * TypeScript that creates `data.<pipeline>_v<version>` (partitioned by its period), its indexes and its `_history`.
 * @param dimensions tables of bi that no migration makes yet
 */
export const datasetMigration = (
  { pipeline, version, columns, key, indexes }: Definition,
  dimensions: readonly NewDimension[],
): string => {
  const name = `${pipeline}_v${version}`
  const period = key.find((column) => column === 'month' || column === 'date') ?? 'date'
  const own = columns.map(columnLine)
  const current = [...own, ...lineageOfLoad, `primary key (${key.map(quoted).join(', ')})`]
  const history = [...own, ...lineage, ...ended, `primary key (${[...key, '_revision'].map(quoted).join(', ')})`]
  return migrationText(`Table and history of ${pipeline}.`, [
    table(`data.${name}`, current, ` partition by range (${quoted(period)})`),
    table(`data.${name}_history`, history, ''),
    ...indexes.map((index) => indexStatement(name, index)),
    ...[name, `${name}_history`].map((one) => `  'create index on data.${one} using brin (_unit_id)',`),
    ...dimensions.map(dimensionTable),
  ])
}

/**
 * TypeScript that brings the table of a definition, and its history, the columns and indexes they lack.
 * @param dimensions tables of bi that no migration makes yet
 */
const changeMigration = (
  { pipeline, version }: Definition,
  { columns, indexes }: { readonly columns: readonly Column[]; readonly indexes: readonly TableIndex[] },
  dimensions: readonly NewDimension[],
): string => {
  const name = `${pipeline}_v${version}`
  const added = columns.map((column) => `add column if not exists ${columnLine(column)}`).join(', ')
  const tables = columns.length === 0 ? [] : [name, `${name}_history`]
  return migrationText(`What the table of ${pipeline} lacked.`, [
    ...tables.map((one) => `  'alter table data.${one} ${added}',`),
    ...indexes.map((index) => indexStatement(name, index)),
    ...dimensions.map(dimensionTable),
  ])
}

const migrationText = (about: string, statements: readonly string[]): string =>
  `// ${about} Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
${statements.join('\n\n')}
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
`
