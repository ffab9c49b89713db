// One request and its answer over undici: connections, time-outs per phase, and how far the request got; bodies are decoded, with limits of size and density.
import type { Readable, Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { Agent, buildConnector, type Dispatcher, request } from 'undici'
import { createSerialQueue, raceAbort } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import { guardedLookup } from './download-address.ts'
import type { Progress } from './http-failure.ts'
import type { UnitHttpOptions } from './http-types.ts'

/** An answer whose body is still to be read. */
type RawAnswer = ReturnType<typeof readable>

/** One attempt. */
interface SendOptions {
  /** null: a connection of its own, because one kept alive may be closed under a request that must not be sent twice. */
  readonly dispatcher: Dispatcher | null
  readonly url: URL
  /** Name of the setting that holds the service's address, for messages. */
  readonly addressSetting: string
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  readonly options: UnitHttpOptions
  readonly maxBytes: number
  readonly progress: Progress
}

const connections = 32
const longestConnectMs = 10_000

const connectMs = (timeoutMs: number): number => Math.min(timeoutMs, longestConnectMs)

/** Connections kept for the next request, one pool for each way to connect. */
export type Agents = ReturnType<typeof createAgents>

export const createAgents = () => {
  const pools = new Map<string, Agent>()
  const pool = (kind: string, timeoutMs: number, connect: buildConnector.BuildOptions): Agent => {
    const key = `${kind} ${timeoutMs}`
    const agent = pools.get(key) ?? new Agent({ connections, connect: connector({ timeout: connectMs(timeoutMs), ...connect }) })
    pools.set(key, agent)
    return agent
  }
  return {
    shared: (timeoutMs: number): Dispatcher => pool('shared', timeoutMs, {}),
    /** For downloads: refuses private addresses at connect time. */
    guarded: (timeoutMs: number, baseUrl: URL, allowedHosts: readonly string[]): Dispatcher =>
      pool('guarded', timeoutMs, { lookup: guardedLookup(baseUrl, allowedHosts) }),
  }
}

/** Errors of connections that were never established, TLS included: whatever their code is, nothing was sent. */
const unconnected = new WeakSet<object>()

const connector = (options: buildConnector.BuildOptions, onConnected = (): void => undefined): buildConnector.connector => {
  const connect = buildConnector(options)
  return (to, callback) =>
    connect(to, (...result) => {
      if (result[0] === null) onConnected()
      else unconnected.add(result[0])
      callback(...result)
    })
}

/** Sets `connected` the moment a connection is established: until then nothing of the request can have left. */
const watchedAgent = (timeoutMs: number, progress: Progress): Agent => {
  const onConnected = () => {
    progress.connected = true
  }
  return new Agent({ connections: 1, pipelining: 0, connect: connector({ timeout: connectMs(timeoutMs) }, onConnected) })
}

/** `own` is to be closed with the answer; null: it is shared. */
const connectionOf = ({ dispatcher, options, progress }: SendOptions): { dispatcher: Dispatcher; own: Agent | null } => {
  if (dispatcher === null) {
    const own = watchedAgent(options.timeoutMs, progress)
    return { dispatcher: own, own }
  }
  progress.connected = true
  return { dispatcher, own: null }
}

/** Sends once. Whatever it throws, `progress` says how far it got. */
export const send = async (call: SendOptions): Promise<RawAnswer> => {
  const { url, options, progress } = call
  options.signal.throwIfAborted()
  const { dispatcher, own } = connectionOf(call)
  try {
    const answer = await request(url, {
      dispatcher,
      method: call.method,
      headers: { ...call.headers, 'accept-encoding': acceptedEncodings, 'user-agent': 'millrace' },
      body: call.body,
      signal: options.signal,
      headersTimeout: options.timeoutMs,
      bodyTimeout: options.timeoutMs,
    })
    progress.answered = true
    return readable(call, answer, own)
  } catch (error) {
    if (typeof error === 'object' && error !== null && unconnected.has(error)) progress.connected = false
    await own?.destroy()
    throw error
  }
}

/** What is known of an answer so far, also of one that is cut off. */
export interface Seen {
  status: number | null
  /** Of the body, decoded. */
  bytes: number
}

/**
 * Sends once and reads the answer to its end. Whatever it throws, `progress` says how far it got and `seen` what came.
 * @param saysAll whether the status says enough without the body: then a body that cannot be read counts as empty
 */
export const sendWhole = async (
  call: SendOptions,
  seen: Seen,
  saysAll: (status: number) => boolean,
): Promise<Omit<RawAnswer, 'body' | 'discard'> & { bytes: Buffer }> => {
  const { status, headers, body } = await send(call)
  seen.status = status
  const chunks: Uint8Array[] = []
  const readUpTo = async (most: number): Promise<void> => {
    while (seen.bytes <= most) {
      const { value: chunk } = await body.next()
      if (chunk === undefined) return
      seen.bytes += chunk.length
      chunks.push(chunk)
    }
  }
  try {
    await readUpTo(largeBytes)
    if (seen.bytes > largeBytes)
      await raceAbort(
        inTurn(() => readUpTo(call.maxBytes)),
        call.options.signal,
      )
  } catch (error) {
    if (!saysAll(status)) throw error
    chunks.length = 0
  } finally {
    await body.return(undefined)
  }
  return { status, headers, bytes: Buffer.concat(chunks) }
}

/** Answers of more bytes are read one at a time from here on: all together need little more memory than one. */
const largeBytes = 8 * 1024 * 1024
const inTurn = createSerialQueue()

const readable = (call: SendOptions, answer: Dispatcher.ResponseData, own: Agent | null) => {
  const headers = flatten(answer.headers)
  const release = async (): Promise<void> => {
    // Destroying a body that was not read to its end raises an error event.
    answer.body.once('error', () => undefined)
    answer.body.destroy()
    await own?.destroy()
  }
  const body = async function* (): AsyncGenerator<Uint8Array> {
    try {
      if (Number(headers['content-length'] ?? 0) > call.maxBytes) throw tooLarge(call)
      yield* decodedBody(answer.body, headers['content-encoding'], call)
    } finally {
      await release()
    }
  }
  // The body comes without its content encoding; `discard` lets it go unread.
  return { status: answer.statusCode, headers, body: body(), discard: release }
}

/** A header that comes twice is joined by commas, as RFC 9110 5.3 allows. */
const flatten = (headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), [value].flat().join(', ')]],
    ),
  )

