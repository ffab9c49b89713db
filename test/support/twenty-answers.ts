// The answers of the last twenty questions of docs/questions.md, worked out from the service's own records alone: no SQL, none of the program's code.
import { type Facts, type KeywordFact, type TrafficFact, worldCategories, worldDomains } from './analyst-facts.ts'

/** @param first April as it was before it was restated @param now everything as it is now; May without example.org */
export type Answer = (first: Facts, now: Facts) => readonly (readonly (string | number | null)[])[]

const april = '2025-04-01'
const sum = (values: readonly (number | null)[]): number => values.reduce<number>((all, value) => all + (value ?? 0), 0)
const clicksOf = (facts: readonly KeywordFact[]): number => sum(facts.map(({ clicks }) => clicks))
const of = (facts: readonly KeywordFact[], month: string, domain: string, country = 'us'): KeywordFact[] =>
  facts.filter((one) => one.month === month && one.domain === domain && one.country === country)
const trafficOf = (facts: readonly TrafficFact[], date: string, domain: string, country: string): TrafficFact | undefined =>
  facts.find((one) => one.date === date && one.domain === domain && one.country === country)
const byKeyword = (facts: readonly KeywordFact[]): Map<string, KeywordFact[]> => Map.groupBy(facts, ({ keyword }) => keyword)
const best = (facts: readonly KeywordFact[] | undefined): number | null =>
  facts === undefined ? null : Math.min(...facts.map(({ position }) => position))
const shareOf = (part: number | null | undefined, rest: number | null | undefined): number => {
  if (part === null || part === undefined || rest === null || rest === undefined) return Number.NaN
  return part / (part + rest)
}
/** Text in the order of bytes, as the database of the tests has it. */
const order = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))
const sectionOf = (url: string): string => /^[^/?#]*(\/[^/?#]*)/.exec(url)?.[1] ?? '/'
const trafficCountries = ['gb', 'us', 'world'] as const
const months = ['2025-01-01', '2025-02-01', '2025-03-01', april, '2025-05-01']

/** Cells of a month that the reports have a row for. */
const trafficCells = ({ traffic }: Facts, month: string): number => traffic.filter(({ date }) => date === month).length
const shopCells = ({ shop }: Facts, month: string): number => shop.filter(({ date }) => date === month).length

const missing: Answer = (_first, now) => {
  const shop = worldDomains.flatMap((domain) =>
    worldCategories
      .filter(
        (category) => !now.shop.some((one) => one.date === '2025-05-01' && one.domain === domain && one.category === category),
      )
      .map((category) => ['shopper_category_performance', domain, null, category, 'service had none']),
  )
  const traffic = worldDomains.flatMap((domain) =>
    trafficCountries
      .filter((country) => trafficOf(now.traffic, '2025-05-01', domain, country) === undefined)
      .map((country) => ['traffic_and_engagement', domain, country, null, 'service had none']),
  )
  return [...shop, ...traffic]
}

const complete: Answer = (_first, now) => [
  ...months.slice(0, 4).map((month) => ['keywords', month, 3]),
  ...months.filter((month) => shopCells(now, month) === 9).map((month) => ['shopper_category_performance', month, 3]),
  ...months.filter((month) => trafficCells(now, month) === 9).map((month) => ['traffic_and_engagement', month, 3]),
]

const growth: Answer = (_first, { traffic }) =>
  trafficCountries.map((country) => {
    const pairs = worldDomains
      .map((domain) => [trafficOf(traffic, '2025-05-01', domain, country), trafficOf(traffic, april, domain, country)] as const)
      .filter(([now, before]) => now !== undefined || before !== undefined)
    const both = pairs.filter(([now, before]) => typeof now?.visits === 'number' && typeof before?.visits === 'number')
    const grown = (of: typeof pairs): number =>
      sum(of.map(([now]) => now?.visits ?? null)) / sum(of.map(([, before]) => before?.visits ?? null)) - 1
    return [country, grown(pairs), grown(both), `${both.length} of ${pairs.length} domains`]
  })

const lastYear: Answer = (_first, { traffic }) =>
  worldDomains.map((domain) => {
    const now = trafficOf(traffic, april, domain, 'world')?.visits ?? Number.NaN
    const before = trafficOf(traffic, '2024-04-01', domain, 'world')?.visits ?? Number.NaN
    return [domain, now, before, now / before - 1]
  })

const sinceJanuary: Answer = (_first, { keywords }) =>
  worldDomains.flatMap((domain) =>
    ['gb', 'us'].map((country) => {
      const [before, now] = ['2025-01-01', april].map((month) => clicksOf(of(keywords, month, domain, country)))
      return [domain, country, before ?? 0, now ?? 0, (now ?? 0) / (before ?? 0) - 1]
    }),
  )

const lost: Answer = (_first, { keywords }) => {
  const now = byKeyword(of(keywords, april, 'example.com'))
  return [...byKeyword(of(keywords, '2024-04-01', 'example.com'))]
    .filter(([keyword, facts]) => !now.has(keyword) && clicksOf(facts) > 0)
    .map(([keyword, facts]) => [keyword, clicksOf(facts), best(facts)] as const)
    .sort((a, b) => b[1] - a[1] || order(a[0], b[0]))
    .slice(0, 5)
}

const quarters: Answer = (_first, { keywords }) =>
  (
    [
      ['2024 Q2', ['2024-04-01']],
      ['2025 Q1', months.slice(0, 3)],
      ['2025 Q2', [april]],
    ] as const
  ).flatMap(([quarter, own]) =>
    worldDomains.map((domain) => [
      quarter,
      domain,
      sum(own.map((month) => clicksOf(of(keywords, month, domain)))),
      `${own.length} of 3`,
    ]),
  )

const sections: Answer = (_first, { keywords }) => {
  const at = (month: string) => Map.groupBy(of(keywords, month, 'example.com'), ({ url }) => sectionOf(url))
  const [march, now] = [at('2025-03-01'), at(april)]
  const clicks = (facts: readonly KeywordFact[] | undefined): number | null => (facts === undefined ? null : clicksOf(facts))
  return [...new Set([...march.keys(), ...now.keys()])]
    .map((section) => [section, clicks(march.get(section)), clicks(now.get(section))] as const)
    .map(([section, before, after]) => [section, before, after, (after ?? 0) - (before ?? 0)] as const)
    .sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]) || order(a[0], b[0]))
    .slice(0, 5)
}

