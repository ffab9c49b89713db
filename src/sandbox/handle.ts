// One request from socket to books: route, faults, rate limit, key, answer, in the order in which the service would look.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { domainsOf } from './batch-endpoints.ts'
import type { KeyFlag, RequestRecord } from './books.ts'
import type { Exchange } from './exchange.ts'
import type { Fault } from './fault-kinds.ts'
import type { TakeFault } from './faults.ts'
import { type Family, type Reply, html, json, jsonText, keyRefused, quotaExhausted, refusal, retryAfter } from './reply.ts'
import { readJson } from './request-body.ts'
import { type Match, findRoute } from './service-routes.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'

export interface Listener {
  /** Whether this one serves downloads, and whether it serves everything else. */
  readonly downloads: boolean
  readonly api: boolean
}

interface Incoming {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  readonly caller: string | null
}

/** @param linkBase address before the path of a download link. */
export const handle = async (service: Service, incoming: Incoming, listener: Listener, linkBase: string): Promise<void> => {
  const { request, response, url, caller } = incoming
  const found = findRoute(request.method ?? '', url.pathname, service.settings().extensions)
  const isHere = 'route' in found && (found.route.endpoint === 'download' ? listener.downloads : listener.api)
  const match = 'route' in found && isHere ? found : null
  const record = recordOf(service, incoming, match, listener)
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

/** Without keeping the process alive for it. */
const pause = async (ms: number): Promise<void> => {
  if (ms > 0) await sleep(ms, undefined, { ref: false })
}

/** The reply, or that the connection is reset, or that it stays without an answer. */
const answer = async (
  service: Service,
  match: Match,
  exchange: Exchange,
  linkBase: string,
): Promise<Reply | 'reset' | 'silence'> => {
  const { route } = match
  const { fault } = exchange
  const slow = fault('slow')
  if (slow !== null) await pause(slow.delayMs ?? 2000)
  if (fault('stall') !== null) return 'silence'
  if (fault('drop-before') !== null) return 'reset'
  const family = route.key === 'query' ? 'rest' : 'batch'
  const early = replyBeforeEffect(exchange, family) ?? refuse(service, match, exchange)
  const reply = early ?? (await route.answer(service, exchange, linkBase))
  return fault('drop-reply') === null ? faultedReply(reply, fault) : 'reset'
}

/** The rate limit counts requests with a wrong key too. Downloads have neither. */
const refuse = (service: Service, { route }: Match, { key }: Exchange): Reply | null => {
  if (route.key === 'none') return null
  const family = route.key === 'query' ? 'rest' : 'batch'
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

/** Domains the request is about, for faults that ask for one. */
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

const recordOf = (
  service: Service,
  { request, url, caller }: Incoming,
  match: Match | null,
  listener: Listener,
): RequestRecord => {
  const { apiKey, batchApiKey } = service.settings()
  const keys = [apiKey, batchApiKey ?? apiKey]
  const hide = (text: string): string => keys.reduce((shown, key) => shown.replaceAll(key, '[key]'), text)
  const place = match?.route.key ?? 'none'
  const header = request.headers['api-key']
  const given = place === 'query' ? url.searchParams.get('api_key') : place === 'header' ? (header ?? null) : null
  const wanted = place === 'query' ? apiKey : keys[1]
  const key: KeyFlag = given === null ? 'none' : given === wanted ? 'right' : 'wrong'
  const query = [...url.searchParams].map(([name, value]) => [name, name === 'api_key' ? '[key]' : hide(value)])
  const otherHeaders = Object.entries(request.headers).filter(([name]) => name !== 'api-key' || place !== 'header')
  const otherQuery = [...url.searchParams].filter(([name]) => name !== 'api_key' || place !== 'query')
  const elsewhere = [url.pathname, ...otherHeaders.flat(2).map(String), ...otherQuery.flat()].join('\n')
  return {
    method: request.method ?? '',
    path: hide(url.pathname),
    query: Object.fromEntries(query),
    endpoint: match?.route.endpoint ?? null,
    key,
    // A path the service does not have is still the service's own.
    keyAstray: (match !== null || !listener.api) && keys.some((text) => elsewhere.includes(text)),
    at: new Date().toISOString(),
    caller,
    status: null,
    fault: null,
  }
}

const waitHeader = ({ retryAfter: form, retryAfterSeconds }: Fault): Record<string, string> =>
  retryAfter(form ?? 'none', retryAfterSeconds ?? 1, Date.now())

/** The answer of a fault that keeps the request from taking effect; null: none acts. */
const replyBeforeEffect = ({ fault, url }: Exchange, family: Family): Reply | null => {
  const tooMany = fault('status-429')
  if (tooMany !== null) return refusal(family, 429, 429, ['Too many requests'], waitHeader(tooMany))
  if (fault('status-500') !== null) return refusal(family, 500, 500, ['Internal server error'])
  if (fault('status-502') !== null) return html(502, '502 Bad Gateway')
  const unavailable = fault('status-503')
  if (unavailable !== null) return refusal(family, 503, 503, ['Service unavailable'], waitHeader(unavailable))
  const other = fault('any-status')
  if (other !== null)
    return refusal(family, other.status ?? 500, other.status ?? 500, [statusText(other.status ?? 500)], waitHeader(other))
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

/** What a proxy or a framework says of it. */
const statusText = (status: number): string => STATUS_CODES[status] ?? `Status ${status}`

/** The reply with its body spoiled, where such a fault acts. */
const faultedReply = async (reply: Reply, fault: Exchange['fault']): Promise<Reply> => {
  if (reply.status === 200 && fault('malformed-json') !== null) {
    const text = (await bytesOf(reply)).toString('utf8')
    return jsonText(200, `${text.slice(0, Math.max(1, text.lastIndexOf(',')))} ]`)
  }
  if (fault('bad-gzip') !== null) {
    const headers = { ...reply.headers, 'content-encoding': 'gzip' }
    return { status: reply.status, headers, body: [brokenGzip] }
  }
  return reply
}

/** Begins like gzip and is not. */
const brokenGzip = Buffer.from('1f8b0800000000000003ffffffffff00112233445566778899', 'hex')

const bytesOf = async ({ body }: Reply): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}
