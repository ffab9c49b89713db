// What each measure of bi adds up over, as a claim about SQL that is tested: with one value of the named columns, a sum counts each row of the facts once.

export type FactName = 'keywords' | 'traffic_and_engagement' | 'shopper_category_performance'

export interface Claim {
  readonly view: string
  /** Columns of the view that add up. */
  readonly measures: readonly string[]
  readonly fact: FactName
  /** One value each must be chosen; over all other columns the measures add up. Parameters of keywords (traffic_source and so on) belong to them. */
  readonly choose: readonly string[]
  /** Of one row of the facts `f` for a row of the view `v`, whose columns may be named; by measure, in the same order. */
  readonly of: readonly string[]
  /** Which rows of the facts are summed for given values of `choose`, with the month as `v.month`. */
  readonly where: string
  /** Column of the view with the period. */
  readonly period: string
  /** A condition on the view that picks rows the claim is about. */
  readonly only?: string
}

export const parameters = ['traffic_source', 'web_source', 'branded_type'] as const

const sameMonth = 'f.month = v.month and f.country = v.country'
const before = (months: string): string =>
  `f.month = (v.month - make_interval(months => ${months}))::date and f.country = v.country`
const best = (bucket: string): string =>
  `case when (select min(b.position) from bi.keywords b where (b.month, b.domain, b.country, b.keyword) = (f.month, f.domain, f.country, f.keyword)) ${bucket} then f.clicks end`
const named = `position(split_part(f.domain, '.', 1) in replace(lower(f.keyword), ' ', '')) > 0`

const keywordClaim = (claim: Omit<Claim, 'fact' | 'period' | 'where'> & Partial<Claim>): Claim => ({
  fact: 'keywords',
  period: 'month',
  where: sameMonth,
  ...claim,
})
const trafficClaim = (claim: Omit<Claim, 'fact' | 'period' | 'where'> & Partial<Claim>): Claim => ({
  fact: 'traffic_and_engagement',
  period: 'date',
  where: 'f.date = v.month and f.country = v.country',
  ...claim,
})
const buckets = ['<= 3', 'between 3.000001 and 10', 'between 10.000001 and 20', '> 20'] as const

const ranked = {
  measures: ['clicks_ranked', 'clicks_times_position'],
  of: ['case when f.position > 0 then f.clicks end', 'case when f.position > 0 then f.clicks * f.position end'],
} as const

