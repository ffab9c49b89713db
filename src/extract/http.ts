// The one HTTP client: authenticates as the API says, keeps the rate, retries what is safe, records every request.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { inSpan } from '../core/trace.ts'
import { watchWait } from '../core/waiting.ts'
import { createGate } from './gate.ts'
import { download } from './http-download.ts'
import { type Progress, classify, neverLeft } from './http-failure.ts'
import { recorder } from './http-record.ts'
import { isRedirect, redirected } from './http-redirect.ts'
import { withRetries } from './http-retry.ts'
import { type Agents, createAgents, type Seen, sendWhole } from './http-send.ts'
import { createRefusals } from './refusals.ts'
import type { HttpAnswer, HttpClient, HttpRequest, OpenService, Service, ServiceOptions, UnitHttpOptions } from './http-types.ts'

/** A JSON answer is one page or one status; a report's body is streamed. */
const maxJsonBytes = 64 * 1024 * 1024

/** The only way to the network: it authenticates, keeps the rate, retries what is safe and records. */
export const createService = (options: ServiceOptions): Service => {
  const agents = createAgents()
  const { clock, tellTrouble: tell = () => undefined } = options
  const service = { ...options, gate: createGate({ clock, tell }), refusals: createRefusals(clock) }
  return { forUnit: (unit) => client(service, agents, unit) }
}

const client = (service: OpenService, agents: Agents, options: UnitHttpOptions): HttpClient => ({
  url: (name, path) => endpointUrl(service.baseUrl, service.paths?.get(name) ?? path),
  origin: service.baseUrl.origin,
  ...(service.dialect === undefined ? {} : { dialect: service.dialect }),
  read: (request) => {
    const { paidFor } = request
    const send = (letOthers = request.letOthers): Promise<HttpAnswer> =>
      read(service, agents, options, letOthers === undefined ? request : { ...request, letOthers })
    return paidFor === undefined || options.paying === undefined ? send() : options.paying({ ...request, paidFor }, send)
  },
  download: (url) => download(service, agents, options, url),
})

const endpointUrl = (baseUrl: URL, path: string): URL => {
  const url = new URL(baseUrl)
  url.pathname = `${baseUrl.pathname.replace(/\/$/, '')}/${path.replace(/^\//, '')}`
  return url
}

/** Keys go to the service's own origin and nowhere else, whatever a source asks for. */
const authenticated = ({ baseUrl, authenticate }: ServiceOptions, request: HttpRequest) => {
  const url = new URL(request.url)
  if (url.origin !== baseUrl.origin) throw new EtlError('INTERNAL', `The key is for ${baseUrl.origin}, not for ${url.origin}.`)
  const headers: Record<string, string> = { accept: 'application/json' }
  if (request.body !== undefined) headers['content-type'] = 'application/json'
  const { headers: ownHeaders = {}, query = {} } = authenticate(request)
  for (const [name, value] of Object.entries(request.unrecorded?.headers ?? {})) headers[name.toLowerCase()] = value.reveal()
  for (const [name, value] of Object.entries(ownHeaders)) headers[name.toLowerCase()] = revealed(value)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, revealed(value))
  return { url, headers }
}

const revealed = (value: string | Secret): string => (typeof value === 'string' ? value : value.reveal())

const bodyOf = ({ body, unrecorded }: HttpRequest): string | null => {
  if (body === undefined) return null
  const more = Object.entries(unrecorded?.body ?? {}).map(([name, value]) => [name, value.reveal()])
  return JSON.stringify(more.length === 0 || typeof body !== 'object' ? body : { ...body, ...Object.fromEntries(more) })
}

