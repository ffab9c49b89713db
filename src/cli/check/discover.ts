// Free requests about what each API offers an account, sent within the rate that all machines of the warehouse share.
import { systemClock } from '../../core/clock.ts'
import { type EtlError, isEtlError } from '../../core/errors.ts'
import { createLog, type Log } from '../../core/log.ts'
import type { AccountOf, Dataset } from '../../core/source-spec.ts'
import { type Database, openDatabase } from '../../db/connect.ts'
import { isEmbeddedRunning } from '../../db/embedded.ts'
import type { Capabilities, Credits } from '../../extract/api.ts'
import type { Connection } from '../../extract/http-types.ts'
import type { Service } from '../../extract/http.ts'
import { hasAccountPace } from '../../ledger/account-pace.ts'
import { type ApiSettings, createServices, readApiSettings } from '../../run/apis.ts'
import { sourceFolders } from '../../run/open-runtime.ts'
import { pipelinesFolder, settingsOf } from '../command-runtime.ts'
import type { Invocation } from '../command-spec.ts'

/** The questions, and the form of an API's answer. */
interface Questions {
  readonly describe: readonly Dataset[]
  readonly capabilities: Capabilities
  readonly credits: Credits
}

/** One API's answer; `said` null: the API has no such endpoint. */
export interface Answer<T> {
  readonly api: string
  readonly said: T | null
  /** Whether a request ended in an error. */
  readonly hasFailed: boolean
}

const limits = { timeoutMs: 30_000, attempts: 3, maxBodyBytes: 100_000_000 }

const thrown = (error: EtlError): never => {
  throw error
}

/**
 * Asks each API that supports the question and has its settings, with the key of `--account`. Throws CONFIGURATION where none has.
 * @param opened default: a warehouse is opened if it runs
 * @param onFailure receives the error of a failed request; default: the error is thrown
 */
export const discover = async <Question extends keyof Questions>(
  invocation: Invocation,
  question: Question,
  opened?: Database,
  onFailure: (error: EtlError) => void = thrown,
): Promise<Answer<Questions[Question]>[]> => {
  const { raw } = settingsOf(invocation)
  const { signal } = invocation
  const account = String(invocation.options['account'])
  const log = createLog(raw['MILLRACE_LOG_LEVEL'])
  const { apis } = await sourceFolders(pipelinesFolder(invocation))
  const settings = readApiSettings(apis, raw)
  const ready = [...apis].filter(([source]) => connectionOf(settings, { source, account }) !== null)
  // Without any API that has its settings, the first one's error says what is missing.
  const asked = (ready.length > 0 ? ready : [...apis].slice(0, 1)).filter(([, api]) => question in api)
  const database = opened ?? (await besideLoading(invocation, log))
  try {
    const service = await servicesFor(settings, database, log)
    const answers: Answer<Questions[Question]>[] = []
    for (const [source, api] of asked) {
      let hasFailed = false
      const failed = (error: unknown): null => {
        if (!isEtlError(error) || signal.aborted) throw error
        onFailure(error)
        hasFailed = true
        return null
      }
      const ask: { readonly [Of in keyof Questions]?: (http: Http, failed: Failed) => Promise<Questions[Of] | null> } = api
      const http = service({ source, account }).forUnit({ ...limits, account, signal, record: () => undefined })
      const said = (await ask[question]?.(http, failed).catch(failed)) ?? null
      answers.push({ api: source, said, hasFailed })
    }
    return answers
  } finally {
    if (opened === undefined) await database?.close()
  }
}

type Http = ReturnType<Service['forUnit']>
type Failed = (error: unknown) => null

/** Services for requests beside the loading: within the warehouse's shared rate, else with a rate of their own. */
export const servicesFor = async (settings: ApiSettings, database: Database | null, log: Log) => {
  const isShared = database !== null && (await hasAccountPace(database.kysely))
  return createServices(settings, { database: isShared ? database : null, log, clock: systemClock })
}

/** null: its settings are missing or wrong. */
export const connectionOf = (settings: ApiSettings, of: AccountOf): Connection | null => {
  try {
    return settings.connection(of)
  } catch (error) {
    if (isEtlError(error) && error.code === 'CONFIGURATION') return null
    throw error
  }
}

/** A question starts no warehouse: one that does not run, or cannot be reached, has no other process to share the rate with. */
const besideLoading = async (invocation: Invocation, log: Log): Promise<Database | null> => {
  const { databaseUrl, home } = settingsOf(invocation)
  if (databaseUrl === null && !isEmbeddedRunning(home)) return null
  return openDatabase({ databaseUrl, home, maxConnections: 2 }).catch((error: unknown) => {
    if (!isEtlError(error)) throw error
    log.info({ error: error.message }, 'request rate not shared: the warehouse cannot be reached')
    return null
  })
}
