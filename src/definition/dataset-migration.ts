// Migrations of a dataset's tables as text: the first one, and those that bring what the definition asks for later.
import type { DimensionTable } from '../core/dimension-table.ts'
import type { ColumnType } from '../core/column-types.ts'
import type { Column, Definition, TableIndex } from '../core/types.ts'

const quoted = (name: string): string => `"${name}"`

const columnLine = ({ name, type, nullable }: Column): string => `${quoted(name)} ${type}${nullable ? '' : ' not null'}`

const lineage = [
  '_unit_id bigint not null',
  '_run_id bigint not null',
  '_revision integer not null',
  '_loaded_at timestamptz not null',
]
/** Of current rows: what is the same in all rows of a load need not be sent with them. */
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
export interface NewDimension {
  readonly table: DimensionTable
  readonly type: ColumnType
}

/** Those of the definition, each with the type of the column that joins to it. */
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
export const changeMigration = (
  { pipeline, version }: Definition,
  { columns, indexes }: { readonly columns: readonly Column[]; readonly indexes: readonly TableIndex[] },
  dimensions: readonly NewDimension[],
): string => {
  const name = `${pipeline}_v${version}`
  const added = columns.map((column) => `add column ${columnLine(column)}`).join(', ')
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
