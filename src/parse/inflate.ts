// Bytes without their gzip, told by the magic bytes; bounded.
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'

async function* rejoin(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first
  for (;;) {
    const next = await rest.next()
    if (next.done === true) return
    yield next.value
  }
}

/** Throws TRUNCATED where the gzip is broken or cut, TOO_LARGE beyond `maxBytes`. */
export async function* inflated(body: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  const iterator = body[Symbol.asyncIterator]()
  let head: Uint8Array = Buffer.alloc(0)
  while (head.length < 2) {
    const next = await iterator.next()
    if (next.done === true) break
    head = head.length === 0 ? next.value : Buffer.concat([head, next.value])
  }
  const isGzip = head.length >= 2 && head[0] === 0x1f && head[1] === 0x8b
  yield* bounded(isGzip ? gunzip(rejoin(head, iterator)) : rejoin(head, iterator), maxBytes)
}

async function* gunzip(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(body)
  const stream = createGunzip({ chunkSize: 128 * 1024 })
  source.once('error', (error) => stream.destroy(error))
  try {
    yield* source.pipe(stream)
  } catch (error) {
    if (isEtlError(error)) throw error
    throw new EtlError('TRUNCATED', `The gzip body is damaged or cut off (${messageOf(error)}). It is downloaded again.`, {
      cause: error,
    })
  } finally {
    source.destroy()
    stream.destroy()
  }
}

async function* bounded(body: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > maxBytes)
      throw new EtlError(
        'TOO_LARGE',
        `The body has more than ${maxBytes} bytes once inflated (limits.max_body). Raise the limit only if you trust it.`,
      )
    yield chunk
  }
}