/** What is offered; anything else is refused. */
const acceptedEncodings = 'gzip, deflate, br, zstd'

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

/** For messages: address without query. */
const whereOf = ({ url }: SendOptions): string => `${url.origin}${url.pathname}`

const namesOf = (encoding: string | undefined): string[] =>
  (encoding ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')

/** The decoded bytes of the body, in order; the iteration throws errors of the network and of the decoder. */
async function* decodedBody(body: Readable, encoding: string | undefined, call: SendOptions): AsyncGenerator<Uint8Array> {
  const heard = watchAnswer(call)
  const names = namesOf(encoding)
  let compressedBytes: () => number = () => Number.POSITIVE_INFINITY
  let stream: Readable = body
  // The encoding applied last is taken off first.
  for (const [index, name] of names.reverse().entries()) {
    const decoder = decoders[name]?.()
    if (decoder === undefined || index > 1) throw unknownEncoding(encoding ?? '', call)
    if (index === 0) compressedBytes = () => decoder.bytesWritten
    const before = stream
    before.once('error', (error) => decoder.destroy(error))
    stream = before.pipe(decoder)
    // Counted before the decoder: a body that drips may never fill a block that the decoder passes on.
    if (index === 0) before.on('data', (chunk: Uint8Array) => stopLate(before, heard(chunk.length)))
  }
  let bytes = 0
  for await (const chunk of stream) {
    bytes += chunk.length
    const late = stream === body ? heard(chunk.length) : null
    if (late !== null) throw late
    if (bytes > call.maxBytes) throw tooLarge(call)
    if (bytes > ratioFromBytes && bytes > maxRatio * compressedBytes()) throw tooDense(call)
    yield chunk
  }
}

/** An answer may take twice the time that may pass without a byte, and a second more for each 16 KiB that came. */
const timeouts = 2
/** A busy machine sees bytes this late, so no answer is stopped earlier. */
const leastMs = 2_000
const slowestBytesPerSecond = 16 * 1024

/** Finds an answer that drips. Call the result with the size of each piece as it comes; it returns an error where all came too slowly. */
const watchAnswer = (call: SendOptions): ((bytes: number) => EtlError | null) => {
  const from = performance.now()
  let total = 0
  return (bytes) => {
    total += bytes
    const tookMs = performance.now() - from
    if (tookMs <= Math.max(leastMs, timeouts * call.options.timeoutMs) + (total / slowestBytesPerSecond) * 1_000) return null
    const message = `${whereOf(call)}: the answer is too slow: ${total} bytes in ${Math.round(tookMs / 1_000)} s; reading stopped. If the service is slow, raise limits.timeout.`
    return new EtlError('SERVICE_TIMEOUT', message, { context: { sent: true, network: '' } })
  }
}

const stopLate = (body: Readable, late: EtlError | null): void => {
  if (late !== null) body.destroy(late)
}

/** TOO_LARGE with the limit and the setting that raises it. */
const tooLarge = (call: SendOptions): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${whereOf(call)}: the body has more than ${call.maxBytes} bytes (limits.max_body). Ask for less per report, or raise the limit.`,
  )

const tooDense = (call: SendOptions): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${whereOf(call)}: the body has more than ${maxRatio} times its compressed size, more than any table; reading stopped. Ask the service what it sent.`,
  )

const unknownEncoding = (encoding: string, call: SendOptions): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `${whereOf(call)}: the answer's content-encoding is '${encoding.slice(0, 80)}', asked was for ${acceptedEncodings}. A proxy may have changed it; check ${call.addressSetting}.`,
  )
