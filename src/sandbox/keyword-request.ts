// Checks the query of the keyword endpoint, strictly, and says which in-body code a refusal carries.
import type { Calendar } from './publication-calendar.ts'
import { addMonths } from './publication-calendar.ts'
import { brandedTypes, type KeywordQuery, trafficSources, webSources } from './keyword-data.ts'
import { countries } from './words.ts'

export interface KeywordRequest {
  readonly query: KeywordQuery
  readonly limit: number
  readonly offset: number
  readonly sort: string | null
  readonly ascending: boolean | null
}

export interface Refusal {
  /** In-body code: 100 request, 101 dates, 103 country. */
  readonly code: number
  readonly message: string
}

/** Those of the interface (4.1). */
const shown = 'api_key URL start_date end_date country traffic_source web_source branded_type limit offset'.split(' ')
const extra = ['sort', 'asc', 'format']
/** Most months one query may span. */
const mostMonths = 3
const defaultLimit = 100

/** Omitted dates mean the newest month. Without extensions the parameters and limits that the interface does not show are not there either. */
export const checkKeywords = (
  query: URLSearchParams,
  calendar: Calendar,
  { maxLimit, extensions }: { readonly maxLimit: number; readonly extensions: boolean },
): KeywordRequest | Refusal => {
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
  return withFilters(query, { domain, country, ...period }, maxLimit)
}

const withFilters = (
  query: URLSearchParams,
  asked: Pick<KeywordQuery, 'domain' | 'country' | 'from' | 'to'>,
  maxLimit: number,
): KeywordRequest | Refusal => {
  const trafficSource = oneOf(query, 'traffic_source', trafficSources, 'All')
  if (typeof trafficSource !== 'string') return trafficSource
  const webSource = oneOf(query, 'web_source', webSources, 'Total')
  if (typeof webSource !== 'string') return webSource
  const brandedType = oneOf(query, 'branded_type', brandedTypes, 'All')
  if (typeof brandedType !== 'string') return brandedType
  const limit = whole(query, 'limit', defaultLimit, 1, maxLimit)
  if (typeof limit !== 'number') return limit
  const offset = whole(query, 'offset', 0, 0, Number.MAX_SAFE_INTEGER)
  if (typeof offset !== 'number') return offset
  const sort = query.get('sort')
  if (sort !== null && sort !== 'clicks') return { code: 100, message: `sort: '${sort}'; the sandbox sorts by clicks alone` }
  const asc = query.get('asc')
  if (asc !== null && asc !== 'true' && asc !== 'false') return { code: 100, message: `asc: '${asc}'; expected true or false` }
  return {
    query: { ...asked, trafficSource, webSource, brandedType },
    limit,
    offset,
    sort,
    ascending: asc === null ? null : asc === 'true',
  }
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

/** Other cases and underscores are understood; the echo has the service's spelling. */
const oneOf = <T extends string>(query: URLSearchParams, name: string, allowed: readonly T[], fallback: T): T | Refusal => {
  const text = query.get(name)
  if (text === null) return fallback
  const found = allowed.find((value) => value.toLowerCase() === text.toLowerCase().replaceAll('_', ''))
  return found ?? { code: 100, message: `${name}: '${text}'; expected ${allowed.join(', ')}` }
}

const whole = (query: URLSearchParams, name: string, fallback: number, least: number, most: number): number | Refusal => {
  const text = query.get(name)
  if (text === null) return fallback
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  return { code: 100, message: `${name}: '${text}'; expected a whole number from ${least} to ${most}` }
}
