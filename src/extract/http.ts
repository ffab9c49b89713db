// The one HTTP client: adds the key, keeps the rate, retries what is safe, records every request.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/redact.ts'
import { inSpan } from '../core/trace.ts'
import { download } from './http-download.ts'
import { classify, type Progress } from './http-failure.ts'
import { recorder } from './http-record.ts'
import { isRedirect, redirected } from './http-redirect.ts'
import { withRetries } from './http-retry.ts'
import { type Agents, createAgents } from './http-send.ts'
import { type Seen, sendWhole } from './http-whole.ts'
import { withPatience } from './patience.ts'
import type { RateBudget } from './rate.ts'

export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  /** Path as the interface writes it, for the ledger: `/v3/batch/request-status/{report_id}`. */
  readonly endpoint: string
  /** Without the key. */
  readonly url: URL
  readonly key: 'query' | 'header' | 'none'
  /** Sent as JSON. */
  readonly body?: unknown
  /** Whether sending it twice is harmless; a submission is not. */
  readonly idempotent: boolean
  readonly part?: number
}

/** An answer of any status, read to its end. */
export interface HttpAnswer {
  readonly status: number
  readonly contentType: string
  readonly bytes: Buffer
}

export interface HttpStream {
  readonly status: number
  readonly contentType: string
  /** Decoded from its content encoding; throws TRUNCATED, TOO_LARGE or SERVICE_TIMEOUT while it is read. */
  readonly body: AsyncIterable<Uint8Array>
}

/** One request as the ledger keeps it, without secrets. */
export interface SentRequest {
  readonly account: string
  readonly method: string
  readonly endpoint: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly part: number | null
  readonly attempt: number
  readonly status: number | null
  readonly errorCode: string | null
  readonly bytes: number
  readonly sha256: string | null
  readonly startedAt: string
  readonly milliseconds: number
}

/** Bound to one unit and account. */
export interface HttpClient {
  /** Address of an endpoint: its path, or the one set in its place, below the service's base. */
  url(name: string, path: string): URL
  /** Origin of the service, the name under which facts about it are remembered. */
  readonly origin: string
  /**
   * Reads the whole answer, of whatever status but 429; 5xx and 429 are tried again first where that is harmless. A request that may
   * not be sent twice throws with `context.sent` saying whether it can have reached the service. Throws RATE_LIMITED on 429.
   */
  read(request: HttpRequest): Promise<HttpAnswer>
  /** The body of a finished report, from whatever host the service names; never with the key. Empty where the status is not 200. */
  download(url: string): Promise<HttpStream>
}

export interface ServiceOptions {
  readonly baseUrl: URL
  /** Paths set in place of an endpoint's own, by the endpoint's name. */
  readonly paths: ReadonlyMap<string, string>
  readonly rest: Secret
  readonly batch: Secret
  readonly rate: RateBudget
  /** Hosts downloads may come from, besides the service's own; these may lie in a private network. Absent: any public host. */
  readonly allowedDownloadHosts?: readonly string[]
  readonly log: Log
  readonly clock: Clock
}

export interface UnitHttpOptions {
  readonly account: string
  readonly signal: AbortSignal
  /** For connecting, for the first byte of an answer, and between two bytes of a body. */
  readonly timeoutMs: number
  readonly attempts: number
  readonly maxBodyBytes: number
  readonly record: (request: SentRequest) => void
}

export interface Service {
  forUnit(options: UnitHttpOptions): HttpClient
}

/** A JSON answer is one page or one status; a report's body is streamed. */
const maxJsonBytes = 256 * 1024 * 1024

export const createService = (service: ServiceOptions): Service => {
  const agents = createAgents()
  return { forUnit: (options) => client(service, agents, options) }
}

const client = (service: ServiceOptions, agents: Agents, options: UnitHttpOptions): HttpClient => ({
  url: (name, path) => endpointUrl(service.baseUrl, service.paths.get(name) ?? path),
  origin: service.baseUrl.origin,
  read: (request) => read(service, agents, options, request),
  download: (url) => download(service, agents, options, url),
})

const endpointUrl = (baseUrl: URL, path: string): URL => {
  const url = new URL(baseUrl)
  url.pathname = `${baseUrl.pathname.replace(/\/$/, '')}/${path.replace(/^\//, '')}`
  return url
}

/** The key goes to the service's own origin and nowhere else, whatever a caller asks for. */
const withKey = (
  { baseUrl, rest, batch }: ServiceOptions,
  request: HttpRequest,
): { url: URL; headers: Record<string, string> } => {
  const url = new URL(request.url)
  const headers: Record<string, string> = { accept: 'application/json' }
  if (request.body !== undefined || request.key === 'header') headers['content-type'] = 'application/json'
  if (request.key === 'none') return { url, headers }
  if (url.origin !== baseUrl.origin) throw new EtlError('INTERNAL', `The key is for ${baseUrl.origin}, not for ${url.origin}.`)
  if (request.key === 'query') url.searchParams.set('api_key', rest.reveal())
  else headers['api-key'] = batch.reveal()
  return { url, headers }
}

const read = async (
  service: ServiceOptions,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
): Promise<HttpAnswer> => {
  let asked = request
  for (let redirects = 0; ; redirects += 1) {
    const answer = await withRetries(service, options, asked, (attempt, progress) =>
      inSpan('request', { 'http.request.method': asked.method, 'url.path': asked.endpoint, attempt }, () =>
        readOnce(service, agents, options, asked, attempt, progress),
      ),
    )
    if (!isRedirect(answer)) return answer
    asked = redirected(asked, answer, redirects)
  }
}

const readOnce = async (
  service: ServiceOptions,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
  attempt: number,
  progress: Progress,
): Promise<HttpAnswer & { readonly headers: Readonly<Record<string, string>> }> => {
  const { url, headers } = withKey(service, request)
  const log = recorder(options, request, attempt)
  const seen: Seen = { status: null, bytes: 0 }
  const patience = request.idempotent ? null : withPatience(options.signal, service.clock, () => progress.connected)
  try {
    const call = {
      dispatcher: request.idempotent ? agents.shared(options.timeoutMs) : null,
      url,
      method: request.method,
      headers,
      body: request.body === undefined ? null : JSON.stringify(request.body),
      options: patience === null ? options : { ...options, signal: patience.signal },
      maxBytes: Math.min(maxJsonBytes, options.maxBodyBytes),
      progress,
    }
    const answer = await sendWhole(call, seen)
    log({ status: answer.status, bytes: answer.bytes.length, body: answer.bytes })
    return { ...answer, contentType: answer.headers['content-type'] ?? '' }
  } catch (error) {
    const failure = classify(error, request, options.signal, progress)
    log({ ...seen, errorCode: failure.code })
    throw failure
  } finally {
    patience?.end()
  }
}
