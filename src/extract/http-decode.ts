// Bodies without their content encoding, and no longer or denser than allowed.
import type { Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { EtlError } from '../core/errors.ts'

/** What is offered; anything else is refused. */
export const acceptedEncodings = 'gzip, deflate, br, zstd'

const decoders: Readonly<Record<string, () => Transform & { readonly bytesWritten: number }>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** A body that grows beyond this many times its compressed size is a bomb, not a table. */
const maxRatio = 250
/** Small bodies may be as dense as they like. */
const ratioFromBytes = 32 * 1024 * 1024

/** How much of a body is read, and what its errors say. */
export interface BodyLimits {
  readonly maxBytes: number
  /** What may pass without a byte, milliseconds. */
  readonly timeoutMs: number
  /** For messages: address without query. */
  readonly where: string
  /** Name of the setting that holds the service's address. */
  readonly addressSetting: string
}

const namesOf = (encoding: string | undefined): string[] =>
  (encoding ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')

/** The body's bytes as meant, in order; errors of the network and of the decoder come out of the iteration. */
export async function* decodedBody(body: Readable, encoding: string | undefined, limits: BodyLimits): AsyncGenerator<Uint8Array> {
  const heard = watchAnswer(limits)
  const names = namesOf(encoding)
  let compressedBytes: () => number = () => Number.POSITIVE_INFINITY
  let stream: Readable = body
  // The encoding applied last is taken off first.
  for (const [index, name] of names.reverse().entries()) {
    const decoder = decoders[name]?.()
    if (decoder === undefined || index > 1) throw unknownEncoding(encoding ?? '', limits)
    if (index === 0) compressedBytes = () => decoder.bytesWritten
    const before = stream
    before.once('error', (error) => decoder.destroy(error))
    stream = before.pipe(decoder)
    // What drips may never fill a block that the decoder hands on.
    if (index === 0) before.on('data', (chunk: Uint8Array) => stopLate(before, heard(chunk.length)))
  }
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    const late = stream === body ? heard(chunk.length) : null
    if (late !== null) throw late
    if (bytes > limits.maxBytes) throw tooLarge(limits)
    if (bytes > ratioFromBytes && bytes > maxRatio * compressedBytes()) throw tooDense(limits)
    yield chunk
  }
}

/** Twice what may pass without a byte, and a second more for each 16 KiB that came. */
const timeouts = 2
/** A busy machine hears of bytes this late. */
const leastMs = 2_000
const slowestBytesPerSecond = 16 * 1024

/** One that drips is as good as none. Called with the bytes of each piece as it comes; an error where all of them together came too slowly. */
const watchAnswer = ({ timeoutMs, where }: Pick<BodyLimits, 'timeoutMs' | 'where'>): ((bytes: number) => EtlError | null) => {
  const from = performance.now()
  let total = 0
  return (bytes) => {
    total += bytes
    const tookMs = performance.now() - from
    if (tookMs <= Math.max(leastMs, timeouts * timeoutMs) + (total / slowestBytesPerSecond) * 1_000) return null
    const message = `${where}: the answer drips: ${total} bytes in ${Math.round(tookMs / 1_000)} s. It was not read on. If the service is slow, raise limits.timeout.`
    return new EtlError('SERVICE_TIMEOUT', message, { context: { sent: true, network: '' } })
  }
}

const stopLate = (body: Readable, late: EtlError | null): void => {
  if (late !== null) body.destroy(late)
}

/** TOO_LARGE with the limit and the setting that raises it. */
export const tooLarge = ({ where, maxBytes }: BodyLimits): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${where}: the body has more than ${maxBytes} bytes (limits.max_body). Ask for less per report, or raise the limit.`,
  )

const tooDense = ({ where }: BodyLimits): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${where}: the body grows to more than ${maxRatio} times its compressed size, as no table does. It was not read on; ask the service what it sent.`,
  )

const unknownEncoding = (encoding: string, { where, addressSetting }: BodyLimits): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${where}: the answer's content-encoding is '${encoding.slice(0, 80)}', asked was for ${acceptedEncodings}. A proxy may have changed it; check ${addressSetting}.`,
  )
