// Questions by the hundred, each with its answer by brute force from the landed rows alone: nothing here knows the views or the semantic layer.
import {
  type FigureWorld,
  type KeywordFact,
  randomOf,
  type ShopFact,
  type TrafficFact,
  worldDomains,
  worldMonths,
} from './figure-world.ts'

/** What a question is asked with, and what is right. */
export interface FigureQuestion {
  readonly about: string
  /** What it is likely to be answered wrongly for; null: it is a plain one. */
  readonly trap: string | null
  /** One row with the column `figure`. null: no view is asked. */
  readonly sql: string | null
  readonly tool: Readonly<Record<string, unknown>>
  /** A formula of a dashboard, over rows that fit. Left out: none shows it. */
  readonly chart?:
    | { readonly dashboard: string; readonly name: string; readonly measure: string; readonly where: string }
    | undefined
  /** The answer's column, and how its row is found among several. */
  readonly column: string
  readonly row: Readonly<Record<string, string | number>>
  /** null: nothing is known. A pattern: it is to be refused for that. */
  readonly right: number | null | RegExp
}

/** As a column: how many rows there are. */
export const rowCount = '(rows)'

type Pick = <T>(list: readonly T[]) => T
type Maker = (world: AskedWorld, pick: Pick) => FigureQuestion

/** Landed rows; of the shops also those of the version that was published before, and what readers saw then. */
export interface AskedWorld extends FigureWorld {
  readonly shopBefore: readonly ShopFact[]
  /** A moment before the switch. */
  readonly beforeSwitch: string
  readonly lives: readonly TrafficLife[]
}

/** What a domain's visits of a month were in one answer after the other; null: no row. */
export interface TrafficLife {
  readonly date: string
  readonly domain: string
  readonly answers: readonly (number | null)[]
}

const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null)
const total = (values: readonly (number | null)[]): number | null =>
  known(values).length === 0 ? null : known(values).reduce((a, b) => a + b, 0)
const part = (a: number | null, b: number | null): number | null => (a === null || b === null || b === 0 ? null : a / b)
const short = (month: string): string => month.slice(0, 7)
const quoted = (values: readonly string[]): string => values.map((value) => `'${value}'`).join(', ')
const monthBefore = (month: string): string => worldMonths[worldMonths.indexOf(month as (typeof worldMonths)[number]) - 1] ?? ''
const laterMonths = worldMonths.slice(1)
const countries = ['us', 'gb'] as const
const is = (dimension: string, values: readonly string[] | string) => ({ dimension, is: values })
const inMonth = (month: string) => ({ from: short(month), to: short(month) })

const trafficColumns = {
  visits: 'all_traffic_visits',
  mobile_visits: 'mobile_visits',
  desktop_visits: 'desktop_visits',
  page_views: 'all_page_views',
} as const
const trafficMetrics = ['visits', 'mobile_visits', 'desktop_visits', 'page_views'] as const
const shopMetrics = ['revenue', 'units_sold', 'product_views'] as const
const sets = [['acme.com'], ['rival.com', 'other.com'], ['acme.com', 'late.com'], [...worldDomains]] as const

const trafficOf = (world: AskedWorld, month: string, country: string, domains: readonly string[] = worldDomains): TrafficFact[] =>
  world.traffic.filter((row) => row.date === month && row.country === country && domains.includes(row.domain))
const totalsOf = (world: AskedWorld, month: string, country: string, domain: string): KeywordFact[] =>
  world.keywords.filter(
    (row) => row.month === month && row.country === country && row.domain === domain && row.web_source === 'Total',
  )

const trafficSum: Maker = (world, pick) => {
  const [metric, month, country, domains] = [pick(trafficMetrics), pick(worldMonths), pick(countries), pick(sets)]
  const column = trafficColumns[metric]
  return {
    about: `${metric} of ${domains.join(' and ')} in ${month}, ${country}`,
    trap: null,
    sql: `select sum(${column}) as figure from bi.traffic_and_engagement where date = '${month}' and country = '${country}' and domain in (${quoted(domains)})`,
    ...(metric === 'visits'
      ? {
          chart: {
            dashboard: 'traffic_and_engagement',
            name: 'Visits by domain',
            measure: 'Visits',
            where: `date = '${month}' and country = '${country}' and domain in (${quoted(domains)})`,
          },
        }
      : {}),
    tool: { metrics: [metric], period: inMonth(month), where: [is('country', country), is('domain', domains)] },
    column: metric,
    row: {},
    right: total(trafficOf(world, month, country, domains).map((row) => row[column])),
  }
}

