// Sends a reply, whole or cut by a fault. A large body is generated as fast as the client reads it.
import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault-kinds.ts'
import type { Reply } from './reply.ts'

/** Bodies up to here carry a Content-Length; larger ones are chunked. */
const measuredBytes = 4 * 1024 * 1024
/** Time for the client to read the written bytes, which a reset would discard. */
const beforeResetMs = 30

/** Resolves when the reply, cut or whole, is sent; throws where the client disconnects first. @param cut a `truncate-body` or `reset-mid-body` fault, or null */
export const send = async (response: ServerResponse, reply: Reply, cut: Fault | null): Promise<void> => {
  const start = await readStart(reply.body)
  const headers: Record<string, string | number> = { ...reply.headers }
  if (start.rest === null) headers['content-length'] = start.bytes.length
  if (cut !== null) return sendCut(response, reply.status, headers, start.bytes, cut)
  response.writeHead(reply.status, headers)
  await pipeline(bytesOf(start), response)
  reply.onSent?.()
}

/** Reads the beginning of a body. `rest`: the following chunks; null: `bytes` is the whole body. */
const readStart = async (body: Reply['body']) => {
  const iterator = Symbol.asyncIterator in body ? body[Symbol.asyncIterator]() : body[Symbol.iterator]()
  const chunks: Buffer[] = []
  let length = 0
  while (length < measuredBytes) {
    const next = await iterator.next()
    if (next.done === true) return { bytes: Buffer.concat(chunks), rest: null }
    chunks.push(next.value)
    length += next.value.length
  }
  return { bytes: Buffer.concat(chunks), rest: iterator }
}

async function* bytesOf({ bytes, rest }: Awaited<ReturnType<typeof readStart>>): AsyncGenerator<Buffer> {
  yield bytes
  try {
    for (let next = await rest?.next(); next !== undefined && next.done !== true; next = await rest?.next()) yield next.value
  } finally {
    await rest?.return?.()
  }
}

const sendCut = async (
  response: ServerResponse,
  status: number,
  headers: Record<string, string | number>,
  bytes: Buffer,
  cut: Fault,
): Promise<void> => {
  const part = bytes.subarray(0, Math.min(cut.bytes ?? Math.floor(bytes.length / 2), bytes.length))
  const mode = cut.kind === 'reset-mid-body' ? 'reset' : (cut.mode ?? 'length')
  if (mode === 'silent') {
    response.writeHead(status, { ...headers, 'content-length': part.length })
    response.end(part)
    return
  }
  if (mode === 'chunked') delete headers['content-length']
  response.writeHead(status, headers)
  response.flushHeaders()
  await new Promise<void>((resolve) => response.write(part, () => resolve()))
  if (mode === 'reset') {
    await sleep(beforeResetMs)
    response.socket?.resetAndDestroy()
  } else response.socket?.end()
}
