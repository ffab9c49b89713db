// Figures that compare, against brute force over the landed rows in plain TypeScript: slices that come, leave and come back, and figures the service left out.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Mart } from '../../src/core/mart.ts'
import { secret } from '../../src/core/redact.ts'
import { loadDashboards } from '../../src/definition/dashboards.ts'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { type Answer, answerQuery } from '../../src/semantic/answer.ts'
import { openReader, type Reader } from '../../src/semantic/reader.ts'
import {
  type FigureWorld,
  figureWorld,
  type KeywordFact,
  putWorld,
  type ShopFact,
  type TrafficFact,
  worldDomains,
  worldMonths,
} from '../support/figure-world.ts'
import { openFigures } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let marts: readonly Mart[]
let model: SemanticModel
let reader: Reader
let world: FigureWorld

beforeAll(async () => {
  ;({ marts, model, reader } = await openFigures(db))
})
afterAll(() => reader.close())

const ask = (question: Record<string, unknown>): Promise<Answer> => answerQuery(reader, model, question)

const monthOf = (at: number): string => worldMonths[at] ?? ''
const short = (month: string): string => month.slice(0, 7)
const newest = monthOf(worldMonths.length - 1)
const before = monthOf(worldMonths.length - 2)

const sum = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0)
}
const divided = (a: number | null, b: number | null): number | null => (a === null || b === null || b === 0 ? null : a / b)
/** Nothing is compared with nothing, and nothing with what is not known. */
const close = (found: unknown, wanted: number | null, about: string): void => {
  if (wanted === null) expect(found, about).toBeNull()
  else expect(Number(found), about).toBeCloseTo(wanted, 5)
}

/** Of rows of two months that are of the same slice: those that have every measure on both sides. */
const pairs = <Row>(
  now: readonly Row[],
  then: readonly Row[],
  keyOf: (row: Row) => string,
  known: (row: Row) => boolean,
): [Row, Row][] =>
  now.flatMap((row): [Row, Row][] => {
    const other = then.find((one) => keyOf(one) === keyOf(row))
    return other !== undefined && known(row) && known(other) ? [[row, other]] : []
  })

const shopKey = (row: ShopFact): string => `${row.domain}/${row.category_id}`
const trafficKey = (row: TrafficFact): string => `${row.domain}/${row.country}`
const onlyUs = <Row extends { country: string }>(rows: readonly Row[]): Row[] => rows.filter(({ country }) => country === 'us')
const shopOf = (month: string): ShopFact[] => world.shop.filter(({ date }) => date === month)
const trafficOf = (month: string): TrafficFact[] => onlyUs(world.traffic.filter(({ date }) => date === month))

const percent = (growth: number | null): string | null =>
  growth === null ? null : `${growth < 0 ? '-' : '+'}${Math.abs(growth * 100).toFixed(1)} % on the month before`

/** The text `Before` of a tile as Superset would ask it. */
const tileOf = async (dashboard: string, chart: string, more: string): Promise<string> => {
  const found = (await loadDashboards([])).find(({ name }) => name === dashboard)?.charts.find(({ name }) => name === chart)
  const [row] = await db.query<{ before: string }>(
    `select ${found?.measures.get('Before')} as before from bi.${found?.view} where ${found?.where}${more} and month = '${newest}' group by month`,
  )
  return row?.before ?? 'no row'
}

const seeds = [1, 2, 3, 4, 5, 6] as const