const trafficRatio: Maker = (world, pick) => {
  const [month, country, domains] = [pick(worldMonths), pick(countries), pick(sets)]
  const rows = trafficOf(world, month, country, domains).filter(
    (row) => row.mobile_visits !== null && row.desktop_visits !== null,
  )
  return {
    about: `part of visits from mobile of ${domains.join(' and ')} in ${month}, ${country}`,
    trap: null,
    sql: `select sum(mobile_visits) / nullif(sum(mobile_visits + desktop_visits), 0) as figure from bi.device_mix
      where date = '${month}' and country = '${country}' and domain in (${quoted(domains)}) and mobile_share is not null`,
    chart: {
      dashboard: 'traffic_and_engagement',
      name: 'Part of visits from mobile by domain',
      measure: 'Part',
      where: `date = '${month}' and country = '${country}' and domain in (${quoted(domains)})`,
    },
    tool: { metrics: ['mobile_share'], period: inMonth(month), where: [is('country', country), is('domain', domains)] },
    column: 'mobile_share',
    row: {},
    right: part(total(rows.map((row) => row.mobile_visits)), total(rows.map((row) => (row.mobile_visits ?? 0) + (row.desktop_visits ?? 0)))), // biome-ignore format: one look
  }
}

const clicksSum: Maker = (world, pick) => {
  const [from, country, domains] = [pick(worldMonths), pick(countries), pick(sets)]
  const rows = domains.flatMap((domain) => totalsOf(world, from, country, domain))
  return {
    about: `clicks of ${domains.join(' and ')} in ${from}, ${country}`,
    trap: null,
    sql: `select sum(clicks) as figure from bi.keyword_months where month = '${from}' and country = '${country}' and web_source = 'Total' and domain in (${quoted(domains)})`,
    chart: {
      dashboard: 'keywords',
      name: 'Clicks by domain',
      measure: 'Clicks',
      where: `month = '${from}' and country = '${country}' and web_source = 'Total' and domain in (${quoted(domains)})`,
    },
    tool: { metrics: ['clicks'], period: inMonth(from), where: [is('country', country), is('domain', domains)] },
    column: 'clicks',
    row: {},
    right: total(rows.map(({ clicks }) => clicks)),
  }
}

const keywordCount: Maker = (world, pick) => {
  const [month, country, domains] = [pick(worldMonths), pick(countries), pick(sets)]
  const rows = domains.flatMap((domain) => totalsOf(world, month, country, domain))
  return {
    about: `distinct keywords of ${domains.join(' and ')} in ${month}, ${country}`,
    trap: null,
    sql: `select nullif(count(distinct keyword), 0) as figure from bi.keywords where month = '${month}' and country = '${country}' and web_source = 'Total' and domain in (${quoted(domains)})`,
    tool: { metrics: ['keyword_count'], period: inMonth(month), where: [is('country', country), is('domain', domains)] },
    column: 'keyword_count',
    row: {},
    right: rows.length === 0 ? null : new Set(rows.map(({ keyword }) => keyword)).size,
  }
}

/** 0 stands for a record without a position. */
const bestPosition: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const ranks = known(totalsOf(world, month, country, domain).map(({ position }) => position)).filter((rank) => rank > 0)
  return {
    about: `best position of ${domain} in ${month}, ${country}`,
    trap: 'a position of 0',
    sql: `select min(best_position) as figure from bi.landing_pages where month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}'`,
    tool: { metrics: ['best_position'], period: inMonth(month), where: [is('country', country), is('domain', domain)] },
    column: 'best_position',
    row: {},
    right: ranks.length === 0 ? null : Math.min(...ranks),
  }
}

