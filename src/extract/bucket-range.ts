// A stretch of one object as a stream that goes on where a connection broke off.
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { systemClock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { Bucket } from './bucket.ts'
import { isMissing, refusalOf } from './bucket-error.ts'

/** Broken bodies in a row, none of which brought a mebibyte. */
const maxBreaks = 5
const progressBytes = 1024 * 1024
const firstPauseMs = 100

/**
 * Bytes `offset` to `offset + length` of `key`. Throws what `damaged` makes where the object is missing or shorter, LANDING_UNREACHABLE
 * where connections keep breaking.
 */
export async function* readRange(
  bucket: Bucket,
  { key, offset, length }: { readonly key: string; readonly offset: number; readonly length: number },
  damaged: (found: string) => EtlError,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const doing = `read ${bucket.placeOf(key)}`
  let received = 0
  let breaks = 0
  let mark = 0
  while (received < length) {
    const body = await ask(bucket, key, offset + received, offset + length - 1, damaged, signal)
    try {
      for await (const chunk of body) {
        received += chunk.length
        if (received > length) throw damaged('the server sent more than it was asked for')
        yield chunk
      }
      if (received < length) throw new Error(`the body ended ${length - received} bytes early`)
    } catch (error) {
      signal?.throwIfAborted()
      if (received > length) throw error
      if (received - mark >= progressBytes) breaks = 0
      mark = received
      breaks += 1
      if (breaks > maxBreaks) throw bucket.errorOf(error, doing)
      await systemClock.sleep(firstPauseMs * 2 ** (breaks - 1) * (0.5 + systemClock.random() / 2), signal)
    }
  }
}

const ask = async (
  bucket: Bucket,
  key: string,
  first: number,
  last: number,
  damaged: (found: string) => EtlError,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> => {
  const command = new GetObjectCommand({ Bucket: bucket.name, Key: key, Range: `bytes=${first}-${last}` })
  try {
    const answer = await bucket.client.send(command, signal === undefined ? {} : { abortSignal: signal })
    if (!isStream(answer.Body)) throw new Error('the answer has no body')
    if (answer.ContentRange !== undefined && !answer.ContentRange.startsWith(`bytes ${first}-`))
      throw damaged(`asked for ${first}-${last}, the server sent ${answer.ContentRange}`)
    if (answer.ContentRange === undefined && first > 0)
      throw new EtlError(
        'LANDING_REFUSED',
        `${bucket.placeOf(key)}: the server sends no parts of objects (Range); use another one.`,
      )
    return answer.Body
  } catch (error) {
    signal?.throwIfAborted()
    if (refusalOf(error).status === 416) throw damaged(`it ends before byte ${first}`)
    if (isMissing(error)) throw damaged('it is not there, though the manifest is')
    throw bucket.errorOf(error, `read ${bucket.placeOf(key)}`)
  }
}

const isStream = (body: unknown): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body
