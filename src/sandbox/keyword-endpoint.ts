// GET /v4/website-analysis/keywords (interface 2.1, 2.2, 4.1): strict check of the query, refusals with the code in the body, and faults of the answer.
import { z } from 'zod'
import { addWindows } from '../core/window.ts'
import type { TakeFault } from './faults.ts'
import { brandedTypes, type KeywordQuery, keywordView, type KeywordView, trafficSources, webSources } from './keyword-data.ts'
import { addMonths, type Calendar, factorOf, generationOf, monthsBetween } from './publication-calendar.ts'
import { dataNotFound, type Exchange, jsonText, quotaExhausted, refusal, type Reply } from './reply.ts'
import type { Service } from './service.ts'
import { countries } from './words.ts'

export const keywords = (service: Service, exchange: Exchange): Reply => {
  const { calendar } = service
  const asked = checkKeywords(exchange.url.searchParams, calendar, service.settings())
  if ('code' in asked) return refusal('rest', 400, asked.code, [asked.message])
  const left = service.remaining()
  if (left !== null && left < 1) return quotaExhausted('rest')
  const { domain } = asked.query
  if (rowsOf(service, domain) === 0 || exchange.fault('no-data') !== null) return dataNotFound()
  service.chargeHit()
  return jsonText(200, answer(asked, viewOf(service, asked.query), service, exchange.fault))
}

/** Keywords the domain has before any restatement; 0: the service has no data for it. */
export const rowsOf = (service: Service, domain: string): number => {
  const { keywordsByDomain, keywordsPerDomain } = service.settings()
  return Object.hasOwn(keywordsByDomain, domain) ? (keywordsByDomain[domain] ?? 0) : keywordsPerDomain
}

/** The present rows of the query. */
export const viewOf = (service: Service, query: KeywordQuery): KeywordView => {
  const { seed, hostile } = service.settings()
  const months = monthsBetween(query.from, query.to)
  const generations = service.calendar.generations()
  return keywordView(query, {
    seed,
    hostile,
    rows: rowsOf(service, query.domain),
    generation: months.reduce((sum, month) => sum + generationOf(generations, month, query.domain), 0),
    factor: factorOf(service.calendar.methods(), query.from),
    settled: months.every((month) => service.calendar.isSettled(month)),
  })
}

/** The rows to send, and the numbers announced for them. */
const windowOf = ({ limit: asked, offset }: KeywordRequest, count: number, take: TakeFault) => {
  const clamped = take('clamped-limit')
  const limit = clamped === null ? asked : Math.min(asked, clamped.limit ?? 100)
  let [start, end] = [offset, offset + limit]
  if (offset > 0) {
    const moved = take('row-moves')
    if (moved !== null) [start, end] = [start - (moved.by ?? 1), end - (moved.by ?? 1)]
    if (take('repeated-page') !== null) [start, end] = [start - limit, end - limit]
  }
  if (end < count && take('short-page') !== null) end = start + Math.ceil(limit / 2)
  return { start: Math.max(0, start), end: Math.min(end, count), limit }
}

const answer = (asked: KeywordRequest, view: KeywordView, service: Service, take: TakeFault): string => {
  const page = windowOf(asked, view.count, take)
  const records: string[] = []
  for (let index = page.start; index < page.end; index += 1) {
    records.push(view.record(asked.ascending === true ? view.count - 1 - index : index))
  }
  const drift = take('count-drift')
  const count = Math.max(0, view.count + (drift === null ? 0 : (drift.by ?? 1)))
  const meta = JSON.stringify(metaOf(asked, page.limit, service, take))
  return `{"meta":${meta},"keywords":[${records.join(',')}],"keywords_count":${count}}`
}

const metaOf = ({ query, offset, sort, ascending }: KeywordRequest, limit: number, service: Service, take: TakeFault) => {
  const updated = service.calendar.lastUpdated(monthsBetween(query.from, query.to), query.domain)
  return {
    query: { limit, offset, asc: ascending, sort },
    request: {
      traffic_source: query.trafficSource,
      branded_type: query.brandedType,
      web_source: query.webSource,
      page_search_type: 'Domain',
      domain: take('wrong-echo') === null ? query.domain : `other-${query.domain}`,
      format: 'json',
      start_date: `${query.from}-01`,
      end_date: addWindows(`${addMonths(query.to, 1)}-01`, 'day', -1),
      country: query.country,
      ...(take('key-echo') === null ? {} : { api_key: service.settings().apiKey }),
    },
    status: 'Success',
    ...versionOf(service),
    // The field is not in the interface, but was seen at the service (fact 46): each answered request costs one credit.
    data_credits_charged: 1,
    last_updated: take('last-updated-drift') === null ? updated : addWindows(updated, 'day', 1),
  }
}

/** The version of the service's data in an answer: neither in the interface nor seen yet, but possible. */
export const versionOf = (service: Service): object => {
  const { dataVersion } = service.settings()
  return dataVersion === null ? {} : { data_version: dataVersion }
}