const averagePosition: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const ranked = totalsOf(world, month, country, domain).filter(({ position }) => position !== null && position > 0)
  return {
    about: `average position of ${domain} in ${month}, ${country}`,
    trap: 'a position of 0, and clicks without a position',
    sql: `select sum(clicks_times_position) / nullif(sum(clicks_ranked), 0) as figure from bi.keyword_months
      where month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}'`,
    chart: {
      dashboard: 'keywords',
      name: 'Average position by domain',
      measure: 'Position',
      where: `month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}'`,
    },
    tool: { metrics: ['average_position'], period: inMonth(month), where: [is('country', country), is('domain', domain)] },
    column: 'average_position',
    row: {},
    right: part(total(ranked.map(({ clicks, position }) => (clicks === null ? null : clicks * (position ?? 0)))), total(ranked.map(({ clicks }) => clicks))), // biome-ignore format: one look
  }
}

const shopSum: Maker = (world, pick) => {
  const [metric, month, category] = [pick(shopMetrics), pick(worldMonths), pick([1, 2])]
  const rows = world.shop.filter((row) => row.date === month && row.category_id === category)
  return {
    about: `${metric} of category ${category} in ${month}`,
    trap: null,
    sql: `select sum(${metric}) as figure from bi.shopper_funnel where date = '${month}' and category_id = ${category}`,
    chart: {
      dashboard: 'shopper_category_performance',
      name: 'Much looked at, little bought',
      measure: { revenue: 'Revenue', units_sold: 'Units', product_views: 'Views' }[metric],
      where: `date = '${month}' and category_id = ${category}`,
    },
    tool: { metrics: [metric], period: inMonth(month), where: [is('category_id', String(category))] },
    column: metric,
    row: {},
    right: total(rows.map((row) => row[metric])),
  }
}

const shareOfVoice: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const clicksOf = (one: string) => total(totalsOf(world, month, country, one).map(({ clicks }) => clicks))
  return {
    about: `share of voice of ${domain} in ${month}, ${country}`,
    trap: null,
    sql: `select share_of_voice as figure from bi.domain_share_of_voice where month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}'`,
    chart: {
      dashboard: 'keywords',
      name: 'Share of voice',
      measure: 'Share',
      where: `month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}'`,
    },
    tool: { metrics: ['domain_share_of_voice'], by: ['domain', 'country'], grain: 'month', period: inMonth(month), where: [is('country', country), is('web_source', 'Total')] }, // biome-ignore format: one look
    column: 'domain_share_of_voice',
    row: { domain },
    right: part(clicksOf(domain), total(worldDomains.map(clicksOf))),
  }
}

const byDomain: Maker = (world, pick) => {
  const [metric, domain, country] = [pick(trafficMetrics), pick(worldDomains), pick(countries)]
  const column = trafficColumns[metric]
  return {
    about: `${metric} of ${domain} from July to September, ${country}, beside the others`,
    trap: null,
    sql: `select sum(${column}) as figure from bi.traffic_and_engagement where date >= '2025-07-01' and date < '2025-10-01' and country = '${country}' and domain = '${domain}'`,
    tool: { metrics: [metric], by: ['domain'], period: { from: '2025-07', to: '2025-09' }, where: [is('country', country)] },
    column: metric,
    row: { domain },
    right: total(
      worldMonths.slice(0, 3).flatMap((month) => trafficOf(world, month, country, [domain]).map((row) => row[column])),
    ),
  }
}

/** Rows of both months where both have the figure. */
const growthOf = <Row>(
  now: readonly Row[],
  before: readonly Row[],
  keyOf: (row: Row) => string,
  figure: (row: Row) => number | null,
): number | null => {
  const both = now.flatMap((row) => {
    const other = before.find((one) => keyOf(one) === keyOf(row))
    const [a, b] = [figure(row), other === undefined ? null : figure(other)]
    return a === null || b === null ? [] : [[a, b] as const]
  })
  const ratio = part(total(both.map(([a]) => a)), total(both.map(([, b]) => b)))
  return ratio === null ? null : ratio - 1
}

