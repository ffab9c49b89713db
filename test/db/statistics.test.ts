// Statistics that autovacuum leaves out are renewed when enough changed, and the gap between two domains is linear without any.
import { beforeAll, describe, expect, test } from 'vitest'
import { analyzeChanged } from '../../src/load/analyze.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { publish } from '../../src/publish/publish.ts'
import { shippedDefinition, shippedDefinitions } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const insert = (month: string, domain: string, from: number, to: number): Promise<unknown> =>
  db.query(`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, position, _unit_id, _run_id, _revision, _loaded_at)
    select '${month}', '${domain}', 'us', 'All', 'Total', 'All', 'keyword ' || n, 'https://${domain}/', n % 3, 1, 1, 1, 1, now() from generate_series(${from}, ${to}) n`)

beforeAll(async () => {
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
  await db.query(
    `create table data.keywords_v1_p202601 partition of data.keywords_v1 for values from ('2026-01-01') to ('2026-02-01')`,
  )
  await db.query(`alter table data.keywords_v1_p202601 set (autovacuum_enabled = false)`)
  await db.query(`insert into bi.dim_domain (domain) values ('a.com'), ('b.com')`)
  await db.query(`insert into bi.dim_country (country) values ('us')`)
  // Each domain with a group of its own, as people's files would have them.
  await db.query(`insert into bi.dim_domain (domain) select 'd' || n || '.com' from generate_series(1, 6000) n`)
  await db.query(`insert into bi.dim_category (category_id, name) select n, 'Category ' || n from generate_series(1, 6000) n`)
  await db.query(`insert into bi.attribute_versions (subject, value, attributes, file)
    select 'domain', domain, jsonb_build_object('group', 'Group of ' || domain, 'ownership', 'own'), 'domains.csv' from bi.dim_domain`)
  await insert('2026-01-01', 'a.com', 1, 6_000)
  await insert('2026-01-01', 'b.com', 3_001, 9_000)
  await db.query(`insert into bi.keyword_months (month, domain, country, traffic_source, web_source, branded_type, keywords, clicks, keywords_with_features)
    select month, domain, country, traffic_source, web_source, branded_type, count(*), sum(clicks), count(serp_features) from data.keywords_v1 group by 1, 2, 3, 4, 5, 6`)
  await db.query(
    `create table data.traffic_and_engagement_v1_p202601 partition of data.traffic_and_engagement_v1 for values from ('2025-12-01') to ('2026-02-01')`,
  )
  await db.query(`alter table data.traffic_and_engagement_v1_p202601 set (autovacuum_enabled = false)`)
  await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
    select d::date, 'monthly', 'd' || n || '.com', 'us', true, n, 1, 1, 1, now() from generate_series(1, 6000) n, unnest('{2025-12-01,2026-01-01}'::text[]) d`)
  await db.query(
    `create table data.shopper_p202601 partition of data.shopper_category_performance_v1 for values from ('2025-12-01') to ('2026-02-01')`,
  )
  await db.query(`alter table data.shopper_p202601 set (autovacuum_enabled = false)`)
  await db.query(`insert into data.shopper_category_performance_v1 (date, granularity, domain, category_id, revenue, _unit_id, _run_id, _revision, _loaded_at)
    select d::date, 'monthly', 'd' || n || '.com', n, n, 1, 1, 1, now() from generate_series(1, 6000) n, unnest('{2025-12-01,2026-01-01}'::text[]) d`)
})

interface Plan {
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Join Filter'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}
/** Rows that any step of the plan had in its hands. */
const handled = (plan: Plan): number =>
  (plan['Actual Rows'] + (plan['Rows Removed by Join Filter'] ?? 0) + (plan['Rows Removed by Filter'] ?? 0)) *
    plan['Actual Loops'] +
  (plan.Plans ?? []).reduce((sum, one) => sum + handled(one), 0)

const gap = `select keyword from bi.keyword_gap where month = '2026-01-01' and country = 'us' and domain = 'a.com' and other_domain = 'b.com'`

describe('the gap between two domains', () => {
  test('is read in a number of steps that grows with the rows, whatever the statistics say', async () => {
    // Without statistics, and with the worst ones: one row of each.
    for (const spoil of ['select 1', `update pg_class set reltuples = 1, relpages = 1 where relname like 'keywords_v1%'`]) {
      await db.query(spoil)
      const [explained] = await db.query<{ 'QUERY PLAN': readonly { Plan: Plan }[] }>(`explain (analyze, format json) ${gap}`)
      const [top] = explained?.['QUERY PLAN'] ?? []
      expect(top === undefined ? Number.NaN : handled(top.Plan)).toBeLessThan(12_000 * 12)
    }
    const found = await db.query<{ keyword: string }>(gap)
    // b.com's keywords from 6,001 on, and those that bring a.com no click, as far as they bring b.com some.
    expect(found).toHaveLength(2_000)
  })
})

describe('any other mart', () => {
  const keywords = `month = '2026-01-01' and country = 'us'`
  const traffic = `date = '2026-01-01' and country = 'us'`
  const questions: Readonly<Record<string, string>> = {
    keyword_movements: `starts_on = '2026-01-01' and period = 'quarter' and months_back = 3 and domain = 'a.com'`,
    keyword_share_of_voice: keywords,
    landing_pages: keywords,
    keyword_serp_features: keywords,
    keyword_restatements: keywords,
    keyword_brand_terms: keywords,
    keyword_page_types: keywords,
    domain_share_of_voice: keywords,
    keyword_comparison: `month = '2026-01-01' and months_back = 1`,
    traffic_comparison: `month = '2026-01-01' and months_back = 1`,
    traffic_restatements: traffic,
    device_mix: traffic,
    traffic_domains: traffic,
    shopper_funnel: `date = '2026-01-01'`,
    shopper_comparison: `month = '2026-01-01' and months_back = 1`,
  }

  test.each(Object.entries(questions))('%s is linear too', async (mart, condition) => {
    // As after the first load: rows nobody has counted.
    await db.query(
      `update pg_class set reltuples = 1, relpages = 1 where relname ~ '^(keywords_v1|traffic_and_engagement_v1|shopper_|dim_|attribute_versions)'`,
    )
    const [explained] = await db.query<{ 'QUERY PLAN': readonly { Plan: Plan }[] }>(
      `explain (analyze, format json) select * from bi.${mart} where ${condition}`,
    )
    const [top] = explained?.['QUERY PLAN'] ?? []
    expect(top === undefined ? Number.NaN : handled(top.Plan)).toBeLessThan(40 * 12_000)
  })
})

test('features of results pages are looked for where a keyword has some, and nowhere else', async () => {
  const [explained] = await db.query<{ 'QUERY PLAN': readonly { Plan: Plan }[] }>(
    'explain (analyze, format json) select * from bi.keyword_serp_features limit 100',
  )
  const [top] = explained?.['QUERY PLAN'] ?? []
  expect(top === undefined ? Number.NaN : handled(top.Plan)).toBeLessThan(100)
})

describe('statistics', () => {
  const statistics = (table: string) =>
    db.query<{ n: number }>(`select count(*)::int as n from pg_stats where schemaname || '.' || tablename = '${table}'`)

  test('of a partitioned parent and of dimensions are there after the first load, and renewed when enough changed', async () => {
    const keywords = await shippedDefinition('keywords')
    await db.query('select pg_stat_force_next_flush()')
    expect((await statistics('data.keywords_v1'))[0]?.n).toBe(0)
    expect(await analyzeChanged(db.database, [keywords])).toEqual(expect.arrayContaining(['bi.dim_domain', 'data.keywords_v1']))
    expect((await statistics('data.keywords_v1'))[0]?.n).toBeGreaterThan(5)
    expect(await analyzeChanged(db.database, [keywords])).toEqual([])
    await insert('2026-01-01', 'c.com', 1, 1_000)
    await db.query('select pg_stat_force_next_flush()')
    expect(await analyzeChanged(db.database, [keywords])).toEqual([])
    await insert('2026-01-01', 'd.com', 1, 5_000)
    await db.query('select pg_stat_force_next_flush()')
    const holder = await db.database.pool.connect()
    await holder.query('begin; lock table data.keywords_v1 in access exclusive mode')
    expect(await analyzeChanged(db.database, [keywords])).toEqual([])
    await holder.query('rollback')
    holder.release()
    expect(await analyzeChanged(db.database, [keywords])).toEqual(['data.keywords_v1'])
  })
})
