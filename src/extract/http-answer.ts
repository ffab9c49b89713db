// Parses an answer's body as JSON, or says what is wrong with it.
import { createHash, getFips } from 'node:crypto'
import { isRecord, largeAsWritten, withoutMark } from '../core/json.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { HttpAnswer } from './http-types.ts'

/** A service's text on one line, without characters that steer a terminal. */
export const oneLine = (text: string): string => text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()

/** First 80 characters of a body, on one line and without secrets, for messages. */
export const excerpt = (bytes: Uint8Array): string =>
  // Redacted before it is cut, so that no half of a secret is left.
  redact(oneLine(Buffer.from(bytes.subarray(0, 1000)).toString('utf8'))).slice(0, 80)

/**
 * The answer's JSON; whole numbers of more than 53 bits, as ids may be, are texts in it. Throws BAD_RESPONSE naming the endpoint and what came instead,
 * TRUNCATED where it ends in the middle.
 * @param addressSetting name of the setting that holds the service's address
 */
export const parseJson = (answer: HttpAnswer, endpoint: string, addressSetting: string): unknown =>
  parsed(answer, endpoint, addressSetting, largeAsWritten)

const parsed = (answer: HttpAnswer, endpoint: string, addressSetting: string, reviver?: typeof largeAsWritten): unknown => {
  const text = withoutMark(answer.bytes.toString('utf8'))
  try {
    return JSON.parse(text, reviver)
  } catch (cause) {
    throw notJson(answer, endpoint, addressSetting, text.length > 0 && isCut(messageOf(cause), text))
  }
}

/** Whether V8 failed at the end of the text, not at a character in it. */
const isCut = (message: string, text: string): boolean =>
  /end of JSON|unterminated/i.test(message) || Number(/at position (\d+)/.exec(message)?.[1] ?? 0) >= text.length

/** A page of records as its source reads it; rows are made from the landed bytes alone. */
export interface RecordPage {
  /** The body without the list. */
  readonly envelope: unknown
  /** null: there is no list of that name. */
  readonly records: readonly unknown[] | null
}

/** The answer as a JSON object that holds its records in `list`. Throws as `parseJson` does. */
export const parsePage = (answer: HttpAnswer, endpoint: string, addressSetting: string, list: string): RecordPage => {
  const body = parsed(answer, endpoint, addressSetting)
  if (!isRecord(body)) return { envelope: body, records: null }
  const { [list]: records, ...envelope } = body
  return Array.isArray(records) ? { envelope, records } : { envelope: body, records: null }
}

const notJson = (answer: HttpAnswer, endpoint: string, addressSetting: string, ends: boolean): EtlError =>
  new EtlError(
    ends ? 'TRUNCATED' : 'BAD_RESPONSE',
    `${endpoint} answered ${answer.status} with ${answer.contentType || 'no content type'} that ${ends ? 'ends in the middle of its JSON' : 'is not JSON'} (${answer.bytes.length} bytes): "${excerpt(answer.bytes)}".` +
      (ends ? '' : ` A proxy may answer for the service; check ${addressSetting}.`),
  )

/** Headers that name a checksum of the body as it comes, with what they call it. */
const checksumHeaders = [
  ['content-md5', 'md5', /^\s*([\w+/]+=*)\s*$/],
  ['content-digest', 'sha256', /\bsha-256=:([\w+/]+=*):/i],
  ['repr-digest', 'sha256', /\bsha-256=:([\w+/]+=*):/i],
  ['digest', 'sha256', /\bsha-256=([\w+/]+=*)/i],
] as const

const checksumBytes = { md5: 16, sha256: 32 }

/**
 * The checksum that an answer names of its own body: takes what comes of it, and says in the end which other one that has. null: it names none that can be
 * compared. A body that comes with a content encoding has one of its own.
 */
export const namedChecksum = (headers: Readonly<Record<string, string>>) => {
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') return null
  for (const [header, algorithm, pattern] of checksumHeaders) {
    const named = Buffer.from(pattern.exec(headers[header] ?? '')?.[1] ?? '', 'base64')
    if (named.length !== checksumBytes[algorithm]) continue
    if (algorithm === 'md5' && getFips() === 1) continue
    const hash = createHash(algorithm)
    const other = (): string | null => {
      const came = hash.digest()
      return came.equals(named) ? null : `${header}: ${named.toString('base64')}, came ${came.toString('base64')}`
    }
    return { add: (chunk: Uint8Array) => hash.update(chunk), other }
  }
  return null
}
