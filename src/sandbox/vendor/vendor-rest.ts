// The keyword endpoint and the free questions of REST (interface 4.1; facts 17, 18, 44, 56, 59 to 65).
import { addWindows } from '../../core/window.ts'
import { addMonths, monthsBetween } from '../publication-calendar.ts'
import type { VendorBooks } from './vendor-books.ts'
import { keywordRecords, quarters } from './vendor-data.ts'
import type { VendorSettings } from './vendor-options.ts'
import type { Price } from './vendor-prices.ts'
import * as words from './vendor-words.ts'
import { jsonReply, type VendorReply } from './vendor-words.ts'

/** Measured: 13 for a page of 100 (fact 44). */
const keywordPrice: Price = { by: 'rows-asked', credits: 0.13 }

/** Fields that the service knows of itself to be a domain; `CNN.COM` and a path are none (fact 60). */
const isDomain = (text: string): boolean => /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(text) && !text.startsWith('www.')

const lastDay = (month: string): string => addWindows(`${addMonths(month, 1)}-01`, 'day', -1)

/** Null: the dates can be answered. */
const datesRefused = (settings: VendorSettings, from: string, to: string): VendorReply | null => {
  const { newestMonth, oldestMonth, keywordMonths, words: release } = settings
  const isOutside = from < oldestMonth || to > newestMonth || from > to
  const isLong = monthsBetween(from, to).length > keywordMonths
  if (!isOutside && !isLong) return null
  if (release === '08') return words.datesNotInRange
  return isOutside ? words.datesOutOfRange(`${oldestMonth}-01`, lastDay(newestMonth)) : words.spanTooLong(keywordMonths)
}

const number = (text: string | null, fallback: number): number => (text !== null && /^\d+$/.test(text) ? Number(text) : fallback)

export const keywords = (settings: VendorSettings, books: VendorBooks, query: URLSearchParams): VendorReply => {
  const { plan, words: release } = settings
  const [domain, country] = [query.get('URL') ?? '', query.get('country') ?? '']
  if (plan.tables !== null && !plan.tables.includes('keywords')) return words.forbidden(release)
  if (plan.countries !== null && !plan.countries.includes(country.toLowerCase())) return words.countryLacks(domain.length)
  const from = query.get('start_date') ?? settings.newestMonth
  const to = query.get('end_date') ?? from
  const refused = datesRefused(settings, from, to)
  if (refused !== null) return refused
  const count = settings.keywordsByDomain[domain] ?? settings.keywords
  if (!isDomain(domain) || count === 0) return words.dataNotFound
  if (plan.domains !== null && !plan.domains.includes(domain)) return words.forbidden(release)
  return page(settings, books, query, { domain, country, count, ...(settings.widens ? quarters({ from, to }) : { from, to }) })
}

interface KeywordPage {
  readonly domain: string
  readonly country: string
  readonly from: string
  readonly to: string
  readonly count: number
}

const page = (settings: VendorSettings, books: VendorBooks, query: URLSearchParams, asked: KeywordPage): VendorReply => {
  const limit = number(query.get('limit'), 100)
  const offset = number(query.get('offset'), 0)
  const records = keywordRecords({ ...asked, month: asked.from }, settings.seed, offset, Math.min(offset + limit, asked.count))
  const size = { rowsAsked: limit, rows: records.length, metrics: 13, periods: monthsBetween(asked.from, asked.to).length }
  const credits = books.charge(
    'rest',
    `keywords ${asked.domain} ${asked.country} ${asked.from}`,
    settings.prices['keywords'] ?? keywordPrice,
    size,
  )
  if (credits === null) return words.keyOrCredits
  return jsonReply(200, {
    meta: {
      request: {
        traffic_source: query.get('traffic_source') ?? 'All',
        branded_type: query.get('branded_type') ?? 'All',
        web_source: query.get('web_source') ?? 'Total',
        page_search_type: 'Domain',
        domain: asked.domain,
        format: 'json',
        start_date: `${asked.from}-01`,
        end_date: lastDay(asked.to),
        country: asked.country,
      },
      query: { limit, offset, asc: null, sort: null },
      status: 'Success',
      last_updated: lastDay(settings.newestMonth),
      ...(settings.bill === 'balance' ? {} : { [settings.bill]: credits }),
    },
    keywords: records,
    keywords_count: asked.count,
  })
}

/** Free (fact 17): what is left, the months and the countries. */
export const capabilities = (settings: VendorSettings, books: VendorBooks): VendorReply => {
  const codes = settings.plan.countries ?? ['world', 'us', 'gb', 'de', 'fr', 'jp']
  const family = {
    snapshot_interval: { start_date: `${settings.oldestMonth}-01`, end_date: lastDay(settings.newestMonth) },
    countries: codes.map((code) => ({ code, name: code })),
  }
  return jsonReply(200, { remaining_hits: books.left('rest'), web_desktop_data: family, web_mobile_data: family })
}

/** Free (fact 18). */
export const userCapabilities = ({ purses }: VendorSettings, books: VendorBooks): VendorReply =>
  jsonReply(200, { allowance: purses.rest, user_remaining: books.left('rest') })
