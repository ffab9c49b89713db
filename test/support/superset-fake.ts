// Superset's REST API as far as provisioning needs it, strict where Superset is: login, CSRF, session, rison, unknown fields, duplicates, bundles.
// It reads the warehouse through the connection it is given, and answers data requests of charts from it.
import { randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { z } from 'zod'
import { readRison } from './read-rison.ts'
import { importBundle } from './superset-import.ts'
import { chartBody, dashboardBody, databaseBody, type Queries, queriesOf } from './superset-schemas.ts'

type Row = Record<string, unknown> & { readonly id: number }
type Kind = 'database' | 'dataset' | 'chart' | 'dashboard'

export interface FakeSuperset {
  readonly url: string
  readonly password: string
  /** What there is now; a chart lists its dashboards. */
  rows(kind: Kind): readonly Row[]
  /** The n-th write from now on is answered with 500, after which all is well again. */
  failWrite(n: number): void
  close(): Promise<void>
}

interface State {
  readonly rows: Record<Kind, Row[]>
  readonly token: string
  readonly csrf: string
  readonly session: string
  readonly password: string
  /** The warehouse, by address. */
  readonly pools: Map<string, pg.Pool>
  nextId: number
  failIn: number
}

interface Answer {
  readonly status: number
  readonly body: unknown
  readonly cookie?: string
}

const user = 'admin'
const ok = (body: unknown): Answer => ({ status: 200, body })
const refuse = (status: number, message: unknown): Answer => ({ status, body: { message } })

export const startFakeSuperset = async (): Promise<FakeSuperset> => {
  const secretOf = () => randomBytes(12).toString('hex')
  const state: State = {
    rows: { database: [], dataset: [], chart: [], dashboard: [] },
    token: secretOf(),
    csrf: secretOf(),
    session: secretOf(),
    password: secretOf(),
    pools: new Map(),
    nextId: 1,
    failIn: 0,
  }
  const server: Server = createServer((request, response) => {
    void answer(state, request).then(({ status, body, cookie }) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        ...(cookie === undefined ? {} : { 'set-cookie': cookie }),
      })
      response.end(JSON.stringify(body))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    password: state.password,
    rows: (kind) => state.rows[kind],
    failWrite: (n) => {
      state.failIn = n
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
      for (const pool of state.pools.values()) await pool.end()
    },
  }
}

const answer = async (state: State, request: IncomingMessage): Promise<Answer> => {
  const url = new URL(request.url ?? '/', 'http://fake')
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const content = Buffer.concat(chunks)
  const method = request.method ?? 'GET'
  try {
    const body = await bodyOf(content, request.headers['content-type'] ?? '')
    const refused = entrance(state, request, url, method, body)
    if (refused !== null) return refused
    if (method !== 'GET' && url.pathname !== '/api/v1/chart/data' && state.failIn > 0 && --state.failIn === 0)
      return refuse(500, 'Fatal error')
    return await route(state, url, method, body)
  } catch (error) {
    if (error instanceof z.ZodError) return refuse(400, error.issues)
    return refuse(422, error instanceof Error ? error.message : String(error))
  }
}

const bodyOf = async (content: Buffer<ArrayBuffer>, type: string): Promise<unknown> => {
  if (content.length === 0) return undefined
  return type.startsWith('multipart/')
    ? await new Response(content, { headers: { 'content-type': type } }).formData()
    : JSON.parse(content.toString())
}

/** Login, and what every other request must carry; null: come in. */
const entrance = (
  state: State,
  { headers }: IncomingMessage,
  { pathname }: URL,
  method: string,
  body: unknown,
): Answer | null => {
  if (method === 'POST' && pathname === '/api/v1/security/login') {
    const login = z
      .strictObject({ username: z.string(), password: z.string(), provider: z.enum(['db', 'ldap']), refresh: z.boolean() })
      .parse(body)
    if (login.username !== user || login.password !== state.password) return refuse(401, 'Not authorized')
    return ok({ access_token: state.token })
  }
  if (headers.authorization !== `Bearer ${state.token}`) return refuse(401, 'Missing Authorization Header')
  if (pathname === '/api/v1/security/csrf_token/')
    return { ...ok({ result: state.csrf }), cookie: `session=${state.session}; HttpOnly; Path=/` }
  if (method === 'GET') return null
  if (headers['x-csrftoken'] !== state.csrf || headers.cookie !== `session=${state.session}`)
    return refuse(400, 'The CSRF session token is missing.')
  return headers.referer === undefined ? refuse(400, 'The referrer header is missing.') : null
}

const route = async (state: State, url: URL, method: string, body: unknown): Promise<Answer> => {
  if (url.pathname === '/api/v1/assets/import/' && method === 'POST' && body instanceof FormData) {
    await importBundle(state.rows, body, () => state.nextId++)
    return ok({ message: 'OK' })
  }
  const [, kind = '', id, rest] =
    /^\/api\/v1\/(database|dataset|chart|dashboard)\/(\d+|data)?\/?(\w+)?\/?$/.exec(url.pathname) ?? []
  if (kind === 'chart' && id === 'data' && method === 'POST') return ok({ result: await chartData(state, body) })
  if (!(kind in state.rows) || id === 'data') return refuse(404, 'Not found')
  const rows = state.rows[kind as Kind]
  if (id === undefined) {
    if (method === 'GET') return ok(page(rows, url))
    return method === 'POST' ? { status: 201, body: await create(state, kind as Kind, body) } : refuse(405, 'Method not allowed')
  }
  const row = rows.find((one) => one.id === Number(id))
  if (row === undefined) return refuse(404, 'Not found')
  if (rest !== undefined) return refuse(404, 'Not found')
  if (method === 'GET') return ok({ id: row.id, result: row })
  if (method === 'DELETE') {
    rows.splice(rows.indexOf(row), 1)
    return ok({ message: 'OK' })
  }
  return method === 'PUT' ? ok({ id: row.id, result: change(kind as Kind, row, body) }) : refuse(405, 'Method not allowed')
}

const filterSchema = z.strictObject({
  col: z.string(),
  opr: z.enum(['eq', 'rel_o_m', 'rel_m_m']),
  value: z.union([z.string(), z.number()]),
})
const querySchema = z.strictObject({ filters: z.array(filterSchema), page: z.int(), page_size: z.int().max(100) })

const page = (rows: readonly Row[], url: URL): unknown => {
  const { filters, page: at, page_size } = querySchema.parse(readRison(url.searchParams.get('q') ?? '()'))
  const found = rows.filter((row) =>
    filters.every(({ col, opr, value }) => {
      const held = row[col]
      if (opr === 'rel_m_m') return Array.isArray(held) && held.some((one: { id: unknown }) => one.id === value)
      return held === value
    }),
  )
  return { count: found.length, result: found.slice(at * page_size, (at + 1) * page_size) }
}

const create = async (state: State, kind: Kind, body: unknown): Promise<unknown> => {
  const id = state.nextId++
  const alone = (column: string, value: unknown): void => {
    if (state.rows[kind].some((row) => row[column] === value)) throw new Error(`${column} ${String(value)} already exists`)
  }
  if (kind === 'database') {
    const row = databaseBody.parse(body)
    alone('database_name', row.database_name)
    await tables(state, { id, ...row })
    state.rows.database.push({ id, uuid: randomUUID(), ...row })
  } else if (kind === 'chart') {
    const { dashboards = [], ...row } = chartBody.parse(body)
    if (!dashboards.every((one) => state.rows.dashboard.some((dashboard) => dashboard.id === one)))
      throw new Error('Dashboards do not exist')
    queriesOf(JSON.parse(row.query_context), state.rows.dataset)
    state.rows.chart.push({ id, uuid: randomUUID(), ...row, dashboards: dashboards.map((one) => ({ id: one })) })
  } else if (kind === 'dashboard') {
    const row = dashboardBody.parse(body)
    alone('slug', row.slug)
    state.rows.dashboard.push({ id, ...row })
  } else throw new Error('datasets come by import')
  return { id, result: body }
}

const change = (kind: Kind, row: Row, body: unknown): unknown => {
  // A person's own changes of a dataset; everything else of ours comes by import.
  if (kind === 'chart') {
    const { dashboards } = z.strictObject({ dashboards: z.array(z.int()) }).parse(body)
    Object.assign(row, { dashboards: dashboards.map((id) => ({ id })) })
    return body
  }
  const parts = {
    metrics: z.array(z.looseObject({ metric_name: z.string() })),
    columns: z.array(z.looseObject({ column_name: z.string() })),
  }
  const changes = kind === 'database' ? databaseBody.parse(body) : z.strictObject(parts).partial().parse(body)
  Object.assign(row, changes)
  return changes
}

const warehouseOf = (state: State, database: Row): pg.Pool => {
  const address = z
    .string()
    .regex(/^postgresql\+psycopg2:\/\//)
    .parse(database['sqlalchemy_uri'])
  const pool = state.pools.get(address) ?? new pg.Pool({ connectionString: address.replace('+psycopg2', ''), max: 2 })
  state.pools.set(address, pool)
  return pool
}

const tables = async (state: State, database: Row): Promise<string[]> => {
  const { rows } = await warehouseOf(state, database).query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'bi'`,
  )
  return rows.map(({ name }) => name)
}

const databaseOf = (state: State, id: unknown): Row => {
  const found = state.rows.database.find((one) => one.id === id)
  if (found === undefined) throw new Error('Database does not exist')
  return found
}

/** What Superset's SQL for a chart comes to. */
const chartData = async (state: State, body: unknown): Promise<unknown[]> => {
  const { dataset, queries } = queriesOf(body, state.rows.dataset)
  const pool = warehouseOf(state, databaseOf(state, dataset['database']))
  const results: unknown[] = []
  for (const query of queries) results.push({ data: (await pool.query(statementOf(query, dataset))).rows })
  return results
}

const units = { P1M: 'month', P3M: 'quarter', P1Y: 'year' } as const
const literal = (value: unknown): string => `'${String(value).replaceAll("'", "''")}'`

/** A condition in SQL; none for a span that is not limited. */
const conditionOf = ({ col, op, val }: Queries[number]['filters'][number]): string[] => {
  if (Array.isArray(val)) return [`"${col}" ${op} (${val.map(literal).join(', ')})`]
  if (op !== 'TEMPORAL_RANGE') return [`"${col}" ${op === '==' ? '=' : op} ${literal(val)}`]
  const [from, to] = String(val).split(' : ')
  return to === undefined ? [] : [`"${col}" >= ${literal(from)} and "${col}" < ${literal(to)}`]
}

const savedMetrics = z.array(z.object({ metric_name: z.string(), expression: z.string() }))

const statementOf = (query: Queries[number], dataset: Row): string => {
  const saved = savedMetrics.parse(dataset['metrics'])
  const column = (one: Queries[number]['columns'][number]): string =>
    typeof one === 'string' ? `"${one}"` : `date_trunc('${units[one.timeGrain]}', "${one.sqlExpression}") as "${one.label}"`
  const metrics = (query.metrics ?? []).map((metric) => {
    const { sqlExpression, label } =
      typeof metric === 'string'
        ? { sqlExpression: saved.find(({ metric_name }) => metric_name === metric)?.expression, label: metric }
        : metric
    return `${sqlExpression} as "${label}"`
  })
  const conditions = query.filters.flatMap(conditionOf)
  if (query.extras.where !== '') conditions.push(query.extras.where)
  const order = query.orderby.map(
    ([by, ascending]) => `${typeof by === 'string' ? `"${by}"` : by.sqlExpression} ${ascending ? 'asc' : 'desc'}`,
  )
  return [
    `select ${[...query.columns.map(column), ...metrics].join(', ')} from bi."${String(dataset['table_name'])}"`,
    conditions.length > 0 ? `where ${conditions.join(' and ')}` : '',
    metrics.length > 0 && query.columns.length > 0 ? `group by ${query.columns.map((_, at) => at + 1).join(', ')}` : '',
    order.length > 0 ? `order by ${order.join(', ')}` : '',
    `limit ${query.row_limit}`,
  ].join(' ')
}
