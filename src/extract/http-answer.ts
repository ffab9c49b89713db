// An answer's body as JSON, or what to say when it is none.
import { EtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { JsonRecords } from '../core/types.ts'
import { listNamed, readPage } from '../core/json-page-scan.ts'
import { JsonError, skipBlanks } from '../core/json-scan.ts'
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
    throw notJson(answer, endpoint, addressSetting, /end of JSON/i.test(messageOf(cause)) && answer.bytes.length > 0)
  }
}

/** A page of records as its source looks at it; rows are made from the landed bytes alone. */
export interface RecordPage {
  /** The body without the list. */
  readonly envelope: unknown
  /** null: there is no list of that name. */
  readonly records: JsonRecords | null
}

/**
 * The answer as a JSON object that holds its records in `list`. Throws BAD_RESPONSE as `parseJson` does.
 */
export const parsePage = (answer: HttpAnswer, endpoint: string, addressSetting: string, list: string): RecordPage => {
  const { bytes } = answer
  const start = skipBlanks(bytes, 0)
  if (bytes[start] !== openBrace) return { envelope: parseJson(answer, endpoint, addressSetting), records: null }
  try {
    const page = readPage(bytes, start, (name) => name === list)
    if (page === null) throw notJson(answer, endpoint, addressSetting, true)
    if (skipBlanks(bytes, page.end) < bytes.length) throw notJson(answer, endpoint, addressSetting, false)
    return { envelope: page.envelope(), records: listNamed(page, list) }
  } catch (error) {
    throw error instanceof JsonError ? notJson(answer, endpoint, addressSetting, false) : error
  }
}

const openBrace = 123

const notJson = (answer: HttpAnswer, endpoint: string, addressSetting: string, ends: boolean): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${endpoint} answered ${answer.status} with ${answer.contentType || 'no content type'} that ${ends ? 'ends in the middle of its JSON' : 'is not JSON'} (${answer.bytes.length} bytes): "${excerpt(answer.bytes)}".` +
      (ends ? '' : ` A proxy may answer for the service; check ${addressSetting}.`),
  )
