// `millrace sandbox --like vendor`: the service as its documentation and others' measurements describe it, to hold the client against.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { readJson } from '../request-body.ts'
import { closeServer, listenOn } from '../sandbox-server.ts'
import { createRateBucket } from '../service.ts'
import { credits, describe, readReport, readShopper, status, submit, userCredits, validate } from './vendor-batch.ts'
import { openBooks, type VendorBooks } from './vendor-books.ts'
import { readVendorOptions, type VendorOptions } from './vendor-options.ts'
import { capabilities, keywords, userCapabilities } from './vendor-rest.ts'
import type { Asked, Route } from './vendor-route.ts'
import { routesV5 } from './vendor-v5.ts'
import * as words from './vendor-words.ts'
import { jsonReply, type VendorReply } from './vendor-words.ts'

export interface VendorSandbox {
  readonly url: string
  readonly apiKey: string
  readonly books: VendorBooks
  /** Changes options while it runs. Throws CONFIGURATION. */
  configure(patch: VendorOptions): void
  close(): Promise<void>
}

/** A batch answer, for those who show the batch key. */
const batch =
  (answer: Route['answer']): Route['answer'] =>
  (of, asked, id) =>
    asked.header === of.settings.batchKey ? answer(of, asked, id) : words.badKey

const routes: readonly Route[] = [
  {
    path: /^\/v4\/website-analysis\/keywords$/,
    method: 'GET',
    endpoint: 'keywords',
    answer: ({ settings, books }, { url }) => keywords(settings, books, url.searchParams),
  },
  {
    path: /^\/capabilities$/,
    method: 'GET',
    endpoint: 'free',
    answer: ({ settings, books }, { url }) => capabilities(settings, books, url.searchParams),
  },
  {
    path: /^\/user-capabilities$/,
    method: 'GET',
    endpoint: 'free',
    answer: ({ settings, books }, { url }) => userCapabilities(settings, books, url.searchParams),
  },
  {
    path: /^\/batch\/v4\/request-report$/,
    method: 'POST',
    endpoint: 'submit',
    answer: batch(({ settings, books }, { body }) => submit(settings, books, readReport(settings, body), body, false)),
  },
  {
    path: /^\/v3\/batch\/shopper\/request-report$/,
    method: 'POST',
    endpoint: 'shopper',
    answer: batch(({ settings, books }, { body }) => submit(settings, books, readShopper(settings, body), body, true)),
  },
  {
    path: /^\/batch\/v4\/request-validate$/,
    method: 'POST',
    endpoint: 'free',
    answer: batch(({ settings }, { body }) => validate(settings, readReport(settings, body))),
  },
  {
    path: /^\/v3\/batch\/request-status\/([^/]+)$/,
    method: 'GET',
    endpoint: 'status',
    answer: batch(({ books, linkBase }, _, id) => status(books, id, linkBase)),
  },
  {
    path: /^\/v3\/batch\/credits$/,
    method: 'GET',
    endpoint: 'free',
    answer: batch(({ settings, books }) => credits(settings, books)),
  },
  {
    path: /^\/v3\/batch\/user-credits$/,
    method: 'GET',
    endpoint: 'free',
    answer: batch(({ settings, books }) => userCredits(settings, books)),
  },
  {
    path: /^\/v3\/batch\/tables\/describe$/,
    method: 'GET',
    endpoint: 'free',
    answer: batch(({ settings }) => (settings.describes ? describe(settings) : jsonReply(404, { message: 'Not Found' }))),
  },
  {
    path: /^\/files\/([0-9a-f-]{36})\.(?:csv|json)$/,
    method: 'GET',
    endpoint: 'download',
    answer: ({ books }, _, id) => download(books, id),
  },
  ...routesV5,
]

const download = (books: VendorBooks, id: string): VendorReply => {
  const report = books.reports.get(id)
  if (report === undefined) return { status: 403, type: 'application/xml', body: '<Error><Code>AccessDenied</Code></Error>' }
  report.downloads += 1
  return { status: 200, type: report.format === 'csv' ? 'text/csv' : 'application/json', body: report.text }
}

type Reply = VendorReply & { readonly headers?: Readonly<Record<string, string>> }

/** The reply with other fields; null takes one away. */
const merged = (reply: VendorReply, fields: Readonly<Record<string, unknown>>): VendorReply => {
  const body: Record<string, unknown> = { ...JSON.parse(reply.body), ...fields }
  for (const [name, value] of Object.entries(fields)) if (value === null) delete body[name]
  return jsonReply(reply.status, body)
}

/** Throws CONFIGURATION naming every wrong option. */
export const startVendorSandbox = async (options: VendorOptions = {}): Promise<VendorSandbox> => {
  let settings = readVendorOptions(options)
  let given: VendorOptions = options
  const books = openBooks(() => settings)
  const bucket = createRateBucket(() => performance.now())
  const answer = (asked: Asked, linkBase: string): Reply => {
    const found = routes.find(({ path, method }) => method === asked.method && path.test(asked.url.pathname))
    if (asked.url.pathname === '/_vendor/books') return jsonReply(200, { ...books, reports: [...books.reports.values()] })
    if (asked.url.search.includes(settings.restKey) || asked.url.search.includes(settings.batchKey)) books.keysInUrls += 1
    if (found === undefined) return jsonReply(404, { message: 'Not Found' })
    books.counts[found.endpoint] = (books.counts[found.endpoint] ?? 0) + 1
    const id = found.path.exec(asked.url.pathname)?.[1] ?? ''
    // What a report was asked with counts at its status and its file, too.
    const text = `${asked.url.pathname}${asked.url.search} ${JSON.stringify(asked.body ?? books.reports.get(id)?.body ?? null)}`
    const place = settings.replies.findIndex(
      ({ endpoint, match, times }, index) =>
        endpoint === found.endpoint && match.every((part) => text.includes(part)) && (books.replaced[index] ?? 0) < times,
    )
    const instead = settings.replies[place]
    if (instead !== undefined) books.replaced[place] = (books.replaced[place] ?? 0) + 1
    if (instead !== undefined && instead.merge === undefined) return instead
    // Batch counts pending reports alone (fact 53).
    const isRest = found.endpoint === 'keywords' || found.path.source.includes('capabilities')
    if (isRest && !bucket.take(settings.requestsPerSecond).ok) return words.tooManyRequests
    const reply = found.answer({ settings, books, linkBase }, asked, id)
    return instead?.merge === undefined ? reply : merged(reply, instead.merge)
  }
  const server = createServer((request, response) => {
    respond(request, response, answer).catch(() => response.destroy())
  })
  const port = await listenOn(server, settings.port)
  return {
    url: `http://127.0.0.1:${port}`,
    apiKey: settings.restKey,
    books,
    configure: (patch) => {
      given = { ...given, ...patch }
      settings = readVendorOptions(given)
      if (patch.replies !== undefined) books.replaced.length = 0
    },
    close: () => closeServer(server),
  }
}

const respond = async (
  request: IncomingMessage,
  response: ServerResponse,
  answer: (asked: Asked, linkBase: string) => Reply,
): Promise<void> => {
  const body = await readJson(request)
  const linkBase = `http://${request.headers.host ?? '127.0.0.1'}`
  const url = new URL(request.url ?? '/', linkBase)
  const reply = answer({ method: request.method ?? 'GET', url, body, header: String(request.headers['api-key'] ?? '') }, linkBase)
  response.writeHead(reply.status, {
    'content-type': reply.type,
    'content-length': Buffer.byteLength(reply.body),
    ...reply.headers,
  })
  response.end(reply.body)
}
