// The accounts of every API: settings, one HTTP service and one rate budget each, and notices while a service is away. Also checks, before anything
// is bought, that an account still leads to the service from which this warehouse's rows came.
import { createHash } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Environment } from '../core/read-setting.ts'
import { redact } from '../core/redact.ts'
import { withApiSecrets } from '../core/secret-settings.ts'
import { type AccountOf, accountName, apiNameOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { reportWait } from '../core/waiting.ts'
import type { Database } from '../db/connect.ts'
import type { Db } from '../db/tables.ts'
import type { Api } from '../extract/api.ts'
import { isLoopbackHost } from '../extract/download-address.ts'
import type { Trouble } from '../extract/breaker.ts'
import type { Connection } from '../extract/http-types.ts'
import { createService, type Service } from '../extract/http.ts'
import { createRateBudget } from '../extract/rate.ts'
import { createAccountPace, endTrouble, noteTrouble } from '../ledger/account-pace.ts'
import { keepOrigin, knownOrigin, type Origin } from '../ledger/warehouse.ts'
import type { Runtime } from './runtime.ts'

export type ApiSettings = ReturnType<typeof readApiSettings>

/** Settings of every API, each read by its own folder. */
export const readApiSettings = (apis: ReadonlyMap<string, Api>, raw: Environment) => {
  const secrets = [...apis.values()].flatMap((api) => api.secrets)
  const environment = withApiSecrets(raw, secrets)
  const apiOf = (source: string): Api => {
    const api = apis.get(apiNameOf(source))
    if (api === undefined)
      throw new EtlError('CONFIGURATION', `There is no API '${apiNameOf(source)}'; there are ${[...apis.keys()].join(', ')}.`)
    return api
  }
  return {
    apis,
    /** Throws CONFIGURATION naming each setting that is missing or wrong. */
    connection: ({ source, account }: AccountOf) => apiOf(source).connection(environment, account),
    /** Also for an account without a key. Throws CONFIGURATION. */
    allowance: ({ source, account }: AccountOf) => apiOf(source).allowance(environment, account),
  }
}

/** Called when the service of an account is away or refuses everything, and with null when that is over. */
type TellTrouble = (account: string, place: string, trouble: Trouble | null) => void

interface ServiceRoom {
  /** The warehouse in which all machines count their requests; null: no warehouse, so only this process counts. */
  readonly database: Pick<Database, 'kysely'> | null
  readonly log: Log
  readonly clock: Clock
  /** Default: people are told while it lasts. */
  readonly tellTrouble?: TellTrouble
}

/** One service with one rate budget per API and account, made when first asked for. Throws CONFIGURATION where the key is missing. */
export const createServices = (
  settings: ApiSettings,
  { database, log, clock, tellTrouble = tellOnly }: ServiceRoom,
): ((of: AccountOf) => Service) => {
  const made = new Map<string, Service>()
  const create = (name: string, of: AccountOf): Service => {
    const { requestsPerSecond } = settings.allowance(of)
    const account = database === null ? undefined : createAccountPace(database.kysely, name)
    const onPause = (ms: number, isAsked: boolean): void => {
      const why = isAsked
        ? 'the service asked the users of this account for fewer requests'
        : `the account is set to ${requestsPerSecond} requests a second`
      reportWait(`pause of ${name}`, `${name}: requests wait ${seconds(ms)}: ${why}.`)
    }
    const rate = createRateBudget({ requestsPerSecond, clock, account, onPause })
    return createService({
      ...settings.connection(of),
      rate,
      log,
      clock,
      tellTrouble: (place, trouble) => tellTrouble(name, place, trouble),
    })
  }
  return (of) => {
    const name = accountName(of)
    const service = made.get(name) ?? create(name, of)
    made.set(name, service)
    return service
  }
}

/** Each API and account that the definitions ask for, once, with those definitions. */
export const accountsOf = (definitions: readonly Definition[]) =>
  [...Map.groupBy(definitions, accountName).values()].flatMap((group) => {
    const [first] = group
    return first === undefined ? [] : [{ of: { source: apiNameOf(first.source), account: first.account }, definitions: group }]
  })

const waitWords = (account: string, place: string, { code, message, nextInMs }: Trouble): string =>
  `${account}: ${redact(message)} All requests to ${place} wait; one tries again in ${seconds(nextInMs)}. [${code}]`

const tellOnly: TellTrouble = (account, place, trouble) => {
  if (trouble !== null) reportWait(`${account} ${place}`, waitWords(account, place, trouble))
}

/** While a trouble lasts, people are told again after this time. */
const sayAgainMs = 60_000

/** Never throws: a trouble that cannot be recorded is logged. */
export const troubleTeller = ({ database, log, progress }: Pick<Runtime, 'database' | 'log' | 'progress'>): TellTrouble => {
  const said = new Map<string, { readonly begunMs: number; readonly saidMs: number; readonly code: string }>()
  const say = (code: string, message: string): void => progress.emit({ event: 'notice', code, message })
  const keep = (writing: Promise<void>): void => {
    writing.catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the outage of a service could not be recorded'))
  }
  return (account, place, trouble) => {
    const key = `${account} ${place}`
    const before = said.get(key)
    if (trouble === null) {
      said.delete(key)
      if (before !== undefined)
        say(before.code, `${account}: ${place} answers again, after ${seconds(performance.now() - before.begunMs)}.`)
      return keep(endTrouble(database.kysely, account, place))
    }
    const { code, lastedMs } = trouble
    const now = performance.now()
    if (before === undefined || now - before.saidMs >= sayAgainMs) {
      said.set(key, { begunMs: now - lastedMs, saidMs: now, code })
      say(code, waitWords(account, place, trouble))
    }
    keep(noteTrouble(database.kysely, account, { place, code, message: redact(trouble.message), sinceMsAgo: lastedMs }))
  }
}

const seconds = (ms: number): string => `${Math.max(1, Math.round(ms / 1000))} s`

/** Hex digits of the digest: enough to tell keys apart. */
const digits = 16

/** The address of an account's service, and a digest of the account's credentials. */
export const originOf = ({ source: api, account }: AccountOf, { baseUrl, authenticate }: Connection): Origin => {
  const { headers = {}, query = {} } = authenticate({ method: 'GET', endpoint: '', url: baseUrl, idempotent: true })
  const proofs = Object.entries({ ...headers, ...query }).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : value.reveal(),
  ])
  const keySha256 = createHash('sha256').update(JSON.stringify(proofs.sort())).digest('hex').slice(0, digits)
  return { api, account, address: baseUrl.host, keySha256 }
}

