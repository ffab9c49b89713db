// Migrations and the bi views of every definition, in that order.
import type { Settings } from '../core/env.ts'
import { readMonth } from '../core/read-setting.ts'
import { isEtlError } from '../core/errors.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { migrate, pendingSql } from '../db/migrate.ts'
import type { LockWait } from '../db/lock-retry.ts'
import { loadDefinitions } from '../definition/load.ts'
import { loadMarts } from '../definition/marts.ts'
import { assertNoProblems } from '../definition/problem.ts'
import { openLandingStore } from '../extract/landing.ts'
import { forgetOrigins } from '../ledger/warehouse.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { setFiscalYear } from '../publish/attribute-views.ts'
import { publish, publishWithin } from '../publish/publish.ts'
import { dropMarts, unpublishedMarts } from '../publish/publish-marts.ts'
import { changedShapes, shapesOf } from '../publish/replace-view.ts'
import { type Declaration, declareIdentity, type Settled, settledHere } from './identity.ts'
import { attributesOf, publishAttributes } from './refresh-attributes.ts'
import { assertColumnsMade, assertTablesMade } from '../load/drift.ts'
import { ownFolders, sourceFolders } from './open-runtime.ts'

interface MigrateRequest {
  readonly settings: Settings
  readonly pipelinesFolder: string
  readonly dryRun: boolean
  /** What a person says this database is; null or left out: nothing is said. */
  readonly as?: Declaration | 'moved-service' | null
  readonly patience?: LockWait
}

export type MigrateResult = Awaited<ReturnType<typeof migrateAndPublish>>

/** Definitions are checked first, so that a wrong one changes nothing. Safe when two start at once. */
export const migrateAndPublish = async (request: MigrateRequest) => {
  const { sources } = await sourceFolders(request.pipelinesFolder)
  const { definitions, mistakes } = await loadDefinitions({ folder: request.pipelinesFolder, sources, only: [] })
  // No list is needed here.
  assertNoProblems({ problems: mistakes })
  const attributes = assertNoProblems(await attributesOf(request.pipelinesFolder, definitions, sources))
  const fiscalYearFrom = readMonth(request.settings.raw, 'MILLRACE_FISCAL_YEAR_FROM')
  const database = await openDatabase({ databaseUrl: request.settings.databaseUrl, home: request.settings.home })
  try {
    const folders = ownFolders(request.pipelinesFolder, 'migrations')
    const statements = request.dryRun ? await pendingSql(database, { folders }) : new Map<string, readonly string[]>()
    const patience = request.patience ?? {}
    // Publishing needs every table: without this check before them, migrations would stay applied without their views.
    await assertTablesMade(database, definitions, folders)
    const files = await loadMarts(ownFolders(request.pipelinesFolder, 'marts'))
    const before = await shapesOf(database.kysely)
    // In one transaction: where a view or a mart cannot be made, the migrations are not applied either.
    let made: readonly string[] | null = null
    const { applied } = await migrate(database, { folders, dryRun: request.dryRun, patience }, async (trx) => {
      made = await assertColumnsMade(trx, definitions)
        .then(() => publishWithin(trx, definitions, files, patience))
        .catch(withNothingApplied)
    })
    /** `statements`: the SQL of a dry run, by migration. */
    const known = { applied, statements, display: database.display }
    if (request.dryRun) return { ...known, ...nothingDone }
    if (fiscalYearFrom !== null) await setFiscalYear(database, fiscalYearFrom)
    if (made === null) await assertColumnsMade(database.kysely, definitions)
    const marts = made ?? (await publish(database, definitions, files, patience))
    const { removed, kept } = await dropMarts(database, files, patience)
    const ofValues = await publishAttributes(database, attributes, definitions)
    await analyzeChanged(database, definitions)
    const published = [...definitions.filter((definition) => definition.publish).map(({ pipeline }) => pipeline), ...marts]
    const declared = await declare(request, database)
    const shapes = changedShapes(before, await shapesOf(database.kysely))
    const out = await unpublishedMarts(database.kysely, files, marts, definitions)
    return { ...known, published, ...shapes, leftOut: out, removed, kept, declared, attributes: ofValues }
  } finally {
    await database.close()
  }
}

const noNames: readonly string[] = []

/** The result of a dry run. */
const nothingDone = {
  published: noNames,
  /** Names in bi, tables included: new ones, and those whose shape changed. */
  ...{ made: noNames, changed: noNames },
  /** Marts that read a column which a definition lacks. */
  leftOut: noNames,
  /** Marts whose files are gone: removed, and kept because something else reads them. */
  ...{ removed: noNames, kept: noNames },
  /** What the database is from here on; null: nothing was said. */
  declared: null,
  /** Values whose attributes changed, and values that have none any more. */
  attributes: { changed: 0, ended: 0 },
}

const withNothingApplied = (error: unknown): never => {
  if (!isEtlError(error)) throw error
  throw error.with(`${error.message} No migration was applied.`)
}

const declare = async ({ settings, as = null }: MigrateRequest, database: Database): Promise<Settled | null> => {
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
