// Landed rows as they come in a bad year: slices that come, leave and come back, figures the service left out, keywords won and lost. And the rows in the tables of a test database.
import { sql } from 'kysely'
import type { Mart } from '../../src/core/mart.ts'
import { summaryQuery } from '../../src/db/summary-query.ts'
import { shippedDefinition } from './definitions.ts'
import type { TestDatabase } from './postgres.ts'

export interface KeywordFact {
  readonly month: string
  readonly domain: string
  readonly country: string
  readonly traffic_source: string
  readonly web_source: string
  readonly branded_type: string
  readonly keyword: string
  readonly top_url: string
  readonly clicks: number | null
  /** 0: the record had none. */
  readonly position: number | null
  readonly volume: number | null
  /** Columns that few tests are about. */
  readonly [other: string]: unknown
}

export interface TrafficFact {
  readonly date: string
  readonly domain: string
  readonly country: string
  readonly all_traffic_visits: number | null
  readonly mobile_visits: number | null
  readonly desktop_visits: number | null
  readonly all_page_views: number | null
  readonly [other: string]: unknown
}

export interface ShopFact {
  readonly date: string
  readonly domain: string
  readonly category_id: number
  readonly revenue: number | null
  readonly units_sold: number | null
  readonly product_views: number | null
}

export interface FigureWorld {
  readonly keywords: readonly KeywordFact[]
  readonly traffic: readonly TrafficFact[]
  readonly shop: readonly ShopFact[]
}

export const worldMonths = ['2025-07-01', '2025-08-01', '2025-09-01', '2025-10-01', '2025-11-01'] as const

export const worldDomains = ['acme.com', 'rival.com', 'other.com', 'late.com'] as const
const countries = ['us', 'gb']
const allCountries = [...countries, 'world']
const words = ['shoes', 'acme shoes', 'sandals', 'boots', 'the rival', 'laces']

/** mulberry32: the same numbers for the same seed. */
export const randomOf = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** @param seed the same rows for the same */
export const figureWorld = (seed: number): FigureWorld => {
  const random = randomOf(seed)
  const number = (most: number, missing = 0.12): number | null => (random() < missing ? null : Math.floor(random() * most))
  const isThere = (): boolean => random() > 0.25
  const keywords: KeywordFact[] = []
  const traffic: TrafficFact[] = []
  const shop: ShopFact[] = []
  for (const month of worldMonths)
    for (const domain of worldDomains) {
      for (const country of countries) {
        if (isThere())
          for (const web_source of ['Total', 'Desktop', 'MobileWeb'])
            for (const keyword of words)
              for (const top_url of ['a', 'b'])
                if (random() > 0.4)
                  keywords.push({
                    ...{ month, domain, country, traffic_source: 'All', web_source, branded_type: 'All', keyword, top_url },
                    ...{ clicks: number(1_000), position: number(30, 0.15), volume: number(5_000) },
                  })
        if (isThere())
          traffic.push({
            ...{ date: month, domain, country, all_traffic_visits: number(90_000), mobile_visits: number(50_000) },
            ...{ desktop_visits: number(40_000), all_page_views: number(300_000) },
          })
      }
      for (const category_id of [1, 2])
        if (isThere())
          shop.push({
            ...{ date: month, domain, category_id, revenue: number(70_000), units_sold: number(900, 0.25) },
            product_views: number(20_000, 0.25),
          })
    }
  return { keywords, traffic, shop }
}

const tables = {
  keywords_v1: { period: 'month', fixed: {} },
  traffic_and_engagement_v1: { period: 'date', fixed: { granularity: 'monthly', include_subdomains: true } },
  shopper_category_performance_v1: { period: 'date', fixed: { granularity: 'monthly' } },
} as const

/** Empties the tables and puts the rows in. Views must be published; summaries are filled anew. */
export const putWorld = async ({ database }: TestDatabase, world: FigureWorld, marts: readonly Mart[]): Promise<void> => {
  const { pool, kysely } = database
  const rows = {
    keywords_v1: world.keywords,
    traffic_and_engagement_v1: world.traffic,
    shopper_category_performance_v1: world.shop,
  }
  for (const [table, { fixed }] of Object.entries(tables)) {
    await pool.query(`truncate data.${table}, data.${table}_history`)
    for (const month of worldMonths)
      await pool.query(`create table if not exists data.${table}_p${month.slice(0, 7).replace('-', '')} partition of data.${table}
        for values from ('${month}') to ('${month}'::date + interval '1 month')`)
    const lineage = { _unit_id: 1, _run_id: 1, _revision: 1, _loaded_at: '2025-12-05T00:00:00Z' }
    const all = rows[table as keyof typeof rows].map((row) => ({ ...row, ...fixed, ...lineage }))
    await pool.query(`insert into data.${table} select * from jsonb_populate_recordset(null::data.${table}, $1)`, [
      JSON.stringify(all),
    ])
  }
  await pool.query('insert into bi.dim_domain (domain) select unnest($1::text[]) on conflict do nothing', [worldDomains])
  await pool.query('insert into bi.dim_country (country) select unnest($1::text[]) on conflict do nothing', [allCountries])
  await pool.query('insert into bi.dim_keyword (keyword) select unnest($1::text[]) on conflict do nothing', [
    world.keywords.map(({ keyword }) => keyword),
  ])
  await pool.query('insert into bi.dim_category (category_id) values (1), (2) on conflict do nothing')
  for (const mart of marts.filter(({ summaryOf }) => summaryOf !== null)) {
    const query = summaryQuery(mart, await shippedDefinition(mart.summaryOf ?? ''), {
      facts: sql.table(`data.${mart.summaryOf ?? ''}_v1`),
      units: sql`false`,
    })
    await sql`truncate ${sql.table(`bi.${mart.name}`)}`.execute(kysely)
    await sql`insert into ${sql.table(`bi.${mart.name}`)} ${query}`.execute(kysely)
  }
}
