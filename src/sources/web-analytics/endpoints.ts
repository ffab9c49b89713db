// Every path of the service in one table. Each can be set by WEB_ANALYTICS_PATH_<NAME>.
import type { HttpClient } from '../../extract/http-types.ts'

/** Those of interface.md (4.1 to 4.4). */
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
