// An outside server that follows the interface to the letter, with only the endpoints it shows; independent of the sandbox.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { addMonths } from '../../src/sandbox/publication-calendar.ts'

export interface KeywordRecord {
  readonly keyword: string
  readonly top_url: string
  readonly [field: string]: unknown
}

export interface StrictOptions {
  readonly key: string
  /** Records of one domain, country and month (`2026-01`), in the order they are paged. */
  readonly keywords: (domain: string, country: string, month: string) => readonly KeywordRecord[]
  /** Body of a report; gets the request as it was sent. */
  readonly report: (request: Readonly<Record<string, unknown>>, kind: 'report' | 'shopper') => string
  /** Polls answered `pending` before a report is finished. Default 1. */
  readonly pendingPolls?: number
  readonly finalWord?: 'complete' | 'completed'
  readonly lastUpdated?: () => string
  /** Looks at each request first; true: it has answered. */
  readonly intercept?: (request: IncomingMessage, response: ServerResponse, body: string) => boolean | Promise<boolean>
}

export interface Bought {
  readonly id: string
  readonly kind: 'report' | 'shopper'
  readonly body: Readonly<Record<string, unknown>>
  polls: number
  downloads: number
}

export interface StrictService {
  readonly url: string
  readonly bought: Bought[]
  readonly requests: { method: string; path: string; search: string; keyAtDownload: boolean }[]
  close(): Promise<void>
}

/** `2026-01`, `2026-02` ...: the months a report was asked for. */
export const monthsAsked = (table: Readonly<Record<string, unknown>>): string[] => {
  const [first, last] = [String(table['start_date']), String(table['end_date'])]
  const months: string[] = []
  for (let month = first; month <= last; month = addMonths(month, 1)) months.push(month)
  return months
}

const readBody = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

const send = (response: ServerResponse, status: number, body: unknown): void => {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

const metricsOf = (body: Readonly<Record<string, unknown>>): number => {
  const asked = /"metrics":\[([^\]]*)\]/.exec(JSON.stringify(body))?.[1] ?? ''
  return Math.max(1, asked.split(',').length)
}

/** Different records without the header: a service that sends one twice has counted it once. A quoted cell may hold line ends. */
const rowsOf = (csv: string): number => {
  const [, ...records] = csv
    .replaceAll(/"(?:[^"]|"")*"/g, (cell) => JSON.stringify(cell))
    .trimEnd()
    .split(/\r\n|\r|\n/)
  return new Set(records).size
}

export const startStrictService = async (options: StrictOptions): Promise<StrictService> => {
  const bought: Bought[] = []
  const requests: StrictService['requests'] = []
  const server: Server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) =>
      response.destroy(error instanceof Error ? error : new Error(String(error))),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  const base = `http://127.0.0.1:${address.port}`

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', base)
    const body = await readBody(request)
    const isDownload = url.pathname.startsWith('/files/')
    requests.push({
      method: request.method ?? '',
      path: url.pathname,
      search: url.search,
      keyAtDownload: isDownload && (request.headers['api-key'] !== undefined || url.search.includes(options.key)),
    })
    if (await options.intercept?.(request, response, body)) return
    if (request.method === 'GET' && url.pathname === '/v4/website-analysis/keywords') return keywords(url, response)
    if (isDownload) return download(url, response)
    if (request.headers['api-key'] !== options.key) return send(response, 401, { errors: ['invalid API key'] })
    if (request.method === 'POST' && url.pathname === '/batch/v4/request-report') return submit('report', body, response)
    if (request.method === 'POST' && url.pathname === '/v3/batch/shopper/request-report') return submit('shopper', body, response)
    if (request.method === 'GET' && url.pathname.startsWith('/v3/batch/request-status/')) return status(url, response)
    send(response, 404, { message: 'no such path' })
  }

  const keywords = (url: URL, response: ServerResponse): void => {
    const query = url.searchParams
    if (query.get('api_key') !== options.key) {
      response.writeHead(401, { 'content-type': 'text/plain' })
      response.end('invalid API key')
      return
    }
    const domain = query.get('URL') ?? ''
    const country = query.get('country') ?? ''
    const month = query.get('start_date') ?? ''
    const limit = Number(query.get('limit') ?? 100)
    const offset = Number(query.get('offset') ?? 0)
    const all = options.keywords(domain, country, month)
    send(response, 200, {
      meta: {
        query: { limit, offset, asc: null, sort: null },
        request: {
          traffic_source: query.get('traffic_source') ?? 'All',
          branded_type: query.get('branded_type') ?? 'All',
          web_source: query.get('web_source') ?? 'Total',
          page_search_type: 'Domain',
          domain,
          format: 'json',
          start_date: `${month}-01`,
          end_date: `${month}-28`,
          country,
        },
        status: 'Success',
        last_updated: options.lastUpdated?.() ?? '2026-11-10',
      },
      keywords: all.slice(offset, offset + limit),
      keywords_count: all.length,
    })
  }

  const submit = (kind: 'report' | 'shopper', body: string, response: ServerResponse): void => {
    const report: Bought = { id: randomUUID(), kind, body: JSON.parse(body) as Record<string, unknown>, polls: 0, downloads: 0 }
    bought.push(report)
    send(response, 200, { report_id: report.id, status: 'pending' })
  }

  const status = (url: URL, response: ServerResponse): void => {
    const report = bought.find(({ id }) => url.pathname.endsWith(id))
    if (report === undefined) {
      send(response, 404, { message: 'unknown report' })
      return
    }
    report.polls += 1
    const pending = report.polls <= (options.pendingPolls ?? 1)
    send(
      response,
      200,
      pending
        ? { status: 'pending' }
        : {
            status: options.finalWord ?? 'completed',
            download_url: `${base}/files/${report.id}.csv?signature=abc`,
            // Cells, as the sandbox counts them.
            data_points_count: rowsOf(options.report(report.body, report.kind)) * metricsOf(report.body),
            used_quota: 3,
          },
    )
  }

  const download = (url: URL, response: ServerResponse): void => {
    const report = bought.find(({ id }) => url.pathname.includes(id))
    if (report === undefined) {
      send(response, 404, { message: 'gone' })
      return
    }
    report.downloads += 1
    const text = options.report(report.body, report.kind)
    response.writeHead(200, { 'content-type': 'text/csv', 'content-length': Buffer.byteLength(text) })
    response.end(text)
  }

  return {
    url: base,
    bought,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
