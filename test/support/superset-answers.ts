// What each shipped chart ought to show for the country us, in SQL of its own, written by hand and apart from the dashboards' files.

const month = 'month::timestamp as month'
const date = 'date::timestamp as date'
const us = `country = 'us'`
const changes = (
  order: string,
): string => `select starts_on::timestamp, domain, country, keyword, movement, clicks_before, clicks, clicks_change, best_position
  from bi.keyword_movements where ${us} and period = 'month' and months_back = 1 and starts_on = (select max(month) from bi.keywords) order by ${order}, keyword, domain limit 25`
/**
 * A tile's texts from rows of month, domain, n and d: of sums of n, or of n divided by d, over domains that both months have.
 * @param all rows that say which domains there are at all and which are compared; default the same
 */
const tile = (rows: string, { how, value, all = rows, what = 'domains' }: Tile): string => {
  const text = {
    growth: `to_char(100 * (sum(a.n) / sum(b.n) - 1), 'FMSG999,999,999,990.0') || ' % on '`,
    'growth of a ratio': `to_char(100 * (sum(a.n) / sum(a.d) / (sum(b.n) / sum(b.d)) - 1), 'FMSG999,999,999,990.0') || ' % on '`,
    points: `to_char(100 * (sum(a.n) / sum(a.d) - sum(b.n) / sum(b.d)), 'FMSG990.0') || ' percentage points on '`,
    'fine points': `to_char(100 * (sum(a.n) / sum(a.d) - sum(b.n) / sum(b.d)), 'FMSG990.00') || ' percentage points on '`,
  }[how]
  const pairs = (months: number, from = 'f'): string =>
    `${from} a join ${from} b using (domain) join newest on a.month = newest.month and b.month = newest.month - interval '${months} months'`
  const change = (months: number, words: string): string =>
    `(select coalesce(${text} || '${words}', 'nothing to compare with ${words}') from ${pairs(months)})`
  return `with f as (select * from (${rows}) r where n is not null and coalesce(d, 1) is not null), seen as (${all}),
    newest as (select max(month) as month from seen)
    select month::timestamp, (select ${value} from f where f.month = newest.month), to_char(month, 'FMMonth YYYY'), ${change(1, 'the month before')},
      ${change(12, 'the same month last year')}, (select count(distinct split_part(domain, '/', 1)) from ${pairs(1, 'seen')} where a.n is not null and b.n is not null) || ' of ' ||
      (select count(distinct split_part(domain, '/', 1)) from seen where seen.month in (newest.month, newest.month - interval '1 month', newest.month - interval '1 year'))
      || ' ${what} compared' || (select case when b + n > 0 then '; rows only before: ' || b || ', only now: ' || n else '' end from (select
        (select count(*) from seen b where b.month = newest.month - interval '1 month' and not exists (select from seen a where a.month = newest.month and a.domain = b.domain)) as b,
        (select count(*) from seen a where a.month = newest.month and not exists (select from seen b where b.month = newest.month - interval '1 month' and a.domain = b.domain)) as n) rows)
      from newest`
}
interface Tile {
  readonly how: 'growth' | 'growth of a ratio' | 'points' | 'fine points'
  readonly value: string
  readonly all?: string
  readonly what?: string
}
const whole = `to_char(sum(n), 'FM999,999,999,999')`
const percent = `to_char(100 * sum(n) / sum(d), 'FM990.0') || ' %'`
const perKeyword = `(select month, domain, keyword, sum(clicks) as clicks, min(position) as best, max(volume) as volume, max(zero_clicks_share) as share
  from bi.keywords where country = 'us' group by 1, 2, 3) k`
const ofKeywords = (n: string, d = 'null::numeric'): string =>
  `select month, domain, ${n} as n, ${d} as d from ${perKeyword} group by 1, 2`
const ofTraffic = (n: string, d = 'null::numeric'): string =>
  `select date as month, domain, ${n} as n, ${d} as d from bi.traffic_and_engagement where country = 'us' and ${d === 'null::numeric' ? 'true' : `${d} is not null`}`
/** Of the shopper report, where a domain and its category are what both months must have. */
const ofShops = (n: string, d = 'null::numeric'): string =>
  `select date as month, domain || '/' || category_id as domain, ${n} as n, ${d} as d from bi.shopper_category_performance where ${d === 'null::numeric' ? 'true' : `${d} is not null`}`
const year = (
  facts: string,
  date: string,
  value: string,
): string => `with f as (select ${date} as month, domain, sum(${value}) as n from ${facts} where ${us} group by 1, 2)
  select a.month::timestamp, domain, b.n - 1 from f a join lateral (select a.n / o.n as n from f o where o.domain = a.domain and o.month = a.month - interval '1 year') b on true`
