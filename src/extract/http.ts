// The one HTTP client: authenticates as the API says, keeps the rate, retries what is safe, records every request; a download is never authenticated.
import { Readable } from 'node:stream'
import { EtlError } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { inSpan } from '../core/trace.ts'
import { reportLongWait } from '../core/waiting.ts'
import { allowedDownload } from './download-address.ts'
import { createBreaker } from './breaker.ts'
import { excerpt, namedChecksum } from './http-answer.ts'
import { type Asked, classify, type Outcome, type Progress, recorder } from './http-failure.ts'
import { type Answered, withRetries } from './http-retry.ts'
import { type Agents, createAgents, type Seen, send, sendWhole } from './http-send.ts'
import type {
  HttpAnswer,
  HttpClient,
  HttpRequest,
  HttpStream,
  OpenService,
  ServiceOptions,
  UnitHttpOptions,
} from './http-types.ts'
import { withGracePeriod } from './grace-period.ts'

/** A JSON answer is one page or one status; a report's body is streamed. */
const maxJsonBytes = 64 * 1024 * 1024

export type Service = ReturnType<typeof createService>

/** One account of one API, and the only way to the network: it authenticates, keeps the rate, retries what is safe and records. */
export const createService = (options: ServiceOptions) => {
  const agents = createAgents()
  const { clock, tellTrouble: tell = () => undefined } = options
  const service = { ...options, breaker: createBreaker({ clock, tell }), refusedSince: new Map<string, number>() }
  return { forUnit: (options: UnitHttpOptions) => client({ service, agents, options }) }
}

/** A client at work for one job. */
interface Bound {
  readonly service: OpenService
  readonly agents: Agents
  readonly options: UnitHttpOptions
}

const client = (bound: Bound): HttpClient => {
  const { service, options } = bound
  return {
    url: (name, path) => endpointUrl(service.baseUrl, service.paths?.get(name) ?? path),
    origin: service.baseUrl.origin,
    ...(service.dialect === undefined ? {} : { dialect: service.dialect }),
    read: (request) => {
      const { paidFor } = request
      const send = (waits: Pick<HttpRequest, 'letOthers' | 'onTurn'> = {}): Promise<HttpAnswer> =>
        read(bound, { ...request, ...waits })
      return paidFor === undefined || options.paying === undefined ? send() : options.paying({ ...request, paidFor }, send)
    },
    download: (url) => download(bound, url),
  }
}

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

