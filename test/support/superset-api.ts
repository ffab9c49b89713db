// Asks a Superset, real or fake, as a browser would: its charts' own data requests, compared with SQL on the warehouse.
import type { Pool } from 'pg'
import { expect } from 'vitest'
import { z } from 'zod'
import { answers } from './superset-answers.ts'

/** The API as a browser uses it, apart from the program's own client. */
export const openApi = async (url: string, credentials: { user: string; password: string }) => {
  const json = { 'content-type': 'application/json' }
  const body = JSON.stringify({ username: credentials.user, password: credentials.password, provider: 'db', refresh: false })
  const entered = await fetch(`${url}/api/v1/security/login`, { method: 'POST', headers: json, body })
  const { access_token } = z.object({ access_token: z.string() }).parse(await entered.json())
  const bearer = { authorization: `Bearer ${access_token}` }
  const csrf = await fetch(`${url}/api/v1/security/csrf_token/`, { headers: bearer })
  const { result } = z.object({ result: z.string() }).parse(await csrf.json())
  const cookie = csrf.headers
    .getSetCookie()
    .map((one) => one.split(';')[0])
    .join('; ')
  return async (method: string, path: string, content?: unknown): Promise<unknown> => {
    const headers = { ...bearer, ...json, 'x-csrftoken': result, referer: url, cookie }
    const answer = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(content === undefined ? {} : { body: JSON.stringify(content) }),
    })
    const text = await answer.text()
    expect(answer.ok, `${method} ${path}: ${answer.status} ${text.slice(0, 500)}`).toBe(true)
    return JSON.parse(text)
  }
}

export type Api = Awaited<ReturnType<typeof openApi>>

const chartsSchema = z.object({ count: z.int(), result: z.array(z.object({ id: z.int(), slice_name: z.string() })) })
const contextSchema = z.looseObject({
  queries: z.array(z.looseObject({ filters: z.array(z.unknown()) })),
  datasource: z.looseObject({ id: z.int() }),
})

/** The one dashboard at that address. */
export const dashboardOf = async (api: Api, slug: string): Promise<number | undefined> => {
  const found = z
    .object({ result: z.array(z.object({ id: z.int() })) })
    .parse(await api('GET', `/api/v1/dashboard/?q=(filters:!((col:slug,opr:eq,value:'${slug}')),page:0,page_size:10)`))
  expect(found.result, slug).toHaveLength(1)
  return found.result[0]?.id
}

export const chartsOf = async (api: Api, slug: string) => {
  const id = await dashboardOf(api, slug)
  return chartsSchema.parse(
    await api('GET', `/api/v1/chart/?q=(filters:!((col:dashboards,opr:rel_m_m,value:${id})),page:0,page_size:100)`),
  ).result
}

/** As a dashboard asks: the chart's own request with the chosen country added where dashboard and view have one. */
const rowsOf = async (api: Api, slug: string, chart: number): Promise<unknown[][]> => {
  const { result } = z
    .object({ result: z.object({ query_context: z.string() }) })
    .parse(await api('GET', `/api/v1/chart/${chart}`))
  const context = contextSchema.parse(JSON.parse(result.query_context))
  const dataset = z
    .object({ result: z.object({ columns: z.array(z.object({ column_name: z.string() })) }) })
    .parse(await api('GET', `/api/v1/dataset/${context.datasource.id}`))
  const filters =
    !/shopper|operations/.test(slug) && dataset.result.columns.some(({ column_name }) => column_name === 'country')
      ? [{ col: 'country', op: '==', val: 'us' }]
      : []
  const queries = context.queries.map((query) => ({ ...query, filters: [...query.filters, ...filters] }))
  const answer = z
    .object({ result: z.array(z.object({ data: z.array(z.record(z.string(), z.unknown())) })).length(1) })
    .parse(await api('POST', '/api/v1/chart/data', { ...context, queries }))
  return (answer.result[0]?.data ?? []).map((row) => Object.values(row))
}

/** Moments and numbers come in several spellings. */
export const plain = (cell: unknown): unknown => {
  if (typeof cell === 'boolean' || cell === null) return cell
  const text = cell instanceof Date ? cell.toISOString() : String(cell)
  if (/^\d{12,13}$/.test(text)) return new Date(Number(text)).toISOString()
  if (/^\d{4}-\d\d-\d\d/.test(text))
    return new Date(
      text
        .replace(/(\d)$/, '$1')
        .replace(/^([^Z+]*)$/, '$1Z')
        .replace('+00Z', 'Z'),
    ).toISOString()
  return /^-?\d+(\.\d+)?(e-?\d+)?$/.test(text) ? Number(Number(text).toFixed(4)) : text
}
const sorted = (rows: readonly (readonly unknown[])[]): string[] => rows.map((row) => JSON.stringify(row.map(plain))).sort()

/** Compares the summary with what its tiles ought to show; a point without a value is one that cannot be known. */
export const summaryIsRight = async (
  api: Api,
  right: Readonly<Record<string, readonly (readonly unknown[])[]>>,
): Promise<void> => {
  const charts = await chartsOf(api, 'millrace-summary')
  expect(charts.map(({ slice_name }) => slice_name).sort()).toEqual(Object.keys(right).sort())
  for (const { id, slice_name } of charts) {
    const rows = await rowsOf(api, 'millrace-summary', id)
    const shown = rows.filter((row) => row.length > 2 || row[1] !== null)
    expect(sorted(shown), slice_name).toEqual(sorted(right[slice_name] ?? []))
  }
}

/** Compares every shipped chart with the SQL of superset-answers.ts, asked of the warehouse itself. */
export const everyChartIsRight = async (api: Api, pool: Pick<Pool, 'query'>): Promise<void> => {
  for (const [slug, expected] of Object.entries(answers)) {
    const charts = await chartsOf(api, slug)
    expect(charts.map(({ slice_name }) => slice_name).sort(), slug).toEqual(Object.keys(expected).sort())
    for (const { id, slice_name } of charts) {
      const { rows } = await pool.query<unknown[]>({ text: expected[slice_name] ?? '', rowMode: 'array' })
      expect(rows.length, slice_name).toBeGreaterThan(0)
      expect(sorted(await rowsOf(api, slug, id)), slice_name).toEqual(sorted(rows))
    }
  }
}
