// Every problem in one go: definitions, settings, database, migrations, live tables, keys and what the keys may ask for.
import type { Settings } from '../config/env.ts'
import { checkSettings } from '../config/read-setting.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Definition } from '../core/types.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { openDatabaseClock, skewWarning } from '../db/database-clock.ts'
import { migrationState } from '../db/migrate.ts'
import { loadDefinitions } from '../definition/load.ts'
import { showProblem } from '../definition/problem.ts'
import { openLandingStore } from '../extract/landing.ts'
import { compareTables } from '../load/drift.ts'
import { type AccountOf, type ApiSettings, accountsOf, readApiSettings } from '../pipeline/apis.ts'
import { identityWarning } from '../pipeline/identity.ts'
import { migrationFolders, sourceFolders } from '../pipeline/open-runtime.ts'
import type { SourceFolders } from '../sources/registry.ts'
import { servicesFor } from './discover.ts'

export interface Finding {
  readonly area: 'definition' | 'configuration' | 'database' | 'migration' | 'table' | 'landing' | 'identity' | 'service'
  readonly level: 'error' | 'warning'
  readonly message: string
}

export interface CheckRequest {
  /** A function, so that wrong settings become findings instead of ending the check. */
  readonly settings: () => Settings
  readonly pipelinesFolder: string
  readonly pipelines: readonly string[]
  readonly offline: boolean
  readonly log: Log
  readonly signal: AbortSignal
}

/** Nothing is changed anywhere; an area that cannot be checked is a finding and does not stop the others. */
export const check = async (request: CheckRequest): Promise<{ findings: Finding[]; checked: string[] }> => {
  const findings: Finding[] = []
  const checked: string[] = []
  const attempt = async <T>(area: Finding['area'], work: () => Promise<T>): Promise<T | null> => {
    try {
      const result = await work()
      checked.push(area)
      return result
    } catch (error) {
      findings.push({ area, level: 'error', message: isEtlError(error) ? error.message : messageOf(error) })
      return null
    }
  }
  const folders = await attempt('definition', () => sourceFolders(request.pipelinesFolder))
  const definitions =
    folders === null ? [] : ((await attempt('definition', () => checkDefinitions(request, folders, findings))) ?? [])
  const settings = await attempt('configuration', async () => request.settings())
  if (settings === null) return { findings, checked }
  const apis = await attempt('configuration', async () => readApiSettings(folders?.apis ?? new Map(), settings.raw))
  const asking = request.offline || apis === null ? [] : checkAccounts(apis, definitions, findings)
  const database = await attempt('database', () => open(settings))
  try {
    if (database !== null) await attempt('database', () => checkDatabase(request, database, definitions, findings))
    if (!request.offline) await attempt('landing', () => checkLanding(settings, request.signal))
    if (database !== null) await attempt('identity', () => checkIdentity(request, settings, database, findings))
    if (apis !== null && asking.length > 0)
      await attempt('service', () => checkServices(request, { apis, asking, database }, findings))
  } finally {
    await database?.close()
  }
  return { findings, checked: [...new Set(checked)] }
}

const open = ({ databaseUrl, home }: Settings): Promise<Database> => openDatabase({ databaseUrl, home, maxConnections: 2 })

const checkDefinitions = async (
  request: CheckRequest,
  { sources }: SourceFolders,
  findings: Finding[],
): Promise<readonly Definition[]> => {
  const { definitions, problems } = await loadDefinitions({ folder: request.pipelinesFolder, sources, only: request.pipelines })
  for (const problem of problems) findings.push({ area: 'definition', level: 'error', message: showProblem(problem) })
  return definitions
}

interface Asking {
  readonly of: AccountOf
  readonly definitions: readonly Definition[]
}

/** The accounts that definitions ask for and whose settings are whole. Where there is no definition yet, every API's own. */
const checkAccounts = (apis: ApiSettings, definitions: readonly Definition[], findings: Finding[]): Asking[] => {
  const own = [...apis.apis.keys()].map((source) => ({ of: { source, account: 'default' }, definitions: [] }))
  const asking = definitions.length > 0 ? accountsOf(definitions) : own
  return asking.filter(({ of }) => {
    try {
      checkSettings(
        () => apis.connection(of),
        () => apis.allowance(of),
      )
      return true
    } catch (error) {
      const messages = messageOf(error).split('\n')
      for (const message of new Set(messages))
        if (!findings.some((known) => known.message === message))
          findings.push({ area: 'configuration', level: 'error', message })
      return false
    }
  })
}

const checkDatabase = async (
  request: CheckRequest,
  database: Database,
  definitions: readonly Definition[],
  findings: Finding[],
): Promise<void> => {
  const state = await migrationState(database, { folders: migrationFolders(request.pipelinesFolder) })
  for (const name of state.unknown) {
    findings.push({
      area: 'migration',
      level: 'error',
      message: `The warehouse has migration ${name}, which this program does not know; use the newer program.`,
    })
  }
  // The embedded database is ours: the first command that works on it migrates it.
  for (const name of database.embedded ? [] : state.pending) {
    findings.push({ area: 'migration', level: 'error', message: `Migration ${name} is not applied; run \`millrace migrate\`.` })
  }
  if (state.pending.length + state.unknown.length > 0) return
  for (const difference of await compareTables(database.kysely, definitions))
    findings.push({ area: 'table', level: difference.level, message: difference.message })
}

/** A folder is made when it is first needed; a bucket is somebody else's to make. */
const checkLanding = async ({ landing }: Settings, signal: AbortSignal): Promise<void> => {
  if (landing.kind === 'bucket') await openLandingStore(landing).ready(signal)
}

/** Whether this database is the warehouse it says it is; and whether the clocks agree. */
const checkIdentity = async (
  { offline, signal }: CheckRequest,
  settings: Settings,
  database: Database,
  findings: Finding[],
): Promise<void> => {
  const skew = skewWarning(await openDatabaseClock(database.kysely))
  if (skew !== null) findings.push({ area: 'identity', level: 'warning', message: skew })
  if ((await migrationState(database, { folders: [] })).applied.length === 0) return
  const place = { database, landing: openLandingStore(settings.landing) }
  const warning =
    offline && settings.landing.kind === 'bucket'
      ? await identityWarning(place, { remote: false })
      : await identityWarning(place, { remote: true, signal }).catch((error: unknown) => {
          // A store that does not answer is a finding of its own.
          if (isEtlError(error) && /^LANDING_(UNREACHABLE|REFUSED)$/.test(error.code))
            return identityWarning(place, { remote: false })
          throw error
        })
  if (warning !== null) findings.push({ area: 'identity', level: 'error', message: warning })
}

interface ServiceCheck {
  readonly apis: ApiSettings
  readonly asking: readonly Asking[]
  readonly database: Database | null
}

const checkServices = async (
  { signal, log }: CheckRequest,
  { apis, asking, database }: ServiceCheck,
  findings: Finding[],
): Promise<void> => {
  const service = await servicesFor(apis, database, log)
  const limits = { timeoutMs: 15_000, attempts: 2, maxBodyBytes: 10_000_000 }
  for (const { of, definitions } of asking) {
    const http = service(of).forUnit({ account: of.account, signal, ...limits, record: () => undefined })
    const found = (await apis.apis.get(of.source)?.check?.(http, definitions)) ?? []
    for (const finding of found) findings.push({ area: 'service', ...finding })
  }
}
