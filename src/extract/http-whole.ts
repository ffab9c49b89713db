// One request whose answer is read to its end: straight from the connection into memory, without a stream in between.
import { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import { watchAnswer } from './answer-time.ts'
import { decodedBody, isEncoded, tooLarge } from './http-decode.ts'
import { connectionOf, flatten, headersOf, type SendOptions } from './http-send.ts'

/** An answer that was read to its end. */
export interface WholeAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Without its content encoding. */
  readonly bytes: Buffer
}

/** What is known of an answer so far, also of one that is cut off. */
export interface Seen {
  status: number | null
  /** Of the body, decoded. */
  bytes: number
}

/** Sends once. Whatever it throws, `progress` says how far it got and `seen` what came. */
export const sendWhole = async (call: SendOptions, seen: Seen): Promise<WholeAnswer> => {
  const { dispatcher, own } = connectionOf(call)
  try {
    return await exchange(call, dispatcher, seen)
  } finally {
    await own?.destroy()
  }
}

/** Where the body goes as it arrives. */
interface Taker {
  take(chunk: Buffer): void
  end(): void
  fail(error: unknown): void
}

const exchange = (call: SendOptions, dispatcher: Dispatcher, seen: Seen): Promise<WholeAnswer> =>
  new Promise((resolve, reject) => {
    const { url, options, progress } = call
    const { signal } = options
    signal.throwIfAborted()
    let connection: Dispatcher.DispatchController | null = null
    let taker: Taker | null = null
    const heard = watchAnswer({ timeoutMs: options.timeoutMs, where: `${url.origin}${url.pathname}` })
    const settle = (): void => signal.removeEventListener('abort', onAbort)
    const fail = (error: unknown): void => {
      settle()
      taker?.fail(error)
      reject(error)
    }
    const stop = (error: unknown): void => {
      fail(error)
      connection?.abort(asError(error))
    }
    const onAbort = (): void => stop(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    dispatcher.dispatch(
      {
        origin: url.origin,
        path: `${url.pathname}${url.search}`,
        method: call.method,
        headers: headersOf(call),
        body: call.body,
        headersTimeout: options.timeoutMs,
        bodyTimeout: options.timeoutMs,
      },
      {
        onRequestStart: (controller) => {
          connection = controller
          if (signal.aborted) controller.abort(asError(signal.reason))
        },
        onResponseStart: (controller, status, rawHeaders) => {
          // 1xx says that the answer is still to come.
          if (status < 200) return
          seen.status = status
          progress.answered = true
          const headers = flatten(rawHeaders)
          const done = (bytes: Buffer): void => {
            settle()
            resolve({ status, headers, bytes })
          }
          taker = takerOf(call, headers, controller, { done, stop, seen })
        },
        onResponseData: (_, chunk) => {
          const late = heard(chunk.length)
          if (late === null) taker?.take(chunk)
          else stop(late)
        },
        onResponseEnd: () => taker?.end(),
        onResponseError: (_, error) => fail(error),
      },
    )
  })

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

interface Outcome {
  readonly done: (bytes: Buffer) => void
  readonly stop: (error: unknown) => void
  readonly seen: Seen
}

const takerOf = (
  { url, maxBytes, addressSetting }: SendOptions,
  headers: Readonly<Record<string, string>>,
  controller: Dispatcher.DispatchController,
  outcome: Outcome,
): Taker => {
  const limits = { maxBytes, addressSetting, where: `${url.origin}${url.pathname}` }
  const kept = keeper(maxBytes, outcome, () => outcome.stop(tooLarge(limits)))
  if (Number(headers['content-length'] ?? 0) > maxBytes) outcome.stop(tooLarge(limits))
  const encoding = headers['content-encoding']
  if (!isEncoded(encoding)) return { take: kept.take, end: kept.end, fail: () => undefined }
  const packed = new Readable({ read: () => controller.resume() })
  // Who reads it hears of errors; where nobody does any more there is nobody to tell.
  packed.on('error', () => undefined)
  unpack(decodedBody(packed, encoding, limits), kept, outcome)
  return {
    take: (chunk) => {
      if (!packed.push(chunk)) controller.pause()
    },
    end: () => packed.push(null),
    fail: (error) => packed.destroy(asError(error)),
  }
}

const bufferOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length)

const keeper = (maxBytes: number, { done, seen }: Outcome, onTooLarge: () => void) => {
  const chunks: Uint8Array[] = []
  let length = 0
  return {
    take: (chunk: Uint8Array): void => {
      length += chunk.length
      seen.bytes = length
      if (length > maxBytes) onTooLarge()
      else chunks.push(chunk)
    },
    end: (): void => {
      const [only, ...others] = chunks
      done(only !== undefined && others.length === 0 ? bufferOf(only) : Buffer.concat(chunks, length))
    },
  }
}

const unpack = (body: AsyncIterable<Uint8Array>, kept: ReturnType<typeof keeper>, { stop }: Outcome): void => {
  const reading = async (): Promise<void> => {
    for await (const chunk of body) kept.take(chunk)
    kept.end()
  }
  reading().catch(stop)
}