const growthOfTraffic: Maker = (world, pick) => {
  const [metric, month, country] = [pick(trafficMetrics), pick(laterMonths), pick(countries)]
  const column = trafficColumns[metric]
  const name = { visits: 'visits', mobile_visits: 'mobile_visits', desktop_visits: 'desktop_visits', page_views: 'page_views' }[
    metric
  ]
  return {
    about: `growth of ${metric} in ${month} over the month before, ${country}`,
    trap: 'slices that came or went, figures on one side',
    sql: `select sum(${name}) filter (where ${name}_before is not null) / nullif(sum(${name}_before) filter (where ${name} is not null), 0) - 1 as figure
      from bi.traffic_comparison where month = '${month}' and months_back = 1 and country = '${country}'`,
    ...(metric === 'visits'
      ? {
          chart: {
            dashboard: 'traffic_and_engagement',
            name: 'Visits',
            measure: 'Before',
            where: `month = '${month}' and country = '${country}'`,
          },
        }
      : {}),
    tool: { metrics: [metric], period: inMonth(month), where: [is('country', country)], compare: 'previous' },
    column: `${metric}_growth`,
    row: {},
    right: growthOf(trafficOf(world, month, country), trafficOf(world, monthBefore(month), country), (row) => row.domain, (row) => row[column]), // biome-ignore format: one look
  }
}

const growthOfShops: Maker = (world, pick) => {
  const [metric, month] = [pick(shopMetrics), pick(laterMonths)]
  const of = (date: string) => world.shop.filter((row) => row.date === date)
  return {
    about: `growth of ${metric} in ${month} over the month before`,
    trap: 'shops that came or went, figures on one side, two versions',
    sql: `select sum(${metric}) filter (where ${metric}_before is not null) / nullif(sum(${metric}_before) filter (where ${metric} is not null), 0) - 1 as figure
      from bi.shopper_comparison where month = '${month}' and months_back = 1`,
    ...(metric === 'product_views'
      ? {}
      : {
          chart: {
            dashboard: 'shopper_category_performance',
            name: { revenue: 'Revenue', units_sold: 'Units sold' }[metric],
            measure: 'Before',
            where: `month = '${month}'`,
          },
        }),
    tool: { metrics: [metric], period: inMonth(month), compare: 'previous' },
    column: `${metric}_growth`,
    row: {},
    right: growthOf(of(month), of(monthBefore(month)), (row) => `${row.domain}/${row.category_id}`, (row) => row[metric]), // biome-ignore format: one look
  }
}

const overlapping: Maker = (_, pick) => {
  const [metric, month] = [pick(['keywords', 'searches', 'keywords_top_three']), pick(worldMonths)]
  const values = pick([
    ['Total', 'Desktop'],
    ['Desktop', 'MobileWeb'],
    ['Total', 'Desktop', 'MobileWeb'],
  ])
  return {
    about: `${metric} of ${values.join(' and ')} together in ${month}`,
    trap: 'devices share keywords',
    sql: null,
    tool: {
      metrics: [metric],
      by: ['domain'],
      grain: 'month',
      period: inMonth(month),
      where: [is('country', 'us'), is('web_source', values)],
    },
    column: metric,
    row: {},
    right: /does not add up over web_source|Total contains the other values of web_source/,
  }
}

const visitorsTogether: Maker = (_, pick) => {
  const [metric, over] = [pick(['desktop_visitors', 'mobile_visitors']), pick(['domain', 'date'])]
  const alone =
    over === 'domain'
      ? { by: ['country'], grain: 'month' }
      : { by: ['domain', 'country'], period: { from: '2025-07', to: '2025-10' } }
  return {
    about: `${metric} of several ${over}s together`,
    trap: 'a visitor counts twice',
    sql: null,
    tool: { metrics: [metric], where: [is('country', pick(countries))], ...alone },
    column: metric,
    row: {},
    right: new RegExp(`${metric} does not add up over ${over}|month`),
  }
}

