// Opens what a command needs, cheapest first: definitions and settings before the database, the database before any call.
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Clock } from '../core/clock.ts'
import type { Settings } from '../core/env.ts'
import { EtlError, settingError } from '../core/errors.ts'
import { hooksSetting } from '../core/hooks-setting.ts'
import type { Log } from '../core/log.ts'
import type { Mart } from '../core/mart.ts'
import { readNumber } from '../core/read-setting.ts'
import { apiNameOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { openDatabaseClock, skewWarning } from '../db/database-clock.ts'
import { assertMigrated, migrate } from '../db/migrate.ts'
import { defaultSilenceMs } from '../db/stoppable.ts'
import type { Db } from '../db/tables.ts'
import { assertDefinitions, loadDefinitions } from '../definition/load.ts'
import { loadNotifyFile } from '../definition/notify-file.ts'
import { showProblem } from '../definition/problem.ts'
import { openLandingStore } from '../extract/landing.ts'
import type { Source } from '../extract/source.ts'
import { claimableOf } from '../ledger/pipelines.ts'
import { registerProcess } from '../ledger/processes.ts'
import { assertTablesMade, compareTables } from '../load/drift.ts'
import { tableName } from '../load/table-columns.ts'
import type { RunConsent } from '../plan/plan-runtime.ts'
import { publishWithin } from '../publish/publish.ts'
import { loadSourceFolders, type SourceFolders } from '../sources/registry.ts'
import { accountsOf, createServices, readApiSettings, settleOrigins, troubleTeller } from './apis.ts'
import { openIdentity } from './identity.ts'
import { keepLease } from './lease.ts'
import type { Progress } from './progress.ts'
import { attributeFolder } from './refresh-attributes.ts'
import { concurrencyOf } from './run-jobs.ts'
import type { Runtime } from './runtime.ts'
import { loadMarts } from '../definition/marts.ts'
import { differingSummaries, type KnownMarts, summaryDiffers } from '../load/summaries.ts'

interface RuntimeOptions {
  readonly settings: Settings
  /** Absolute folder of the pipeline definitions. */
  readonly pipelinesFolder: string
  /** Only these pipelines; empty: all. */
  readonly pipelines: readonly string[]
  /** Whether the command calls the service: then address and keys must be there. */
  readonly callsService: boolean
  /** Whether the command lands or reads answers: then their place must be ready. */
  readonly usesLanding: boolean
  readonly progress: Progress
  readonly log: Log
  readonly consent?: RunConsent
  readonly clock?: Clock
  /** The database was replaced by another one, which knows nothing of this command: the command can only end. */
  readonly onLost?: (error: EtlError) => void
}

export interface OpenRuntime extends Runtime {
  close(): Promise<void>
}

/** The user's own folder of these files, beside the pipelines; those shipped always count. */
export const ownFolders = (
  pipelinesFolder: string,
  of: 'sources' | 'migrations' | 'marts' | 'dashboards' | 'semantic',
): string[] => [join(pipelinesFolder, '..', of)]

/** Sources and their APIs: those that ship, and those of the user. */
export const sourceFolders = (pipelinesFolder: string): Promise<SourceFolders> =>
  loadSourceFolders(ownFolders(pipelinesFolder, 'sources'))

type OpenDefinitions = SourceFolders & { readonly definitions: readonly Definition[] }

/** Definitions and sources, without touching the network or the database. Throws DEFINITION with every problem. */
export const openDefinitions = async (folder: string, pipelines: readonly string[]): Promise<OpenDefinitions> => {
  const { sources, apis } = await sourceFolders(folder)
  const result = await loadDefinitions({ folder, sources, only: pipelines })
  assertDefinitions(result, pipelines)
  return { definitions: result.definitions, sources, apis }
}

/**
 * Problems of definitions and their lists as lines, and the pipelines that have a definition here; null where that cannot be told: a file has a mistake, or there is
 * no such folder, as on a machine that only reads.
 */
export const definitionsIn = async (folder: string): Promise<{ problems: string[]; pipelines: ReadonlySet<string> | null }> => {
  if (!existsSync(folder)) return { problems: [], pipelines: null }
  const { sources } = await sourceFolders(folder)
  const { definitions, problems } = await loadDefinitions({ folder, sources, only: [] })
  const pipelines = problems.length > 0 ? null : new Set(definitions.map(({ pipeline }) => pipeline))
  return { problems: problems.map(showProblem), pipelines }
}

/** The source of that name, or USAGE naming those there are. */
export const findSource = async (pipelinesFolder: string, name: string | null): Promise<Source> => {
  const { sources } = await sourceFolders(pipelinesFolder)
  const general = [...sources.values()].filter(({ datasetOf }) => datasetOf !== undefined)
  const source = name === null ? (general.length === 1 ? general[0] : undefined) : sources.get(name)
  if (source !== undefined) return source
  const known = [...sources.keys()].join(', ')
  if (name !== null) throw new EtlError('USAGE', `There is no source '${name}'; there are ${known}.`)
  throw new EtlError('USAGE', `Which source does the dataset read? Add --source with one of ${known}.`)
}

export const openRuntime = async (options: RuntimeOptions): Promise<OpenRuntime> => {
  const { settings, log, progress } = options
  const opened = await openDefinitions(options.pipelinesFolder, options.pipelines)
  const { sources, apis } = opened
  const definitions = guarded(opened.definitions, settings)
  const marts = await openMarts(options.pipelinesFolder)
  const known = options.pipelines.length > 0 ? null : definitions.map(({ pipeline }) => pipeline)
  const routes = await loadNotifyFile(options.pipelinesFolder, known)
  const hooks = hooksSetting(settings.raw)
  const apiSettings = readApiSettings(apis, settings.raw)
  if (options.callsService) for (const { of } of accountsOf(definitions)) apiSettings.connection(of)
  const database = await openDatabase({
    databaseUrl: settings.databaseUrl,
    home: settings.home,
    applicationName: `millrace ${hostname()}:${process.pid}`.slice(0, 60),
    maxConnections: concurrencyOf(definitions) + 6,
    silenceMs: databaseSilenceMs(settings),
  })
  try {
    await prepareSchema(database, definitions, marts.current(), options)
    if (options.callsService) await settleOrigins(database.kysely, apiSettings, definitions)
    const databaseClock = await openDatabaseClock(database.kysely)
    const clock = options.clock ?? databaseClock
    const skew = skewWarning(databaseClock)
    if (skew !== null && options.clock === undefined) progress.emit({ event: 'notice', code: 'CLOCK', message: skew })
    const landing = await openLandingStore(settings.landing)
    if (options.usesLanding) await landing.ready()
    const identity = await openIdentity({ database, landing }, options.usesLanding, walksOf(opened), progress)
    const own = await registerProcess(database.kysely)
    const onLost = () => options.onLost?.(replacedError(database.display))
    const lease = await keepLease(database, own, log, { onRenewed: databaseClock.sync, onLost })
    return {
      settings,
      database,
      get warehouse() {
        return identity.current()
      },
      begin: identity.begin,
      process: own,
      hearClock: databaseClock.sync,
      ownLine: lease.line,
      landing,
      sources,
      definitions,
      hasAllPipelines: options.pipelines.length === 0,
      marts,
      // Includes pipelines that the command was not given.
      attributes: attributeFolder(options.pipelinesFolder, async () =>
        options.pipelines.length === 0 ? opened : openDefinitions(options.pipelinesFolder, []),
      ),
      routes,
      service: createServices(apiSettings, { database, log, clock, tellTrouble: troubleTeller({ database, log, progress }) }),
      allowance: apiSettings.allowance,
      releaseApi: ({ source }) => apis.get(apiNameOf(source))?.releases ?? null,
      hooks,
      claimable: () => claimableOf(database.kysely, definitions, sources),
      progress,
      log,
      clock,
      consent: options.consent ?? { resubmitUncertain: false, approvedBy: null },
      close: () => lease.end().then(() => database.close()),
    }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Definitions that are answered in pages. */
const walksOf = ({ definitions, sources }: Awaited<ReturnType<typeof openDefinitions>>) =>
  definitions.filter(({ source }) => sources.get(source)?.kind === 'walk')

const replacedError = (display: string): EtlError =>
  new EtlError(
    'WAREHOUSE_COPY',
    `Since this command began, ${display} was replaced by another database, restored from a backup perhaps. The command ends at once, as if killed; run it again.`,
  )

const guardSetting = 'MILLRACE_GUARD'

/** `MILLRACE_GUARD=off` is `guard: off` in every definition. Throws CONFIGURATION for anything else. */
export const guarded = (definitions: readonly Definition[], { raw }: Settings): readonly Definition[] => {
  const setting = raw[guardSetting] || 'on'
  if (setting === 'on') return definitions
  if (setting === 'off') return definitions.map((definition) => ({ ...definition, guard: null }))
  throw settingError(`${guardSetting} is '${setting}'; write off, or leave it out.`)
}

/** The embedded database is ours to migrate; any other is migrated by its owner. */
const prepareSchema = async (
  database: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  options: RuntimeOptions,
): Promise<void> => {
  const folders = ownFolders(options.pipelinesFolder, 'migrations')
  if (database.embedded) {
    await assertTablesMade(database, definitions, folders)
    await migrate(database, { folders }, async (trx) => {
      const all = options.pipelines.length === 0 ? definitions : await withTables(trx, options)
      await publishWithin(trx, all, marts)
    })
  } else {
    await assertMigrated(database, { folders })
  }
  const differences = (await compareTables(database.kysely, definitions)).filter(({ level }) => level === 'error')
  if (differences.length > 0) {
    const list = differences.map((difference) => `  ${difference.message}`).join('\n')
    throw new EtlError('TABLE_DRIFT', `The live tables differ from the definitions:\n${list}\nSee \`millrace check\`.`)
  }
  await assertSummariesMade(database, definitions, marts)
}

/** All definitions, since a migration is applied once for all; without those whose table is wrong or missing, which do not concern this command. */
const withTables = async (trx: Db, { pipelinesFolder }: RuntimeOptions): Promise<readonly Definition[]> => {
  const { sources } = await sourceFolders(pipelinesFolder)
  const { definitions } = await loadDefinitions({ folder: pipelinesFolder, sources, only: [] })
  const wrong = (await compareTables(trx, definitions)).flatMap(({ level, table }) => (level === 'error' ? [table] : []))
  return definitions.filter((one) => !wrong.some((table) => table.replace(/_history$/, '') === tableName(one)))
}

export const databaseSilenceMs = ({ raw }: Settings): number => {
  const expected = 'seconds from 1 to 3600; the default is 30'
  const rule = { otherwise: defaultSilenceMs / 1_000, least: 1, most: 3_600, expected }
  return readNumber(raw, 'MILLRACE_DATABASE_SILENCE', rule) * 1_000
}

/** Throws DEFINITION where a file has mistakes. */
export const openMarts = async (pipelinesFolder: string): Promise<KnownMarts> => {
  let marts: readonly Mart[] = await loadMarts(ownFolders(pipelinesFolder, 'marts'))
  return {
    current: () => marts,
    reread: async () => {
      marts = await loadMarts(ownFolders(pipelinesFolder, 'marts'))
      return marts
    },
  }
}

/** Call before any request. Throws SCHEMA_BEHIND where the file of a summary was changed and not migrated: no load could fill it. */
export const assertSummariesMade = async (
  { kysely }: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[],
): Promise<void> => {
  for (const definition of definitions) {
    const [other] = await differingSummaries(kysely, definition, marts)
    if (other !== undefined) throw summaryDiffers(other)
  }
}
