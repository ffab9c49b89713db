// The tables of the batch interface as they are documented (part G, "Tables"): filters, metrics, how many rows a domain has, what a report may ask for.
import type { Price } from './vendor-prices.ts'

export interface VendorTable {
  readonly name: string
  /** Lists in `filters`, in the order of the file's columns; the first is what a report is limited by. */
  readonly filters: readonly string[]
  readonly metrics: readonly string[]
  readonly granularities: readonly string[]
  /** A column that splits each domain further, with so many values; null: one row. */
  readonly part: { readonly column: string; readonly rows: number } | null
  /** Values of the first filter one report may name (fact 55). */
  readonly mostValues: number
  /** Months one report may span (facts 33, 56). */
  readonly mostMonths: number
  /** Last month there is; null: it goes on. */
  readonly until: string | null
  readonly price: Price
}

const own = { mostValues: 1_000_000, mostMonths: 61, until: null, granularities: ['daily', 'weekly', 'monthly'] } as const
/** Derived from REST: few domains, no weeks (fact 55). */
const derived = { ...own, mostValues: 100, granularities: ['daily', 'monthly'] } as const
const byValue: Price = { by: 'metric-periods' }
const many = (column: string, rows: number): VendorTable['part'] => ({ column, rows })
const site = ['domains', 'countries'] as const

const list: readonly VendorTable[] = [
  {
    ...own,
    name: 'traffic_and_engagement',
    filters: site,
    part: null,
    price: byValue,
    metrics: [
      'all_traffic_visits',
      'mobile_visits',
      'desktop_visits',
      'desktop_unique_visitors',
      'mobile_unique_visitors',
      'all_page_views',
      'desktop_new_visitors',
      'desktop_returning_visitors',
      'ppc_spend',
    ],
  },
  // Fact: SUP 36081690111517.
  {
    ...own,
    name: 'marketing_channels',
    filters: site,
    part: many('channel', 8),
    price: byValue,
    metrics: ['channel_visits', 'channel_share'],
    until: '2026-11',
  },
  {
    ...own,
    name: 'website_marketing_channels',
    filters: site,
    part: many('channel', 10),
    price: byValue,
    metrics: ['channel_visits', 'channel_share'],
  },
  {
    ...own,
    name: 'traffic_sources',
    filters: site,
    part: many('source', 6),
    price: byValue,
    metrics: ['source_visits', 'source_share'],
  },
  {
    ...own,
    name: 'referrals',
    filters: site,
    part: many('referring_domain', 260),
    price: { by: 'revealed' },
    metrics: ['referral_visits', 'referral_share'],
  },
  {
    ...own,
    name: 'desktop_top_geo',
    filters: ['domains'],
    part: many('country', 120),
    price: { by: 'rows-returned' },
    metrics: ['geo_visits', 'geo_share'],
  },
  {
    ...derived,
    name: 'geography',
    filters: ['domains'],
    part: many('country', 120),
    price: { by: 'rows-returned' },
    metrics: ['geo_total_visits', 'geo_mobile_visits', 'geo_desktop_visits'],
  },
  {
    ...derived,
    name: 'similar_sites',
    filters: ['domains'],
    part: many('similar_domain', 40),
    price: { by: 'rows-asked' },
    metrics: ['similarity'],
  },
  {
    ...own,
    name: 'website',
    filters: ['domains'],
    part: null,
    price: byValue,
    metrics: ['global_rank', 'category', 'description'],
  },
  {
    ...own,
    name: 'demographics',
    filters: site,
    part: many('age_group', 6),
    price: byValue,
    metrics: ['male_share', 'female_share'],
    mostMonths: 37,
  },
  {
    ...own,
    name: 'audience_interests',
    filters: site,
    part: many('interest', 150),
    price: { by: 'rows-returned', credits: 2.5 },
    metrics: ['affinity', 'overlap'],
    mostMonths: 37,
  },
  {
    ...derived,
    name: 'popular_pages',
    filters: site,
    part: many('page', 300),
    price: { by: 'rows-asked', credits: 2 },
    metrics: ['page_share'],
  },
  {
    ...own,
    name: 'website_keywords',
    filters: site,
    part: many('keyword', 400),
    price: { by: 'rows-by-metrics' },
    metrics: ['clicks', 'volume', 'cpc'],
    mostMonths: 3,
  },
  {
    ...own,
    name: 'segments',
    filters: ['segment_ids', 'countries'],
    part: null,
    price: byValue,
    metrics: ['segment_total_visits', 'segment_total_pages'],
    mostValues: 100,
  },
  // Their filters are known from third parties alone (part G, last row).
  {
    ...own,
    name: 'apps',
    filters: ['app_ids', 'countries'],
    part: null,
    price: byValue,
    metrics: ['app_downloads', 'app_active_users'],
    mostValues: 100,
  },
  {
    ...own,
    name: 'companies',
    filters: ['company_ids'],
    part: null,
    price: byValue,
    metrics: ['company_visits', 'company_employees'],
    mostValues: 100,
  },
  // Assumed: a table of the whole market, which names nothing to report on.
  {
    ...own,
    name: 'market_overview',
    filters: [],
    part: null,
    price: byValue,
    metrics: ['market_visits', 'market_sites'],
  },
]

export const vendorTables: ReadonlyMap<string, VendorTable> = new Map(list.map((table) => [table.name, table]))

/** Rows of each value unless the request says more (fact 54). */
export const defaultLimit = 100

const shopper = (column: string, subject: string, variants: readonly string[]): VendorTable => ({
  ...own,
  name: `shopper_${subject}`,
  filters: ['domains', column],
  granularities: ['monthly'],
  part: null,
  price: byValue,
  metrics: ['product_views', 'units_sold', 'revenue', 'cvr'].flatMap((name) =>
    variants.map((variant) => `${subject}_sales_performance_${name}${variant}`),
  ),
})

/** The two forms of a shopper request (facts 41, 78), by the list that it names. */
export const shopperTables: Readonly<Record<string, VendorTable>> = {
  category_ids: shopper('category_ids', 'category', ['']),
  brands: shopper('brands', 'brand', ['', '_1P', '_3P']),
}

/** `domains` in the file is `domain`: the column of a filter. */
export const columnOf = (filter: string): string =>
  filter === 'countries' ? 'country' : filter === 'category_ids' ? 'category_id' : filter.replace(/s$/, '')
