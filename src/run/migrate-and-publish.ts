// Migrations and the bi views of every definition, in that order.
import type { Settings } from '../core/env.ts'
import { readMonth } from '../core/read-setting.ts'
import { isEtlError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { migrate, pendingSql } from '../db/migrate.ts'
import type { Patience } from '../db/patience.ts'
import { loadMarts } from '../definition/marts.ts'
import { assertNoProblems } from '../definition/problem.ts'
import { openLandingStore } from '../extract/landing.ts'
import { forgetOrigins } from '../ledger/warehouse.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { setFiscalYear } from '../publish/attribute-views.ts'
import { publish, publishWithin } from '../publish/publish.ts'
import { dropMarts, leftOut } from '../publish/publish-marts.ts'
import { changedShapes, shapesOf } from '../publish/replace-view.ts'
import { type Declaration, declareIdentity, type Settled, settledHere } from './identity.ts'
import { attributesOf, publishAttributes } from './refresh-attributes.ts'
import { assertTablesMade } from '../load/drift.ts'
import { martFolders } from './known-marts.ts'
import { migrationFolders, openDefinitions } from './open-runtime.ts'

export interface MigrateRequest {
  readonly settings: Settings
  readonly pipelinesFolder: string
  readonly dryRun: boolean
  /** What a person says this database is; null or left out: nothing is said. */
  readonly as?: Declaration | 'moved-service' | null
  readonly log: Log
  readonly patience?: Patience
}

export interface MigrateResult {
  readonly applied: readonly string[]
  readonly published: readonly string[]
  /** Of bi, tables included: what came, and what is made in another way than before. */
  readonly made: readonly string[]
  readonly changed: readonly string[]
  /** Marts that read a column which a definition lacks. */
  readonly leftOut: readonly string[]
  /** Marts whose files are gone: taken away, and left because something else reads them. */
  readonly removed: readonly string[]
  readonly kept: readonly string[]
  /** The SQL of a dry run, by migration. */
  readonly statements: ReadonlyMap<string, readonly string[]>
  readonly display: string
  /** What the database is from here on; null: nothing was said. */
  readonly declared: Settled | null
  /** Values whose attributes changed, and values that have none any more. */
  readonly attributes: { readonly changed: number; readonly ended: number }
}

/** Definitions are checked first, so that a wrong one changes nothing. Safe when two start at once. */
export const migrateAndPublish = async (request: MigrateRequest): Promise<MigrateResult> => {
  const { definitions, sources } = await openDefinitions(request.pipelinesFolder, [])
  const attributes = await attributesOf(request.pipelinesFolder, definitions, sources)
  assertNoProblems(attributes.problems)
  const fiscalYearFrom = readMonth(request.settings.raw, 'MILLRACE_FISCAL_YEAR_FROM')
  const database = await openDatabase({ databaseUrl: request.settings.databaseUrl, home: request.settings.home })
  try {
    const folders = migrationFolders(request.pipelinesFolder)
    const statements = request.dryRun ? await pendingSql(database, { folders }) : new Map<string, readonly string[]>()
    const patience = request.patience ?? {}
    // Publishing needs every table: found out afterwards, migrations would stand without their views.
    await assertTablesMade(database, definitions, folders)
    const files = await loadMarts(martFolders(request.pipelinesFolder))
    const before = await shapesOf(database.kysely)
    // In one transaction: where a view or a mart cannot be made, the migrations are not applied either.
    let made: readonly string[] | null = null
    const { applied } = await migrate(database, { folders, dryRun: request.dryRun, patience }, async (trx) => {
      made = await publishWithin(trx, definitions, files, patience).catch(withNothingApplied)
    })
    if (request.dryRun)
      return {
        ...{ applied, statements, display: database.display },
        ...{ published: [], made: [], changed: [], leftOut: [], removed: [], kept: [] },
        ...{ declared: null, attributes: { changed: 0, ended: 0 } },
      }
    if (fiscalYearFrom !== null) await setFiscalYear(database, fiscalYearFrom)
    const marts = made ?? (await publish(database, definitions, files, patience))
    const { removed, kept } = await dropMarts(database, files, patience)
    const ofValues = await publishAttributes(database, attributes, definitions)
    await analyzeChanged(database, definitions)
    const published = [...definitions.filter((definition) => definition.publish).map(({ pipeline }) => pipeline), ...marts]
    const declared = await declare(request, database)
    const shapes = {
      ...changedShapes(before, await shapesOf(database.kysely)),
      leftOut: await leftOut(database.kysely, files, marts),
    }
    return { applied, published, ...shapes, removed, kept, statements, display: database.display, declared, attributes: ofValues }
  } finally {
    await database.close()
  }
}

const withNothingApplied = (error: unknown): never => {
  if (!isEtlError(error)) throw error
  throw error.with(`${error.message} No migration was applied.`)
}

const declare = async ({ settings, as = null, dryRun }: MigrateRequest, database: Database): Promise<Settled | null> => {
  if (dryRun) return null
  if (as === null) {
    await settledHere({ database })
    return null
  }
  if (as === 'moved-service') {
    await forgetOrigins(database.kysely)
    return null
  }
  const store = await openLandingStore(settings.landing)
  await store.ready()
  return declareIdentity({ database, landing: store }, as)
}