const read = async (
  service: OpenService,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
): Promise<HttpAnswer> => {
  let asked = request
  let mayRenew = true
  for (let redirects = 0; ; redirects += 1) {
    const proofs = proofsOf(service, asked)
    const sent = proofs.map((proof) => proof.reveal())
    const answer = await withRetries(service, options, asked, (attempt, progress) =>
      inSpan('request', { 'http.request.method': asked.method, 'url.path': asked.endpoint, attempt }, () =>
        readOnce(service, agents, options, asked, attempt, progress),
      ),
    )
    if (mayRenew && refusesKey.has(answer.status) && renewed(proofs, sent)) {
      mayRenew = false
      continue
    }
    if (!isRedirect(answer)) return answer
    asked = redirected(service, asked, answer, redirects)
  }
}

/** What a service answers to a key that it does not take; nothing was taken of the request then. */
const refusesKey: ReadonlySet<number> = new Set([401, 403])

const proofsOf = ({ authenticate }: ServiceOptions, request: HttpRequest): readonly Secret[] => {
  const { headers = {}, query = {} } = authenticate(request)
  return [...Object.values(headers), ...Object.values(query)].filter((value) => typeof value !== 'string')
}

/** Whether the key is another one by now: rotated in its file, and read again here or by another request. */
const renewed = (proofs: readonly Secret[], sent: readonly string[]): boolean => {
  for (const proof of proofs) proof.renew()
  return proofs.some((proof, place) => proof.reveal() !== sent[place])
}

const readOnce = async (
  service: OpenService,
  agents: Agents,
  options: UnitHttpOptions,
  request: HttpRequest,
  attempt: number,
  progress: Progress,
): Promise<HttpAnswer & { readonly headers: Readonly<Record<string, string>> }> => {
  const { url, headers } = authenticated(service, request)
  const log = recorder(options, request, attempt, service.clock.now())
  const seen: Seen = { status: null, bytes: 0 }
  const patience = request.idempotent ? null : withPatience(options.signal, service.clock, () => progress.connected)
  const answered = watchAnswer(request)
  try {
    const call = {
      dispatcher: request.idempotent ? agents.shared(options.timeoutMs) : null,
      url,
      addressSetting: service.addressSetting,
      method: request.method,
      headers,
      body: bodyOf(request),
      options: patience === null ? options : { ...options, signal: patience.signal },
      maxBytes: Math.min(maxJsonBytes, options.maxBodyBytes),
      progress,
    }
    const answer = await sendWhole(call, seen)
    const contentType = answer.headers['content-type'] ?? ''
    const billed = log({ status: answer.status, bytes: answer.bytes.length, body: answer.bytes, contentType })
    return { ...answer, contentType, ...(billed === undefined ? {} : { billed }) }
  } catch (error) {
    const failure = classify(error, { ...service, ...options, request }, progress)
    log({ ...seen, errorCode: failure.code, neverLeft: neverLeft(failure) })
    throw failure
  } finally {
    answered()
    patience?.end()
  }
}

/** To be called when the answer is there, or will not come. */
const watchAnswer = ({ method, endpoint, url }: HttpRequest): (() => void) =>
  watchWait(
    `answer to ${endpoint}`,
    (lasted) => `${url.origin}: no whole answer to ${method} ${endpoint} after ${lasted} s; it is waited for.`,
  )

/** A run that is cancelled ends within five seconds; a service that has not answered by then may have taken it or not. */
const patienceMs = 3_000

interface Patience {
  /** Aborts like the signal it was made from, but later while the request is on its way. */
  readonly signal: AbortSignal
  /** To be called when the request is over. */
  end(): void
}

/** @param isOnItsWay before that nothing was sent, so that nothing needs to be heard */
export const withPatience = (stop: AbortSignal, clock: Clock, isOnItsWay: () => boolean): Patience => {
  const [late, over] = [new AbortController(), new AbortController()]
  const onStop = (): void => {
    if (isOnItsWay()) void clock.sleep(patienceMs, over.signal).then(abort, isOver)
    else abort()
  }
  const abort = (): void => late.abort(stop.reason)
  // The answer came first.
  const isOver = (): void => undefined
  if (stop.aborted) abort()
  else stop.addEventListener('abort', onStop, { once: true })
  return {
    signal: late.signal,
    end: () => {
      stop.removeEventListener('abort', onStop)
      over.abort()
    },
  }
}
