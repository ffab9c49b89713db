// GET /v4/website-analysis/keywords (interface 2.1, 2.2, 4.1), with the faults that lie in its answer.
import { addWindows } from '../core/window.ts'
import { addMonths, factorOf, generationOf, monthsBetween } from './publication-calendar.ts'
import type { Exchange } from './exchange.ts'
import type { TakeFault } from './faults.ts'
import { type KeywordQuery, type KeywordView, keywordView } from './keyword-data.ts'
import { checkKeywords, type KeywordRequest } from './keyword-request.ts'
import { dataNotFound, jsonText, quotaExhausted, type Reply, refusal } from './reply.ts'
import type { Service } from './service.ts'

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

/** The query's rows as they are now. */
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

/** Which rows are sent, and what is said of them. */
interface PageWindow {
  readonly start: number
  readonly end: number
  readonly limit: number
}

const windowOf = ({ limit: asked, offset }: KeywordRequest, count: number, take: TakeFault): PageWindow => {
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

const metaOf = (
  { query, offset, sort, ascending }: KeywordRequest,
  limit: number,
  service: Service,
  take: TakeFault,
): unknown => {
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
    // An answered request costs one credit; not in the interface, but met at the service (fact 46).
    data_credits_charged: 1,
    last_updated: take('last-updated-drift') === null ? updated : addWindows(updated, 'day', 1),
  }
}