export const claims: readonly Claim[] = [
  keywordClaim({ view: 'keywords', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({
    view: 'keywords_history',
    measures: ['clicks'],
    choose: ['country', 'is_current'],
    of: ['f.clicks'],
    only: 'is_current',
  }),
  keywordClaim({
    view: 'keyword_months',
    measures: [
      'clicks',
      'clicks_top_3',
      'clicks_4_to_10',
      'clicks_11_to_20',
      'clicks_21_and_on',
      'clicks_brand',
      ...ranked.measures,
    ],
    choose: ['country'],
    of: ['f.clicks', ...buckets.map(best), `case when ${named} then f.clicks end`, ...ranked.of],
  }),
  keywordClaim({
    view: 'keyword_domains',
    measures: ['clicks', 'clicks_brand', ...ranked.measures],
    choose: ['country'],
    of: ['f.clicks', `case when ${named} then f.clicks end`, ...ranked.of],
  }),
  keywordClaim({ view: 'keyword_intents', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({ view: 'keyword_intent_mix', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({ view: 'keyword_positions', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({
    view: 'keyword_brand_split',
    measures: ['clicks_branded', 'clicks_non_branded', 'clicks_all'],
    choose: ['country'],
    of: ['Branded', 'NonBranded', 'All'].map((name) => `case when f.branded_type = '${name}' then f.clicks end`),
  }),
  keywordClaim({ view: 'keyword_share_of_voice', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({
    view: 'keyword_share_of_voice',
    measures: ['clicks_all'],
    choose: ['country', 'domain'],
    of: ['f.clicks'],
    where: `${sameMonth} and f.keyword in (select k.keyword from bi.keywords k where k.month = v.month and k.country = v.country and k.domain = v.domain)`,
  }),
  keywordClaim({
    view: 'keyword_movements',
    measures: ['clicks'],
    choose: ['country', 'period', 'months_back'],
    of: ['f.clicks'],
    period: 'starts_on',
    only: `period = 'month' and months_back in (1, 12)`,
  }),
  keywordClaim({
    view: 'keyword_movements',
    measures: ['clicks', 'clicks_before'],
    choose: ['country', 'period', 'months_back'],
    of: [
      `case when f.month >= v.month then f.clicks end`,
      `case when f.month < v.month and exists (select from bi.keyword_months m where m.domain = f.domain and m.country = f.country
        and m.month >= v.month and m.month < v.month + interval '3 months') then f.clicks end`,
    ],
    where: `f.month >= v.month - interval '3 months' and f.month < v.month + interval '3 months' and f.country = v.country`,
    period: 'starts_on',
    only: `period = 'quarter' and months_back = 3`,
  }),
  keywordClaim({
    view: 'keyword_comparison',
    measures: ['clicks', 'clicks_brand', 'clicks_top_3', 'clicks_with_position'],
    choose: ['country', 'months_back'],
    of: ['f.clicks', `case when ${named} then f.clicks end`, best('<= 3'), best('is not null')],
    only: 'months_back in (1, 12)',
  }),
  keywordClaim({
    view: 'keyword_comparison',
    measures: ['clicks_before', 'clicks_brand_before', 'clicks_top_3_before', 'clicks_with_position_before'],
    choose: ['country', 'months_back'],
    of: ['f.clicks', `case when ${named} then f.clicks end`, best('<= 3'), best('is not null')],
    where: before('v.months_back'),
    only: 'months_back in (1, 12)',
  }),
  keywordClaim({ view: 'domain_share_of_voice', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({ view: 'domain_share_of_voice', measures: ['clicks_followed'], choose: ['country', 'domain'], of: ['f.clicks'] }),
  keywordClaim({ view: 'keyword_page_types', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({ view: 'landing_pages', measures: ['clicks'], choose: ['country'], of: ['f.clicks'] }),
  keywordClaim({
    view: 'keyword_serp_features',
    measures: ['clicks'],
    choose: ['country', 'feature'],
    of: ['f.clicks'],
    where: `${sameMonth} and (f.domain, f.keyword) in (select k.domain, k.keyword from bi.keywords k
      where k.month = v.month and k.country = v.country and v.feature = any(k.serp_features))`,
  }),
  keywordClaim({
    view: 'keyword_gap',
    measures: ['clicks_of_other'],
    choose: ['country', 'domain'],
    of: ['f.clicks'],
    where: `${sameMonth} and f.domain <> v.domain and f.keyword not in
      (select k.keyword from bi.keywords k where k.month = v.month and k.country = v.country and k.domain = v.domain and k.clicks > 0)`,
  }),
  keywordClaim({ view: 'keyword_restatements', measures: ['clicks_now'], choose: ['country'], of: ['f.clicks'] }),
  trafficClaim({
    view: 'traffic_and_engagement',
    measures: ['all_traffic_visits', 'mobile_visits', 'desktop_visits', 'all_page_views'],
    choose: ['country'],
    of: ['f.all_traffic_visits', 'f.mobile_visits', 'f.desktop_visits', 'f.all_page_views'],
  }),
  trafficClaim({
    view: 'device_mix',
    measures: ['mobile_visits', 'desktop_visits'],
    choose: ['country'],
    of: ['f.mobile_visits', 'f.desktop_visits'],
  }),
  trafficClaim({
    view: 'traffic_domains',
    measures: ['all_traffic_visits', 'all_page_views'],
    choose: ['country'],
    of: ['f.all_traffic_visits', 'f.all_page_views'],
  }),
  trafficClaim({ view: 'traffic_restatements', measures: ['visits_now'], choose: ['country'], of: ['f.all_traffic_visits'] }),
  trafficClaim({
    view: 'traffic_comparison',
    measures: ['visits', 'desktop_visits', 'mobile_visits', 'page_views'],
    choose: ['country', 'months_back'],
    of: ['f.all_traffic_visits', 'f.desktop_visits', 'f.mobile_visits', 'f.all_page_views'],
    period: 'month',
    only: 'months_back in (1, 12)',
  }),
  trafficClaim({
    view: 'traffic_comparison',
    measures: ['visits_before', 'desktop_visits_before', 'mobile_visits_before', 'page_views_before'],
    choose: ['country', 'months_back'],
    of: ['f.all_traffic_visits', 'f.desktop_visits', 'f.mobile_visits', 'f.all_page_views'],
    where: before('v.months_back').replace('f.month', 'f.date'),
    period: 'month',
    only: 'months_back in (1, 12)',
  }),
  ...['shopper_category_performance', 'shopper_funnel'].map(
    (view): Claim => ({
      view,
      measures: ['product_views', 'units_sold', 'revenue'],
      fact: 'shopper_category_performance',
      choose: [],
      of: ['f.product_views', 'f.units_sold', 'f.revenue'],
      where: 'f.date = v.month',
      period: 'date',
    }),
  ),
  ...(['', '_before'] as const).map(
    (ending): Claim => ({
      view: 'shopper_comparison',
      measures: ['revenue', 'product_views', 'units_sold'].map((name) => `${name}${ending}`),
      fact: 'shopper_category_performance',
      choose: ['months_back'],
      of: ['f.revenue', 'f.product_views', 'f.units_sold'],
      where: `f.date = ${ending === '' ? 'v.month' : '(v.month - make_interval(months => v.months_back))::date'}`,
      period: 'month',
      only: 'months_back in (1, 12)',
    }),
  ),
]

/** Measures of clicks, visits, views and sales that are not claimed, each with the words of its comment that say why. */
export const notClaimed: Readonly<Record<string, string>> = {
  'keyword_brand_terms.clicks_brand': 'that contain a brand term',
  'keyword_brand_terms.clicks_other': 'All other clicks',
  'keyword_comparison.clicks_followed': 'Does not add up over domains',
  'keyword_comparison.clicks_followed_before': 'Does not add up over domains',
  'shopper_funnel.revenue_per_unit': 'divided by',
  'shopper_funnel.revenue_per_view': 'divided by',
  'keyword_restatements.clicks_first': 'first loaded',
  'traffic_restatements.visits_first': 'first loaded',
}

/** Whether another line of the table has all of this one. */
const holds = (other: Claim, { view, measures, choose }: Claim): boolean =>
  other.view === view && other.choose.join() === choose.join() && measures.every((one) => other.measures.includes(one))

/** The table of docs/what-adds-up.md, one line a claim. */
export const additivityTable = (): string =>
  [
    '| sum of | choose one value each of |',
    '| --- | --- |',
    ...claims
      .filter((claim) => !claims.some((other) => other !== claim && holds(other, claim)))
      .map(
        ({ view, measures, choose }) =>
          `| \`${view}\`: ${measures.map((one) => `\`${one}\``).join(', ')} | ${choose.length === 0 ? 'nothing: it adds up over all' : choose.join(', ')} |`,
      ),
  ].join('\n')