const unknownName: Maker = (_, pick) => {
  const [dimension, value, metric] = pick([
    ['domain', 'acme.con', 'visits'],
    ['domain', 'Acme.com', 'clicks'],
    ['country', 'usa', 'visits'],
    ['country', 'US', 'clicks'],
    ['web_source', 'Mobile', 'clicks'],
    ['category_id', '9', 'revenue'],
    ['keyword', 'shoez', 'keyword_clicks'],
  ] as const)
  return {
    about: `${metric} of a ${dimension} that does not exist: ${value}`,
    trap: 'an unknown name is not a figure of 0',
    sql: null,
    tool: { metrics: [metric], period: inMonth(pick(worldMonths)), where: [is(dimension, value)] },
    column: metric,
    row: {},
    right: new RegExp(`${dimension} has no value '${value.replace('.', '\\.')}'`),
  }
}

const gapOf: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const other = pick(worldDomains.filter((one) => one !== domain))
  const [own, theirs] = [totalsOf(world, month, country, domain), totalsOf(world, month, country, other)]
  const clicksOf = (rows: readonly KeywordFact[], keyword: string) => total(rows.filter((row) => row.keyword === keyword).map(({ clicks }) => clicks)) // biome-ignore format: one look
  const gap = [...new Set(theirs.map(({ keyword }) => keyword))].filter(
    (keyword) =>
      (clicksOf(theirs, keyword) ?? 0) > 0 && own.filter((row) => row.keyword === keyword).every(({ clicks }) => clicks === 0),
  )
  const right = own.length > 0 && theirs.length > 0 && gap.length > 0 ? gap.length : null
  return {
    about: `keywords that bring clicks to ${other} and none to ${domain} in ${month}, ${country}`,
    trap: 'a domain that is not loaded lacks nothing',
    sql: `select nullif(count(keyword), 0) as figure from bi.keyword_gap where month = '${month}' and country = '${country}' and web_source = 'Total' and domain = '${domain}' and other_domain = '${other}'`,
    tool: { metrics: ['gap_keywords'], period: inMonth(month), where: [is('country', country), is('domain', domain), is('other_domain', other), is('web_source', 'Total')] }, // biome-ignore format: one look
    column: 'gap_keywords',
    row: {},
    right,
  }
}

const clicksWon: Maker = (world, pick) => {
  const [month, country] = [pick(laterMonths), pick(countries)]
  const changes = worldDomains.flatMap((domain) => {
    const [now, before] = [totalsOf(world, month, country, domain), totalsOf(world, monthBefore(month), country, domain)]
    if (now.length === 0 || before.length === 0) return []
    const words = [...new Set([...now, ...before].map(({ keyword }) => keyword))]
    return words.map((keyword) => {
      const of = (rows: readonly KeywordFact[]) => {
        const found = rows.filter((row) => row.keyword === keyword)
        return found.length === 0 ? 0 : total(found.map(({ clicks }) => clicks))
      }
      const [a, b] = [of(now), of(before)]
      return a === null || b === null ? null : a - b
    })
  })
  return {
    about: `clicks won and lost in ${month}, ${country}`,
    trap: 'a first month, and one after a gap, win nothing',
    sql: `select sum(clicks_change) as figure from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on = '${month}' and country = '${country}' and web_source = 'Total'`,
    tool: { metrics: ['clicks_change'], period: inMonth(month), where: [is('country', country)] },
    column: 'clicks_change',
    row: {},
    right: total(changes),
  }
}

/** Of any two months, among domains whose clicks both know: one that left, came or is not loaded is in neither share. */
const shareOfTwoMonths: Maker = (world, pick) => {
  const [country, domain, side] = [pick(countries), pick(worldDomains), pick(['', '_before'])]
  const at = worldMonths.indexOf(pick(laterMonths))
  const back = pick(Array.from({ length: at }, (_, index) => index + 1))
  const [month, before] = [worldMonths[at] ?? '', worldMonths[at - back] ?? '']
  const clicksOf = (which: string, one: string) => total(totalsOf(world, which, country, one).map(({ clicks }) => clicks))
  const both = worldDomains.filter((one) => clicksOf(month, one) !== null && clicksOf(before, one) !== null)
  const asked = side === '' ? month : before
  const column = `compared_share_of_voice${side}`
  const cell = `month = '${month}' and months_back = ${back} and country = '${country}' and web_source = 'Total' and domain = '${domain}'`
  return {
    about: `share of voice of ${domain} in ${asked}, of those that ${before} and ${month} have, ${country}`,
    trap: 'domains that left, came or are not loaded',
    sql: `select share_of_voice${side} as figure from bi.keyword_comparison where ${cell}`,
    tool: { metrics: [column], by: ['domain'], period: inMonth(month), where: [is('country', country), is('months_back', String(back)), is('web_source', 'Total')] }, // biome-ignore format: one look
    column,
    row: { domain },
    right: both.includes(domain) ? part(clicksOf(asked, domain), total(both.map((one) => clicksOf(asked, one)))) : null,
  }
}