/** Where one of the two is not known, neither counts. */
const ofKnown = (part: string, whole: string): string =>
  `sum(${part}) filter (where ${whole} is not null) / sum(${whole}) filter (where ${part} is not null)`
const conversion = ofKnown('units_sold', 'product_views')

/** Months and domains without a pair have a line without a value. */
const growthLines = (
  pairs: string,
  view: string,
): string => `select v.month, v.domain, p.g from (select distinct month::timestamp as month, domain
  from ${view} where ${us} and months_back = 12) v left join (${pairs}) p (month, domain, g) using (month, domain)`

/** The newest month's figure, and of the months before it what it would have been with the same growth of domains that two neighbours have: multiplied out, month by month. */
const trend = (rows: string, ratio = false): string => {
  const figure = (of: string): string => (ratio ? `sum(${of}.n) / sum(${of}.d)` : `sum(${of}.n)`)
  return `with recursive f as (select * from (${rows}) r where n is not null and coalesce(d, 1) is not null), months as (select distinct month from f),
    growth as (select a.month, (${figure('a')}) / (${figure('b')}) as g from f a join f b using (domain) where b.month = a.month - interval '1 month' group by 1),
    chain as (select month, (select ${figure('f')} from f where f.month = months.month) as value from months where month = (select max(month) from months)
      union all select (select max(month) from months where months.month < chain.month), value / (select g from growth where growth.month = chain.month)
        from chain where exists (select from months where months.month < chain.month))
    select month::timestamp, value from chain`
}
/** What has one of two months alone counts in no change. */
const movers = (rows: string, key = 'domain'): string => {
  const of = (back: string, there: string): string =>
    `(select domain, n, true as ${there} from f, newest where f.month = newest.month - interval '${back}')`
  const growth = (then: string): string => `sum(a.n - ${then}.n) / sum(${then}.n) filter (where a.n is not null)`
  const [gone, come] = ['count(*) filter (where before and now is null)', 'count(*) filter (where now and before is null)']
  const names = `count(distinct split_part(domain, '/', 1))`
  return `with f as (${rows}), newest as (select max(month) as month from f)
    select ${key}, sum(a.n), sum(a.n - b.n), ${growth('b')}, ${growth('c')}, ${names} filter (where a.n is not null and b.n is not null) || ' of ' || ${names}
      || case when ${gone} + ${come} > 0 then '; only before: ' || ${gone} || ', only now: ' || ${come} else '' end
    from ${of('0 months', 'now')} a full join ${of('1 month', 'before')} b using (domain) full join ${of('1 year', 'long_before')} c using (domain) group by 1`
}
const withoutName = ofKeywords(`sum(clicks) filter (where position('example' in replace(keyword, ' ', '')) = 0)`)

