// An answer's body as JSON, or what to say when it is none.
import { EtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { HttpAnswer } from './http-types.ts'

/** First 80 characters of a body, on one line and without secrets, for messages. */
export const excerpt = (bytes: Uint8Array): string =>
  // Redacted before it is cut, so that no half of a secret is left.
  redact(Buffer.from(bytes.subarray(0, 1000)).toString('utf8').replaceAll(/\s+/g, ' ').trim()).slice(0, 80)

/**
 * The answer's JSON. Throws BAD_RESPONSE naming the endpoint and what came instead.
 * @param addressSetting name of the setting that holds the service's address
 */
export const parseJson = (answer: HttpAnswer, endpoint: string, addressSetting: string): unknown => {
  try {
    return JSON.parse(answer.bytes.toString('utf8'))
  } catch (cause) {
    const ends = /end of JSON/i.test(messageOf(cause)) && answer.bytes.length > 0
    throw new EtlError(
      'BAD_RESPONSE',
      `${endpoint} answered ${answer.status} with ${answer.contentType || 'no content type'} that ${ends ? 'ends in the middle of its JSON' : 'is not JSON'} (${answer.bytes.length} bytes): "${excerpt(answer.bytes)}". ` +
        (ends ? 'It is asked again.' : `A proxy may answer for the service; check ${addressSetting}.`),
    )
  }
}