const video: Answer = (_first, { keywords }) =>
  worldDomains.map((domain) => {
    const all = of(keywords, april, domain)
    const beside = clicksOf(all.filter(({ features }) => features.includes('video')))
    return [domain, beside, beside / clicksOf(all)]
  })

const restatedClicks: Answer = (first, now) =>
  worldDomains.flatMap((domain) =>
    ['gb', 'us'].map((country) => {
      const [before, after] = [first, now].map(({ keywords }) => clicksOf(of(keywords, april, domain, country)))
      return [domain, country, before ?? 0, after ?? 0, (after ?? 0) - (before ?? 0), 100 * ((after ?? 0) / (before ?? 0) - 1)]
    }),
  )

const restatedVisits: Answer = (first, now) =>
  worldDomains.flatMap((domain) =>
    trafficCountries.flatMap((country) => {
      const before = trafficOf(first.traffic, april, domain, country)?.visits ?? null
      const after = trafficOf(now.traffic, april, domain, country)?.visits ?? null
      return before === null || after === null || before === after
        ? []
        : [[domain, country, before, after, 100 * (after / before - 1)]]
    }),
  )

/**
 * April was bought twice. A page of keywords costs one credit, a general report domains x metrics x periods x countries; a shopper report has categories for
 * countries.
 */
const costs: Answer = (first, now) => {
  const keywords = now.keywords.length + first.keywords.length
  const shop = now.shop.length + first.shop.length
  const traffic = now.traffic.length + first.traffic.length
  const [keywordCredits, shopCredits, trafficCredits] = [6 * 3 * 2, 8 * 3 * 4 * 3, 8 * 3 * 6 * 3]
  return [
    ['keywords', keywords, keywordCredits, (keywordCredits * 1000) / keywords],
    ['shopper_category_performance', shop, shopCredits, (shopCredits * 1000) / shop],
    ['traffic_and_engagement', traffic, trafficCredits, (trafficCredits * 1000) / traffic],
  ]
}

