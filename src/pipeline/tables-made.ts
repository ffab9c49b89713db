// Whether every definition's table is there, or will be once pending migrations are applied; asked before anything is changed.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { migrationsCreating } from '../db/migrate-trial.ts'
import { tableName } from '../load/table-columns.ts'

/** Throws TABLE_DRIFT naming each pipeline whose table no migration creates, and what writes one. */
export const assertTablesMade = async (
  database: Database,
  definitions: readonly Definition[],
  folders: readonly string[],
): Promise<void> => {
  const names = definitions.map(tableName)
  const { rows } = await sql<{ name: string }>`
    select name from unnest(${names}::text[]) as name where to_regclass('data.' || name) is null`.execute(database.kysely)
  const missing: string[] = []
  for (const { name } of rows) if ((await migrationsCreating(name, { folders })).length === 0) missing.push(name)
  if (missing.length === 0) return
  const lines = definitions
    .filter((definition) => missing.includes(tableName(definition)))
    .map(({ pipeline, version }) => `  data.${pipeline}_v${version}: \`millrace new migration ${pipeline}\` writes it.`)
  throw new EtlError('TABLE_DRIFT', `No migration makes these tables, and nothing was changed:\n${lines.join('\n')}`)
}
