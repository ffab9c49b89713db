// The tables of the batch interface as documented (part G, "Tables"): filters, metrics, rows of a domain, limits of a report.
import type { Price } from './vendor-prices.ts'

export interface VendorTable {
  readonly name: string
  /** Lists in `filters`, in the order of the file's columns; the first one is limited by `mostValues`. */
  readonly filters: readonly string[]
  readonly metrics: readonly string[]
  readonly granularities: readonly string[]
  /** A column that splits each domain further, with so many values; null: one row. */
  readonly part: { readonly column: string; readonly rows: number } | null
  /** Most values of the first filter in a report (fact 55). */
  readonly mostValues: number
  /** Months one report may span (facts 33, 56). */
  readonly mostMonths: number
  /** Last month with data; null: the table has no end. */
  readonly until: string | null
  readonly price: Price
}

const own = { mostValues: 1_000_000, mostMonths: 61, until: null, granularities: ['daily', 'weekly', 'monthly'] } as const
/** Derived from REST: few domains, no weeks (fact 55). */
const derived = { ...own, mostValues: 100, granularities: ['daily', 'monthly'] } as const
const byValue: Price = { by: 'metric-periods' }

type Some = Partial<Omit<VendorTable, 'name' | 'metrics' | 'part'>> & { readonly part?: readonly [column: string, rows: number] }

/** A table. Default: the service's own data, filtered by domains and countries, priced by metric and period. */
const table = (name: string, metrics: string, { part, ...some }: Some = {}): VendorTable => ({
  ...own,
  name,
  filters: ['domains', 'countries'],
  metrics: metrics.split(' '),
  price: byValue,
  part: part === undefined ? null : { column: part[0], rows: part[1] },
  ...some,
})

const domains = { filters: ['domains'] } as const
const engagement = 'all_traffic_visits mobile_visits desktop_visits desktop_unique_visitors mobile_unique_visitors all_page_views'
const list: readonly VendorTable[] = [
  table('traffic_and_engagement', `${engagement} desktop_new_visitors desktop_returning_visitors ppc_spend`),
  // Fact: SUP 36081690111517.
  table('marketing_channels', 'channel_visits channel_share', { part: ['channel', 8], until: '2026-11' }),
  table('website_marketing_channels', 'channel_visits channel_share', { part: ['channel', 10] }),
  table('traffic_sources', 'source_visits source_share', { part: ['source', 6] }),
  table('referrals', 'referral_visits referral_share', { part: ['referring_domain', 260], price: { by: 'revealed' } }),
  table('desktop_top_geo', 'geo_visits geo_share', { ...domains, part: ['country', 120], price: { by: 'rows-returned' } }),
  table('geography', 'geo_total_visits geo_mobile_visits geo_desktop_visits', {
    ...derived,
    ...domains,
    part: ['country', 120],
    price: { by: 'rows-returned' },
  }),
  table('similar_sites', 'similarity', { ...derived, ...domains, part: ['similar_domain', 40], price: { by: 'rows-asked' } }),
  table('website', 'global_rank category description', domains),
  table('demographics', 'male_share female_share', { part: ['age_group', 6], mostMonths: 37 }),
  table('audience_interests', 'affinity overlap', {
    part: ['interest', 150],
    price: { by: 'rows-returned', credits: 2.5 },
    mostMonths: 37,
  }),
  table('popular_pages', 'page_share', { ...derived, part: ['page', 300], price: { by: 'rows-asked', credits: 2 } }),
  table('website_keywords', 'clicks volume cpc', { part: ['keyword', 400], price: { by: 'rows-by-metrics' }, mostMonths: 3 }),
  table('segments', 'segment_total_visits segment_total_pages', { filters: ['segment_ids', 'countries'], mostValues: 100 }),
  // Their filters are known from third parties alone (part G, last row).
  table('apps', 'app_downloads app_active_users', { filters: ['app_ids', 'countries'], mostValues: 100 }),
  table('companies', 'company_visits company_employees', { filters: ['company_ids'], mostValues: 100 }),
  // Assumed: a table of the whole market, without filters.
  table('market_overview', 'market_visits market_sites', { filters: [] }),
]

export const vendorTables: ReadonlyMap<string, VendorTable> = new Map(list.map((table) => [table.name, table]))

/** Default limit of rows for each value (fact 54). */
export const defaultLimit = 100

const shopper = (column: string, subject: string, variants: readonly string[]): VendorTable => {
  const metrics = ['product_views', 'units_sold', 'revenue', 'cvr'].flatMap((name) =>
    variants.map((variant) => `${subject}_sales_performance_${name}${variant}`),
  )
  return table(`shopper_${subject}`, metrics.join(' '), { filters: ['domains', column], granularities: ['monthly'] })
}

/** The two forms of a shopper request (facts 41, 78), by the list that it names. */
export const shopperTables: Readonly<Record<string, VendorTable>> = {
  category_ids: shopper('category_ids', 'category', ['']),
  brands: shopper('brands', 'brand', ['', '_1P', '_3P']),
}

/** The column of a filter in the file: `domain` for `domains`. */
export const columnOf = (filter: string): string =>
  filter === 'countries' ? 'country' : filter === 'category_ids' ? 'category_id' : filter.replace(/s$/, '')
