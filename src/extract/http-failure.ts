// Classifies the failure of a request, and whether the request can have reached the service; and records each request for the ledger: where, how long, how much,
// with what outcome.
import { type ErrorCode, EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { HttpAnswer, HttpRequest, UnitHttpOptions } from './http-types.ts'
import { hash } from 'node:crypto'
import { once } from '../core/clock.ts'
import type { SentRequest } from '../core/sent-request.ts'

/** How far a request got; the sender moves it on. */
export interface Progress {
  /** From here on bytes of the request may have left. A shared pool counts as connected from the start, until its connection fails. */
  connected: boolean
  /** The head of the answer is here. */
  answered: boolean
}

const timeouts = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])
/** Codes of a body that ended too early. */
const truncations = new Set([
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_SOCKET',
  'ECONNRESET',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'Z_BUF_ERROR',
  'ZSTD_error_srcSize_wrong',
])

const codeOf = (error: unknown): string => {
  if (typeof error !== 'object' || error === null) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return 'cause' in error ? codeOf(error.cause) : ''
}

const isTls = (code: string): boolean => /CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code)
const isDecoding = (code: string): boolean => /^(Z_|ZSTD_error|ERR__ERROR|ERR_BROTLI|ERR_ZLIB|ERR_ZSTD)/.test(code)
const isProtocol = (code: string): boolean => /^(HPE_|UND_ERR_HEADERS_OVERFLOW|UND_ERR_INFO|ERR_HTTP2)/.test(code)

/** The request an error is about. */
export interface Asked {
  readonly request: HttpRequest
  readonly signal: AbortSignal
  /** Name of the setting that holds the service's address. */
  readonly addressSetting: string
}

/** An EtlError whose `sent` is false only where the service certainly did not get the request. */
export const classify = (error: unknown, { request, signal, addressSetting }: Asked, progress: Progress): EtlError => {
  const { endpoint, url } = request
  if (isEtlError(error) && !signal.aborted) return error
  const code = codeOf(error)
  const known = { sent: progress.connected, network: code }
  const where = `${url.origin} ${endpoint}`
  const said = redact(messageOf(error)) || code
  const make = (kind: 'INTERRUPTED' | 'SERVICE_TIMEOUT' | 'TRUNCATED' | 'BAD_RESPONSE' | 'SERVICE_UNREACHABLE', text: string) =>
    new EtlError(kind, `${where}: ${text}`, { cause: error, ...known })
  if (signal.aborted) return make('INTERRUPTED', 'stopped; run it again to resume.')
  if (timeouts.has(code))
    return make(
      'SERVICE_TIMEOUT',
      `${progress.answered ? 'the answer stood still' : 'no answer in time'} (${code}). If the service is slow, raise limits.timeout.`,
    )
  if (progress.answered && (truncations.has(code) || isProtocol(code)))
    return make('TRUNCATED', `the answer was cut off (${said}).`)
  if (isDecoding(code)) return make('BAD_RESPONSE', `the answer cannot be decompressed (${said}).`)
  if (isProtocol(code)) return make('BAD_RESPONSE', `the answer is not HTTP as it should be (${said}). Check ${addressSetting}.`)
  return make(
    'SERVICE_UNREACHABLE',
    `${said}. ${isTls(code) ? 'Check the certificate of the service.' : `Check ${addressSetting} and the network.`}`,
  )
}

/** The result of one attempt. */
export interface Outcome {
  /** null: no answer came. */
  readonly status: number | null
  /** Of the body, without its content encoding. */
  readonly bytes: number
  /** The body where it was read whole; its SHA-256 is kept. */
  readonly body?: Uint8Array
  readonly contentType?: string
  readonly errorCode?: ErrorCode
  /** It certainly never reached the service. Default false. */
  readonly neverLeft?: boolean
}

/** A service charges for what it answers, not for a refusal or the page of a proxy. An answer that broke off may have been charged. */
const chargeOf = ({ paidFor }: HttpRequest, outcome: Outcome): Pick<SentRequest, 'credits' | 'paidFor' | 'isUncertain'> => {
  const free = { credits: null, paidFor: null, isUncertain: false }
  if (paidFor === undefined) return free
  const { status, errorCode, contentType = '', neverLeft = false } = outcome
  if (neverLeft || (status !== null && (status < 200 || status > 299))) return { ...free, credits: 0 }
  if (status === null || errorCode !== undefined) return { credits: null, paidFor, isUncertain: true }
  return /html/i.test(contentType) ? { ...free, credits: 0 } : { credits: null, paidFor, isUncertain: false }
}

/** The bill is in the answer, and is known once the answer was read. A value that is no valid number says nothing. */
const billing = (record: SentRequest): NonNullable<HttpAnswer['billed']> =>
  once(async (rows, said, byBalance = null) => {
    record.isOpen = false
    if (record.paidFor === null) return
    record.paidFor = { ...record.paidFor, rows }
    const credits = said ?? byBalance
    if (credits === null || !(credits >= 0) || !Number.isFinite(credits)) return
    record.credits = credits
    record.saidIn = said === null ? 'balance' : 'answer'
  })

const refusalOf = (status: number | null): ErrorCode | null => {
  if (status === 429) return 'RATE_LIMITED'
  return status !== null && status >= 500 ? 'SERVICE_ERROR' : null
}

/** Begins the record; the function it returns ends it and hands it over, once. @param nowMs by the clock of all times in the ledger */
export const recorder = (options: UnitHttpOptions, request: HttpRequest, attempt: number, nowMs: number) => {
  const started = performance.now()
  return once((outcome: Outcome): HttpAnswer['billed'] => {
    const { status, bytes, body, errorCode } = outcome
    const charge = chargeOf(request, outcome)
    const record: SentRequest = {
      account: options.account,
      method: request.method,
      endpoint: request.endpoint,
      parameters: {
        // An address that the service redirected to may hold the key, under whatever name.
        ...Object.fromEntries([...request.url.searchParams].map(([name, value]) => [redact(name), redact(value)])),
        ...(request.body === undefined ? {} : { body: request.body }),
      },
      part: request.part ?? null,
      attempt,
      status,
      errorCode: errorCode ?? refusalOf(status),
      bytes,
      sha256: body === undefined ? null : hash('sha256', body, 'hex'),
      ...charge,
      isOpen: charge.paidFor !== null && !charge.isUncertain,
      startedAt: new Date(nowMs).toISOString(),
      milliseconds: performance.now() - started,
      saidIn: null,
    }
    options.record(record)
    return record.paidFor === null ? undefined : billing(record)
  })
}
