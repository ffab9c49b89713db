// Starts and stops the sandbox: the service of the interface on 127.0.0.1, with synthetic data and switchable faults. Its own endpoints under /_sandbox/ need
// no key, because it listens only on this machine.
import { docPage } from '../core/shipped.ts'
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { isEtlError, messageOf, settingError } from '../core/errors.ts'
import { worldOf } from './batch-endpoints.ts'
import { faultSchema } from './fault-kinds.ts'
import { handle, type Listener } from './handle.ts'
import type { KeywordQuery } from './keyword-data.ts'
import { rowsOf, viewOf } from './keyword-endpoint.ts'
import { json, type Reply } from './reply.ts'
import type { ReportQuery, ReportWorld, TableQuery } from './report-query.ts'
import { reportRows, shapeOf } from './report-rows.ts'
import { readJson } from './request-body.ts'
import { month, problems, type SandboxOptions, type Settings } from './sandbox-options.ts'
import { send } from './send.ts'
import { createService, type Service } from './service.ts'

export type { Books } from './service.ts'
export type { Fault } from './fault-kinds.ts'
export type { SandboxOptions } from './sandbox-options.ts'

export type Sandbox = Awaited<ReturnType<typeof startSandbox>>

const host = '127.0.0.1'

/** Throws CONFIGURATION where an option is wrong or the port is taken. */
export const startSandbox = async (options: SandboxOptions = {}) => {
  const service = createService(options)
  const { port, downloadHost } = service.settings()
  const servers: Server[] = []
  let linkBase = ''
  const open = async (at: number, listener: Listener): Promise<number> => {
    const server = createServer(listen(service, listener, () => linkBase))
    servers.push(server)
    return listenOn(server, at)
  }
  const mainPort = await open(port, { api: true, downloads: !downloadHost })
  const url = `http://${host}:${mainPort}`
  linkBase = downloadHost ? `http://${host}:${await open(0, { api: false, downloads: true })}` : url
  return {
    /** Base URL of the service, without a slash at the end. */
    url,
    port: mainPort,
    apiKey: service.settings().apiKey,
    /** Base URL of download links: another port with `downloadHost`, else the same address. */
    downloadUrl: linkBase,
    /** A copy of what happened so far. */
    books: service.books,
    /** Changes options of the running sandbox; counters of new faults start at 0. Throws CONFIGURATION. */
    configure: (patch: SandboxOptions) => service.configure(patch),
    /** Restates the month, as the service does to correct its data. */
    restate: service.calendar.restate,
    changeMethod: service.calendar.changeMethod,
    /** The correct data behind the answers, for tests of a client. */
    truth: truthOf(service),
    /** Closes all connections at once. Idempotent. */
    close: async (): Promise<void> => {
      service.webhooks.close()
      await Promise.all(servers.map(closeServer))
    },
  }
}

/** The JSON event of the command once the sandbox listens. */
export const listeningEvent = ({ url, apiKey }: { readonly url: string; readonly apiKey: string }) => ({
  ...{ event: 'listening', url, api_key: apiKey },
})

/** Instructions for people, as lines. */
export const usageOf = ({ url, apiKey, downloadUrl }: Sandbox): readonly string[] => [
  `The service, with synthetic data, at ${url} (this machine only). Key: ${apiKey}`,
  ...(downloadUrl === url ? [] : [`Downloads at ${downloadUrl}`]),
  '',
  'Try:',
  `  curl '${url}/v4/website-analysis/keywords?api_key=${apiKey}&URL=example.com&country=us&limit=3'`,
  `  WEB_ANALYTICS_BASE_URL=${url} WEB_ANALYTICS_API_KEY=${apiKey} npx millrace check`,
  `  curl ${url}/_sandbox/books            what was asked and bought`,
  `  curl -X PUT -d '[{"kind":"status-500","nth":3}]' ${url}/_sandbox/faults`,
  `Options and faults: ${docPage('sandbox-reference.md')}. Ctrl-C ends it.`,
]

const listen = (service: Service, listener: Listener, linkBase: () => string): RequestListener => {
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.on('error', () => response.destroy())
    if (!URL.canParse(request.url ?? '/', 'http://sandbox'))
      return send(response, json(400, { errors: ['The address is not valid'] }), null)
    const { url, caller } = callerOf(new URL(request.url ?? '/', 'http://sandbox'))
    if (listener.api && url.pathname.startsWith('/_sandbox/'))
      return send(response, await control(service, request, url.pathname), null)
    await handle(service, { request, response, url, caller }, listener, linkBase())
  }
  return (request, response) => {
    respond(request, response).catch((error: unknown) => {
      // A client that disconnects is no error; any other error is a defect and must not look like an answer of the service.
      if (response.headersSent || response.destroyed) response.destroy()
      else
        send(response, json(500, { errors: [`The sandbox failed: ${messageOf(error)}`] }), null).catch(() => response.destroy())
    })
  }
}

