// Opens what a command needs, cheapest first: definitions and settings before the database, the database before any call.
import { hostname } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../core/clock.ts'
import { requireBaseUrl, requireKeys, type Settings } from '../config/env.ts'
import { EtlError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { defaultSilenceMs } from '../db/answer-watch.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { createRateWindows } from '../ledger/rate-windows.ts'
import { assertMigrated, migrate } from '../db/migrate.ts'
import { claimableOf } from '../ledger/pipelines.ts'
import { registerProcess } from '../ledger/processes.ts'
import { readWarehouse } from '../ledger/warehouse.ts'
import { assertDefinitions, loadDefinitions } from '../definition/load.ts'
import { loadMarts } from '../definition/marts.ts'
import { createService } from '../extract/http.ts'
import type { Service } from '../extract/http-types.ts'
import { openLandingStore } from '../extract/landing.ts'
import { createRateBudget } from '../extract/rate.ts'
import type { Source } from '../extract/source.ts'
import { compareTables } from '../load/drift.ts'
import { publish } from '../publish/publish.ts'
import { loadSources } from '../sources/registry.ts'
import type { Progress } from './progress.ts'
import { keepLease } from './process-watch.ts'
import { requestsPerSecond } from '../config/request-rate.ts'
import { concurrencyOf } from './run.ts'
import type { RunConsent, Runtime } from './runtime.ts'

export interface RuntimeOptions {
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
}

export interface OpenRuntime extends Runtime {
  close(): Promise<void>
}

/** Definitions and sources, without touching the network or the database. Throws DEFINITION with every problem. */
export const openDefinitions = async (
  folder: string,
  pipelines: readonly string[],
): Promise<{ definitions: readonly Definition[]; sources: ReadonlyMap<string, Source> }> => {
  const sources = await loadSources([join(folder, '..', 'sources')])
  const result = await loadDefinitions({ folder, sources, only: pipelines })
  assertDefinitions(result)
  return { definitions: result.definitions, sources }
}

/** The source of that name, or USAGE naming those there are. */
export const findSource = async (pipelinesFolder: string, name: string): Promise<Source> => {
  const sources = await loadSources([join(pipelinesFolder, '..', 'sources')])
  const source = sources.get(name)
  if (source === undefined)
    throw new EtlError('USAGE', `There is no source '${name}'; there are ${[...sources.keys()].join(', ')}.`)
  return source
}

/** Migration folders: those shipped, and the one beside the pipelines. */
export const migrationFolders = (pipelinesFolder: string): string[] => [join(pipelinesFolder, '..', 'migrations')]

/** Folder of the user's own marts; those shipped always count. */
export const martFolders = (pipelinesFolder: string): string[] => [join(pipelinesFolder, '..', 'marts')]

export const openRuntime = async (options: RuntimeOptions): Promise<OpenRuntime> => {
  const { settings, log, progress } = options
  const clock = options.clock ?? systemClock
  const { definitions, sources } = await openDefinitions(options.pipelinesFolder, options.pipelines)
  const marts = await loadMarts(martFolders(options.pipelinesFolder))
  if (options.callsService) for (const { account } of definitions) requireKeys(settings, account)
  if (options.callsService) requireBaseUrl(settings)
  const database = await openDatabase({
    databaseUrl: settings.databaseUrl,
    home: settings.home,
    applicationName: `millrace ${hostname()}:${process.pid}`.slice(0, 60),
    maxConnections: concurrencyOf(definitions) + 6,
    silenceMs: databaseSilenceMs(settings),
  })
  try {
    await prepareSchema(database, definitions, marts, options.pipelinesFolder)
    const landing = openLandingStore(settings.landing)
    if (options.usesLanding) await landing.ready()
    const own = await registerProcess(database.kysely)
    const lease = await keepLease(database, own, log)
    return {
      settings,
      database,
      warehouse: await readWarehouse(database.kysely),
      process: own,
      landing,
      sources,
      definitions,
      marts,
      service: services(settings, database, log, clock),
      claimable: () => claimableOf(database.kysely, definitions, sources),
      progress,
      log,
      clock,
      consent: options.consent ?? { resubmitUncertain: false },
      close: async () => {
        await lease.end()
        await database.close()
      },
    }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** The embedded database is ours to migrate; any other is migrated by its owner. */
const prepareSchema = async (
  database: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  pipelinesFolder: string,
): Promise<void> => {
  const folders = migrationFolders(pipelinesFolder)
  if (database.embedded) {
    const { applied } = await migrate(database, { folders })
    if (applied.length > 0) await publish(database, definitions, marts)
  } else {
    await assertMigrated(database, { folders })
  }
  const differences = (await compareTables(database, definitions)).filter(({ level }) => level === 'error')
  if (differences.length > 0) {
    const list = differences.map((difference) => `  ${difference.message}`).join('\n')
    throw new EtlError('TABLE_DRIFT', `The live tables differ from the definitions:\n${list}\nSee \`millrace check\`.`)
  }
}

/** One service per account, made when first asked for. */
const services = (settings: Settings, database: Database, log: Log, clock: Clock): ((account: string) => Service) => {
  const byAccount = new Map<string, Service>()
  return (account) => {
    const existing = byAccount.get(account)
    if (existing !== undefined) return existing
    const keys = requireKeys(settings, account)
    const service = createService({
      baseUrl: requireBaseUrl(settings),
      paths: pathsOf(settings),
      rest: keys.rest,
      batch: keys.batch,
      ...downloadHosts(settings),
      rate: createRateBudget({
        requestsPerSecond: requestsPerSecond(settings),
        clock,
        shared: createRateWindows(database.pool, account),
      }),
      log,
      clock,
    })
    byAccount.set(account, service)
    return service
  }
}

const hostsName = 'WEB_ANALYTICS_DOWNLOAD_HOSTS'

/** Hosts a report may be downloaded from beside the service's own; unset: every public one. */
const downloadHosts = (settings: Settings): { readonly allowedDownloadHosts?: readonly string[] } => {
  const hosts = (settings.raw[hostsName] ?? '')
    .split(',')
    .map((host) => host.trim().toLowerCase())
    .filter((host) => host !== '')
  const wrong = hosts.find((host) => !/^[a-z0-9.-]+$/.test(host))
  if (wrong !== undefined)
    throw new EtlError(
      'CONFIGURATION',
      `${hostsName} names '${wrong}', expected host names separated by commas, without https:// and port.`,
    )
  return hosts.length === 0 ? {} : { allowedDownloadHosts: hosts }
}

const pathPrefix = 'WEB_ANALYTICS_PATH_'

/** Paths set in place of the service's own: `WEB_ANALYTICS_PATH_KEYWORDS=/v5/keywords`. */
export const pathsOf = (settings: Settings): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(settings.raw).flatMap(([name, path]) =>
      name.startsWith(pathPrefix) && path !== '' ? [[name.slice(pathPrefix.length).toLowerCase(), path] as const] : [],
    ),
  )

const silenceName = 'MILLRACE_DATABASE_SILENCE'

const databaseSilenceMs = (settings: Settings): number => {
  const text = settings.raw[silenceName]
  if (text === undefined || text === '') return defaultSilenceMs
  const seconds = Number(text)
  if (!(seconds >= 1 && seconds <= 3_600))
    throw new EtlError('CONFIGURATION', `${silenceName} is '${text}', expected seconds from 1 to 3600; the default is 30.`)
  return seconds * 1_000
}
