// Every path of the service in one table, each of which can be set by WEB_ANALYTICS_PATH_<NAME>. The service has two dialects, which differ in
// names. Units, keys and tables are the same in both.
import type { HttpClient } from '../../extract/http-types.ts'

/** Those of the interface (4.1 to 4.4). */
export const endpoints = {
  keywords: '/v4/website-analysis/keywords',
  shopper: '/v3/batch/shopper/request-report',
  report: '/batch/v4/request-report',
  status: '/v3/batch/request-status/{report_id}',
  // Named or implied by the interface, their paths not shown there (4.5): used where the service has them.
  describe: '/v3/batch/tables/describe',
  capabilities: '/capabilities',
  credits: '/v3/batch/credits',
  user_credits: '/v3/batch/user-credits',
  validate: '/batch/v4/request-validate',
  retry: '/v3/batch/retry/{report_id}',
  history: '/batch/v4/report-history',
  subscribe: '/v1/webhooks/subscribe',
  unsubscribe: '/v1/webhooks/unsubscribe',
  authorize: '/v1/webhooks/authorize',
  webhook_test: '/v3/batch/webhooks/test',
} as const

/** Name of a path, which also names the setting that moves it: `WEB_ANALYTICS_PATH_<NAME>`. */
export type EndpointName = keyof typeof endpoints

/** The address of an endpoint with the report's id in its place. */
export const reportUrl = (http: HttpClient, name: 'status' | 'retry', endpoint: string, reportId: string): URL => {
  const url = http.url(name, endpoint)
  url.pathname = decodeURI(url.pathname).replace('{report_id}', encodeURIComponent(reportId))
  return url
}

/** Parameters of a query for a page. */
const parameters = { country: 'country', from: 'start_date', to: 'end_date', limit: 'limit', offset: 'offset' }

/** The service as the interface has it. */
export const dialectV4 = {
  name: 'v4',
  paths: endpoints,
  /** These take the key in the query; all others in a header. */
  keyInQuery: ['keywords', 'capabilities', 'subscribe', 'unsubscribe', 'authorize'],
  keywords: {
    parameters: { domain: 'URL', ...parameters },
    /** Where a page holds its records. */
    list: 'keywords',
    country: (code: string): string => code.toLowerCase(),
    /** Spells the value of a filter; everywhere else it is written as in v4. */
    filter: (value: string): string => value,
    /** Names of fields, by their name in v4. */
    fields: { top_url: 'top_url' },
    /** Fields that no record has; they are absent, never 0. */
    lacks: [],
  },
} as const

/** The newer version (api-facts 35, 38, 39, 73, 80 to 82). What no fact says is marked as assumed; a path can be set by WEB_ANALYTICS_PATH_<NAME>. */
export const dialectV5 = {
  name: 'v5',
  /** null: the service has no such endpoint in this dialect. */
  paths: {
    ...endpoints,
    // Assumed: only its batch paths are on record; the shopper's page names this service's older path and /batch/v5/request-report (81).
    keywords: '/v5/website-analysis/keywords',
    report: '/batch/v5/request-report',
    validate: '/batch/v5/request-validate',
    status: '/batch/request-status/{report_id}',
    // These want the key in their address, and they were not seen in this version.
    capabilities: null,
    subscribe: null,
    unsubscribe: null,
    authorize: null,
    webhook_test: null,
  },
  keyInQuery: [],
  keywords: {
    parameters: { domain: 'domain', ...parameters },
    list: 'data',
    country: (code: string): string => (code.toLowerCase() === 'world' ? 'ww' : code.toLowerCase()),
    /** `NonBranded` is `non_branded` (39). */
    filter: (value: string): string => value.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase(),
    // Assumed, both: no answer of it is on record (83).
    fields: { top_url: 'url' },
    lacks: ['cpc_low_bid', 'cpc_high_bid'],
  },
} as const

export type Dialect = typeof dialectV4 | typeof dialectV5

const dialects = { v4: dialectV4, v5: dialectV5 }
type DialectName = keyof typeof dialects
export const dialectNames = Object.keys(dialects)

export const isDialect = (name: string): name is DialectName => Object.hasOwn(dialects, name)

/** @param name of an account or a landing; without one it is v4 */
export const dialectNamed = (name: string | null | undefined): Dialect =>
  name != null && isDialect(name) ? dialects[name] : dialectV4

/** The dialect in which the account is requested. */
export const dialectOf = ({ dialect }: Pick<HttpClient, 'dialect'>): Dialect => dialectNamed(dialect)

/** Of an endpoint that each dialect has. */
export const pathOf = (
  http: Pick<HttpClient, 'dialect'>,
  name: 'keywords' | 'shopper' | 'report' | 'status' | 'validate',
): string => dialectOf(http).paths[name] ?? dialectV4.paths[name]
