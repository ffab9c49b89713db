// The one HTTP client: adds the key, keeps the rate, retries what is safe, records every request.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/redact.ts'
import { download } from './http-download.ts'
import { classify, type SendFailure } from './http-failure.ts'
import { recorder } from './http-record.ts'
import { type Agents, createAgents, type RawAnswer, send } from './http-send.ts'
import type { RateBudget } from './rate.ts'
import { retryAfterMs } from './retry-after.ts'

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
   * Reads the whole answer, of whatever status; 5xx and 429 are tried again first where that is harmless. A request that may not be
   * sent twice throws with `context.sent` saying whether it can have reached the service.
   */
  read(request: HttpRequest): Promise<HttpAnswer>
  /** The body of a finished report, from whatever host the service names; never with the key. */
  download(url: string): Promise<HttpStream>
}

export interface ServiceOptions {
  readonly baseUrl: URL
  /** Paths set in place of an endpoint's own, by the endpoint's name. */
  readonly paths: ReadonlyMap<string, string>
  readonly rest: Secret
  readonly batch: Secret
  readonly rate: RateBudget
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
const longestPauseMs = 60_000

export const createService = (service: ServiceOptions): Service => {
  const agents = createAgents()
  return { forUnit: (options) => client(service, agents, options) }
}

const client = (service: ServiceOptions, agents: Agents, options: UnitHttpOptions): HttpClient => ({
  url: (name, path) => endpointUrl(service.baseUrl, service.paths.get(name) ?? path),
  origin: service.baseUrl.origin,
  read: (request) => readWithRetries(service, agents, options, request),
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

const readWithRetries = async (
  service: ServiceOptions,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
): Promise<HttpAnswer> => {
  for (let attempt = 1; ; attempt += 1) {
    await service.rate.take(options.signal)
    // The unit has tries of its own (limits.attempts); a request takes few of them by itself, so that nobody waits for their product.
    const last = attempt >= Math.min(options.attempts, maxRequestTries) || !request.idempotent
    try {
      const answer = await readOnce(service, agents, options, request, attempt)
      const pause = pauseOf(service, answer, attempt)
      if (pause === null) return answer
      if (answer.status === 429) service.rate.penalize(service.clock.now() + Math.min(pause, longestPauseMs))
      if (last || pause > longestPauseMs) return refused(service, answer, pause)
      await service.clock.sleep(pause, options.signal)
    } catch (error) {
      const failure = classify(error, request, options.signal)
      if (last || failure.retry !== 'now') throw failure
      service.log.info({ endpoint: request.endpoint, attempt, error: failure.message }, 'asking again')
      await service.clock.sleep(backoffMs(service.clock, attempt), options.signal)
    }
  }
}

/** null: the answer is to be looked at. */
const pauseOf = ({ clock }: ServiceOptions, answer: RawAnswer & HttpAnswer, attempt: number): number | null => {
  if (answer.status !== 429 && answer.status < 500) return null
  if (answer.status === 501) return null
  return retryAfterMs(answer.headers['retry-after'], clock.now()) ?? backoffMs(clock, attempt)
}

const refused = ({ clock }: ServiceOptions, answer: RawAnswer & HttpAnswer, pause: number): HttpAnswer => {
  if (answer.status !== 429) return answer
  throw new EtlError(
    'RATE_LIMITED',
    'The service answers 429: too many requests or open reports. It is asked again later; nothing is lost.',
    {
      notBefore: clock.now() + pause,
      context: { sent: false, status: 429 },
    },
  )
}

const maxRequestTries = 3

/** Exponential with full jitter. */
const backoffMs = (clock: Clock, attempt: number): number => 50 + clock.random() * Math.min(5_000, 500 * 2 ** attempt)

const readOnce = async (
  service: ServiceOptions,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
  attempt: number,
): Promise<RawAnswer & HttpAnswer> => {
  const { url, headers } = withKey(service, request)
  const body = request.body === undefined ? null : JSON.stringify(request.body)
  const log = recorder(options, request, attempt)
  try {
    const answer = await send({
      agents,
      url,
      method: request.method,
      headers,
      body,
      options,
      fresh: !request.idempotent,
      maxBytes: maxJsonBytes,
    })
    const chunks: Uint8Array[] = []
    for await (const chunk of answer.body) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    log(answer.status, bytes.length, null)
    return { ...answer, bytes, contentType: answer.headers['content-type'] ?? '' }
  } catch (error) {
    const failure: SendFailure = classify(error, request, options.signal)
    log(null, 0, failure.code)
    throw failure
  }
}
