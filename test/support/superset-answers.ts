// What each shipped chart ought to show for the country us, in SQL of its own, written by hand and apart from the dashboards' files.

const month = 'month::timestamp as month'
const date = 'date::timestamp as date'
const us = `country = 'us'`
const changes = (
  order: string,
): string => `select month::timestamp, domain, country, keyword, movement, clicks_before, clicks, clicks_change, best_position
  from bi.keyword_month_over_month where ${us} order by month desc, ${order}, keyword, domain limit 25`
const coverage = (
  pipeline: string,
): string => `select month::timestamp, completeness, cells, cells_with_rows, cells_service_had_none, cells_held, cells_failed, cells_under_way,
  cells_not_asked, last_loaded_at, last_checked_at from bi.coverage_months where pipeline = '${pipeline}' order by month desc`
/** Where one of the two is not known, neither counts. */
const ofKnown = (part: string, whole: string): string =>
  `sum(${part}) filter (where ${whole} is not null) / sum(${whole}) filter (where ${part} is not null)`
const conversion = ofKnown('units_sold', 'product_views')

/** By dashboard and chart; the columns in the chart's order. */
export const answers: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'millrace-keywords': {
    'Clicks from search': `select ${month}, sum(clicks) from bi.keywords where ${us} group by month`,
    "Clicks without the domain's name": `select ${month}, sum(clicks) from bi.keywords
      where ${us} and position('example' in replace(keyword, ' ', '')) = 0 group by month`,
    'Part of clicks from positions 1 to 3': `select month::timestamp, sum(clicks) filter (where best <= 3) / sum(clicks) filter (where best is not null)
      from (select month, domain, keyword, sum(clicks) as clicks, min(position) as best from bi.keywords where ${us} group by 1, 2, 3) k group by month`,
    'Searches without a click': `select month::timestamp, round(sum(volume * share), 2) / sum(volume) from (select month, domain, keyword,
      max(volume) as volume, max(zero_clicks_share) as share from bi.keywords where ${us} group by 1, 2, 3) k group by month`,
    'Clicks by domain': `select ${month}, domain, sum(clicks) from bi.keywords where ${us} group by month, domain`,
    'Clicks by position': `select month::timestamp, bucket, coalesce(sum(clicks) filter (where best between low and high), 0)
      from (select month, domain, keyword, sum(clicks) as clicks, min(position) as best from bi.keywords where ${us} group by 1, 2, 3) k
      cross join (values ('01-03', 1, 3), ('04-10', 4, 10), ('11-20', 11, 20), ('21+', 21, 1000)) b (bucket, low, high) group by month, bucket`,
    'Clicks by intent': `select ${month}, coalesce(primary_intent, '(none)'), sum(clicks) from bi.keywords where ${us} group by month, 2`,
    'Average position by domain': `select ${month}, domain, sum(clicks * position) / sum(clicks) from bi.keywords where ${us} group by month, domain`,
    'Keywords that lost most clicks': changes('clicks_change'),
    'Keywords that won most clicks': changes('clicks_change desc'),
    'What is loaded of keywords': coverage('keywords'),
  },
  'millrace-traffic-and-engagement': {
    Visits: `select ${date}, sum(all_traffic_visits) from bi.traffic_and_engagement where ${us} group by date`,
    'Pages a visit': `select ${date}, ${ofKnown('all_page_views', 'all_traffic_visits')} from bi.traffic_and_engagement where ${us} group by date`,
    'Part of visits from mobile': `select ${date}, ${ofKnown('mobile_visits', 'mobile_visits + desktop_visits')} from bi.traffic_and_engagement where ${us} group by date`,
    'Visits by domain': `select ${date}, domain, all_traffic_visits from bi.traffic_and_engagement where ${us}`,
    'Part of visits from mobile by domain': `select ${date}, domain, mobile_visits / (mobile_visits + desktop_visits) from bi.traffic_and_engagement where ${us}`,
    'Visitors on desktop by domain': `select ${date}, domain, desktop_unique_visitors from bi.traffic_and_engagement where ${us}`,
    'Pages a visit by domain': `select ${date}, domain, all_page_views / all_traffic_visits from bi.traffic_and_engagement where ${us}`,
    'Growth over the month and the year before': `select now.date::timestamp, domain, country, now.all_traffic_visits, before.all_traffic_visits,
        now.all_traffic_visits / before.all_traffic_visits - 1, year.all_traffic_visits, now.all_traffic_visits / year.all_traffic_visits - 1
      from bi.traffic_and_engagement now
      left join lateral (select * from bi.traffic_and_engagement b where b.domain = now.domain and b.country = now.country and b.date = now.date - interval '1 month') before using (domain, country)
      left join lateral (select * from bi.traffic_and_engagement y where y.domain = now.domain and y.country = now.country and y.date = now.date - interval '1 year') year using (domain, country)
      where ${us} order by now.date desc, 4 desc`,
    'What is loaded of traffic': coverage('traffic_and_engagement'),
  },
  'millrace-shopper-category-performance': {
    Revenue: `select ${date}, sum(revenue) from bi.shopper_category_performance group by date`,
    'Units sold': `select ${date}, sum(units_sold) from bi.shopper_category_performance group by date`,
    Conversion: `select ${date}, ${conversion} from bi.shopper_category_performance group by date`,
    'Revenue by category': `select ${date}, category_id, sum(revenue) from bi.shopper_category_performance group by date, category_id`,
    'Conversion by domain': `select ${date}, domain, ${conversion} from bi.shopper_category_performance group by date, domain`,
    'Much looked at, little bought': `select domain, category_id, sum(product_views), sum(units_sold), sum(revenue), ${conversion} as conversion
      from bi.shopper_category_performance group by domain, category_id order by conversion`,
    'What is loaded of shopper categories': coverage('shopper_category_performance'),
  },
}