const isHere = (address: string): boolean => isLoopbackHost(new URL(`http://${address}`).hostname)

/** A rotated key or a moved address is the same service. If both changed, or one is on this machine (the sandbox), it is another service. */
const isSameService = (known: Origin, now: Origin): boolean =>
  isHere(known.address) === isHere(now.address) && (known.address === now.address || known.keySha256 === now.keySha256)

/** What is wrong with the service; null: nothing. */
export const originTrouble = async (db: Db, now: Origin, addressSetting: string): Promise<string | null> => {
  const known = await knownOrigin(db, now)
  if (known === null || isSameService(known, now)) return null
  const sandbox = isHere(known.address) ? ', a service on this machine such as the sandbox' : ''
  return (
    `The rows that account ${now.account} bought for this warehouse came from ${known.address}${sandbox}; ${addressSetting} names ${now.address} with another key. ` +
    'Rows of two services must not mix: give this one a warehouse of its own (DATABASE_URL, or MILLRACE_HOME for the embedded one). ' +
    'If it is the same service that has moved: `millrace migrate --as moved-service`.'
  )
}

/** Throws CONFIGURATION where an account's rows came from another service or its lists hold only examples; else records the account's origin. */
export const settleOrigins = async (db: Db, settings: ApiSettings, definitions: readonly Definition[]): Promise<void> => {
  const troubles: string[] = []
  for (const { of, definitions: asking } of accountsOf(definitions)) {
    const connection = settings.connection(of)
    const now = originOf(of, connection)
    const found = [await originTrouble(db, now, connection.addressSetting), exampleTrouble(connection, asking)]
    troubles.push(...found.filter((one) => one !== null))
    if (troubles.length === 0) await keepOrigin(db, now)
  }
  if (troubles.length > 0) throw new EtlError('CONFIGURATION', troubles.join('\n'))
}

/** RFC 2606 reserves these names for examples: no service has data of them. */
const isExample = (value: string): boolean => /(^|\.)example\.(com|net|org)$/.test(value)

/** The message for lists that hold only examples, as they ship, if they would be bought from another machine; null: there are none. */
export const exampleTrouble = ({ baseUrl }: Pick<Connection, 'baseUrl'>, definitions: readonly Definition[]): string | null => {
  if (isLoopbackHost(baseUrl.hostname)) return null
  const found = definitions.flatMap(({ pipeline, dimensions }) =>
    dimensions
      .filter(({ values }) => values.length > 0 && values.every(isExample))
      .map(({ name, file }) => `${pipeline} (${file ?? name})`),
  )
  return found.length === 0
    ? null
    : `The lists of ${found.join(', ')} hold nothing but examples, which would be bought from ${baseUrl.host}. Write your own values into them, one a line; ` +
        '`millrace init` fills the lists of a new repository.'
}
