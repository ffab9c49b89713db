// Every path of the service: which endpoint it is, where its key belongs, and who answers.
import { download, status, submit } from './batch-endpoints.ts'
import type { Exchange } from './exchange.ts'
import { capabilities, credits, describe, history, retry, userCapabilities, validate } from './extension-endpoints.ts'
import type { Endpoint } from './fault-kinds.ts'
import { keywords } from './keyword-endpoint.ts'
import type { Reply } from './reply.ts'
import type { Service } from './service.ts'
import { authorize, subscribe, testWebhook, unsubscribe } from './webhook-endpoints.ts'

export interface Route {
  readonly method: 'GET' | 'POST'
  /** The part in braces may be anything without a slash. */
  readonly path: string
  readonly endpoint: Endpoint
  /** Where the key belongs; `none`: nowhere (downloads). */
  readonly key: 'query' | 'header' | 'none'
  /** Only there with `extensions: true`. */
  readonly isExtension: boolean
  answer(service: Service, exchange: Exchange, linkBase: string): Reply | Promise<Reply>
}

const route = (
  method: Route['method'],
  path: string,
  endpoint: Endpoint,
  key: Route['key'],
  answer: Route['answer'],
  isExtension = false,
): Route => ({ method, path, endpoint, key, answer, isExtension })

export const routes: readonly Route[] = [
  route('GET', '/v4/website-analysis/keywords', 'keywords', 'query', keywords),
  route('POST', '/v3/batch/shopper/request-report', 'submit-shopper', 'header', (service, exchange) =>
    submit(service, exchange, 'shopper'),
  ),
  route('POST', '/batch/v4/request-report', 'submit-report', 'header', (service, exchange) =>
    submit(service, exchange, 'report'),
  ),
  route('GET', '/v3/batch/request-status/{report_id}', 'status', 'header', status),
  route('GET', '/downloads/{file}', 'download', 'none', download),
  route('GET', '/capabilities', 'capabilities', 'query', capabilities, true),
  route('GET', '/user-capabilities', 'user-capabilities', 'query', userCapabilities, true),
  route('GET', '/v3/batch/credits', 'credits', 'header', credits, true),
  route('GET', '/v3/batch/tables/describe', 'describe', 'header', describe, true),
  route('POST', '/batch/v4/request-validate', 'validate', 'header', validate, true),
  route('POST', '/v3/batch/retry/{report_id}', 'retry', 'header', retry, true),
  route('GET', '/batch/v4/report-history', 'history', 'header', history, true),
  route('POST', '/v1/webhooks/subscribe', 'subscribe', 'query', subscribe, true),
  route('POST', '/v1/webhooks/unsubscribe', 'unsubscribe', 'query', unsubscribe, true),
  route('POST', '/v1/webhooks/authorize', 'authorize', 'query', authorize, true),
  route('POST', '/v3/batch/webhooks/test', 'webhook-test', 'header', testWebhook, true),
]

export interface Match {
  readonly route: Route
  readonly id: string
}

const patterns = routes.map((entry) => ({
  entry,
  pattern: new RegExp(`^${entry.path.replace(/\{\w+\}/, '([^/]+)')}$`),
}))

/** The route of a path; `methods` are those the path has where the method is not one of them. */
export const findRoute = (method: string, path: string, extensions: boolean): Match | { readonly methods: readonly string[] } => {
  const here = patterns.filter(({ entry, pattern }) => (extensions || !entry.isExtension) && pattern.test(path))
  const found = here.find(({ entry }) => entry.method === method)
  if (found === undefined) return { methods: here.map(({ entry }) => entry.method) }
  return { route: found.entry, id: found.pattern.exec(path)?.[1] ?? '' }
}
