// API calls stay with the service's own origin: its keys go nowhere else.
import { EtlError } from '../core/errors.ts'
import type { Connection, HttpRequest } from './http-types.ts'
import type { Answered } from './http-retry.ts'

const maxRedirects = 3
/** These say that the request was not read; after any other a submission may have been taken. */
const notTaken = new Set([301, 307, 308])

/** With a place to go to; 304 is none. */
export const isRedirect = ({ status, headers }: Answered): boolean =>
  status >= 300 && status < 400 && status !== 304 && headers['location'] !== undefined

/** The same question at the address the service names on its own origin. Throws BAD_RESPONSE for every other redirect. */
export const redirected = (
  { authenticate, addressSetting }: Connection,
  request: HttpRequest,
  answer: Answered,
  redirects: number,
): HttpRequest => {
  const location = answer.headers['location'] ?? ''
  const target = URL.parse(location, request.url.href)
  const here = target?.origin === request.url.origin
  if (target !== null && here && request.idempotent && request.method === 'GET' && redirects < maxRedirects) {
    // The service may have put the key into the address it names; it is added again when the request leaves.
    for (const name of Object.keys(authenticate(request).query ?? {})) target.searchParams.delete(name)
    return { ...request, url: target }
  }
  const to = target === null ? 'somewhere' : `${target.origin}${target.pathname}`
  throw new EtlError(
    'BAD_RESPONSE',
    `${request.url.origin} ${request.endpoint} redirects to ${to} (${answer.status}), which was not followed: ${here ? 'it leads in a circle or is no question' : 'the key stays with the service'}. If that is where the service lives now, set ${addressSetting}.`,
    { sent: !notTaken.has(answer.status), status: answer.status },
  )
}
