// Migrations and the bi views of every definition, in that order.
import type { Settings } from '../config/env.ts'
import type { Log } from '../core/log.ts'
import { openDatabase } from '../db/connect.ts'
import { migrate, pendingSql } from '../db/migrate.ts'
import { loadMarts } from '../definition/marts.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { publish } from '../publish/publish.ts'
import { martFolders, migrationFolders, openDefinitions } from './open-runtime.ts'

export interface MigrateRequest {
  readonly settings: Settings
  readonly pipelinesFolder: string
  readonly dryRun: boolean
  readonly log: Log
}

export interface MigrateResult {
  readonly applied: readonly string[]
  readonly published: readonly string[]
  /** The SQL of a dry run, by migration. */
  readonly statements: ReadonlyMap<string, readonly string[]>
  readonly display: string
}

/** Definitions are checked first, so that a wrong one changes nothing. Safe when two start at once. */
export const migrateAndPublish = async (request: MigrateRequest): Promise<MigrateResult> => {
  const { definitions } = await openDefinitions(request.pipelinesFolder, [])
  const database = await openDatabase({ databaseUrl: request.settings.databaseUrl, home: request.settings.home })
  try {
    const folders = migrationFolders(request.pipelinesFolder)
    const statements = request.dryRun ? await pendingSql(database, { folders }) : new Map<string, readonly string[]>()
    const { applied } = await migrate(database, { folders, dryRun: request.dryRun })
    const marts = request.dryRun
      ? []
      : await publish(database, definitions, await loadMarts(martFolders(request.pipelinesFolder)))
    if (!request.dryRun) await analyzeChanged(database, definitions)
    const published = request.dryRun
      ? []
      : [...definitions.filter((definition) => definition.publish).map(({ pipeline }) => pipeline), ...marts]
    return { applied, published, statements, display: database.display }
  } finally {
    await database.close()
  }
}
