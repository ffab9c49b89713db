// Free requests about the service itself: datasets, countries and dates, credits, the price of a report; and its own list of reports, which shows what a restored
// ledger does not know. A service may lack each of them.
import { z } from 'zod'
import { readableBill } from '../../core/learned-price.ts'
import { EtlError, isEtlError } from '../../core/errors.ts'
import type { Dataset } from '../../core/source-spec.ts'
import type { Api, Capabilities, Credits } from '../../extract/api.ts'
import { isAwayAt } from '../../extract/breaker.ts'
import type { Source } from '../../extract/source.ts'
import type { HttpClient } from '../../extract/http-types.ts'
import { askOptional, jsonOf, numberOrNull } from './json-answer.ts'
import { internalCountry } from './spelling.ts'
import { type EndpointName, endpoints, pathOf } from './service-dialect.ts'
import { readRefusal, refusalError } from './refusal-table.ts'
import { pathPrefix } from './settings.ts'
import { jsonOrNull } from '../../core/json.ts'
import type { ListedReport } from '../../core/report-shape.ts'

/** The endpoint's answer in the expected shape; null: the service has no such endpoint. Throws BAD_RESPONSE naming what differs. */
const ask = async <T>(http: HttpClient, name: EndpointName, shape: z.ZodType<T>): Promise<T | null> => {
  const answer = await askOptional(http, name)
  if (answer === null) return null
  if (answer.status >= 400) throw refusalError(readRefusal(answer), endpoints[name], name)
  const parsed = shape.nullable().safeParse(jsonOf(answer, endpoints[name]))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new EtlError(
    'BAD_RESPONSE',
    `${endpoints[name]} gave an unexpected response: ${issue?.path.join('.') || 'the body'} ${issue?.message ?? ''}. If the service has moved the endpoint, set ${pathPrefix}${name.toUpperCase()}.`,
  )
}

const named = z.object({ name: z.string(), description: z.string().nullish() })
/** Names alone, or names with words. */
const nameList = z.array(z.union([z.string().transform((name) => ({ name, description: null })), named])).catch([])
const datasetSchema = z
  .looseObject({
    table: z.string().optional(),
    vtable: z.string().optional(),
    table_metrics: nameList.optional(),
    metrics: nameList.optional(),
    table_filters: nameList.optional(),
    filters: nameList.optional(),
    table_dimensions: nameList.optional(),
    dimensions: nameList.optional(),
    table_granularity: z.unknown().optional(),
    description: z.string().nullish().catch(null),
  })
  .transform((raw): Dataset => {
    const metrics = raw.table_metrics ?? raw.metrics ?? []
    const filters = raw.table_filters ?? raw.filters ?? null
    const dimensions = raw.table_dimensions ?? raw.dimensions ?? null
    return {
      table: raw.table ?? raw.vtable ?? '(no name)',
      metrics: namesOf(metrics),
      filters: filters === null ? null : namesOf(filters),
      choices: { granularity: granularityNames(raw.table_granularity) },
      dimensions: dimensions === null ? null : namesOf(dimensions),
      about: raw.description ?? '',
      descriptions: Object.fromEntries(
        [...metrics, ...(dimensions ?? [])].flatMap(({ name, description }) => (description ? [[name, description]] : [])),
      ),
      ...monthsOf(raw.table_granularity),
    }
  })
const describeSchema = z.union([
  z.array(datasetSchema),
  z.object({ tables: z.array(datasetSchema) }).transform(({ tables }) => tables),
])

const namesOf = (list: z.infer<typeof nameList>): string[] => list.map(({ name }) => name)

const history = z.string().regex(/^\d{4}-\d{2}/)
const historySchema = z.record(z.string(), z.looseObject({ start_date: history, end_date: history.optional() }))

/** The earliest and the newest month of all granularities. */
const monthsOf = (value: unknown): Pick<Dataset, 'from' | 'to'> => {
  const spans = Object.values(historySchema.safeParse(value).data ?? {})
  const sorted = (dates: readonly string[]): string[] => dates.map((date) => date.slice(0, 7)).sort()
  return {
    from: sorted(spans.map(({ start_date }) => start_date))[0] ?? null,
    to: sorted(spans.flatMap(({ end_date }) => end_date ?? [])).at(-1) ?? null,
  }
}

const granularityNames = (value: unknown): string[] => {
  if (Array.isArray(value)) return value.map(String)
  return typeof value === 'object' && value !== null ? Object.keys(value) : typeof value === 'string' ? [value] : []
}

/** null: the service has no such endpoint. */
export const describe = (http: HttpClient): Promise<readonly Dataset[] | null> => ask(http, 'describe', describeSchema)

const countrySchema = z.union([
  z.string(),
  z.looseObject({ code: z.union([z.string(), z.number()]) }).transform(({ code }) => String(code)),
])
const familySchema = z.looseObject({
  countries: z.array(countrySchema).catch([]),
  snapshot_interval: z.looseObject({ start_date: z.string().nullish(), end_date: z.string().nullish() }).nullish(),
})

const object = z.record(z.string(), z.unknown())

