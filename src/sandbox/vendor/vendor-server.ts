// `millrace sandbox --like vendor`: a service that follows the documentation and measurements of other users, for tests of the client.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { addWindows } from '../../core/window.ts'
import { addMonths, monthsBetween } from '../publication-calendar.ts'
import { readJson } from '../request-body.ts'
import { closeServer, listenOn } from '../sandbox-server.ts'
import { createRateBucket } from '../service.ts'
import { credits, describe, readReport, readShopper, status, submit, userCredits, validate } from './vendor-batch.ts'
import { openBooks, type VendorBooks } from './vendor-books.ts'
import { keywordRecords, quarters } from './vendor-data.ts'
import { readVendorOptions, type VendorOptions, type VendorSettings } from './vendor-options.ts'
import type { Price } from './vendor-prices.ts'
import * as words from './vendor-words.ts'
import { jsonReply, type VendorReply } from './vendor-words.ts'

export interface VendorRequest {
  readonly method: string
  readonly url: URL
  readonly body: unknown
  readonly header: string
}

export interface Answering {
  readonly settings: VendorSettings
  readonly books: VendorBooks
  readonly linkBase: string
}

type HasKey = (settings: VendorSettings, asked: VendorRequest) => boolean
export type Answer = (of: Answering, asked: VendorRequest, id: string) => VendorReply
type Endpoint = VendorSettings['replies'][number]['endpoint']
export type Route = readonly [method: 'GET' | 'POST', path: RegExp, endpoint: Endpoint, hasKey: HasKey, answer: Answer]

const inQuery: HasKey = ({ restKey }, { url }) => url.searchParams.get('api_key') === restKey
const inHeader: HasKey = ({ batchKey }, { header }) => header === batchKey
const none = (): boolean => true

export type VendorSandbox = Awaited<ReturnType<typeof startVendorSandbox>>

export const buy =
  (read: typeof readReport): Answer =>
  ({ settings, books }, { body }) =>
    submit(settings, books, read(settings, body), body, read === readShopper)
export const price: Answer = ({ settings }, { body }) => validate(settings, readReport(settings, body))
export const stateOf: Answer = ({ books, linkBase }, _, id) => status(books, id, linkBase)

const routes: readonly Route[] = [
  [
    'GET',
    /^\/v4\/website-analysis\/keywords$/,
    'keywords',
    inQuery,
    ({ settings, books }, { url }) => keywords(settings, books, url.searchParams),
  ],
  ['GET', /^\/capabilities$/, 'free', inQuery, ({ settings, books }) => capabilities(settings, books)],
  ['GET', /^\/user-capabilities$/, 'free', inQuery, ({ settings, books }) => userCapabilities(settings, books)],
  ['POST', /^\/batch\/v4\/request-report$/, 'submit', inHeader, buy(readReport)],
  ['POST', /^\/v3\/batch\/shopper\/request-report$/, 'shopper', inHeader, buy(readShopper)],
  ['POST', /^\/batch\/v4\/request-validate$/, 'free', inHeader, price],
  ['GET', /^\/v3\/batch\/request-status\/([^/]+)$/, 'status', inHeader, stateOf],
  ['GET', /^\/v3\/batch\/credits$/, 'free', inHeader, ({ books }) => credits(books)],
  ['GET', /^\/v3\/batch\/user-credits$/, 'free', inHeader, ({ settings, books }) => userCredits(settings, books)],
  ['GET', /^\/v3\/batch\/tables\/describe$/, 'free', inHeader, ({ settings }) => describe(settings)],
  ['GET', /^\/files\/([0-9a-f-]{36})\.(?:csv|json)$/, 'download', none, ({ books }, _, id) => download(books, id)],
]

const download = (books: VendorBooks, id: string): VendorReply => {
  const report = books.reports.get(id)
  if (report === undefined) return { status: 403, type: 'application/xml', body: '<Error><Code>AccessDenied</Code></Error>' }
  report.downloads += 1
  return { status: 200, type: report.format === 'csv' ? 'text/csv' : 'application/json', body: report.text }
}

