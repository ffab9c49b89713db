// What dashboards and analysts ask of a large warehouse, each round about another month and domain.

/** The same for the same round, whoever measures. */
const pick = (round: number, of: number): number => (round * 7919) % of

export const domainOf = (round: number): string => `domain-${1 + pick(round, 50)}.example`
/** @param loaded first days of months, in order; two at least */
export const monthOf = (loaded: readonly string[], round: number): string =>
  loaded.at(1 + pick(round, loaded.length - 1)) ?? '2025-12-01'

const keywords = (round: number): string =>
  Array.from({ length: 500 }, (_, at) => `'shared keyword ${3 * (1 + ((at * 13 + round) % 1_000))}'`).join(', ')

/** First day of the newest quarter that is loaded whole. */
const newestQuarter = (loaded: readonly string[]): string =>
  loaded.filter((day, at) => Number(day.slice(5, 7)) % 3 === 1 && at + 2 < loaded.length).at(-1) ?? '2025-10-01'

/** SQL by name. @param loaded first days of months, in order */
export const questionsOver = (loaded: readonly string[]): Readonly<Record<string, (round: number) => string>> => {
  const domain = domainOf
  const month = (round: number): string => monthOf(loaded, round)
  const quarter = newestQuarter(loaded)
  const fiscal = `FY${quarter.slice(0, 4)} Q${(Number(quarter.slice(5, 7)) + 2) / 3}`
  return {
    'clicks by month and domain, everything': () =>
      'select month, domain, sum(clicks) as clicks from bi.keyword_months group by month, domain order by 1, 2',
    'positions of a domain over two years': (round) =>
      `select month, bucket, keywords, clicks from bi.keyword_positions where domain = '${domain(round)}' and country = 'us' order by 1, 2`,
    'brand share of all domains in a month': (round) =>
      `select domain, clicks_brand / nullif(clicks, 0) as share_brand from bi.keyword_months where month = '${month(round)}' and country = 'us'`,
    'intent mix of a domain over two years': (round) =>
      `select month, intent, share_of_clicks from bi.keyword_intent_mix where domain = '${domain(round)}' and country = 'us'`,
    'month over month of a domain, 50 largest changes': (round) =>
      `select keyword, movement, clicks, clicks_change from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on = '${month(round)}'
        and domain = '${domain(round)}' and country = 'us' order by abs(clicks_change) desc limit 50`,
    'month over month of a domain, keywords by movement': (round) =>
      `select movement, count(*), sum(clicks_change) from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on = '${month(round)}'
        and domain = '${domain(round)}' and country = 'us' group by 1`,
    'share of voice, 500 keywords, all domains, a month': (round) =>
      `select domain, sum(clicks) as clicks, sum(clicks_all) as clicks_all from bi.keyword_share_of_voice where month = '${month(round)}'
        and country = 'us' and keyword in (${keywords(round)}) group by 1 order by 2 desc`,
    'gap between two domains, 50 largest': (round) =>
      `select keyword, clicks_of_other from bi.keyword_gap where month = '${month(round)}' and country = 'us' and domain = '${domain(round)}'
        and other_domain = '${domain(round + 1)}' order by 2 desc limit 50`,
    'largest 100 keywords of a domain in a month': (round) =>
      `select keyword, clicks, position from bi.keywords where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us'
        order by clicks desc nulls last limit 100`,
    'the same as believed yesterday': (round) =>
      `select keyword, clicks, position from bi.keywords_as_of(now() - interval '1 day') where month = '${month(round)}'
        and domain = '${domain(round)}' and country = 'us' order by clicks desc nulls last limit 100`,
    'growth over the month before, all domains': (round) =>
      `select sum(clicks) filter (where clicks_before is not null) / sum(clicks_before) filter (where clicks is not null) - 1, count(*) from bi.keyword_comparison
        where month = '${month(round)}' and comparison = 'previous' and country = 'us'`,
    'growth over the year, month by month, by domain': () =>
      `select month, domain, clicks / nullif(clicks_before, 0) - 1 from bi.keyword_comparison where months_back = 12 and country = 'us'`,
    'what is loaded, month by month': () =>
      `select month, completeness, is_complete from bi.coverage_months where pipeline = 'keywords'`,
    'lost keywords of the newest month, one domain, 25 largest': (round) =>
      `select keyword, clicks_before, clicks_change from bi.keyword_movements where is_newest and period = 'month' and months_back = 1 and domain = '${domain(round)}' and country = 'us'
        order by clicks_change limit 25`,
    'gap in the newest month, 25 largest': (round) =>
      `select keyword, clicks_of_other from bi.keyword_gap where is_newest and country = 'us' and domain = '${domain(round)}'
        and other_domain = '${domain(round + 1)}' order by 2 desc limit 25`,
    'quarter against the one before, a domain, 25 largest losses': (round) =>
      `select keyword, clicks_change from bi.keyword_movements where period = 'quarter' and starts_on = '${quarter}' and months_back = 3
        and domain = '${domain(round)}' and country = 'us' order by 2 limit 25`,
    'a fiscal quarter by the calendar, a domain': (round) =>
      `select month, sum(clicks) from bi.keywords where month = any(array(select month_start from bi.dim_date where fiscal_quarter_name = '${fiscal}'))
        and domain = '${domain(round)}' and country = 'us' group by 1`,
    'sections of a site in a month': (round) =>
      `select section, sum(clicks) from bi.landing_pages where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us' group by 1
        order by 2 desc limit 20`,
    'restatements of a domain in a month': (round) =>
      `select clicks_first, clicks_now from bi.keyword_restatements where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us'`,
    'one keyword of a domain over two years': (round) =>
      `select month, sum(clicks), min(position) from bi.keywords where domain = '${domain(round)}' and country = 'us' and traffic_source = 'All'
        and web_source = 'Total' and branded_type = 'All' and keyword = 'shared keyword ${3 * (1 + pick(round, 500))}' group by 1`,
  }
}