/** Countries and dates by family of data. null: the service has no such endpoint. */
export const capabilities = async (http: HttpClient): Promise<Capabilities | null> => {
  const parsed = await ask(http, 'capabilities', object)
  if (parsed === null) return null
  const families = Object.entries(parsed).flatMap(([name, value]) => {
    const family = familySchema.safeParse(value)
    if (!family.success || typeof value !== 'object' || value === null || !('countries' in value)) return []
    const { countries, snapshot_interval } = family.data
    return [
      {
        name,
        values: { countries: countries.map(internalCountry) },
        from: snapshot_interval?.start_date ?? null,
        to: snapshot_interval?.end_date ?? null,
      },
    ]
  })
  return { remainingHits: numberOrNull(parsed['remaining_hits']), families }
}

/** Credits left for reports. null: the service has no such endpoint. */
export const credits = async (http: HttpClient): Promise<Pick<Credits, 'remaining'> | null> => {
  const parsed = await ask(http, 'credits', object)
  return parsed && { remaining: numberOrNull(parsed['remaining_credits']) ?? numberOrNull(parsed['credits']) }
}

/** The balances for requests and for reports; where both are one balance, both numbers are the same (api-facts 17, 19). */
export const balance: NonNullable<Source['balance']> = async ({ http }) => {
  const left = { requests: (await capabilities(http))?.remainingHits ?? null, credits: (await credits(http))?.remaining ?? null }
  return left.requests === null && left.credits === null ? null : left
}

/** Each balance by a request of its own (49, 50). null: the service does not tell that of reports. With a key for reports alone the other balance is unknown. */
export const balances: NonNullable<Api['credits']> = async (http, failed) => {
  const batch = await credits(http).catch(failed)
  if (batch === null) return null
  const user = (await ask(http, 'user_credits', object).catch(failed)) ?? {}
  const rest = await capabilities(http).catch((error: unknown) =>
    isEtlError(error) && error.code === 'KEY_REFUSED' ? null : failed(error),
  )
  return {
    ...batch,
    requests: rest?.remainingHits ?? null,
    userAllowance: numberOrNull(user['user_allowance']),
    userRemaining: numberOrNull(user['user_remaining']),
  }
}

const validateSchema = z.looseObject({
  is_valid: z.boolean().optional(),
  estimated_credits: z.unknown().optional(),
  errors: z.array(z.unknown()).nullish().catch(null),
})

/** What a submission would cost and whether it would be taken; null where the service cannot say. An unreadable price does not stop a submission. */
export const validate = async (http: HttpClient, request: unknown) => {
  const endpoint = pathOf(http, 'validate')
  const answer = await askOptional(http, 'validate', { body: request }).catch((error: unknown) => {
    // If only this path is in trouble, the price is unknown; if the account is, the submission could not be sent either.
    if (isAwayAt(error, endpoint)) return null
    throw error
  })
  if (answer === null) return null
  if ([400, 401, 403, 422].includes(answer.status)) return { credits: null, refusal: readRefusal(answer) }
  if (answer.status >= 400) return null
  const parsed = validateSchema.safeParse(jsonOf(answer, endpoint))
  if (!parsed.success) return null
  const { is_valid, estimated_credits, errors } = parsed.data
  return {
    credits: readableBill(numberOrNull(estimated_credits)),
    refusal: is_valid === false ? readRefusal(refusalIn(errors ?? [])) : null,
  }
}

/** In the shape of a refused submission (68); a single error may be its whole body. */
const refusalIn = (errors: readonly unknown[]): { status: number; bytes: Buffer } => {
  const [only] = errors
  const isBody = errors.length === 1 && typeof only === 'string' && only.startsWith('{')
  const body = isBody ? only : JSON.stringify({ errors: errors.length > 0 ? errors : ['no reason given'] })
  return { status: 400, bytes: Buffer.from(body) }
}

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
const mostPages = 100

/** The service's own list of reports, as far back as it goes, to find submissions whose answer was lost; null: it has none, or one in an unknown shape. */
export const listReports: NonNullable<Source['listReports']> = async ({ http }, sinceMs) => {
  const found = new Map<string, ListedReport>()
  // The offset grows by what came: a service may give fewer entries at a time than requested.
  for (let [page, offset] = [0, 0]; page < mostPages; page += 1) {
    const entries = await fetchPage(http, offset)
    if (entries === null && page === 0) return null
    if (entries === null) break
    offset += entries.length
    const before = found.size
    for (const one of entries.flatMap(listedOf)) found.set(one.reportId, one)
    const days = [...found.values()].flatMap(({ createdMs }) => createdMs ?? [])
    // Where the newest come first, all that follow are older; a service that knows no pages sends the same again.
    const [newest, oldest] = [days[0] ?? 0, days.at(-1) ?? 0]
    if (entries.length === 0 || found.size === before || (oldest <= newest && oldest < sinceMs && days.length > 0)) break
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

/** The request of a listed report, in a field of its own or beside the id. */
const requestOf = (one: Entry): unknown => {
  const given = one['request'] ?? one['body'] ?? one['query']
  return (typeof given === 'string' ? jsonOrNull(given) : given) ?? one
}
