// One request and its answer over undici: time-outs per phase, content encodings, body limits.
import type { Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { Agent, request } from 'undici'
import { EtlError } from '../core/errors.ts'
import { guardedLookup } from './download-address.ts'
import type { UnitHttpOptions } from './http.ts'

export interface Agents {
  /** Keeps connections for the next request. */
  readonly shared: Agent
  /** For downloads: refuses private addresses at connect time. */
  guarded(baseUrl: URL): Agent
}

export interface RawAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Without its content encoding. */
  readonly body: AsyncIterable<Uint8Array>
  discard(): Promise<void>
}

export interface SendOptions {
  readonly agents: Agents
  readonly url: URL
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  readonly options: UnitHttpOptions
  /** A connection of its own: one kept alive may be closed under a request that must not be sent twice. */
  readonly fresh: boolean
  readonly maxBytes: number
  /** The service's address when the target is a link it gave; then the target's address is looked at. */
  readonly guarded?: URL
}

const connections = 32

export const createAgents = (): Agents => {
  const guarded = new Map<string, Agent>()
  return {
    shared: new Agent({ connections, pipelining: 1, keepAliveTimeout: 10_000 }),
    guarded: (baseUrl) => {
      const agent = guarded.get(baseUrl.origin) ?? new Agent({ connections, connect: { lookup: guardedLookup(baseUrl) } })
      guarded.set(baseUrl.origin, agent)
      return agent
    },
  }
}

export const send = async (call: SendOptions): Promise<RawAnswer> => {
  const { url, method, options } = call
  const own = call.fresh ? new Agent({ connections: 1, pipelining: 0, connect: { timeout: options.timeoutMs } }) : null
  const dispatcher = own ?? (call.guarded === undefined ? call.agents.shared : call.agents.guarded(call.guarded))
  const answer = await request(url, {
    dispatcher,
    method,
    headers: { ...call.headers, 'accept-encoding': 'gzip, deflate, br', 'user-agent': 'millrace' },
    body: call.body,
    signal: options.signal,
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
  })
  const headers = flatten(answer.headers)
  return {
    status: answer.statusCode,
    headers,
    body: limited(decoded(answer.body, headers['content-encoding'], own), call.maxBytes, url),
    discard: async () => {
      await answer.body.dump()
      await own?.close()
    },
  }
}

const flatten = (headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), [value].flat().join(', ')]],
    ),
  )

async function* decoded(body: Readable, encoding: string | undefined, own: Agent | null): AsyncGenerator<Uint8Array> {
  try {
    yield* decoder(body, encoding)
  } finally {
    body.destroy()
    await own?.destroy()
  }
}

const decoder = (body: Readable, encoding: string | undefined): AsyncIterable<Uint8Array> => {
  const names = (encoding ?? 'identity').toLowerCase().trim()
  const inflate =
    names === 'gzip' || names === 'x-gzip'
      ? createGunzip()
      : names === 'br'
        ? createBrotliDecompress()
        : names === 'deflate'
          ? createInflate()
          : null
  if (inflate === null) return body
  body.once('error', (error) => inflate.destroy(error))
  return body.pipe(inflate)
}

async function* limited(body: AsyncIterable<Uint8Array>, maxBytes: number, url: URL): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > maxBytes) {
      throw new EtlError(
        'TOO_LARGE',
        `${url.origin}${url.pathname}: the body has more than ${maxBytes} bytes (limits.max_body). Ask for less per report, or raise the limit.`,
      )
    }
    yield chunk
  }
}
