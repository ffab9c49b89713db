// Handles one request from the socket to the records: route, faults, rate limit, key, answer, in the service's order. Also the table of routes,
// with those about webhooks, which are known from public facts, not from the interface.
import { STATUS_CODES } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { domainsOf, download, status, submit } from './batch-endpoints.ts'
import { type Incoming, recordOf } from './books.ts'
import { capabilities, credits, describe, history, retry, userCapabilities, validate } from './extension-endpoints.ts'
import type { Endpoint, Fault } from './fault-kinds.ts'
import type { TakeFault } from './faults.ts'
import { keywords } from './keyword-endpoint.ts'
import type { Exchange, Family, Reply } from './reply.ts'
import { html, json, jsonText, keyRefused, quotaExhausted, refusal, retryAfter } from './reply.ts'
import { readJson } from './request-body.ts'
import { problems } from './sandbox-options.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'

export interface Listener {
  /** Whether this server serves downloads; `api`: all other endpoints. */
  readonly downloads: boolean
  readonly api: boolean
}

/** @param linkBase address before the path of a download link. */
export const handle = async (service: Service, incoming: Incoming, listener: Listener, linkBase: string): Promise<void> => {
  const { request, response, url, caller } = incoming
  const found = findRoute(request.method ?? '', url.pathname, service.settings().extensions)
  const isHere = 'route' in found && (found.route.endpoint === 'download' ? listener.downloads : listener.api)
  const match = 'route' in found && isHere ? found : null
  const record = recordOf(service.settings(), incoming, match?.route ?? null, listener.api)
  service.bookkeeper.request(record)
  const body = await readJson(request)
  const reply = (ready: Reply, cut: Fault | null): Promise<void> => {
    record.status = ready.status
    return send(response, ready, cut)
  }
  if (body === 'too large') return reply(refusal('batch', 413, 413, ['body: larger than 64 MB']), null)
  await pause(service.settings().latencyMs)
  if (match === null) return reply(unknownPath(url, found), null)
  const domains = aboutDomains(service, match, url, body)
  const take = service.faults().begin({ endpoint: match.route.endpoint, domains })
  const fault: TakeFault = (kind) => {
    const taken = take(kind)
    if (taken !== null) record.fault = kind
    return taken
  }
  const isJson = /^application\/json\b/i.test(request.headers['content-type'] ?? '')
  const acceptsGzip = /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))
  const proof = String(request.headers['x-sw-authorization'] ?? '')
  const exchange: Exchange = { proof, url, id: match.id, body, isJson, acceptsGzip, key: record.key, caller, fault }
  const result = await answer(service, match, exchange, linkBase)
  if (result === 'reset') response.socket?.resetAndDestroy()
  else if (result !== 'silence') await reply(result, fault('truncate-body') ?? fault('reset-mid-body'))
}

/** Waits without keeping the process alive. */
const pause = async (ms: number): Promise<void> => {
  if (ms > 0) await sleep(ms, undefined, { ref: false })
}

/** The reply, or that the connection is reset, or that it stays without an answer. */
const answer = async (service: Service, match: Match, exchange: Exchange, linkBase: string) => {
  const { route } = match
  const { fault } = exchange
  const slow = fault('slow')
  if (slow !== null) await pause(slow.delayMs ?? 2000)
  if (fault('stall') !== null) return 'silence'
  if (fault('drop-before') !== null) return 'reset'
  const family = route.key === 'query' ? 'rest' : 'batch'
  const early = replyBeforeEffect(exchange, family) ?? refuse(service, match, exchange, family)
  const reply = early ?? (await route.answer(service, exchange, linkBase))
  return fault('drop-reply') === null ? faultedReply(reply, fault) : 'reset'
}

/** Refuses by rate limit, then by key; requests with a wrong key count for the rate limit, too. Downloads have neither. */
const refuse = (service: Service, { route }: Match, { key }: Exchange, family: Family): Reply | null => {
  if (route.key === 'none') return null
  const { requestsPerSecond, retryAfter: form } = service.settings()
  const taken = service.bucket.take(requestsPerSecond)
  if (!taken.ok) {
    const header = retryAfter(form, taken.waitSeconds, Date.now())
    return refusal(family, 429, 429, [`Rate limit: at most ${requestsPerSecond} requests a second`], header)
  }
  return key === 'right' ? null : keyRefused(family)
}

const unknownPath = (url: URL, found: Match | { readonly methods: readonly string[] }): Reply => {
  const methods = 'methods' in found ? found.methods : []
  if (methods.length === 0) return json(404, { message: `No such path: ${url.pathname}` })
  return json(405, { message: `Use ${methods.join(' or ')}` }, { allow: methods.join(', ') })
}

/** The domains of the request, for faults with a `domain`. */
const aboutDomains = (service: Service, { route, id }: Match, url: URL, body: unknown): string[] => {
  if (route.endpoint === 'keywords') return [url.searchParams.get('URL') ?? '']
  if (['status', 'retry', 'download'].includes(route.endpoint)) return domainsOf(service.reports.get(id.slice(0, 36)))
  return domainsIn(body)
}

const domainsIn = (value: unknown): string[] => {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) =>
    name === 'domains' && Array.isArray(inner) ? inner.map(String) : domainsIn(inner),
  )
}

const waitHeader = ({ retryAfter: form, retryAfterSeconds }: Fault): Record<string, string> =>
  retryAfter(form ?? 'none', retryAfterSeconds ?? 1, Date.now())

