// Puts a reply on the wire, whole or the way a fault wants it. A large body is made as the client takes it.
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault-kinds.ts'
import type { Reply } from './reply.ts'

/** Bodies up to here carry a Content-Length; larger ones are chunked. */
const measuredBytes = 4 * 1024 * 1024
/** What the other side may need to read what was written before a reset throws it away. */
const beforeResetMs = 30

/** @param cut a `truncate-body` or `reset-mid-body` fault, or null. Resolves when all that will be sent is sent. */
export const send = async (response: ServerResponse, reply: Reply, cut: Fault | null): Promise<void> => {
  const start = await readStart(reply.body)
  const headers: Record<string, string | number> = { ...reply.headers }
  if (start.rest === null) headers['content-length'] = start.bytes.length
  if (cut !== null) return sendCut(response, reply.status, headers, start.bytes, cut)
  response.writeHead(reply.status, headers)
  if (start.rest === null) response.end(start.bytes)
  else if (await sendRest(response, start.bytes, start.rest)) response.end()
  else return
  if (await finished(response)) reply.onSent?.()
}

interface Start {
  readonly bytes: Buffer
  /** What follows; null where `bytes` is all. */
  readonly rest: AsyncIterator<Buffer> | Iterator<Buffer> | null
}

const readStart = async (body: Reply['body']): Promise<Start> => {
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

/** False: the client went away. */
const sendRest = async (response: ServerResponse, first: Buffer, rest: NonNullable<Start['rest']>): Promise<boolean> => {
  let chunk: Buffer | null = first
  while (chunk !== null) {
    if (response.destroyed) {
      await rest.return?.()
      return false
    }
    if (!response.write(chunk)) await either(response, 'drain')
    const next = await rest.next()
    chunk = next.done === true ? null : next.value
  }
  return !response.destroyed
}

/** The event, or the end of the connection; leaves no listener behind. */
const either = (response: ServerResponse, event: 'drain' | 'finish'): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      response.off(event, done)
      response.off('close', done)
      resolve()
    }
    response.once(event, done)
    response.once('close', done)
  })

const finished = async (response: ServerResponse): Promise<boolean> => {
  if (!response.writableFinished && !response.destroyed) await either(response, 'finish')
  return response.writableFinished
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