describe.each(seeds)('a world of gaps, seed %i', (seed) => {
  beforeAll(async () => {
    world = figureWorld(seed)
    await putWorld(db, world, marts)
  })

  test.each(['units_sold', 'revenue', 'product_views'] as const)(
    '%s against the month before is of shops and categories whose figure both months have: tile, metric and comparison agree',
    async (measure) => {
      const both = pairs(shopOf(newest), shopOf(before), shopKey, (row) => row[measure] !== null)
      const [now, then] = [sum(both.map(([row]) => row[measure])), sum(both.map(([, row]) => row[measure]))]
      const ratio = divided(now, then)
      const month = { from: short(newest), to: short(newest) }
      const against = await ask({
        metrics: [`${measure}_against_before`],
        period: month,
        where: [{ dimension: 'months_back', is: 1 }],
      })
      close(against.rows[0]?.[`${measure}_against_before`], ratio, 'metric')
      const compared = await ask({ metrics: [measure], period: month, compare: 'previous' })
      close(compared.rows[0]?.[`${measure}_growth`], ratio === null ? null : ratio - 1, 'compare')
      close(compared.rows[0]?.[`${measure}_change`], now === null || then === null ? null : now - then, 'change')
      close(compared.rows[0]?.[measure], sum(shopOf(newest).map((row) => row[measure])), 'the figure is of all')
      close(compared.rows[0]?.[`${measure}_before`], sum(shopOf(before).map((row) => row[measure])), 'the earlier, too')
      const names = { units_sold: 'Units sold', revenue: 'Revenue', product_views: null }[measure]
      if (names !== null)
        expect(await tileOf('shopper_category_performance', names, '')).toBe(
          percent(ratio === null ? null : ratio - 1) ?? 'nothing to compare with the month before',
        )
    },
  )

  test('a comparison says of how many cells both periods have the figure, and which only one', async () => {
    const [now = [], then = []] = [newest, before].map((month) =>
      shopOf(month)
        .filter(({ revenue }) => revenue !== null)
        .map(shopKey),
    )
    const { compared, notes } = await ask({
      metrics: ['revenue'],
      period: { from: short(newest), to: short(newest) },
      compare: 'previous',
    })
    const counts = {
      in_both: now.filter((key) => then.includes(key)).length,
      only_before: then.filter((key) => !now.includes(key)).length,
      only_now: now.filter((key) => !then.includes(key)).length,
    }
    expect(compared).toEqual(counts)
    const against = await ask({
      metrics: ['revenue_against_before'],
      period: { from: short(newest), to: short(newest) },
      where: [{ dimension: 'months_back', is: 1 }],
    })
    expect(against.compared).toEqual(counts)
    if (counts.only_before + counts.only_now > 0)
      for (const said of [notes, against.notes])
        expect(said).toContainEqual(
          expect.stringMatching(/^Like with like: change, growth and figures against an earlier month cover/),
        )
  })

  test.each(['mobile_visits', 'all_page_views', 'all_traffic_visits'] as const)(
    '%s of all domains, each month against the one before',
    async (measure) => {
      const [metric, own] = { mobile_visits: ['mobile_visits', 'mobile_visits'], all_page_views: ['page_views', 'page_views'], all_traffic_visits: ['visits', 'visits'] }[measure] // biome-ignore format: a table
      const { rows } = await ask({
        metrics: [metric],
        grain: 'month',
        where: [{ dimension: 'country', is: 'us' }],
        period: { from: short(monthOf(1)), to: short(newest) },
        compare: 'previous',
      })
      for (const [at, month] of worldMonths.entries()) {
        if (at === 0) continue
        const both = pairs(trafficOf(month), trafficOf(monthOf(at - 1)), trafficKey, (row) => row[measure] !== null)
        const ratio = divided(sum(both.map(([row]) => row[measure])), sum(both.map(([, row]) => row[measure])))
        close(rows.find(({ period }) => period === month)?.[`${own}_growth`] ?? null, ratio === null ? null : ratio - 1, month)
      }
    },
  )

  test('part of visits from mobile changes over domains that have both figures in both months', async () => {
    const both = pairs(
      trafficOf(newest),
      trafficOf(before),
      trafficKey,
      (row) => row.mobile_visits !== null && row.desktop_visits !== null,
    )
    const part = (rows: readonly TrafficFact[]): number | null =>
      divided(
        sum(rows.map((row) => row.mobile_visits)),
        sum(rows.map((row) => (row.mobile_visits ?? 0) + (row.desktop_visits ?? 0))),
      )
    const [now, then] = [part(both.map(([row]) => row)), part(both.map(([, row]) => row))]
    const points = now === null || then === null ? null : (now - then) * 100
    const text = await tileOf('traffic_and_engagement', 'Part of visits from mobile', ` and country = 'us'`)
    if (points === null) expect(text).toBe('nothing to compare with the month before')
    else expect(Number.parseFloat(text)).toBeCloseTo(points, 0)
  })

  const totals = (month: string, country = 'us'): KeywordFact[] =>
    world.keywords.filter((row) => row.month === month && row.country === country && row.web_source === 'Total')
  const loaded = (month: string, domain: string, country = 'us'): boolean =>
    totals(month, country).some((row) => row.domain === domain)

  test('clicks won and lost are of domains that both months have; a first month wins nothing, nor does one after a gap', async () => {
    for (const [at, month] of worldMonths.entries()) {
      if (at === 0) continue
      let won: number | null = null
      for (const domain of worldDomains) {
        if (!loaded(month, domain) || !loaded(monthOf(at - 1), domain)) continue
        const of = (which: string, keyword: string) =>
          totals(which).filter((row) => row.domain === domain && row.keyword === keyword)
        for (const keyword of new Set(
          totals(month)
            .concat(totals(monthOf(at - 1)))
            .map((row) => row.keyword),
        )) {
          const [now, then] = [of(month, keyword), of(monthOf(at - 1), keyword)]
          if (now.length + then.length === 0) continue
          const clicks = (rows: readonly KeywordFact[]) => (rows.length === 0 ? 0 : sum(rows.map((row) => row.clicks)))
          const [a, b] = [clicks(now), clicks(then)]
          if (a !== null && b !== null) won = (won ?? 0) + a - b
        }
      }
      const where = [{ dimension: 'country', is: 'us' }]
      const period = { from: short(month), to: short(month) }
      const { rows } = await ask({ metrics: ['clicks_change', 'moved_domains'], period, where })
      close(rows[0]?.['clicks_change'] ?? null, won, month)
      const domains = worldDomains.filter((domain) => loaded(month, domain) && loaded(monthOf(at - 1), domain)).length
      expect(Number(rows[0]?.['moved_domains'] ?? 0), month).toBe(domains)
    }
  })

  test('what one domain has and another has not is known where both are loaded, else not known', async () => {
    for (const month of worldMonths)
      for (const domain of worldDomains)
        for (const other of worldDomains.filter((one) => one !== domain)) {
          const of = (which: string, keyword: string) =>
            totals(month).filter((row) => row.domain === which && row.keyword === keyword)
          const gap = new Set(
            totals(month)
              .filter((row) => row.domain === other && (sum(of(other, row.keyword).map(({ clicks }) => clicks)) ?? 0) > 0)
              .filter((row) => of(domain, row.keyword).every(({ clicks }) => clicks === 0))
              .map((row) => row.keyword),
          )
          const [row] = await db.query<{ keywords: string | null }>(
            `select case when bool_and(is_loaded) is not false then count(keyword) end as keywords from bi.keyword_gap where month = '${month}' and country = 'us'
              and web_source = 'Total' and domain = '${domain}' and other_domain = '${other}'`,
          )
          const known = loaded(month, domain) && loaded(month, other)
          // A month of which nothing is loaded has no row at all.
          if (totals(month).length === 0) continue
          expect(row?.keywords, `${month} ${domain} ${other}`).toEqual(known ? String(gap.size) : null)
          const { rows } = await ask({
            metrics: ['gap_keywords'],
            period: { from: short(month), to: short(month) },
            where: [{ dimension: 'country', is: 'us' }, { dimension: 'domain', is: domain }, { dimension: 'other_domain', is: other }, { dimension: 'web_source', is: 'Total' }], // biome-ignore format: one look
          })
          expect(rows[0]?.['gap_keywords'] ?? null).toEqual(known && gap.size > 0 ? gap.size : null)
        }
  })

  test('share of voice of two months is among the domains that both have, and says how many', async () => {
    const clicksOf = (month: string, domain: string) =>
      sum(totals(month).flatMap((row) => (row.domain === domain ? [row.clicks] : [])))
    const compared = worldDomains.filter((domain) => clicksOf(newest, domain) !== null && clicksOf(before, domain) !== null)
    const { rows } = await ask({
      metrics: ['compared_share_of_voice', 'compared_share_of_voice_before'],
      by: ['domain'],
      period: { from: short(newest), to: short(newest) },
      where: [{ dimension: 'country', is: 'us' }, { dimension: 'months_back', is: 1 }, { dimension: 'loaded_in', is: 'both' }], // biome-ignore format: one look
    })
    for (const domain of compared) {
      const share = (month: string) => divided(clicksOf(month, domain), sum(compared.map((one) => clicksOf(month, one))))
      const row = rows.find((one) => one['domain'] === domain)
      close(row?.['compared_share_of_voice'] ?? null, share(newest), domain)
      close(row?.['compared_share_of_voice_before'] ?? null, share(before), domain)
    }
    const shown = await db.query<{ domain: string; now: string | null; before: string | null }>(
      `select domain, share_of_voice as now, share_of_voice_before as before from bi.keyword_comparison where month = '${newest}' and months_back = 1 and country = 'us' and web_source = 'Total'`,
    )
    for (const domain of worldDomains) {
      const share = (month: string) =>
        compared.includes(domain) ? divided(clicksOf(month, domain), sum(compared.map((one) => clicksOf(month, one)))) : null
      const row = shown.find((one) => one.domain === domain)
      close(row?.now ?? null, share(newest), `${domain}, the view`)
      close(row?.before ?? null, share(before), `${domain} before, the view`)
    }
    const said = await db.query<{ n: string }>(
      `select distinct domains_compared as n from bi.keyword_comparison where month = '${newest}' and months_back = 1 and country = 'us' and web_source = 'Total'`,
    )
    if (totals(newest).length > 0) expect(said).toEqual([{ n: String(compared.length) }])
    await expect(
      ask({ metrics: ['domain_share_of_voice'], by: ['domain', 'country'], grain: 'month', compare: 'previous', period: { from: short(newest), to: short(newest) } }),
    ).rejects.toMatchObject({ message: /cannot be compared here/, instead: [expect.stringMatching(/^keyword_comparison uses the same values of domain in both/)] }) // biome-ignore format: one look
  })

  test.each([
    ['domain', 'acme.con', 'clicks', /domain has no value 'acme\.con'\. Did you mean 'acme\.com'\?/],
    ['country', 'US', 'clicks', /country has no value 'US'\. Did you mean 'us'\?/],
    ['web_source', 'MobilWeb', 'clicks', /web_source has no value 'MobilWeb'\. Did you mean 'MobileWeb'\?/],
    ['keyword', 'shoe', 'keyword_clicks', /keyword has no value 'shoe'\. Did you mean 'shoes'\?/],
    ['movement', 'won', 'moved_keywords', /movement has no value 'won'\./],
    ['category_id', '7', 'revenue', /category_id has no value '7'\./],
  ])(
    'a value of %s that does not exist is refused with the nearest one, never summed to nothing: %s',
    async (dimension, value, metric, because) => {
      const question = { metrics: [metric], grain: 'month' }
      await expect(ask({ ...question, where: [{ dimension, is: value }] })).rejects.toThrow(because)
      if (dimension === 'domain')
        await expect(ask({ ...question, where: [{ dimension, is: ['acme.com', value] }] })).rejects.toThrow(because)
    },
  )

  test('figures by group, by whose the domain is and by category are sums of their domains and categories; what domains share is refused', async () => {
    const groups: Readonly<Record<string, string>> = { 'acme.com': 'ours', 'rival.com': 'shops', 'other.com': 'shops' }
    await db.query('delete from bi.attribute_versions')
    for (const [domain, group] of Object.entries(groups))
      await db.query(`insert into bi.attribute_versions (subject, value, attributes, file) values ('domain', '${domain}',
        '{"group": "${group}", "ownership": "${group === 'ours' ? 'own' : 'competitor'}"}', 'domains.csv')`)
    await db.query(`update bi.dim_category set name = 'Shoes' where category_id = 1`)
    const period = { from: short(newest), to: short(newest) }
    const where = [{ dimension: 'country', is: 'us' }]
    const { rows } = await ask({ metrics: ['visits'], by: ['domain_group'], period, where, compare: 'previous' })
    for (const group of ['ours', 'shops', '(none)']) {
      const of = (month: string) => trafficOf(month).filter(({ domain }) => (groups[domain] ?? '(none)') === group)
      const both = pairs(of(newest), of(before), trafficKey, (row) => row.all_traffic_visits !== null)
      const ratio = divided(sum(both.map(([row]) => row.all_traffic_visits)), sum(both.map(([, row]) => row.all_traffic_visits)))
      const row = rows.find((one) => one['domain_group'] === group)
      close(row?.['visits'] ?? null, sum(of(newest).map((one) => one.all_traffic_visits)), group)
      close(row?.['visits_growth'] ?? null, ratio === null ? null : ratio - 1, `${group}, growth`)
    }
    const own = await ask({ metrics: ['revenue'], by: ['category'], period, where: [{ dimension: 'ownership', is: 'own' }] })
    const shoes = shopOf(newest).filter(({ domain, category_id: category }) => domain === 'acme.com' && category === 1)
    close(
      own.rows.find(({ category }) => category === 'Shoes')?.['revenue'] ?? null,
      sum(shoes.map(({ revenue }) => revenue)),
      'category',
    )
    await expect(ask({ metrics: ['keywords'], by: ['domain_group'], grain: 'month', where })).rejects.toThrow(
      /does not add up over domain: /,
    )
    await expect(ask({ metrics: ['visits'], where: [{ dimension: 'domain_group', is: 'shop' }] })).rejects.toThrow(
      /Did you mean 'shops'\?/,
    )
  })

  test('the average position weighs by the clicks of what has a position; 0 is no position, and no place among the first three', async () => {
    for (const domain of worldDomains) {
      const rows = world.keywords.filter((row) => row.domain === domain && row.web_source === 'Total')
      const ranked = rows.filter((row) => row.position !== null && row.position !== 0)
      const wanted = divided(
        sum(ranked.map(({ clicks, position }) => (clicks === null ? null : clicks * (position ?? 0)))),
        sum(ranked.map(({ clicks }) => clicks)),
      )
      const where = [{ dimension: 'domain', is: domain }]
      for (const metric of ['average_position', 'keyword_position'])
        close((await ask({ metrics: [metric], where })).rows[0]?.[metric] ?? null, wanted, `${metric} of ${domain}`)
      const keyed = new Map<string, KeywordFact[]>()
      for (const row of rows) {
        const key = `${row.month}/${row.country}/${row.keyword}`
        keyed.set(key, [...(keyed.get(key) ?? []), row])
      }
      const top = [...keyed.values()].filter((some) =>
        some.some(({ position }) => position !== null && position > 0 && position <= 3),
      )
      const [found] = (await ask({ metrics: ['keywords_top_three'], by: ['country'], grain: 'month', where })).rows.length === 0
        ? [0]
        : [(await ask({ metrics: ['keywords_top_three'], by: ['country'], grain: 'month', where })).rows.reduce((n, row) => n + Number(row['keywords_top_three']), 0)] // biome-ignore format: one look
      expect(found, domain).toBe(top.length)
    }
  })
})

