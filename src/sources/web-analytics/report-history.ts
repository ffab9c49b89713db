// The service's own list of the reports it made: what a restored ledger does not know of is found in it.
import { z } from 'zod'
import { jsonOrNull } from '../../core/json.ts'
import type { ListedReport } from '../../core/report-shape.ts'
import type { HttpClient } from '../../extract/http-types.ts'
import type { Source } from '../../extract/source.ts'
import { askOptional, jsonOf } from './json-answer.ts'
import { endpoints } from './service-dialect.ts'
import { readRefusal, refusalError } from './refusal-table.ts'

/** The service's own list, searched for submissions whose answer was lost. */
export const listReports: NonNullable<Source['listReports']> = ({ http }, sinceMs) => reportHistory(http, sinceMs)

const listedText = z.string().nullish().catch(null)
const entry = z.looseObject({
  report_id: z.union([z.string(), z.number()]).optional(),
  id: z.union([z.string(), z.number()]).optional(),
  request_id: z.union([z.string(), z.number()]).optional(),
  created_at: listedText,
  created: listedText,
  submitted_at: listedText,
})
const list = z.array(entry.catch({}))
const body = z.union([list, z.looseObject({ reports: list }).transform(({ reports }) => reports)])

type Entry = z.infer<typeof entry>

const pageSize = 100
const mostPages = 20

/** Reports made since then, as far back as the list goes; null: the service has none, or one in an unknown shape. */
export const reportHistory = async (http: HttpClient, sinceMs: number): Promise<readonly ListedReport[] | null> => {
  const found = new Map<string, ListedReport>()
  for (let page = 0; page < mostPages; page += 1) {
    const entries = await fetchPage(http, page * pageSize)
    if (entries === null) return page === 0 ? null : [...found.values()]
    const before = found.size
    for (const one of entries.flatMap(listedOf)) found.set(one.reportId, one)
    const oldest = Math.min(...[...found.values()].map(({ createdMs }) => createdMs ?? Number.POSITIVE_INFINITY))
    // A service that knows no pages sends the same again.
    if (entries.length === 0 || found.size === before || oldest < sinceMs) break
  }
  return [...found.values()].filter(({ createdMs }) => createdMs === null || createdMs >= sinceMs)
}

const fetchPage = async (http: HttpClient, offset: number): Promise<readonly Entry[] | null> => {
  const url = http.url('history', endpoints.history)
  url.searchParams.set('limit', String(pageSize))
  url.searchParams.set('offset', String(offset))
  const answer = await askOptional(http, 'history', { url })
  if (answer === null) return null
  if (answer.status >= 400) throw refusalError(readRefusal(answer), endpoints.history, 'report history')
  const parsed = body.safeParse(jsonOf(answer, endpoints.history))
  return parsed.success ? parsed.data : null
}

const listedOf = (one: Entry): ListedReport[] => {
  const id = one.report_id ?? one.id ?? one.request_id
  if (id === undefined) return []
  const created = Date.parse(one.created_at ?? one.created ?? one.submitted_at ?? '')
  return [{ reportId: String(id), createdMs: Number.isNaN(created) ? null : created, request: requestOf(one) }]
}

/** What was asked for, whether it stands in a field of its own or beside the id. */
const requestOf = (one: Entry): unknown => {
  const given = one['request'] ?? one['body'] ?? one['query']
  return (typeof given === 'string' ? jsonOrNull(given) : given) ?? one
}