const longTail: Answer = (_first, { keywords }) =>
  worldDomains.map((domain) => {
    const all = of(keywords, april, domain)
    return [domain, clicksOf(all.filter(({ keyword }) => keyword.trim().split(/\s+/).length >= 4)) / clicksOf(all)]
  })

const voice: Answer = (_first, { keywords }) => {
  const here = keywords.filter(({ month, country }) => month === april && country === 'us')
  const shared = [...byKeyword(here)].filter(
    ([, facts]) => new Set(facts.filter(({ clicks }) => clicks > 0).map(({ domain }) => domain)).size === 3,
  )
  const all = shared.flatMap(([, facts]) => facts)
  return worldDomains.map((domain) => {
    const own = clicksOf(all.filter((one) => one.domain === domain))
    return [domain, own, own / clicksOf(all)]
  })
}

const points: Answer = (_first, { traffic }) =>
  worldDomains.map((domain) => {
    const [now, before] = [april, '2024-04-01'].map((date) => trafficOf(traffic, date, domain, 'world'))
    const moved = 100 * (shareOf(now?.mobile, now?.desktop) - shareOf(before?.mobile, before?.desktop))
    return [domain, Number.isNaN(moved) ? null : moved]
  })

const pages: Answer = (_first, { traffic }) =>
  worldDomains.map((domain) => {
    const known = traffic.filter(
      (one) =>
        one.domain === domain && one.country === 'us' && months.includes(one.date) && one.views !== null && one.visits !== null,
    )
    return [domain, sum(known.map(({ views }) => views)) / sum(known.map(({ visits }) => visits))]
  })

const perView: Answer = (_first, { shop }) => {
  const ratio = (date: string, domain: string, category: string): number => {
    const fact = shop.find((one) => one.date === date && one.domain === domain && one.category === category)
    return fact === undefined || fact.views === null || fact.revenue === null ? Number.NaN : fact.revenue / fact.views
  }
  return worldDomains
    .flatMap((domain) => worldCategories.map((category) => ({ domain, category })))
    .map(
      ({ domain, category }) =>
        [domain, category, ratio('2025-03-01', domain, category), ratio(april, domain, category)] as const,
    )
    .filter(([, , before, after]) => after < before)
    .sort((a, b) => a[3] - a[2] - (b[3] - b[2]))
    .slice(0, 3)
}

const ownPages: Answer = (_first, { keywords }) =>
  [
    ...Map.groupBy(
      keywords.filter(({ month }) => month === april),
      (one) => JSON.stringify([one.domain, one.country, one.keyword]),
    ),
  ]
    .filter(([, facts]) => facts.length > 1)
    .map(([, facts]) => {
      const [{ domain, country, keyword } = { domain: '', country: '', keyword: '' }] = facts
      const clicks = clicksOf(facts)
      return [domain, country, keyword, facts.length, clicks, Math.max(...facts.map((one) => one.clicks)) / clicks] as const
    })
    .sort((a, b) => b[4] - a[4] || order(a[0], b[0]) || order(a[1], b[1]) || order(a[2], b[2]))
    .slice(0, 5)

const topThree: Answer = (_first, { keywords }) =>
  worldDomains
    .flatMap((domain) => {
      const before = byKeyword(of(keywords, '2025-03-01', domain))
      return [...byKeyword(of(keywords, april, domain))].map(
        ([keyword, facts]) => [domain, keyword, best(before.get(keyword)), best(facts), clicksOf(facts)] as const,
      )
    })
    .filter(([, , before, now]) => before !== null && before > 3 && now !== null && now >= 1 && now <= 3)
    .sort((a, b) => b[4] - a[4] || order(a[0], b[0]) || order(a[1], b[1]))
    .slice(0, 5)

const ofTheWorld: Answer = (_first, { traffic }) =>
  worldDomains.map((domain) => {
    const visits = (country: string): number | null => trafficOf(traffic, april, domain, country)?.visits ?? null
    return [domain, sum([visits('us'), visits('gb')]) / (visits('world') ?? Number.NaN)]
  })

/** In the page's order. */
export const twentyAnswers: readonly Answer[] = [
  missing, complete, growth, lastYear, sinceJanuary, lost, quarters, sections, video, restatedClicks,
  restatedVisits, costs, longTail, voice, points, pages, perView, ownPages, topThree, ofTheWorld,
] // biome-ignore format: twenty