/** Shares of two months are not of the same domains. */
const sharesCompared: Maker = (_, pick) => ({
  about: 'share of voice of each month over the month before',
  trap: 'domains that left, came or are not loaded',
  sql: null,
  tool: { metrics: ['domain_share_of_voice'], by: ['domain', 'country'], grain: 'month', period: inMonth(pick(laterMonths)), compare: 'previous' }, // biome-ignore format: one look
  column: 'domain_share_of_voice',
  row: {},
  right: /cannot be compared here/,
})

const restated: Maker = (world, pick) => {
  const month = pick(worldMonths)
  const lives = world.lives.filter(({ date }) => date === month)
  const change = total(
    lives.map(({ answers }) => {
      const [first, now] = [answers[0] ?? null, answers.at(-1) ?? null]
      return first === null && now === null ? null : (now ?? 0) - (first ?? 0)
    }),
  )
  return {
    about: `by how much visits of ${month} were changed after they were first loaded`,
    trap: 'rows that ended, came late, or came back',
    sql: `select sum(visits_change) as figure from bi.traffic_restatements where date = '${month}' and country = 'fr'`,
    chart: {
      dashboard: 'traffic_and_engagement',
      name: 'Visits as restated',
      measure: 'Change',
      where: `date = '${month}' and country = 'fr'`,
    },
    tool: { metrics: ['visits_restated_by'], period: inMonth(month), where: [is('country', 'fr')] },
    column: 'visits_restated_by',
    row: {},
    right: change,
  }
}

const beforeTheSwitch: Maker = (world, pick) => {
  const [metric, month] = [pick(shopMetrics), pick(worldMonths)]
  return {
    about: `${metric} of ${month} as it was believed before another version was published`,
    trap: 'two versions',
    sql: `select sum(${metric}) as figure from bi.shopper_category_performance_as_of('${world.beforeSwitch}') where date = '${month}'`,
    tool: { metrics: [metric], period: inMonth(month), as_of: world.beforeSwitch },
    column: metric,
    row: {},
    right: total(world.shopBefore.filter(({ date }) => date === month).map((row) => row[metric])),
  }
}

const afterTheSwitch: Maker = (world, pick) => ({ ...shopSum(world, pick), trap: 'two versions' })

/** Among six keywords many domains have as many. */
const ties: Maker = (world, pick) => {
  const [month, country] = [pick(worldMonths), pick(countries)]
  const counts = worldDomains
    .map((domain) => new Set(totalsOf(world, month, country, domain).map(({ keyword }) => keyword)).size)
    .filter((one) => one > 0)
    .sort((a, b) => b - a)
  const limit = pick([1, 2])
  return {
    about: `the ${limit} domains with most keywords in ${month}, ${country}`,
    trap: 'ties at a limit',
    sql: null,
    tool: {
      metrics: ['keyword_count'],
      by: ['domain'],
      period: inMonth(month),
      where: [is('country', country)],
      order: [{ by: 'keyword_count' }],
      limit,
    },
    column: rowCount,
    row: {},
    right: counts.filter((one) => one >= (counts[limit - 1] ?? 0)).length,
  }
}

/** Groups and teams of attributes/domains.csv, as the test writes them. */
export const worldGroups: Readonly<Record<string, string>> = { 'acme.com': 'ours', 'rival.com': 'shops', 'other.com': 'shops' }

