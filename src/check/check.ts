// Every problem in one go: definitions, settings, database, migrations, live tables, keys and what the key may ask for.

import { join } from 'node:path'
import { systemClock } from '../core/clock.ts'
import { requireBaseUrl, requireKeys, type Settings } from '../config/env.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Definition } from '../core/types.ts'
import { openDatabase } from '../db/connect.ts'
import { migrationState } from '../db/migrate.ts'
import { loadDefinitions } from '../definition/load.ts'
import { showProblem } from '../definition/problem.ts'
import { createService } from '../extract/http.ts'
import { openLandingStore } from '../extract/landing.ts'
import { createRateBudget } from '../extract/rate.ts'
import { compareTables } from '../load/drift.ts'
import { loadSources } from '../sources/registry.ts'
import { checkAgainstService } from './check-service.ts'
import { migrationFolders, pathsOf } from '../pipeline/open-runtime.ts'

export interface Finding {
  readonly area: 'definition' | 'configuration' | 'database' | 'migration' | 'table' | 'landing' | 'service'
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
  const definitions = (await attempt('definition', () => checkDefinitions(request, findings))) ?? []
  const settings = await attempt('configuration', async () => request.settings())
  if (settings !== null) {
    if (!request.offline) await attempt('configuration', () => checkSettings(settings, definitions, findings))
    await attempt('database', () => checkDatabase(request, settings, definitions, findings))
    if (!request.offline) await attempt('landing', () => checkLanding(settings, request.signal))
    const ready = settings.baseUrl !== null && settings.keys.size > 0
    if (!request.offline && ready) await attempt('service', () => checkService(request, settings, definitions, findings))
  }
  return { findings, checked: [...new Set(checked)] }
}

const checkDefinitions = async (request: CheckRequest, findings: Finding[]): Promise<readonly Definition[]> => {
  const sources = await loadSources([join(request.pipelinesFolder, '..', 'sources')])
  const { definitions, problems } = await loadDefinitions({ folder: request.pipelinesFolder, sources, only: request.pipelines })
  for (const problem of problems) findings.push({ area: 'definition', level: 'error', message: showProblem(problem) })
  return definitions
}

const checkSettings = async (settings: Settings, definitions: readonly Definition[], findings: Finding[]): Promise<void> => {
  const accounts = new Set(['default', ...definitions.map((definition) => definition.account)])
  const needed = [() => requireBaseUrl(settings), ...[...accounts].map((account) => () => requireKeys(settings, account))]
  for (const demand of needed) {
    try {
      demand()
    } catch (error) {
      findings.push({ area: 'configuration', level: 'error', message: messageOf(error) })
    }
  }
}

const checkDatabase = async (
  request: CheckRequest,
  settings: Settings,
  definitions: readonly Definition[],
  findings: Finding[],
): Promise<void> => {
  const database = await openDatabase({ databaseUrl: settings.databaseUrl, home: settings.home, maxConnections: 2 })
  try {
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
    for (const difference of await compareTables(database, definitions))
      findings.push({ area: 'table', level: difference.level, message: difference.message })
  } finally {
    await database.close()
  }
}

/** A folder is made when it is first needed; a bucket is somebody else's to make. */
const checkLanding = async ({ landing }: Settings, signal: AbortSignal): Promise<void> => {
  if (landing.kind === 'bucket') await openLandingStore(landing).ready(signal)
}

const checkService = async (
  request: CheckRequest,
  settings: Settings,
  definitions: readonly Definition[],
  findings: Finding[],
): Promise<void> => {
  for (const account of new Set(['default', ...definitions.map((definition) => definition.account)])) {
    const keys = settings.keys.get(account)
    if (keys === undefined) continue
    const service = createService({
      baseUrl: requireBaseUrl(settings),
      paths: pathsOf(settings),
      rest: keys.rest,
      batch: keys.batch,
      rate: createRateBudget({ requestsPerSecond: 10, clock: systemClock }),
      log: request.log,
      clock: systemClock,
    })
    const http = service.forUnit({
      account,
      signal: request.signal,
      timeoutMs: 15_000,
      attempts: 2,
      maxBodyBytes: 10_000_000,
      record: () => undefined,
    })
    const mine = definitions.filter((definition) => definition.account === account)
    for (const message of await checkAgainstService(http, mine)) findings.push({ area: 'service', ...message })
  }
}
