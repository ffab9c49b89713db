// Whether every definition's tables are there, or will be once pending migrations are applied; asked before anything is changed.
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { missingRelations } from '../db/catalog.ts'
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
  const missing = await missingRelations(
    database.kysely,
    needed.map(({ schema, name }) => `${schema}.${name}`),
  )
  const lines: string[] = []
  for (const { schema, name, pipeline } of needed.filter((one) => missing.includes(`${one.schema}.${one.name}`)))
    if ((await migrationsCreating(schema, name, { folders })).length === 0)
      lines.push(`  ${schema}.${name}: \`millrace new migration ${pipeline}\` writes it.`)
  if (lines.length === 0) return
  throw new EtlError('TABLE_DRIFT', `No migration makes these tables, and nothing was changed:\n${lines.join('\n')}`)
}
