// Where the service is, which keys an account has and how they are sent, its rate and budget. Every WEB_ANALYTICS_ setting is read here.
import {
  checkSettings,
  type Environment,
  readAddress,
  readByPrefix,
  readCredits,
  readHosts,
  readKey,
  readOptionalKey,
  readPrices,
  readRate,
  readText,
  settingOf,
} from '../../core/read-setting.ts'
import { EtlError } from '../../core/errors.ts'
import type { Allowance } from '../../extract/api.ts'
import type { Authentication, Connection, HttpRequest } from '../../extract/http-types.ts'
import { type Dialect, dialectNamed, dialectNames, endpoints, isDialect } from './service-dialect.ts'

/** Where the service is; required for every command that asks it. */
export const addressSetting = 'WEB_ANALYTICS_BASE_URL'
const keyName = 'WEB_ANALYTICS_API_KEY'
/** Default: the same key. */
const batchKeyName = 'WEB_ANALYTICS_BATCH_API_KEY'
/** With the name of an endpoint behind it: the setting that moves the path of that endpoint. */
export const pathPrefix = 'WEB_ANALYTICS_PATH_'
const dialectSetting = 'WEB_ANALYTICS_DIALECT'
const hostsName = 'WEB_ANALYTICS_DOWNLOAD_HOSTS'
const rateName = 'WEB_ANALYTICS_REQUESTS_PER_SECOND'
const monthName = 'WEB_ANALYTICS_QUOTA_PER_MONTH'
const dayName = 'WEB_ANALYTICS_QUOTA_PER_DAY'
/** Prices of the service, where they are known before the first bill. */
const pricesName = 'WEB_ANALYTICS_PRICES'
const pricesExample = 'keywords=0.13/row asked'

/** Both keys (interface 5), without the suffix of an account. */
export const secrets = [keyName, batchKeyName]

/** Settings of one account, with the account as the rest of the name; and settings of the service as a whole. */
const ofAccounts = [keyName, batchKeyName, dialectSetting, monthName, dayName, pricesName]
const ofService = [
  ...[addressSetting, hostsName, rateName],
  ...Object.keys(endpoints).map((name) => `${pathPrefix}${name.toUpperCase()}`),
]

/** What is read here. */
export const settings = {
  names: [...ofAccounts, ...ofService],
  isRead: (name: string): boolean =>
    ofService.includes(name) || ofAccounts.some((one) => name === one || name.startsWith(`${one}_`)),
}

/** Requests a second that the service allows a key. */
const allowedPerSecond = 10

/** The interface's dialect, unless the account names another. Throws CONFIGURATION. */
const readDialect = (environment: Environment, name: string): Dialect => {
  const text = readText(environment, name)
  if (text === null || isDialect(text)) return dialectNamed(text)
  throw new EtlError('CONFIGURATION', `${name} is '${text}', expected ${dialectNames.join(' or ')}.`)
}

/** Throws CONFIGURATION naming everything that is missing or wrong. */
export const connection = (environment: Environment, account: string): Connection => {
  const address = () => readAddress(environment, addressSetting)
  const key = () => readKey(environment, settingOf(keyName, account))
  const batchKey = () => readOptionalKey(environment, settingOf(batchKeyName, account))
  const hosts = () => readHosts(environment, hostsName)
  const dialect = () => readDialect(environment, settingOf(dialectSetting, account))
  checkSettings(address, key, batchKey, hosts, dialect)
  const { name, paths, keyInQuery } = dialect()
  // Decided by the path that is on record, not by the one set in its place.
  const inQuery: ReadonlySet<string | null> = new Set(keyInQuery.map((endpoint) => paths[endpoint]))
  const ofPages: string = paths.keywords
  const rest = key()
  const batch = batchKey() ?? rest
  return {
    baseUrl: address(),
    addressSetting,
    authenticate: ({ endpoint }: HttpRequest): Authentication =>
      inQuery.has(endpoint)
        ? { query: { api_key: rest } }
        : // The batch interface wants the type also where nothing is sent.
          { headers: { 'api-key': endpoint === ofPages ? rest : batch, 'content-type': 'application/json' } },
    dialect: name,
    paths: readByPrefix(environment, pathPrefix),
    allowedDownloadHosts: hosts(),
  }
}

/** Throws CONFIGURATION naming everything that is wrong. */
export const allowance = (environment: Environment, account: string): Allowance => {
  const setting = { perMonth: settingOf(monthName, account), perDay: settingOf(dayName, account) }
  const rate = () => readRate(environment, rateName, allowedPerSecond)
  const perMonth = () => readCredits(environment, setting.perMonth)
  const perDay = () => readCredits(environment, setting.perDay)
  const prices = () => readPrices(environment, settingOf(pricesName, account), pricesExample)
  checkSettings(rate, perMonth, perDay, prices)
  return { requestsPerSecond: rate(), budget: { perMonth: perMonth(), perDay: perDay(), setting }, prices: prices() }
}

/** The sandbox as this API's service, for the demo. */
export interface OwnService {
  readonly url: string
  readonly apiKey: string
  readonly requestsPerSecond: number
}

/** Settings for a service of one's own, such as the sandbox, whatever else is set. */
export const environmentFor = ({ url, apiKey, requestsPerSecond }: OwnService): Environment => ({
  [addressSetting]: url,
  [keyName]: apiKey,
  [batchKeyName]: '',
  [rateName]: String(requestsPerSecond),
})
