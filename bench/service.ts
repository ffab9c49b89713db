// A service that costs almost nothing: bodies made beforehand, sent as they lie. A process of its own, told what to send by messages.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { keywordPages } from './bodies.ts'
import { type answerSchema, type Order, orderSchema } from './service-messages.ts'

const submission = z.looseObject({
  report_query: z.looseObject({ tables: z.array(z.looseObject({ vtable: z.string(), start_date: z.string() })).min(1) }),
})

const state = {
  files: new Map<string, string>(),
  bodies: new Map<string, Buffer>(),
  pages: [] as Buffer[],
  perPage: 100,
  delayMs: 0,
  requestsPerSecond: null as number | null,
  arrivals: [] as number[],
  refused: 0,
}

/** Larger bodies are read from the file as they are sent. */
const pieceBytes = 256 * 1024

const json = (response: ServerResponse, body: Buffer | string, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
  response.end(body)
}

const sendBody = async (response: ServerResponse, report: string): Promise<void> => {
  const file = state.files.get(report)
  if (file === undefined) return json(response, '{}', 404)
  let body = state.bodies.get(file)
  if (body === undefined) {
    body = readFileSync(file)
    state.bodies.set(file, body)
  }
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  response.writeHead(200, { 'content-type': 'text/csv', 'content-length': body.length })
  for (let start = 0; start < body.length; start += pieceBytes) {
    if (!response.write(body.subarray(start, start + pieceBytes)))
      await once(response, 'drain', { signal: gone.signal }).catch(() => undefined)
    if (response.destroyed) return
  }
  response.end()
}

const textOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

/** Counted over any sliding second, as the service does. */
const tooFast = (now: number): boolean => {
  const limit = state.requestsPerSecond
  state.arrivals.push(now)
  return limit !== null && state.arrivals.filter((at) => at > now - 1000).length > limit
}

const keywordPage = async (response: ServerResponse, url: URL): Promise<void> => {
  if (tooFast(performance.now())) {
    state.refused += 1
    return json(response, '{}', 429)
  }
  if (state.delayMs > 0) await sleep(state.delayMs)
  const offset = Number(url.searchParams.get('offset') ?? 0)
  json(response, state.pages[Math.floor(offset / state.perPage)] ?? '{"keywords":[]}')
}

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const url = new URL(request.url ?? '/', `http://${request.headers.host}`)
  if (url.pathname.endsWith('/keywords')) return keywordPage(response, url)
  if (url.pathname.startsWith('/body/')) return sendBody(response, url.pathname.slice('/body/'.length))
  if (url.pathname.includes('/request-status/')) {
    const report = url.pathname.split('/').at(-1) ?? ''
    return json(
      response,
      JSON.stringify({ status: 'completed', used_quota: 1, download_url: `${url.origin}/body/${report.split('.')[0]}` }),
    )
  }
  if (url.pathname.endsWith('/request-report')) {
    const [table] = submission.parse(JSON.parse(await textOf(request))).report_query.tables
    // The final word at once: waiting for a service is not what is measured here.
    const report_id = `${table?.vtable}-${table?.start_date}.${Math.random().toString(36).slice(2)}`
    return json(response, JSON.stringify({ report_id, status: 'completed' }))
  }
  json(response, '{}', 404)
}

const obey = (order: Order): z.infer<typeof answerSchema> => {
  if (order.do === 'arrivals') return { arrivals: state.arrivals, refused: state.refused }
  if (order.do === 'reports') {
    state.files = new Map(Object.entries(order.files))
    for (const file of state.bodies.keys()) if (![...state.files.values()].includes(file)) state.bodies.delete(file)
    for (const file of state.files.values()) if (!state.bodies.has(file)) state.bodies.set(file, readFileSync(file))
    return {}
  }
  if (state.pages.length !== order.pages || state.perPage !== order.perPage)
    state.pages = keywordPages(order.pages, order.perPage)
  Object.assign(state, {
    perPage: order.perPage,
    delayMs: order.delayMs,
    requestsPerSecond: order.requestsPerSecond,
    arrivals: [],
    refused: 0,
  })
  return {}
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => json(response, JSON.stringify({ error: String(error) }), 500))
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  process.send?.({ port: typeof address === 'object' && address !== null ? address.port : 0 })
})
process.on('message', (order) => process.send?.(obey(orderSchema.parse(order))))
process.on('disconnect', () => process.exit(0))
