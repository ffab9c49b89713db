// Where the service is, which keys an account has and how they are sent, how much it may ask. Every WEB_ANALYTICS_ setting is read here.
import {
  checkSettings,
  type Environment,
  readAddress,
  readByPrefix,
  readCredits,
  readHosts,
  readKey,
  readOptionalKey,
  readRate,
  settingOf,
} from '../../config/read-setting.ts'
import type { Allowance } from '../../extract/api.ts'
import type { Authentication, Connection, HttpRequest } from '../../extract/http-types.ts'
import { endpoints } from './endpoints.ts'

/** Where the service is; required for every command that asks it. */
export const addressSetting = 'WEB_ANALYTICS_BASE_URL'
const keyName = 'WEB_ANALYTICS_API_KEY'
/** The same key unless it is set. */
const batchKeyName = 'WEB_ANALYTICS_BATCH_API_KEY'
/** A path of the interface may be moved, with the name of its endpoint behind this. */
export const pathPrefix = 'WEB_ANALYTICS_PATH_'
const hostsName = 'WEB_ANALYTICS_DOWNLOAD_HOSTS'
const rateName = 'WEB_ANALYTICS_REQUESTS_PER_SECOND'
const monthName = 'WEB_ANALYTICS_QUOTA_PER_MONTH'
const dayName = 'WEB_ANALYTICS_QUOTA_PER_DAY'

/** Both keys (interface 5), without the suffix of an account. */
export const secrets = [keyName, batchKeyName]

/** What the service allows a key. */
const allowedPerSecond = 10

/** These take the key in the query; every other endpoint takes it in a header (interface 2.1, 2.3). */
const keyInQuery = new Set<string>([
  endpoints.keywords,
  endpoints.capabilities,
  endpoints.user_capabilities,
  endpoints.subscribe,
  endpoints.unsubscribe,
  endpoints.authorize,
])

/** Throws CONFIGURATION naming everything that is missing or wrong. */
export const connection = (environment: Environment, account: string): Connection => {
  const address = () => readAddress(environment, addressSetting)
  const key = () => readKey(environment, settingOf(keyName, account))
  const batchKey = () => readOptionalKey(environment, settingOf(batchKeyName, account))
  const hosts = () => readHosts(environment, hostsName)
  checkSettings(address, key, batchKey, hosts)
  const rest = key()
  const batch = batchKey() ?? rest
  return {
    baseUrl: address(),
    addressSetting,
    authenticate: ({ endpoint }: HttpRequest): Authentication =>
      keyInQuery.has(endpoint)
        ? { query: { api_key: rest } }
        : // The batch interface wants the type also where nothing is sent.
          { headers: { 'api-key': batch, 'content-type': 'application/json' } },
    paths: readByPrefix(environment, pathPrefix),
    allowedDownloadHosts: hosts(),
  }
}

/** Throws CONFIGURATION. */
export const allowance = (environment: Environment, account: string): Allowance => {
  const setting = { perMonth: settingOf(monthName, account), perDay: settingOf(dayName, account) }
  return {
    requestsPerSecond: readRate(environment, rateName, allowedPerSecond),
    budget: {
      perMonth: readCredits(environment, setting.perMonth),
      perDay: readCredits(environment, setting.perDay),
      setting,
    },
  }
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