const read = async (bound: Bound, request: HttpRequest): Promise<HttpAnswer> => {
  const { service, options } = bound
  let asked = request
  let mayRenew = true
  for (let redirects = 0; ; redirects += 1) {
    const proofs = proofsOf(service, asked)
    const sent = proofs.map((proof) => proof.reveal())
    const answer = await withRetries(service, options, asked, (attempt, progress) =>
      inSpan('request', { 'http.request.method': asked.method, 'url.path': asked.endpoint, attempt }, () =>
        readOnce(bound, asked, attempt, progress),
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

/** Statuses that refuse a key; the service has not taken the request then. */
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
  { service, agents, options }: Bound,
  request: HttpRequest,
  attempt: number,
  progress: Progress,
): Promise<HttpAnswer & { readonly headers: Readonly<Record<string, string>> }> => {
  const { url, headers } = authenticated(service, request)
  const log = recorder(options, request, attempt, service.clock.now())
  const seen: Seen = { status: null, bytes: 0 }
  // A request that is paid for once it was sent still gets its answer after a stop.
  const isPaid = !request.idempotent || request.paidFor !== undefined
  const patience = !isPaid ? null : withGracePeriod(options.signal, service.clock, patienceMs, () => progress.connected)
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
    const answer = await sendWhole(call, seen, (status) => saysAll(request, status))
    const contentType = answer.headers['content-type'] ?? ''
    const billed = log({ status: answer.status, bytes: answer.bytes.length, body: answer.bytes, contentType })
    return { ...answer, contentType, ...(billed === undefined ? {} : { billed }) }
  } catch (error) {
    const failure = classify(error, { ...service, ...options, request }, progress)
    log({ ...seen, errorCode: failure.code, neverLeft: failure.sent === false })
    throw failure
  } finally {
    answered()
    patience?.end()
  }
}

/** A submission is not sent again, so its status is enough. Any other refused request is sent again to read why, unless it must wait or the service is in trouble. */
const saysAll = ({ idempotent }: HttpRequest, status: number): boolean =>
  idempotent ? status === 429 || status >= 500 : status >= 300

/** Call the result when the answer has come, or will not come. */
const watchAnswer = ({ method, endpoint, url }: HttpRequest): (() => void) =>
  reportLongWait(
    `answer to ${endpoint}`,
    (lasted) => `${url.origin}: still waiting for the whole answer to ${method} ${endpoint} after ${lasted} s.`,
  )

/** How long a cancelled run, which must end within five seconds, waits for an answer. Without it nothing tells whether the service took the request. */
const patienceMs = 3_000

const maxRedirects = 3

type Opened = Awaited<ReturnType<typeof open>>

/** Without the key, also to another host. Throws the errors of docs/operations.md. */
const download = async (bound: Bound, link: string): Promise<HttpStream> => {
  const { service, options } = bound
  const hosts = service.allowedDownloadHosts ?? null
  let target = allowedDownload(link, service.baseUrl, service.baseUrl, hosts)
  for (let redirects = 0; ; redirects += 1) {
    const request = downloadRequest(target)
    const answer = await withRetries(service, options, request, (attempt, progress) =>
      open(bound, request, target, attempt, progress),
    )
    const asked = { request, signal: options.signal, addressSetting: service.addressSetting }
    const link = answer.headers['location']
    if (link === undefined || !isRedirect(answer)) return streamOf(answer, asked, options)
    if (redirects >= maxRedirects)
      throw new EtlError(
        'BAD_RESPONSE',
        `The download was redirected more than ${maxRedirects} times, last to ${target.origin}${target.pathname}; ask the service for a new link.`,
      )
    target = allowedDownload(link, target, service.baseUrl, hosts)
  }
}

/** A signed link is a secret of its own: the ledger keeps host and path. */
const downloadRequest = (target: URL): HttpRequest => ({
  method: 'GET',
  endpoint: target.pathname,
  url: new URL(target.origin),
  idempotent: true,
  // Hosts of downloads have neither the account's rate nor its troubles.
  place: 'downloads',
})

const open = async ({ service, agents, options }: Bound, request: HttpRequest, url: URL, attempt: number, progress: Progress) => {
  const log = recorder(options, { ...request, endpoint: `${url.origin}${url.pathname}` }, attempt, service.clock.now())
  try {
    const answer = await send({
      dispatcher: agents.guarded(options.timeoutMs, service.baseUrl, service.allowedDownloadHosts ?? []),
      url,
      addressSetting: service.addressSetting,
      method: 'GET',
      headers: {},
      body: null,
      options,
      maxBytes: options.maxBodyBytes,
      progress,
    })
    // Only a report is read; what a refusal says is not worth a connection that stays open.
    if (answer.status !== 200) {
      await answer.discard()
      log({ status: answer.status, bytes: 0 })
    }
    return { ...answer, finish: (outcome: Omit<Outcome, 'status'>) => log({ status: answer.status, ...outcome }), progress }
  } catch (error) {
    const failure = classify(error, { ...service, ...options, request }, progress)
    log({ status: null, bytes: 0, errorCode: failure.code })
    throw failure
  }
}

const streamOf = (answer: Opened, asked: Asked, options: UnitHttpOptions): HttpStream => ({
  status: answer.status,
  contentType: answer.headers['content-type'] ?? '',
  body: answer.status === 200 ? watched(answer, asked, options) : Readable.from([]),
})

/** Counts what is read and says what a failure on the way means. Ends the record also where the reader goes away. */
async function* watched(answer: Opened, asked: Asked, { otherSum = isCutOff }: UnitHttpOptions): AsyncGenerator<Uint8Array> {
  const html = /\bhtml\b/i.test(answer.headers['content-type'] ?? '')
  const checksum = namedChecksum(answer.headers)
  let bytes = 0
  const { url, endpoint } = asked.request
  const over = reportLongWait(
    `download ${endpoint}`,
    (lasted) => `${url.origin}${endpoint}: the download has brought ${bytes} bytes in ${lasted} s.`,
  )
  try {
    for await (const chunk of answer.body) {
      if (html) throw notAReport(asked.request, chunk)
      bytes += chunk.length
      checksum?.add(chunk)
      yield chunk
    }
    const other = checksum?.other() ?? null
    if (other !== null) otherSum(`The checksum of the downloaded body is not the one that its answer names (${other}).`)
    answer.finish({ bytes, ...(other === null ? {} : { errorCode: 'TRUNCATED' }) })
  } catch (error) {
    const failure = classify(error, asked, answer.progress)
    answer.finish({ bytes, errorCode: failure.code })
    throw failure
  } finally {
    over()
    answer.finish({ bytes, errorCode: 'INTERRUPTED' })
  }
}

const isCutOff = (said: string): never => {
  throw new EtlError('TRUNCATED', said)
}

const notAReport = ({ url, endpoint }: HttpRequest, chunk: Uint8Array): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${url.origin}${endpoint} answers the download with a web page instead of a report: "${excerpt(chunk)}".`,
  )

/** After these redirects the request was not taken; after any other a submission may have been. */
const notTaken = new Set([301, 307, 308])

/** These must name an address; others may. 304 is no redirect. */
const mustNamePlace = new Set([301, 302, 303, 307, 308])

const isRedirect = ({ status, headers }: Answered): boolean =>
  mustNamePlace.has(status) || (status >= 300 && status < 400 && status !== 304 && headers['location'] !== undefined)

/** The same request at the address that the service names on its own origin. Throws BAD_RESPONSE for every other redirect. */
const redirected = (
  { authenticate, addressSetting }: ServiceOptions,
  request: HttpRequest,
  answer: Answered,
  redirects: number,
): HttpRequest => {
  const location = answer.headers['location']
  const target = location === undefined ? null : URL.parse(location, request.url.href)
  const here = target?.origin === request.url.origin
  if (target !== null && here && request.idempotent && request.method === 'GET' && redirects < maxRedirects) {
    // The service may have put the key into the address it names; it is added again when the request leaves.
    for (const name of Object.keys(authenticate(request).query ?? {})) target.searchParams.delete(name)
    return { ...request, url: target }
  }
  const isWeb = target?.protocol === 'https:' || target?.protocol === 'http:'
  const [to, why] =
    target === null
      ? [location === undefined ? 'no address' : 'something that is no address', 'there is nothing to request']
      : isWeb
        ? [
            `${target.origin}${target.pathname}`,
            here ? 'there were too many redirects, or the request is no GET' : 'the key is sent to the service only',
          ]
        : [`a ${target.protocol} address`, 'it is not http']
  throw new EtlError(
    'BAD_RESPONSE',
    `${request.url.origin} ${request.endpoint} redirects to ${to} (${answer.status}), which was not followed: ${why}. If the service lives elsewhere now, set ${addressSetting}.`,
    { sent: !notTaken.has(answer.status), status: answer.status },
  )
}