const ofGroup: Maker = (world, pick) => {
  const [month, country, group, dimension] = [pick(worldMonths), pick(countries), pick(['ours', 'shops', '(none)']), pick(['domain_group', 'team'])] // biome-ignore format: one look
  const domains = worldDomains.filter((domain) => (worldGroups[domain] ?? '(none)') === group)
  return {
    about: `visits of ${dimension} ${group} in ${month}, ${country}`,
    trap: null,
    sql: `select sum(all_traffic_visits) as figure from bi.traffic_domains where date = '${month}' and country = '${country}' and domain_group = '${group}'`,
    tool: { metrics: ['visits'], by: [dimension], period: inMonth(month), where: [is('country', country)] },
    column: 'visits',
    row: { [dimension]: group },
    right: total(trafficOf(world, month, country, domains).map((row) => row.all_traffic_visits)),
  }
}

const middle: Maker = (world, pick) => {
  const country = pick(countries)
  const values = known(world.traffic.filter((row) => row.country === country).map((row) => row.all_traffic_visits)).sort((a, b) => a - b) // biome-ignore format: one look
  const half = (values.length - 1) / 2
  const [low, high] = [values[Math.floor(half)], values[Math.ceil(half)]]
  return {
    about: `median of visits, ${country}`,
    trap: null,
    sql: `select percentile_cont(0.5) within group (order by all_traffic_visits) as figure from bi.traffic_and_engagement where country = '${country}'`,
    tool: { metrics: ['median_visits'], where: [is('country', country)] },
    column: 'median_visits',
    row: {},
    right: low === undefined || high === undefined ? null : (low + high) / 2,
  }
}

/** What is filtered is no smaller whole. */
const partOfWhole: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const all = trafficOf(world, month, country)
  const own = total(all.filter((row) => row.domain === domain).map((row) => row.all_traffic_visits))
  return {
    about: `${domain}'s part of all visits in ${month}, ${country}`,
    trap: 'a filter is no smaller whole',
    sql: null,
    tool: { metrics: ['visits_share'], period: inMonth(month), where: [is('country', country), is('domain', domain)] },
    column: 'visits_share',
    row: {},
    right: part(own, total(all.map((row) => row.all_traffic_visits))),
  }
}

const sinceJanuary: Maker = (world, pick) => {
  const [month, country, domain] = [pick(worldMonths), pick(countries), pick(worldDomains)]
  const until = worldMonths.filter((one) => one <= month).map((one) => total(trafficOf(world, one, country, [domain]).map((row) => row.all_traffic_visits))) // biome-ignore format: one look
  const from = until.slice(until.findIndex((one) => one !== null))
  return {
    about: `visits of ${domain} from the first month of the year to ${month}, ${country}`,
    trap: 'a running sum over a gap',
    sql: null,
    tool: { metrics: ['visits_this_year'], by: ['domain'], grain: 'month', period: inMonth(month), where: [is('country', country)], fill: true },
    column: 'visits_this_year',
    row: { domain },
    right: known(until).length === 0 || from.includes(null) ? null : total(from),
  } // biome-ignore format: one look
}

const plain = [ofGroup, middle, trafficSum, trafficRatio, clicksSum, keywordCount, shareOfVoice, byDomain]
const traps = [partOfWhole, sinceJanuary, bestPosition, averagePosition, growthOfTraffic, growthOfShops, overlapping, visitorsTogether, unknownName, gapOf, clicksWon, restated, beforeTheSwitch, afterTheSwitch, ties, shareOfTwoMonths, sharesCompared] // biome-ignore format: one look

/** Two of five are traps; each seed begins with other kinds. @param seed the same questions for the same @param count a multiple of five */
export const questionsOf = (world: AskedWorld, seed: number, count: number): FigureQuestion[] => {
  const random = randomOf(seed * 7919)
  const pick: Pick = (list) => list[Math.floor(random() * list.length)] as (typeof list)[number]
  return Array.from({ length: count }, (_, index) => {
    const at = index + seed * 5
    const makers = at % 5 < 2 ? traps : plain
    return (makers[Math.floor(at / 5 + (at % 5) * 7) % makers.length] as Maker)(world, pick)
  })
}