/** Several clients of one sandbox are told apart by the path of their base address: /as/NAME. */
const callerOf = (url: URL): { url: URL; caller: string | null } => {
  const [whole, name] = /^\/as\/([\w-]+)(?=\/)/.exec(url.pathname) ?? []
  if (whole === undefined || name === undefined) return { url, caller: null }
  const rest = new URL(url)
  rest.pathname = url.pathname.slice(whole.length)
  return { url: rest, caller: name }
}

export const listenOn = (server: Server, port: number): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      const why = cause.code === 'EADDRINUSE' ? 'is taken' : `cannot be used (${cause.message})`
      reject(settingError(`Port ${port} on ${host} ${why}. Choose another with --port, or 0 for any free one.`, cause))
    })
    server.listen(port, host, () => {
      const address = server.address()
      resolve(address === null || typeof address === 'string' ? port : address.port)
    })
  })

export const closeServer = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

/** A report's row by column, spelled as in its file; null where there is no value. */
export type SoldRow = Readonly<Record<string, string | null>>

const truthOf = (service: Service) => ({
  /** The rows that a report of this table would have if it were bought now. */
  report: (table: TableQuery): readonly SoldRow[] =>
    rows({ kind: table.vtable === null ? 'shopper' : 'report', format: 'csv', tables: [table] }, worldOf(service)),
  /** The rows of a bought report, without faults of its content; null: no such report. */
  sold: (reportId: string): readonly SoldRow[] | null => {
    const report = service.reports.get(reportId)
    if (report === null) return null
    return report.content.has('empty-report') ? [] : rows(report.query, report.world)
  },
  /** All records of a keyword query now, in the order of the answer. */
  keywords: (query: KeywordQuery): readonly Readonly<Record<string, unknown>>[] => {
    if (rowsOf(service, query.domain) === 0) return []
    const view = viewOf(service, query)
    return Array.from({ length: view.count }, (_, index): Record<string, unknown> => JSON.parse(view.record(index)))
  },
})

const rows = (query: ReportQuery, world: ReportWorld): SoldRow[] => {
  const { keys, metrics } = shapeOf(query)
  const names = [...keys, ...metrics]
  return [...reportRows(query, world)].map((row) => Object.fromEntries(names.map((name, index) => [name, row[index] ?? null])))
}

const restateSchema = z.strictObject({ month, domain: z.string().optional() })

type Action = (service: Service, body: unknown) => unknown

const actions: Readonly<Record<string, Action>> = {
  'GET /_sandbox/books': (service) => service.books(),
  'DELETE /_sandbox/books': (service) => {
    service.clearBooks()
    return service.books()
  },
  'GET /_sandbox/options': (service) => shown(service.settings()),
  'PATCH /_sandbox/options': (service, body) => {
    service.configure(z.record(z.string(), z.unknown()).parse(body))
    return shown(service.settings())
  },
  'GET /_sandbox/faults': (service) => service.settings().faults,
  'PUT /_sandbox/faults': (service, body) => {
    service.configure({ faults: z.array(faultSchema).parse(body) })
    return service.settings().faults
  },
  'DELETE /_sandbox/faults': (service) => {
    service.configure({ faults: [] })
    return []
  },
  'POST /_sandbox/release': async (service, body) => {
    const { event = 'Monthly', date } = releaseSchema.parse(body) ?? {}
    return { sent: await service.webhooks.release(event, date) }
  },
  'POST /_sandbox/method': (service, body) => {
    const { from, change } = methodSchema.parse(body)
    service.calendar.changeMethod(from, change)
    return { from, change }
  },
  'POST /_sandbox/restate': (service, body) => {
    const { month, domain } = restateSchema.parse(body)
    service.calendar.restate(month, domain)
    return { month, domain: domain ?? 'every domain', last_updated: service.calendar.lastUpdated([month], domain ?? '') }
  },
}

const methodSchema = z.strictObject({ from: month, change: z.number().gt(-1) })

const releaseSchema = z.strictObject({ event: z.enum(['Monthly', 'Daily']).optional(), date: z.iso.date().optional() }).optional()

const shown = ({ apiKey, batchApiKey, now, ...rest }: Settings): unknown => ({
  ...rest,
  batchApiKey: batchApiKey === null || batchApiKey === apiKey ? 'the same' : 'its own',
  now: typeof now === 'function' ? 'a function' : now,
})

const control = async (service: Service, request: IncomingMessage, path: string): Promise<Reply> => {
  const action = actions[`${request.method} ${path}`]
  if (action === undefined) return json(404, { errors: [`There are ${Object.keys(actions).join(', ')}`] })
  const body = await readJson(request)
  try {
    return json(200, await action(service, body))
  } catch (error) {
    if (error instanceof z.ZodError) return json(400, { errors: [problems(error)] })
    if (isEtlError(error)) return json(400, { errors: [error.message] })
    throw error
  }
}