type Reply = VendorReply & { readonly headers?: Readonly<Record<string, string>> }

/** The reply with replaced fields; null removes a field, `"$name"` stands for the real value of that name. */
const merged = (reply: VendorReply, fields: Readonly<Record<string, unknown>>): VendorReply => {
  const real: Readonly<Record<string, unknown>> = JSON.parse(reply.body)
  const named = JSON.stringify(fields).replaceAll(/"\$(\w+)"/g, (_, name: string) => JSON.stringify(real[name] ?? null))
  const body: Record<string, unknown> = { ...real, ...JSON.parse(named) }
  for (const [name, value] of Object.entries(fields)) if (value === null) delete body[name]
  return jsonReply(reply.status, body)
}

/** Throws CONFIGURATION naming every wrong option. @param more further routes, for tests */
export const startVendorSandbox = async (options: VendorOptions = {}, more: readonly Route[] = []) => {
  let settings = readVendorOptions(options)
  let given: VendorOptions = options
  const books = openBooks(() => settings)
  const bucket = createRateBucket(() => performance.now())
  const answer = (asked: VendorRequest, linkBase: string): Reply => {
    const found = [...routes, ...more].find(([method, path]) => method === asked.method && path.test(asked.url.pathname))
    if (asked.url.pathname === '/_vendor/books') return jsonReply(200, { ...books, reports: [...books.reports.values()] })
    if (asked.url.search.includes(settings.restKey) || asked.url.search.includes(settings.batchKey)) books.keysInUrls += 1
    if (found === undefined) return jsonReply(404, { message: 'Not Found' })
    const [, path, endpoint, hasKey, answerTo] = found
    books.counts[endpoint] = (books.counts[endpoint] ?? 0) + 1
    const id = path.exec(asked.url.pathname)?.[1] ?? ''
    // For a report's status and download, `match` also sees the body with which the report was submitted.
    const text = `${asked.url.pathname}${asked.url.search} ${JSON.stringify(asked.body ?? books.reports.get(id)?.body ?? null)}`
    const place = settings.replies.findIndex(
      (one, index) =>
        one.endpoint === endpoint && one.match.every((part) => text.includes(part)) && (books.replaced[index] ?? 0) < one.times,
    )
    const instead = settings.replies[place]
    if (instead !== undefined) books.replaced[place] = (books.replaced[place] ?? 0) + 1
    if (instead !== undefined && instead.merge === undefined) return instead
    // Batch limits only pending reports, not the request rate (fact 53).
    const isRest = endpoint === 'keywords' || path.source.includes('capabilities')
    if (isRest && !bucket.take(settings.requestsPerSecond).ok) return words.tooManyRequests
    const reply = hasKey(settings, asked) ? answerTo({ settings, books, linkBase }, asked, id) : words.badKey
    return instead?.merge === undefined ? reply : merged(reply, instead.merge)
  }
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await readJson(request)
    const linkBase = `http://${request.headers.host ?? '127.0.0.1'}`
    const url = new URL(request.url ?? '/', linkBase)
    const header = String(request.headers['api-key'] ?? '')
    const reply = answer({ method: request.method ?? 'GET', url, body, header }, linkBase)
    const length = Buffer.byteLength(reply.body)
    response.writeHead(reply.status, { 'content-type': reply.type, 'content-length': length, ...reply.headers })
    response.end(reply.body)
  }
  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.destroy())
  })
  const port = await listenOn(server, settings.port)
  return {
    url: `http://127.0.0.1:${port}`,
    apiKey: settings.restKey,
    books,
    /** Changes options of the running sandbox. Throws CONFIGURATION. */
    configure: (patch: VendorOptions): void => {
      given = { ...given, ...patch }
      settings = readVendorOptions(given)
      if (patch.replies !== undefined) books.replaced.length = 0
    },
    close: () => closeServer(server),
  }
}

/** Measured: 13 for a page of 100 (fact 44). */
const keywordPrice: Price = { by: 'rows-asked', credits: 0.13 }