/** By dashboard and chart; the columns in the chart's order. */
export const answers: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'millrace-keywords': {
    'Clicks from search': tile(ofKeywords('sum(clicks)'), { how: 'growth', value: whole }),
    "Clicks without the domain's name": tile(
      ofKeywords(`sum(clicks) filter (where position('example' in replace(keyword, ' ', '')) = 0)`),
      { how: 'growth', value: whole },
    ),
    'Part of clicks from positions 1 to 3': tile(
      ofKeywords('sum(clicks) filter (where best <= 3)', 'sum(clicks) filter (where best is not null)'),
      { how: 'points', value: percent },
    ),
    'Searches without a click': tile(ofKeywords('round(sum(volume * share), 2)', 'sum(volume)'), {
      how: 'points',
      value: percent,
    }),
    'Clicks by domain': `select ${month}, domain, sum(clicks) from bi.keywords where ${us} group by month, domain`,
    'Clicks by position': `select month::timestamp, bucket, coalesce(sum(clicks) filter (where best between low and high), 0)
      from (select month, domain, keyword, sum(clicks) as clicks, min(position) as best from bi.keywords where ${us} group by 1, 2, 3) k
      cross join (values ('01-03', 1, 3), ('04-10', 4, 10), ('11-20', 11, 20), ('21+', 21, 1000)) b (bucket, low, high) group by month, bucket`,
    'Clicks by intent': `select ${month}, coalesce(primary_intent, '(none)'), sum(clicks) from bi.keywords where ${us} group by month, 2`,
    'Average position by domain': `select ${month}, domain, sum(clicks * position) / sum(clicks) from bi.keywords where ${us} group by month, domain`,
    'Share of voice': `select ${month}, domain, sum(clicks) / (select sum(o.clicks) from bi.keywords o where o.month = k.month and o.country = 'us')
      from bi.keywords k where ${us} group by month, domain`,
    'Clicks against the same month last year': growthLines(year('bi.keywords', 'month', 'clicks'), 'bi.keyword_comparison'),
    'Keywords that lost most clicks': changes('clicks_change'),
    'Keywords that won most clicks': changes('clicks_change desc'),
    'Keywords that another domain has': `select m.month::timestamp, d.domain, k.domain, k.keyword, sum(k.clicks), min(k.position), max(k.volume), null::integer
      from (select max(month) as month from bi.keywords) m join bi.keywords k on k.month = m.month and k.${us} and k.clicks > 0 join bi.dim_domain d on d.domain <> k.domain
      where not exists (select from bi.keywords o where o.month = m.month and o.${us} and o.domain = d.domain and o.keyword = k.keyword and o.clicks > 0)
      group by 1, 2, 3, 4 order by 5 desc, 4 limit 25`,
  },
  'millrace-traffic-and-engagement': {
    Visits: tile(ofTraffic('all_traffic_visits'), { how: 'growth', value: whole }),
    'Pages a visit': tile(ofTraffic('all_page_views', 'all_traffic_visits'), {
      how: 'growth of a ratio',
      value: `to_char(sum(n) / sum(d), 'FM990.00')`,
      all: ofTraffic('all_traffic_visits'),
    }),
    'Part of visits from mobile': tile(ofTraffic('mobile_visits', 'mobile_visits + desktop_visits'), {
      how: 'points',
      value: percent,
      all: ofTraffic('all_traffic_visits'),
    }),
    'Visits by domain': `select ${date}, domain, all_traffic_visits from bi.traffic_and_engagement where ${us}`,
    'Part of visits from mobile by domain': `select ${date}, domain, mobile_visits / (mobile_visits + desktop_visits) from bi.traffic_and_engagement where ${us}`,
    'Visitors on desktop by domain': `select ${date}, domain, desktop_unique_visitors from bi.traffic_and_engagement where ${us}`,
    'Pages a visit by domain': `select ${date}, domain, all_page_views / all_traffic_visits from bi.traffic_and_engagement where ${us}`,
    'Visits against the same month last year': growthLines(
      year('bi.traffic_and_engagement', 'date', 'all_traffic_visits'),
      'bi.traffic_comparison',
    ),
    'Visits as restated': `select k.date::timestamp, domain, sum(k.all_traffic_visits - h.all_traffic_visits) from bi.traffic_and_engagement k
      left join lateral (select all_traffic_visits from bi.traffic_and_engagement_history h where (h.date, h.domain, h.country) = (k.date, k.domain, k.country)
        order by valid_from limit 1) h on true where k.${us} group by 1, 2`,
  },
  'millrace-shopper-category-performance': {
    Revenue: tile(ofShops('revenue'), { how: 'growth', value: `'$' || ${whole}`, what: 'domains' }),
    'Units sold': tile(ofShops('units_sold'), { how: 'growth', value: whole, all: ofShops('revenue') }),
    Conversion: tile(ofShops('units_sold', 'product_views'), {
      how: 'fine points',
      value: `to_char(100 * sum(n) / sum(d), 'FM990.00') || ' %'`,
      all: ofShops('revenue'),
    }),
    'Revenue by category': `select ${date}, category_id, sum(revenue) from bi.shopper_category_performance group by date, category_id`,
    'Conversion by domain': `select ${date}, domain, ${conversion} from bi.shopper_category_performance group by date, domain`,
    'Much looked at, little bought': `select domain, category_id, sum(product_views), sum(units_sold), sum(revenue), ${conversion} as conversion
      from bi.shopper_category_performance group by domain, category_id order by conversion`,
  },
  'millrace-summary': {
    Clicks: trend(ofKeywords('sum(clicks)')),
    'Other clicks': trend(withoutName),
    Visits: trend(ofTraffic('all_traffic_visits')),
    'Pages a visit': trend(ofTraffic('all_page_views', 'all_traffic_visits'), true),
    Revenue: trend(ofShops('revenue')),
    'Units sold': trend(ofShops('units_sold')),
    'Clicks won and lost': movers(ofKeywords('sum(clicks)')),
    'Visits won and lost': movers(ofTraffic('all_traffic_visits')),
    'Revenue won and lost': movers(ofShops('revenue'), `split_part(domain, '/', 2)`),
  },
  'millrace-operations': {
    'What is loaded': `select month::timestamp, pipeline, completeness, cells, cells_with_rows, cells_service_had_none, cells_held, cells_failed, cells_under_way,
      cells_not_asked, last_loaded_at, last_checked_at from bi.coverage_months order by month desc, pipeline limit 100`,
    'What is missing': `select period::timestamp, pipeline, domain, country, category_id, reason, error_code
      from bi.coverage where reason is not null order by 1 desc, 2, 3, 4, 5 limit 200`,
    Restatements: `select seen_at, pipeline, window_from::timestamp, slice, rows_changed, rows_ended, rows_new, share_changed
      from bi.restatements order by seen_at desc, pipeline, 3 desc, slice limit 100`,
  },
}
