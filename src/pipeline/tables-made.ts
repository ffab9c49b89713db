// Whether every definition's tables are there, or will be once pending migrations are applied; asked before anything is changed.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { migrationsCreating } from '../db/migrate-trial.ts'
import { tableName } from '../load/table-columns.ts'

interface NeededTable {
  readonly schema: 'bi' | 'data'
  readonly name: string
  readonly pipeline: string
}

/** The table of facts and the dimension tables they join to. */
const tablesOf = (definition: Definition): NeededTable[] => [
  { schema: 'data', name: tableName(definition), pipeline: definition.pipeline },
  ...definition.dimensionTables.map(({ name }) => ({ schema: 'bi' as const, name, pipeline: definition.pipeline })),
]

/** Throws TABLE_DRIFT naming each table that no migration creates, and what writes one. */
export const assertTablesMade = async (
  database: Database,
  definitions: readonly Definition[],
  folders: readonly string[],
): Promise<void> => {
  const needed = definitions.flatMap(tablesOf)
  const names = needed.map(({ schema, name }) => `${schema}.${name}`)
  const { rows } = await sql<{ at: number }>`
    select (at - 1)::integer as at from unnest(${names}::text[]) with ordinality as wanted (name, at)
    where to_regclass(name) is null order by at`.execute(database.kysely)
  const lines: string[] = []
  for (const { at } of rows) {
    const table = needed[at]
    if (table === undefined || (await migrationsCreating(table.schema, table.name, { folders })).length > 0) continue
    lines.push(`  ${table.schema}.${table.name}: \`millrace new migration ${table.pipeline}\` writes it.`)
  }
  if (lines.length === 0) return
  throw new EtlError('TABLE_DRIFT', `No migration makes these tables, and nothing was changed:\n${lines.join('\n')}`)
}
