// Removes gzip, found by its magic bytes, up to a limit of size.
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'

/** A file that was packed once more on its way. */
const mostLayers = 2

/**
 * The body as it is, or inflated until it is no gzip any more: a layer that is left could hide the key. A gzip may be padded with zero bytes. Throws TRUNCATED where
 * it is broken or cut, TOO_LARGE beyond `maxBytes`, BAD_RESPONSE where it is packed too often.
 */
export async function* inflated(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  layers = mostLayers,
): AsyncGenerator<Uint8Array, void, void> {
  const iterator = body[Symbol.asyncIterator]()
  const head: Uint8Array[] = []
  const begins = (): Buffer => Buffer.concat(head)
  try {
    while (begins().length < 2) {
      const next = await iterator.next()
      if (next.done === true) break
      head.push(next.value)
    }
    const [first, second] = begins()
    const whole = rejoined(head, iterator)
    if (first !== 0x1f || second !== 0x8b) yield* bounded(whole, maxBytes)
    else if (layers > 0) yield* inflated(bounded(gunzipped(whole), maxBytes), maxBytes, layers - 1)
    else
      throw new EtlError(
        'BAD_RESPONSE',
        `The body is compressed with gzip more than ${mostLayers} times. Nothing was loaded; tell the service.`,
      )
  } finally {
    await iterator.return?.()
  }
}

/** An iterator that has ended says so again. */
async function* rejoined(head: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  yield* head
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value
}

async function* gunzipped(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  let end = 0
  const source = Readable.from(watched(body, (at) => (end = at)))
  const stream = createGunzip({ chunkSize: 128 * 1024 })
  source.once('error', (error) => stream.destroy(error))
  try {
    yield* source.pipe(stream)
    source.unpipe(stream)
    for await (const _ of source);
  } catch (error) {
    if (isEtlError(error)) throw error
    throw damaged(messageOf(error), error)
  } finally {
    source.destroy()
    stream.destroy()
  }
  // zlib ignores what follows the last member: zeros are padding, but a damaged second member would be lost silently.
  if (stream.bytesWritten < end) throw damaged(`${end - stream.bytesWritten} bytes after its end are not gzip`)
}

/** @param seen called with the place behind the last byte so far that is not zero */
async function* watched(body: AsyncIterable<Uint8Array>, seen: (end: number) => void): AsyncGenerator<Uint8Array, void, void> {
  let before = 0
  for await (const chunk of body) {
    const last = chunk.findLastIndex((byte) => byte !== 0)
    if (last >= 0) seen(before + last + 1)
    before += chunk.length
    yield chunk
  }
}

const damaged = (why: string, cause?: unknown): EtlError =>
  new EtlError('TRUNCATED', `The gzip body is damaged or cut off (${why}). Nothing was loaded.`, { cause })

async function* bounded(body: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array, void, void> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > maxBytes) {
      throw new EtlError(
        'TOO_LARGE',
        `The body has more than ${maxBytes} bytes once inflated (limits.max_body). Nothing was loaded; raise the limit if it is right.`,
      )
    }
    yield chunk
  }
}