/** The reply of a fault that prevents the request's effect; null: no such fault acts. */
const replyBeforeEffect = ({ fault, url }: Exchange, family: Family): Reply | null => {
  const tooMany = fault('status-429')
  if (tooMany !== null) return refusal(family, 429, 429, ['Too many requests'], waitHeader(tooMany))
  if (fault('status-500') !== null) return refusal(family, 500, 500, ['Internal server error'])
  if (fault('status-502') !== null) return html(502, '502 Bad Gateway')
  const unavailable = fault('status-503')
  if (unavailable !== null) return refusal(family, 503, 503, ['Service unavailable'], waitHeader(unavailable))
  const other = fault('any-status')
  if (other !== null) {
    const { status = 500 } = other
    return refusal(family, status, status, [STATUS_CODES[status] ?? `Status ${status}`], waitHeader(other))
  }
  if (fault('html-200') !== null) return html(200, 'Scheduled maintenance')
  if (fault('key-refused') !== null) return keyRefused(family)
  if (fault('quota-exhausted') !== null) return quotaExhausted(family)
  if (fault('country-refused') !== null) {
    return refusal(family, 400, 103, [
      `country: '${url.searchParams.get('country') ?? 'countries'}' is not available to this key`,
    ])
  }
  return null
}

/** The reply, with a damaged body where such a fault acts. */
const faultedReply = async (reply: Reply, fault: Exchange['fault']): Promise<Reply> => {
  if (reply.status === 200 && fault('malformed-json') !== null) {
    const text = Buffer.concat(await Array.fromAsync<Buffer>(reply.body)).toString('utf8')
    return jsonText(200, `${text.slice(0, Math.max(1, text.lastIndexOf(',')))} ]`)
  }
  if (fault('bad-gzip') !== null) {
    const headers = { ...reply.headers, 'content-encoding': 'gzip' }
    return { status: reply.status, headers, body: [brokenGzip] }
  }
  return reply
}

/** Bytes that begin like gzip but are not. */
const brokenGzip = Buffer.from('1f8b0800000000000003ffffffffff00112233445566778899', 'hex')

const longestUrl = 255

const address = z.url({ protocol: /^https?$/, error: 'expected an address' }).max(longestUrl, `at most ${longestUrl} characters`)
const event = z.enum(['Monthly', 'Daily'], { error: 'expected Daily or Monthly' })
const subscription = z.strictObject({ webhook_event_type: event, url: address })
const removal = z.strictObject({ webhook_event_type: event, subscription_id: z.string().optional() })
const test = z.strictObject({ webhook_url: address })

/** An endpoint that checks its body; refuses an invalid one with the reason. */
const withBody =
  <T>(family: Family, schema: z.ZodType<T>, work: (service: Service, asked: T) => Reply | Promise<Reply>): Route['answer'] =>
  (service, { body }) => {
    const asked = schema.safeParse(body)
    if (asked.success) return work(service, asked.data)
    return refusal(family, 400, family === 'rest' ? 100 : 400, [problems(asked.error)])
  }

const subscribe = withBody('rest', subscription, ({ webhooks }, { webhook_event_type, url }) => {
  const subscription_id = webhooks.subscribe(webhook_event_type, url)
  return json(200, { subscription_id, webhook_event_type, url, last_update_date: null })
})

const unsubscribe = withBody('rest', removal, ({ webhooks }, { webhook_event_type, subscription_id }) =>
  webhooks.unsubscribe(webhook_event_type, subscription_id ?? null)
    ? json(200, { webhook_event_type, removed: true })
    : refusal('rest', 404, 404, ['No such subscription']),
)

/** Checks a webhook's proof. 200: the service sent it. 406: it did not. 424: it did, more than five minutes ago. */
const authorize = ({ webhooks }: Service, { proof }: Exchange): Reply => {
  const found = webhooks.prove(proof)
  if (found === 'right') return json(200, { status: 'Ok' })
  return found === 'expired'
    ? refusal('rest', 424, 424, ['The authorization token expired'])
    : refusal('rest', 406, 406, ['The webhook was not triggered by this service'])
}

const testWebhook = withBody('batch', test, async ({ webhooks }, { webhook_url }) => {
  const problem = await webhooks.test(webhook_url)
  if (problem !== null) return refusal('batch', 400, 400, [problem])
  return json(200, { event_type: 'test_webhook_endpoint', payload: 'Webhook was triggered successfully.' })
})

interface Route {
  readonly method: 'GET' | 'POST'
  /** The part in braces may be anything without a slash. */
  readonly path: string
  readonly endpoint: Endpoint
  /** Where the key belongs; `none`: nowhere (downloads). */
  readonly key: 'query' | 'header' | 'none'
  /** The route exists only with `extensions: true`. */
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

interface Match {
  readonly route: Route
  readonly id: string
}

const patterns = routes.map((entry) => ({
  entry,
  pattern: new RegExp(`^${entry.path.replace(/\{\w+\}/, '([^/]+)')}$`),
}))

/** The route of a request; `methods`: the path's methods, where the request's method is not one of them. */
const findRoute = (method: string, path: string, extensions: boolean): Match | { readonly methods: readonly string[] } => {
  const here = patterns.filter(({ entry, pattern }) => (extensions || !entry.isExtension) && pattern.test(path))
  const found = here.find(({ entry }) => entry.method === method)
  if (found === undefined) return { methods: here.map(({ entry }) => entry.method) }
  return { route: found.entry, id: found.pattern.exec(path)?.[1] ?? '' }
}
