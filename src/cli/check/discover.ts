// Free questions about what each API offers one of its accounts, asked at the pace that all machines of the warehouse keep together.
import { systemClock } from '../../core/clock.ts'
import type { Settings } from '../../core/env.ts'
import { isEtlError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import type { AccountOf } from '../../core/source-spec.ts'
import { type Database, openDatabase } from '../../db/connect.ts'
import { isEmbeddedRunning } from '../../db/embedded.ts'
import type { Api, Capabilities, Credits, Dataset } from '../../extract/api.ts'
import type { HttpClient, Service } from '../../extract/http-types.ts'
import { hasAccountPace } from '../../ledger/account-pace.ts'
import { type ApiSettings, createServices, readApiSettings } from '../../run/apis.ts'
import { sourceFolders } from '../../run/open-runtime.ts'

/** Whose key of every API is asked, and where its settings come from. */
export interface DiscoverRequest {
  readonly settings: Settings
  readonly pipelinesFolder: string
  readonly account: string
  readonly log: Log
  readonly signal: AbortSignal
}

/** What one API says; null: it does not tell. */
export interface Answer<T> {
  readonly api: string
  readonly said: T | null
}

/** Of each API that offers the question and has its settings. Throws CONFIGURATION where none has. */
export const discoverDatasets = (request: DiscoverRequest): Promise<Answer<readonly Dataset[]>[]> =>
  besideLoading(request, (database) =>
    askEach(request, database, 'describe', async (api, http) => (await api.describe?.(http)) ?? null),
  )

/** Throws as `discoverDatasets` does. */
export const discoverCapabilities = (request: DiscoverRequest): Promise<Answer<Capabilities>[]> =>
  besideLoading(request, (database) =>
    askEach(request, database, 'capabilities', async (api, http) => (await api.capabilities?.(http)) ?? null),
  )

/** Throws as `discoverDatasets` does. */
export const discoverCredits = (request: DiscoverRequest, database: Database): Promise<Answer<Credits>[]> =>
  askEach(request, database, 'credits', async (api, http) => (await api.credits?.(http)) ?? null)

/** Services for questions beside the loading: in the warehouse's rate, or in one of their own where there is none to share. */
export const servicesFor = async (
  settings: ApiSettings,
  database: Database | null,
  log: Log,
): Promise<(of: AccountOf) => Service> => {
  const isShared = database !== null && (await hasAccountPace(database.kysely))
  return createServices(settings, { database: isShared ? database : null, log, clock: systemClock })
}

const askEach = async <T>(
  request: DiscoverRequest,
  database: Database | null,
  question: 'describe' | 'capabilities' | 'credits',
  ask: (api: Api, http: HttpClient) => Promise<T | null>,
): Promise<Answer<T>[]> => {
  const { account, settings, signal, log } = request
  const { apis } = await sourceFolders(request.pipelinesFolder)
  const read = readApiSettings(apis, settings.raw)
  const ready = [...apis].filter(([name]) => isSet(read, { source: name, account }))
  // Where no API has its settings, the complaint says what is missing.
  const asked = (ready.length > 0 ? ready : [...apis].slice(0, 1)).filter(([, api]) => question in api)
  const service = await servicesFor(read, database, log)
  const limits = { timeoutMs: 30_000, attempts: 3, maxBodyBytes: 100_000_000 }
  const answers: Answer<T>[] = []
  for (const [name, api] of asked) {
    const http = service({ source: name, account }).forUnit({ account, signal, ...limits, record: () => undefined })
    answers.push({ api: name, said: await ask(api, http) })
  }
  return answers
}

const isSet = (settings: ApiSettings, of: AccountOf): boolean => {
  try {
    settings.connection(of)
    return true
  } catch (error) {
    if (isEtlError(error) && error.code === 'CONFIGURATION') return false
    throw error
  }
}

/** Nothing is set up for a question: a warehouse that does not run, or cannot be reached, has no other process that asks. */
const besideLoading = async <T>(
  { settings: { databaseUrl, home }, log }: DiscoverRequest,
  work: (database: Database | null) => Promise<T>,
): Promise<T> => {
  if (databaseUrl === null && !isEmbeddedRunning(home)) return work(null)
  const database = await openDatabase({ databaseUrl, home, maxConnections: 2 }).catch((error: unknown) => {
    if (!isEtlError(error)) throw error
    log.info({ error: error.message }, 'asked at a pace of its own: the warehouse cannot be reached')
    return null
  })
  try {
    return await work(database)
  } finally {
    await database?.close()
  }
}
