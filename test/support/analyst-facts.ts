// What the sandbox's API says of the analyst's world, read by plain HTTP and kept apart from everything the program does with it.
import { askKeywords, buy, call, download, linkOf, objectOf, reportBody } from '../e2e/sandbox-client.ts'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { z } from 'zod'

export interface KeywordFact {
  readonly month: string
  readonly domain: string
  readonly country: string
  readonly keyword: string
  readonly url: string
  readonly clicks: number
  readonly position: number
  readonly features: readonly string[]
}

/** A number that the service left out is null. */
export interface TrafficFact {
  readonly date: string
  readonly domain: string
  readonly country: string
  readonly visits: number | null
  readonly mobile: number | null
  readonly desktop: number | null
  readonly views: number | null
}

export interface ShopFact {
  readonly date: string
  readonly domain: string
  readonly category: string
  readonly views: number | null
  readonly units: number | null
  readonly revenue: number | null
}

export interface Facts {
  readonly keywords: readonly KeywordFact[]
  readonly traffic: readonly TrafficFact[]
  readonly shop: readonly ShopFact[]
}

export const worldDomains = ['example.com', 'example.net', 'example.org'] as const
export const worldCategories = ['1001', '1002', '1003'] as const
const countryNames: Readonly<Record<string, string>> = { WW: 'world', US: 'us', GB: 'gb' }

const page = z.object({
  keywords_count: z.int(),
  keywords: z.array(
    z.object({
      keyword: z.string(),
      top_url: z.string(),
      clicks: z.number().default(0),
      position: z.number().default(0),
      serp_features: z.array(z.string()),
    }),
  ),
})

const readKeywords = async (sandbox: Sandbox, months: readonly string[]): Promise<KeywordFact[]> => {
  const facts: KeywordFact[] = []
  for (const month of months)
    for (const domain of worldDomains)
      for (const country of ['us', 'gb']) {
        const query = { URL: domain, country, start_date: month, end_date: month, limit: '2000' }
        const { keywords, keywords_count: count } = page.parse(objectOf((await askKeywords(sandbox, query)).text))
        if (keywords.length !== count) throw new Error(`${keywords.length} of ${count} keywords`)
        for (const { top_url: url, serp_features: features, ...rest } of keywords)
          facts.push({ month: `${month}-01`, domain, country, url, features, ...rest })
      }
  return facts
}

const readCsv = (text: string): Record<string, string>[] => {
  const [head = '', ...lines] = text.trim().split('\n')
  const names = head.split(',')
  return lines.map((line) => Object.fromEntries(line.split(',').map((cell, at) => [names[at] ?? '', cell])))
}
const numberOf = (cell: string | undefined): number | null =>
  cell === undefined || cell === '' || cell === 'null' ? null : Number(cell)

const readTraffic = async (sandbox: Sandbox, [from, to]: readonly [string, string]): Promise<TrafficFact[]> => {
  const body = reportBody({
    filters: { domains: worldDomains, countries: Object.keys(countryNames), include_subdomains: true },
    metrics: ['all_traffic_visits', 'mobile_visits', 'desktop_visits', 'all_page_views'],
    start_date: from,
    end_date: to,
  })
  return readCsv((await download(await readyLink(sandbox, await buy(sandbox, body)))).text).map((row) => ({
    date: row['date'] ?? '',
    domain: row['domain'] ?? '',
    country: countryNames[row['country'] ?? ''] ?? '',
    visits: numberOf(row['all_traffic_visits']),
    mobile: numberOf(row['mobile_visits']),
    desktop: numberOf(row['desktop_visits']),
    views: numberOf(row['all_page_views']),
  }))
}

const shopMetric = (name: string): string => `category_sales_performance_${name}`

const readShop = async (sandbox: Sandbox, [from, to]: readonly [string, string]): Promise<ShopFact[]> => {
  const answer = await call(sandbox, 'POST', '/v3/batch/shopper/request-report', {
    domains: worldDomains,
    category_ids: worldCategories.map(Number),
    metrics: ['product_views', 'units_sold', 'revenue'].map(shopMetric),
    start_date: from,
    end_date: to,
    granularity: 'monthly',
    response_format: 'csv',
  })
  const link = await readyLink(sandbox, String(objectOf(answer.text)['report_id']))
  return readCsv((await download(link)).text).map((row) => ({
    date: row['date'] ?? '',
    domain: row['domain'] ?? '',
    category: row['category_id'] ?? '',
    views: numberOf(row[shopMetric('product_views')]),
    units: numberOf(row[shopMetric('units_sold')]),
    revenue: numberOf(row[shopMetric('revenue')]),
  }))
}

const readyLink = async (sandbox: Sandbox, id: string): Promise<string> => {
  for (let polls = 0; polls < 200; polls += 1) {
    const link = await linkOf(sandbox, id).catch(() => null)
    if (link !== null) return link
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error(`report ${id} never got ready`)
}

/** @param months of keywords, and first and last months of reports */
export const readFacts = async (
  sandbox: Sandbox,
  months: { readonly keywords: readonly string[]; readonly reports: readonly (readonly [string, string])[] },
): Promise<Facts> => {
  const traffic: TrafficFact[] = []
  const shop: ShopFact[] = []
  for (const range of months.reports) {
    traffic.push(...(await readTraffic(sandbox, range)))
    shop.push(...(await readShop(sandbox, range)))
  }
  return { keywords: await readKeywords(sandbox, months.keywords), traffic, shop }
}
