// The datasets of the general batch report and of the shopper report: metrics, granularities, dimensions.

export const granularities = ['daily', 'weekly', 'monthly'] as const
export type Granularity = (typeof granularities)[number]

type TrafficKind =
  | 'visits'
  | 'desktop'
  | 'mobile'
  | 'desktop-unique'
  | 'mobile-unique'
  | 'pages'
  | 'rate'
  | 'share'
  | 'seconds'
  | 'ratio'
type SalesKind = 'views' | 'units' | 'revenue' | 'conversion'

/** `kind`: how values are computed: from visits to the domain, or as sales figures. */
export interface MetricSpec {
  readonly name: string
  readonly kind: TrafficKind | SalesKind
  readonly granularities: readonly Granularity[]
}

interface Vtable {
  readonly name: string
  /** Splits each domain, country and date further. `values` null: free text, any number of values. */
  readonly dimension: { readonly column: string; readonly about: string; readonly values: readonly string[] | null } | null
  readonly metrics: readonly MetricSpec[]
}

const all: readonly Granularity[] = granularities
const noWeeks: readonly Granularity[] = ['daily', 'monthly']
const metric = (name: string, kind: MetricSpec['kind'], at: readonly Granularity[] = all): MetricSpec => ({
  name,
  kind,
  granularities: at,
})

const list: readonly Vtable[] = [
  {
    name: 'traffic_and_engagement',
    dimension: null,
    metrics: [
      metric('all_traffic_visits', 'visits'),
      metric('mobile_visits', 'mobile'),
      metric('desktop_visits', 'desktop'),
      metric('desktop_unique_visitors', 'desktop-unique', noWeeks),
      metric('mobile_unique_visitors', 'mobile-unique', noWeeks),
      metric('all_page_views', 'pages', noWeeks),
      metric('all_traffic_pages_per_visit', 'ratio'),
      metric('all_traffic_average_visit_duration', 'seconds'),
      metric('all_traffic_bounce_rate', 'rate'),
    ],
  },
  {
    name: 'traffic_sources',
    dimension: {
      column: 'channel',
      about: 'Channel that brought the visits',
      values: ['Direct', 'Organic Search', 'Paid Search', 'Referrals', 'Social', 'Email', 'Display Ads'],
    },
    metrics: [metric('channel_visits', 'visits'), metric('channel_share', 'share'), metric('channel_pages_per_visit', 'ratio')],
  },
  {
    name: 'referrals',
    dimension: { column: 'referrer', about: 'Site that sent the visits', values: null },
    metrics: [metric('referral_visits', 'visits'), metric('referral_share', 'share')],
  },
]

export const vtables: ReadonlyMap<string, Vtable> = new Map(list.map((table) => [table.name, table]))

/** The table of the shopper report, whose places are categories. */
const shopper: Vtable = {
  name: 'shopper',
  dimension: null,
  metrics: [
    metric('category_sales_performance_product_views', 'views'),
    metric('category_sales_performance_units_sold', 'units'),
    metric('category_sales_performance_revenue', 'revenue'),
    metric('category_sales_performance_cvr', 'conversion'),
  ],
}

/** @param vtable null: the shopper report */
export const vtableOf = ({ vtable }: { readonly vtable: string | null }): Vtable | undefined =>
  vtable === null ? shopper : vtables.get(vtable)

/** Referrers of a domain unless an option sets more rows. */
const referrersPerDomain = 50

/** The value of the table's dimension at `index`; null where the table has none. */
export const dimensionValue = (dimension: Vtable['dimension'], index: number): string | null =>
  dimension === null ? null : (dimension.values?.[index] ?? `site-${String(index + 1).padStart(7, '0')}.example`)

export const dimensionSize = (dimension: Vtable['dimension']): number =>
  dimension === null ? 1 : (dimension.values?.length ?? referrersPerDomain)
