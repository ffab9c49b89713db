// The migration of a definition's table and its history, as text: what `migrations/` holds for each dataset.
import type { Column, Definition, TableIndex } from '../core/types.ts'

const quoted = (name: string): string => `"${name}"`

const columnLine = ({ name, type, nullable }: Column): string => `${quoted(name)} ${type}${nullable ? '' : ' not null'}`

const lineage = [
  '_unit_id bigint not null',
  '_run_id bigint not null',
  '_revision integer not null',
  '_loaded_at timestamptz not null',
]
const ended = ['_valid_from timestamptz not null', '_valid_to timestamptz not null', '_ended_run_id bigint not null']

const table = (name: string, lines: readonly string[], tail: string): string =>
  ['  `create table data.' + name + ' (', lines.map((line) => `    ${line}`).join(',\n'), `  )${tail}\`,`].join('\n')

/** Without a name: PostgreSQL finds one that is free and short enough, here and for each month. */
const indexStatement = (name: string, { columns, include }: TableIndex): string => {
  const carried = include.length === 0 ? '' : ` include (${include.map(quoted).join(', ')})`
  return `  'create index on data.${name} (${columns.map(quoted).join(', ')})${carried}',`
}

/** TypeScript that creates `data.<pipeline>_v<version>` (partitioned by its period), its indexes and its `_history`. */
export const datasetMigration = ({ pipeline, version, columns, key, indexes }: Definition): string => {
  const name = `${pipeline}_v${version}`
  const period = key.find((column) => column === 'month' || column === 'date') ?? 'date'
  const shared = [...columns.map(columnLine), ...lineage]
  const current = [...shared, `primary key (${key.map(quoted).join(', ')})`]
  const history = [...shared, ...ended, `primary key (${[...key, '_revision'].map(quoted).join(', ')})`]
  return `// Table and history of ${pipeline}. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
${table(name, current, ` partition by range (${quoted(period)})`)}

${table(`${name}_history`, history, '')}
${indexes.map((index) => `\n${indexStatement(name, index)}\n`).join('')}]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
`
}
