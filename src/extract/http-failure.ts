// What a request that threw means, and whether it can have reached the service.
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { HttpRequest } from './http-types.ts'

/** How far a request got; the sender moves it on. */
export interface Progress {
  /** From here on bytes of the request may have left. A kept connection counts from the start. */
  connected: boolean
  /** The head of the answer is here. */
  answered: boolean
}

const timeouts = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])
/** Ends of a body that came before its time. */
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

/** Failures to connect. */
const unconnected = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'])

/** Whether a request that failed so certainly never left. */
export const neverLeft = ({ network }: EtlError): boolean => network !== null && unconnected.has(network)

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