test('a question is refused for the time it takes, never for what the planner makes of it', async () => {
  world = figureWorld(1)
  await putWorld(db, world, marts)
  // As after a first load on PostgreSQL 15: the statistics are anybody's guess.
  await db.query(`update pg_class set reltuples = 1e12, relpages = 1 where relname like 'keywords_v1_p%'`)
  const { rows } = await ask({
    metrics: ['keyword_count'],
    by: ['domain', 'keyword', 'top_url'],
    period: { from: short(newest), to: short(newest) },
    limit: 1,
  })
  // Rows that tie with the last one come with it.
  expect(rows.length).toBeGreaterThan(0)
  await db.query('analyze data.keywords_v1')
  const hurried = await openReader({ readerUrl: null, databaseUrl: secret('test database', db.url), home: '/nowhere', timeoutMs: 0 }) // biome-ignore format: one look
  await expect(answerQuery(hurried, model, { metrics: ['clicks_lost'] })).rejects.toThrow(/took longer than 0 s/)
  await hurried.close()
})

test('a shop that left the lists does not turn growth into decline, and the answer says so first', async () => {
  const row = (date: string, domain: string, revenue: number): ShopFact => ({
    date,
    domain,
    category_id: 1,
    revenue,
    units_sold: 1,
    product_views: 1,
  })
  world = {
    keywords: [],
    traffic: [],
    shop: [row(before, 'acme.com', 100), row(before, 'rival.com', 192), row(newest, 'acme.com', 136)],
  }
  await putWorld(db, world, marts)
  const period = { from: short(newest), to: short(newest) }
  const { rows, notes, compared } = await ask({ metrics: ['revenue'], period, compare: 'previous' })
  expect(rows).toEqual([{ revenue: 136, revenue_before: 292, revenue_change: 36, revenue_growth: 0.36 }])
  expect(compared).toEqual({ in_both: 1, only_before: 1, only_now: 0 })
  expect(notes[0]).toMatch(/^Like with like: .* cover 1 of 2 cells/)
})
