// What a request that threw means, and whether it can have reached the service.
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { HttpRequest } from './http.ts'

export type SendFailure = EtlError

/** Failures before a byte of the request left: the service cannot have seen it. */
const neverSent = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'EADDRNOTAVAIL',
])
const timeouts = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT'])
const truncations = new Set([
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'ERR_STREAM_PREMATURE_CLOSE',
  'Z_BUF_ERROR',
  'Z_DATA_ERROR',
  'HPE_INVALID_EOF_STATE',
])

const codeOf = (error: unknown): string => {
  if (typeof error !== 'object' || error === null) return ''
  if ('code' in error && typeof error.code === 'string') return error.code
  return 'cause' in error ? codeOf(error.cause) : ''
}

const isTls = (code: string): boolean => /CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code)

/** An EtlError whose `context.sent` is false only where the service certainly did not get the request. */
export const classify = (error: unknown, { endpoint, url }: HttpRequest, signal: AbortSignal): SendFailure => {
  if (isEtlError(error)) return error
  const code = codeOf(error)
  const sent = !neverSent.has(code) && !isTls(code)
  const context = { sent, network: code }
  const where = `${url.origin} ${endpoint}`
  if (signal.aborted)
    return new EtlError('INTERRUPTED', `${where}: stopped; the same command goes on.`, { cause: error, context })
  if (timeouts.has(code)) {
    return new EtlError(
      'SERVICE_TIMEOUT',
      `${where}: no answer in time (${code}). It is asked again; raise limits.timeout if the service is slow.`,
      { cause: error, context },
    )
  }
  if (truncations.has(code) || (code === 'UND_ERR_SOCKET' && /closed/.test(messageOf(error)))) {
    return new EtlError('TRUNCATED', `${where}: the answer was cut off (${messageOf(error)}). It is asked for again.`, {
      cause: error,
      context,
    })
  }
  const advice = isTls(code) ? 'Check the certificate of the service.' : 'Check WEB_ANALYTICS_BASE_URL and the network.'
  return new EtlError('SERVICE_UNREACHABLE', `${where}: ${messageOf(error) || code}. ${advice}`, { cause: error, context })
}