/** Whether the service accepts the text as a domain; it refuses `CNN.COM` and paths (fact 60). */
const isDomain = (text: string): boolean => /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(text) && !text.startsWith('www.')

const lastDay = (month: string): string => addWindows(`${addMonths(month, 1)}-01`, 'day', -1)

/** The refusal of a span of dates; null: accepted. */
const datesRefused = (settings: VendorSettings, from: string, to: string): VendorReply | null => {
  const { newestMonth, oldestMonth, keywordMonths } = settings
  const isOutside = from < oldestMonth || to > newestMonth || from > to
  return isOutside || monthsBetween(from, to).length > keywordMonths ? words.datesNotInRange : null
}

const number = (text: string | null, fallback: number): number => (text !== null && /^\d+$/.test(text) ? Number(text) : fallback)

export const keywords = (settings: VendorSettings, books: VendorBooks, query: URLSearchParams): VendorReply => {
  const { plan } = settings
  const [domain, country] = [query.get('URL') ?? '', query.get('country') ?? '']
  if (plan.tables !== null && !plan.tables.includes('keywords')) return words.forbidden
  if (plan.countries !== null && !plan.countries.includes(country.toLowerCase())) return words.countryLacks(domain.length)
  const from = query.get('start_date') ?? settings.newestMonth
  const to = query.get('end_date') ?? from
  const refused = datesRefused(settings, from, to)
  if (refused !== null) return refused
  const count = settings.keywordsByDomain[domain] ?? settings.keywords
  if (!isDomain(domain) || count === 0) return words.dataNotFound
  if (plan.domains !== null && !plan.domains.includes(domain)) return words.forbidden
  return page(settings, books, query, { domain, country, count, ...(settings.widens ? quarters({ from, to }) : { from, to }) })
}

type KeywordPage = Readonly<Record<'domain' | 'country' | 'from' | 'to', string>> & { readonly count: number }

const page = (settings: VendorSettings, books: VendorBooks, query: URLSearchParams, asked: KeywordPage): VendorReply => {
  const limit = number(query.get('limit'), 100)
  const offset = number(query.get('offset'), 0)
  const records = keywordRecords({ ...asked, month: asked.from }, settings.seed, offset, Math.min(offset + limit, asked.count))
  const size = { rowsAsked: limit, rows: records.length, metrics: 13, periods: monthsBetween(asked.from, asked.to).length }
  const credits = books.charge(
    'rest',
    `keywords ${asked.domain} ${asked.country} ${asked.from}`,
    settings.prices['keywords'] ?? keywordPrice,
    size,
  )
  if (credits === null) return words.keyOrCredits
  return jsonReply(200, {
    meta: {
      request: {
        traffic_source: query.get('traffic_source') ?? 'All',
        branded_type: query.get('branded_type') ?? 'All',
        web_source: query.get('web_source') ?? 'Total',
        page_search_type: 'Domain',
        domain: asked.domain,
        format: 'json',
        start_date: `${asked.from}-01`,
        end_date: lastDay(asked.to),
        country: asked.country,
      },
      query: { limit, offset, asc: null, sort: null },
      status: 'Success',
      last_updated: lastDay(settings.newestMonth),
      ...(settings.bill === 'balance' ? {} : { [settings.bill]: credits }),
    },
    keywords: records,
    keywords_count: asked.count,
  })
}

/** Credits left, months and countries; free (fact 17). */
const capabilities = (settings: VendorSettings, books: VendorBooks): VendorReply => {
  const codes = settings.plan.countries ?? ['world', 'us', 'gb', 'de', 'fr', 'jp']
  const family = {
    snapshot_interval: { start_date: `${settings.oldestMonth}-01`, end_date: lastDay(settings.newestMonth) },
    countries: codes.map((code) => ({ code, name: code })),
  }
  return jsonReply(200, { remaining_hits: books.left('rest'), web_desktop_data: family, web_mobile_data: family })
}

const userCapabilities = ({ purses }: VendorSettings, books: VendorBooks): VendorReply =>
  jsonReply(200, { allowance: purses.rest, user_remaining: books.left('rest') })
