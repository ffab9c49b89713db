// The newer version of the service (api-facts 35, 38, 39, 73, 80 to 82). What no fact says is assumed, and says so; a path can be set by WEB_ANALYTICS_PATH_<NAME>.
import { endpoints } from './endpoints.ts'

export const dialectV5 = {
  name: 'v5',
  paths: {
    ...endpoints,
    // Assumed: only its batch paths are on record; the shopper's page names this service's older path and /batch/v5/request-report (81).
    keywords: '/v5/website-analysis/keywords',
    report: '/batch/v5/request-report',
    validate: '/batch/v5/request-validate',
    status: '/batch/request-status/{report_id}',
    // These want the key in their address, and they were not seen in this version.
    capabilities: null,
    user_capabilities: null,
    subscribe: null,
    unsubscribe: null,
    authorize: null,
    webhook_test: null,
  },
  keyInQuery: [],
  keywords: {
    parameters: {
      domain: 'domain',
      country: 'country',
      from: 'start_date',
      to: 'end_date',
      limit: 'limit',
      offset: 'offset',
    },
    list: 'data',
    country: (code: string): string => (code.toLowerCase() === 'world' ? 'ww' : code.toLowerCase()),
    /** `NonBranded` is `non_branded` (39). */
    filter: (value: string): string => value.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').toLowerCase(),
    // Assumed, both: no answer of it is on record (83).
    fields: { top_url: 'url' },
    lacks: ['cpc_low_bid', 'cpc_high_bid'],
  },
} as const
