// What the sandbox's own tests say to it: plain HTTP, nothing of the product's client.
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox-server.ts'

const open: Sandbox[] = []

/** Without a rate limit and with reports that are ready at once, unless told otherwise; `closeAll` ends it. */
export const start = async (options: SandboxOptions = {}): Promise<Sandbox> => {
  const sandbox = await startSandbox({ requestsPerSecond: null, reportDurationMs: 0, now: '2026-06-20', ...options })
  open.push(sandbox)
  return sandbox
}

export const closeAll = async (): Promise<void> => {
  await Promise.all(open.splice(0).map((sandbox) => sandbox.close()))
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export type Body = Readonly<Record<string, unknown>>

export const objectOf = (text: string): Body => {
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null) throw new Error(`not an object: ${text.slice(0, 200)}`)
  return { ...value }
}

const answerOf = async (response: Response): Promise<Answer> => ({
  status: response.status,
  headers: response.headers,
  text: await response.text(),
})

export const keywordQuery = { URL: 'example.com', country: 'us', start_date: '2026-01', end_date: '2026-01' }

export const askKeywords = async (
  { url, apiKey }: Pick<Sandbox, 'url' | 'apiKey'>,
  query: Readonly<Record<string, string>> = {},
): Promise<Answer> =>
  answerOf(
    await fetch(`${url}/v4/website-analysis/keywords?${new URLSearchParams({ api_key: apiKey, ...keywordQuery, ...query })}`),
  )

export const call = async (
  { url, apiKey }: Pick<Sandbox, 'url' | 'apiKey'>,
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> =>
  answerOf(
    await fetch(url + path, {
      method,
      headers: { 'api-key': apiKey, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }),
  )

export const reportBody = (patch: Body = {}, format = 'csv'): Body => ({
  delivery_information: { response_format: format, delivery_method: 'download_link' },
  report_query: {
    tables: [
      {
        vtable: 'traffic_and_engagement',
        granularity: 'monthly',
        filters: {
          domains: ['example.com', 'example.net', 'a.example', 'b.example'],
          countries: ['WW', 'US'],
          include_subdomains: true,
        },
        metrics: ['all_traffic_visits', 'mobile_visits'],
        start_date: '2026-01',
        end_date: '2026-03',
        ...patch,
      },
    ],
  },
})

export const shopperBody = {
  domains: ['example.com'],
  category_ids: [1001, 1002],
  metrics: ['category_sales_performance_revenue', 'category_sales_performance_cvr'],
  start_date: '2026-01',
  end_date: '2026-01',
  granularity: 'monthly',
  response_format: 'csv',
}

/** Submits and returns the id. */
export const buy = async (sandbox: Sandbox, body: Body = reportBody()): Promise<string> => {
  const answer = await call(sandbox, 'POST', '/batch/v4/request-report', body)
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
  return String(objectOf(answer.text)['report_id'])
}

export const statusOf = async (sandbox: Sandbox, id: string): Promise<Body> =>
  objectOf((await call(sandbox, 'GET', `/v3/batch/request-status/${id}`)).text)

/** The link of a report that is ready. */
export const linkOf = async (sandbox: Sandbox, id: string): Promise<string> => {
  const status = await statusOf(sandbox, id)
  if (typeof status['download_url'] !== 'string') throw new Error(`no link: ${JSON.stringify(status)}`)
  return status['download_url']
}

export const download = async (link: string): Promise<Answer> =>
  answerOf(await fetch(link, { headers: { 'accept-encoding': 'identity' } }))

export interface Raw {
  /** null: no reply came. */
  readonly status: number | null
  readonly headers: Readonly<Record<string, unknown>>
  readonly bytes: Buffer
  /** How it ended: the whole body, or the error's code. */
  readonly end: string
}

/** The bytes as they came, also of an answer that broke off. @param giveUpMs ends a wait for an answer that never comes. */
export const raw = (url: string, headers: Readonly<Record<string, string>> = {}, giveUpMs = 5000): Promise<Raw> =>
  new Promise((resolve) => {
    const chunks: Buffer[] = []
    let status: number | null = null
    let seen: Record<string, unknown> = {}
    const finish = (end: string): void => resolve({ status, headers: seen, bytes: Buffer.concat(chunks), end })
    const asked = request(url, { headers, agent: false }, (response) => {
      status = response.statusCode ?? null
      seen = { ...response.headers }
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message))
      response.on('end', () => finish('whole'))
    })
    asked.on('error', (error: NodeJS.ErrnoException) => finish(error.code ?? error.message))
    asked.end()
    sleep(giveUpMs, undefined, { ref: false }).then(() => {
      finish('no answer')
      asked.destroy()
    })
  })