type KeywordRequest = Exclude<ReturnType<typeof checkKeywords>, Refusal>

interface Refusal {
  /** In-body code: 100 request, 101 dates, 103 country. */
  readonly code: number
  readonly message: string
}

/** Parameters of the interface (4.1). */
const shown = 'api_key URL start_date end_date country traffic_source web_source branded_type limit offset'.split(' ')
const extra = ['sort', 'asc', 'format']
/** Most months one query may span. */
const mostMonths = 3
const defaultLimit = 100

/** Missing dates mean the newest month. Without extensions, parameters and limits that the interface does not show do not exist. */
export const checkKeywords = (
  query: URLSearchParams,
  calendar: Calendar,
  { maxLimit, extensions }: { readonly maxLimit: number; readonly extensions: boolean },
) => {
  const known = extensions ? [...shown, ...extra] : shown
  const wrong = (message: string, code = 100): Refusal => ({ code, message })
  const unknown = [...query.keys()].find((name) => !known.includes(name))
  if (unknown !== undefined) return wrong(`${unknown}: unknown parameter; there are ${known.join(', ')}`)
  const twice = known.find((name) => query.getAll(name).length > 1)
  if (twice !== undefined) return wrong(`${twice}: given more than once`)
  const domain = query.get('URL') ?? ''
  if (!/^(?!www\.)[^\s/:?#@"'<>()[\]{}]+\.[^\s/:?#@"'<>()[\]{}.]+$/.test(domain)) {
    return wrong(`URL: '${domain}'; expected a domain without 'www.', scheme, path and brackets`)
  }
  const country = query.get('country') ?? ''
  if (country !== 'world' && !countries.has(country)) {
    return wrong(`country: '${country}' is not available; expected a lower-case ISO code this key may ask for, or world`, 103)
  }
  const period = checkPeriod(query, calendar, extensions ? mostMonths : Number.MAX_SAFE_INTEGER)
  if ('code' in period) return period
  const format = query.get('format') ?? 'json'
  if (format !== 'json') return wrong(`format: '${format}'; expected json`)
  const filters = filtersSchema(maxLimit).safeParse(Object.fromEntries(query))
  if (!filters.success) return wrong(filters.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '))
  const { traffic_source: trafficSource, web_source: webSource, branded_type: brandedType, asc, ...rest } = filters.data
  return {
    query: { domain, country, ...period, trafficSource, webSource, brandedType },
    ...rest,
    ascending: asc === null ? null : asc === 'true',
  }
}

const filtersSchema = (maxLimit: number) =>
  z.object({
    traffic_source: spelled(trafficSources).default('All'),
    web_source: spelled(webSources).default('Total'),
    branded_type: spelled(brandedTypes).default('All'),
    limit: whole(1, maxLimit).default(defaultLimit),
    offset: whole(0, Number.MAX_SAFE_INTEGER).default(0),
    sort: z
      .literal('clicks', { error: ({ input }) => `'${input}'; the sandbox sorts by clicks alone` })
      .nullable()
      .default(null),
    asc: z
      .enum(['true', 'false'], { error: ({ input }) => `'${input}'; expected true or false` })
      .nullable()
      .default(null),
  })

/** Ignores case and underscores; the echo has the service's spelling. */
const spelled = <T extends string>(allowed: readonly T[]) =>
  z
    .string()
    .transform((text) => allowed.find((value) => value.toLowerCase() === text.toLowerCase().replaceAll('_', '')) ?? text)
    .pipe(z.enum(allowed, { error: ({ input }) => `'${input}'; expected ${allowed.join(', ')}` }))

const whole = (least: number, most: number) => {
  const error = ({ input }: { readonly input?: unknown }): string =>
    `'${input}'; expected a whole number from ${least} to ${most}`
  const digits = z.string().transform((text) => (/^\d{1,15}$/.test(text) ? Number(text) : text))
  return digits.pipe(z.number({ error }).min(least, { error }).max(most, { error }))
}

const checkPeriod = (query: URLSearchParams, calendar: Calendar, most: number): { from: string; to: string } | Refusal => {
  const [earliest, latest] = [calendar.earliestMonth(), calendar.latestMonth()]
  const from = query.get('start_date') ?? query.get('end_date') ?? latest
  const to = query.get('end_date') ?? from
  for (const [name, value] of [
    ['start_date', from],
    ['end_date', to],
  ] as const) {
    if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(value)) return { code: 101, message: `${name}: '${value}'; expected YYYY-MM` }
    if (value < earliest || value > latest) {
      return { code: 101, message: `${name}: ${value} is out of range; available are ${earliest} to ${latest}` }
    }
  }
  if (from > to) return { code: 101, message: `start_date: ${from} lies after end_date ${to}` }
  if (most < 1_000 && addMonths(from, most - 1) < to)
    return { code: 101, message: `end_date: ${to}; at most ${most} months at once` }
  return { from, to }
}
