// An answer's body as JSON, or what to say when it is none.
import { EtlError, messageOf } from '../core/errors.ts'
import type { HttpAnswer } from './http.ts'

/** First 80 characters of a body, on one line, for messages. */
export const excerpt = (bytes: Uint8Array): string =>
  Buffer.from(bytes.subarray(0, 200)).toString('utf8').replaceAll(/\s+/g, ' ').trim().slice(0, 80)

/** The answer's JSON. Throws BAD_RESPONSE naming the endpoint and what came instead. */
export const parseJson = (answer: HttpAnswer, endpoint: string): unknown => {
  try {
    return JSON.parse(answer.bytes.toString('utf8'))
  } catch (cause) {
    throw new EtlError(
      'BAD_RESPONSE',
      `${endpoint} answered ${answer.status} with ${answer.contentType || 'no content type'} that is not JSON (${messageOf(cause)}): "${excerpt(answer.bytes)}". A proxy may answer for the service; check WEB_ANALYTICS_BASE_URL.`,
      { cause },
    )
  }
}
