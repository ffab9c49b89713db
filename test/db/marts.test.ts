// Marts on rows worked out by hand, summaries against a full recomputation, and every object of bi explained.
import fc from 'fast-check'
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Mart } from '../../src/core/mart.ts'
import type { Definition, Unit } from '../../src/core/types.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { addDimensions } from '../../src/load/load-dimensions.ts'
import { summaryQuery } from '../../src/db/summary-query.ts'
import { refreshSummaries } from '../../src/load/summaries.ts'
import { publish } from '../../src/publish/publish.ts'
import { describedViews } from '../../src/publish/view-columns.ts'
import { knownMarts, shippedDefinition, shippedDefinitions, unitOf } from '../support/definitions.ts'
import { bought, months, newJob, newPipeline, newRun, newSlices } from '../support/ledger.ts'
import { loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definitions: readonly Definition[]
let marts: readonly Mart[]

/** Values of a unit, and its rows as they are loaded. */
const newValues = ({ slice }: Unit) => ({
  slice: new Map(Object.entries(slice).map(([name, value]) => [name, [value]])),
  rows: sql`(select * from data.keywords_v1 where domain = ${slice['domain'] ?? ''})`,
})

interface KeywordRow {
  readonly month: string
  readonly domain?: string
  readonly keyword: string
  readonly url?: string
  readonly clicks: number | null
  readonly position: number | null
  readonly volume?: number | null
  readonly zero?: number | null
  readonly intent?: string | null
}

const insertKeywords = async (rows: readonly KeywordRow[]): Promise<void> => {
  for (const row of rows) {
    const month = `${row.month}-01`
    const partition = `keywords_v1_p${row.month.replace('-', '')}`
    await db.query(`create table if not exists data.${partition} partition of data.keywords_v1
      for values from ('${month}') to ('${month}'::date + interval '1 month')`)
    await db.database.pool.query(
      `insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, position, volume,
         zero_clicks_share, primary_intent, _unit_id, _run_id, _revision, _loaded_at)
       values ($1, $2, 'us', 'All', 'Total', 'All', $3, $4, $5, $6, $7, $8, $9, 1, 1, 1, now())`,
      [
        month,
        row.domain ?? 'shop.com',
        row.keyword,
        row.url ?? 'u',
        row.clicks,
        row.position,
        row.volume ?? null,
        row.zero ?? null,
        row.intent ?? null,
      ],
    )
  }
}

beforeAll(async () => {
  definitions = await shippedDefinitions()
  marts = await loadMarts([])
  await insertKeywords([
    { month: '2026-08', keyword: 'shoes', clicks: 100, position: 2, volume: 1000, zero: 0.5, intent: 'Commercial' },
    { month: '2026-08', keyword: 'shoes', url: 'v', clicks: 20, position: 12, volume: 1000, zero: 0.5, intent: 'Commercial' },
    { month: '2026-08', keyword: 'the shop', clicks: 50, position: 1, volume: 100, zero: 0.2, intent: 'Navigational' },
    { month: '2026-08', keyword: 'gone', clicks: 30, position: 25, volume: null, zero: null },
    { month: '2026-09', keyword: 'shoes', clicks: 150, position: 1, volume: 1200, zero: 0.5, intent: 'Commercial' },
    { month: '2026-09', keyword: 'the shop', clicks: 40, position: 1, volume: 100, zero: 0.2, intent: 'Navigational' },
    { month: '2026-09', keyword: 'brand new', clicks: 10, position: 8, volume: 50, zero: 0, intent: null },
    { month: '2026-09', keyword: 'nothing', clicks: null, position: null, volume: null, zero: null },
    { month: '2026-09', domain: 'rival.com', keyword: 'shoes', clicks: 450, position: 3, volume: 1200 },
    { month: '2026-09', domain: 'rival.com', keyword: 'sandals', clicks: 70, position: 4, volume: 300 },
  ])
  for (const domain of ['shop.com', 'rival.com']) await db.query(`insert into bi.dim_domain (domain) values ('${domain}')`)
  await db.query(`insert into bi.dim_country (country) values ('us'), ('world')`)
  await db.query(`insert into bi.dim_category (category_id) values (7)`)
  for (const month of ['2025-09', '2026-08', '2026-09'])
    await db.query(`create table data.t_${month.replace('-', '')} partition of data.traffic_and_engagement_v1
      for values from ('${month}-01') to ('${month}-01'::date + interval '1 month')`)
  await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, mobile_visits,
      desktop_visits, _unit_id, _run_id, _revision, _loaded_at) values
    ('2025-09-01', 'monthly', 'shop.com', 'us', true, 80, 20, 60, 1, 1, 1, now()), ('2026-08-01', 'monthly', 'shop.com', 'us', true, 100, 30, 70, 1, 1, 1, now()),
    ('2026-09-01', 'monthly', 'shop.com', 'us', true, 120, 90, 30, 1, 1, 1, now()), ('2026-09-01', 'monthly', 'rival.com', 'us', true, 50, null, 10, 1, 1, 1, now())`)
  await db.query(
    `create table data.s_1 partition of data.shopper_category_performance_v1 for values from ('2026-09-01') to ('2026-10-01')`,
  )
  await db.query(`insert into data.shopper_category_performance_v1 (date, granularity, domain, category_id, product_views, units_sold, revenue, cvr, _unit_id, _run_id,
      _revision, _loaded_at) values ('2026-09-01', 'monthly', 'shop.com', 7, 1000, 25, 500, 0.024, 1, 1, 1, now()),
      ('2026-09-01', 'monthly', 'rival.com', 7, 0, 0, null, null, 1, 1, 1, now())`)
  await publish(db.database, definitions, marts)
})

describe('marts, on rows worked out by hand', () => {
  test('keyword_months sums clicks, counts keywords once and weights positions by clicks', async () => {
    const rows =
      await db.query(`select month::text, keywords::int, clicks::int, position_weighted::float8, keywords_top_3::int, keywords_4_to_10::int,
      keywords_21_and_on::int, clicks_top_3::int, clicks_brand::int, searches::int, searches_without_click::float8
      from bi.keyword_months where domain = 'shop.com' order by 1`)
    expect(rows).toEqual([
      // (100*2 + 20*12 + 50*1 + 30*25) / 200; shoes counts as top 3 with all its 120 clicks.
      { month: '2026-08-01', keywords: 3, clicks: 200, position_weighted: 6.2, keywords_top_3: 2, keywords_4_to_10: 0, keywords_21_and_on: 1, clicks_top_3: 170, clicks_brand: 50, searches: 1100, searches_without_click: 520 },
      // (150*1 + 40*1 + 10*8) / 200; the keyword without clicks and position counts as a keyword and nothing else.
      { month: '2026-09-01', keywords: 4, clicks: 200, position_weighted: 1.35, keywords_top_3: 2, keywords_4_to_10: 1, keywords_21_and_on: 0, clicks_top_3: 190, clicks_brand: 40, searches: 1350, searches_without_click: 620 },
    ]) // biome-ignore format: a table
  })

  test('keyword_months does not know the clicks of positions and brand where the service told no clicks at all', async () => {
    const [mart, keywords] = [
      marts.find(({ name }) => name === 'keyword_months'),
      definitions.find((one) => one.pipeline === 'keywords'),
    ]
    const silent = sql`(select month, domain, country, traffic_source, web_source, branded_type, keyword, null::numeric as clicks, position, volume,
      zero_clicks_share, serp_features from data.keywords_v1 where domain = 'shop.com')`
    const { rows } = await sql`select distinct keywords > 0 as has_keywords, clicks, clicks_top_3, clicks_21_and_on, clicks_brand
      from (${summaryQuery(mart!, keywords!, { facts: silent, units: sql`false` })}) q`.execute(db.database.kysely)
    expect(rows).toEqual([{ has_keywords: true, clicks: null, clicks_top_3: null, clicks_21_and_on: null, clicks_brand: null }])
  })

  test('keyword_months finds the name of a domain in keywords of any case', async () => {
    const [mart, keywords] = [
      marts.find(({ name }) => name === 'keyword_months'),
      definitions.find((one) => one.pipeline === 'keywords'),
    ]
    const loud = sql`(select month, domain, country, traffic_source, web_source, branded_type, initcap(keyword) as keyword, clicks, position, volume,
      zero_clicks_share, serp_features from data.keywords_v1 where domain = 'shop.com' and month = '2026-08-01')`
    const { rows } =
      await sql`select clicks_brand::int from (${summaryQuery(mart!, keywords!, { facts: loud, units: sql`false` })}) q`.execute(
        db.database.kysely,
      )
    expect(rows).toEqual([{ clicks_brand: 50 }])
  })

  test('keyword_months does not know what is on which position where the service told no position at all', async () => {
    const [mart, keywords] = [
      marts.find(({ name }) => name === 'keyword_months'),
      definitions.find((one) => one.pipeline === 'keywords'),
    ]
    const of = async (position: string) => {
      const facts = sql`(select month, domain, country, traffic_source, web_source, branded_type, keyword, clicks, ${sql.raw(position)}::numeric as position, volume,
        zero_clicks_share, serp_features from data.keywords_v1 where domain = 'shop.com')`
      const { rows } =
        await sql`select distinct clicks is null as is_silent, keywords_top_3, keywords_21_and_on, clicks_top_3, clicks_21_and_on
        from (${summaryQuery(mart!, keywords!, { facts, units: sql`false` })}) q`.execute(db.database.kysely)
      return rows
    }
    const unknown = { keywords_top_3: null, keywords_21_and_on: null, clicks_top_3: null, clicks_21_and_on: null }
    for (const position of ['null', '0']) expect(await of(position)).toEqual([{ is_silent: false, ...unknown }])
  })

  test('keyword_movements tells new, lost, up, down and first', async () => {
    const rows =
      await db.query(`select starts_on::text as month, keyword, clicks::int, clicks_before::int, clicks_change::int, best_position::int, movement
      from bi.keyword_movements where period = 'month' and months_back = 1 and domain = 'shop.com' and starts_on = '2026-09-01' order by keyword`)
    expect(rows).toEqual([
      { month: '2026-09-01', keyword: 'brand new', clicks: 10, clicks_before: null, clicks_change: 10, best_position: 8, movement: 'new' },
      { month: '2026-09-01', keyword: 'gone', clicks: 0, clicks_before: 30, clicks_change: -30, best_position: null, movement: 'lost' },
      { month: '2026-09-01', keyword: 'nothing', clicks: null, clicks_before: null, clicks_change: null, best_position: null, movement: 'new' },
      { month: '2026-09-01', keyword: 'shoes', clicks: 150, clicks_before: 120, clicks_change: 30, best_position: 1, movement: 'up' },
      { month: '2026-09-01', keyword: 'the shop', clicks: 40, clicks_before: 50, clicks_change: -10, best_position: 1, movement: 'down' },
    ]) // biome-ignore format: a table
    expect(
      await db.query(
        `select distinct movement from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on = '2026-08-01'`,
      ),
    ).toEqual([{ movement: 'first' }])
    // October is not loaded: nothing is lost there.
    expect(await db.query(`select 1 from bi.keyword_movements where period = 'month' and starts_on > '2026-09-01'`)).toEqual([])
  })

  test('positions, brand, intent and zero-click shares add up to the month', async () => {
    expect(await db.query(`select bucket, keywords::int, clicks::int, share_of_clicks::float8 from bi.keyword_positions
      where domain = 'shop.com' and month = '2026-09-01' and keywords > 0 order by bucket`)).toEqual([
      { bucket: '01-03', keywords: 2, clicks: 190, share_of_clicks: 0.95 },
      { bucket: '04-10', keywords: 1, clicks: 10, share_of_clicks: 0.05 },
    ]) // biome-ignore format: a table
    expect(await db.query(`select intent, clicks::int, share_of_clicks::float8 from bi.keyword_intent_mix
      where domain = 'shop.com' and month = '2026-08-01' order by 1`)).toEqual([
      { intent: '(none)', clicks: 30, share_of_clicks: 0.15 },
      { intent: 'Commercial', clicks: 120, share_of_clicks: 0.6 },
      { intent: 'Navigational', clicks: 50, share_of_clicks: 0.25 },
    ]) // biome-ignore format: a table
    expect(await db.query(`select searches::int, searches_without_click::int from bi.keyword_months
      where domain = 'shop.com' and month = '2026-08-01'`)).toEqual([{ searches: 1100, searches_without_click: 520 }]) // biome-ignore format: a table
  })

  test('share of voice and gap compare the followed domains', async () => {
    expect(await db.query(`select domain, clicks::int, clicks_all::int, share_of_voice::float8 from bi.keyword_share_of_voice
      where keyword in ('shoes') and month = '2026-09-01' order by domain`)).toEqual([
      { domain: 'rival.com', clicks: 450, clicks_all: 600, share_of_voice: 0.75 },
      { domain: 'shop.com', clicks: 150, clicks_all: 600, share_of_voice: 0.25 },
    ]) // biome-ignore format: a table
    expect(await db.query(`select keyword, clicks_of_other::int, best_position_of_other::int from bi.keyword_gap
      where domain = 'shop.com' and other_domain = 'rival.com' and is_loaded`)).toEqual([{ keyword: 'sandals', clicks_of_other: 70, best_position_of_other: 4 }]) // biome-ignore format: a table
  })

  test('traffic, devices and the shopper funnel divide sums, and say nothing where nothing is known', async () => {
    expect(await db.query(`select months_back, visits::float8, visits_before::float8, loaded_in from bi.traffic_comparison
      where month = '2026-09-01' and months_back in (1, 12) order by months_back, domain desc`)).toEqual([
      { months_back: 1, visits: 120, visits_before: 100, loaded_in: 'both' },
      { months_back: 1, visits: 50, visits_before: null, loaded_in: 'now' },
      { months_back: 12, visits: 120, visits_before: 80, loaded_in: 'both' },
      { months_back: 12, visits: 50, visits_before: null, loaded_in: 'now' },
    ]) // biome-ignore format: a table
    expect(
      await db.query(`select mobile_share::float8 from bi.device_mix where date = '2026-09-01' order by domain desc`),
    ).toEqual([{ mobile_share: 0.75 }, { mobile_share: null }])
    expect(await db.query(`select conversion::float8, revenue_per_unit::float8, revenue_per_view::float8 from bi.shopper_funnel order by domain desc`)).toEqual([
      { conversion: 0.025, revenue_per_unit: 20, revenue_per_view: 0.5 },
      { conversion: null, revenue_per_unit: null, revenue_per_view: null },
    ]) // biome-ignore format: a table
  })

  test('restatements, coverage, runs and quota are the ledger’s', async () => {
    const { kysely } = db.database
    const pipeline = await newPipeline(kysely, { pipeline: 'keywords' })
    const [shop = 0, rival = 0] = await newSlices(kysely, pipeline, ['shop.com', 'rival.com'])
    const runId = await newRun(kysely)
    const window = months('2026-09')
    const loadedJob = await newJob(kysely, pipeline, { sliceIds: [shop], window, runs: [runId] })
    await loadedAs(kysely, loadedJob, await newAnswer(kysely, loadedJob), 1)
    const packed = await newJob(kysely, pipeline, {
      sliceIds: [shop, rival],
      window: months('2026-10'),
      runs: [runId],
      set: bought('r1', 12),
    })
    await loadedAs(kysely, packed, await newAnswer(kysely, packed), 12)
    await setJob(kysely, packed, { report_state: 'downloaded', used_quota: 12 })
    await newJob(kysely, pipeline, { sliceIds: [rival], window, runs: [runId], set: { state: 'failed' } })
    await db.query(`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_unchanged, rows_ended)
      select answer_id, pipeline_id, window_from, job_id, ${runId}, 'loaded', 1, 20, 1, 4, 15, 1 from etl.answers`)
    await db.query(`update etl.run_jobs set outcome = 'failed' where outcome is null`)
    await db.query(`update etl.runs set state = 'done', started_at = now() - interval '90 seconds', finished_at = now()`)
    expect(
      await db.query(
        `select pipeline, window_from::text, slice, rows_changed::int, rows_ended::int, rows_new::int, share_changed::float8
          from bi.restatements order by window_from`,
      ),
    ).toEqual([
      { pipeline: 'keywords', window_from: '2026-09-01', slice: '{"domain": "shop.com"}', rows_changed: 4, rows_ended: 1, rows_new: 1, share_changed: 0.25 },
      { pipeline: 'keywords', window_from: '2026-10-01', slice: '{"domain": ["rival.com", "shop.com"]}', rows_changed: 4, rows_ended: 1, rows_new: 1, share_changed: 0.25 },
    ]) // biome-ignore format: a table
    expect(
      await db.query(`select month::text, cells::int, cells_with_rows::int as with_rows, cells_failed::int as failed, is_complete, last_loaded_at is not null as loaded
        from bi.coverage_months order by month`),
    ).toEqual([
      { month: '2026-09-01', cells: 2, with_rows: 1, failed: 1, is_complete: false, loaded: true },
      { month: '2026-10-01', cells: 2, with_rows: 2, failed: 0, is_complete: true, loaded: true },
    ])
    const history = `select command, round(seconds)::int as seconds, units::int, units_in_trouble::int, rows_written::int from bi.run_history`
    expect(await db.query(history)).toEqual([{ command: 'run', seconds: 90, units: 4, units_in_trouble: 1, rows_written: 12 }])
    await db.query(`update etl.runs set summary = '{"units": {"planned": 4, "loaded": 3, "unchanged": 0, "waiting": 0, "held": 0, "failed": 1},
      "rows": {"inserted": 2, "updated": 8, "ended": 2}}'`)
    // Summed up, it stands however long its list is kept.
    await db.query('delete from etl.run_jobs')
    expect(await db.query(history)).toEqual([{ command: 'run', seconds: 90, units: 4, units_in_trouble: 1, rows_written: 12 }])
    // The packed report cost 12 credits and was loaded once; loaded again, it costs nothing more.
    await db.query(`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_unchanged)
      select answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_read from etl.loads`)
    expect(
      await db.query(
        `select period::text, rows_read::int, rows_new::int, credits::int, credits_per_thousand_rows::int as per_thousand from bi.loads order by load_id`,
      ),
    ).toEqual([
      { period: '2026-09-01', rows_read: 20, rows_new: 1, credits: null, per_thousand: null },
      { period: '2026-10-01', rows_read: 20, rows_new: 1, credits: 12, per_thousand: 600 },
      { period: '2026-09-01', rows_read: 20, rows_new: 0, credits: 0, per_thousand: 0 },
      { period: '2026-10-01', rows_read: 20, rows_new: 0, credits: 0, per_thousand: 0 },
    ])
    expect(await db.query(`select account, reports::int, used::int from bi.quota_history`)).toEqual([
      { account: 'default', reports: 1, used: 12 },
    ])
    expect(
      await db.query(`select version, newest_window::text, oldest_window::text, units_loaded::int, units_failed::int, units_held::int, rows_loaded::int,
        slices_left::int from bi.freshness where pipeline = 'keywords'`),
    ).toEqual([
      { version: 1, newest_window: '2026-10-01', oldest_window: '2026-09-01', units_loaded: 3, units_failed: 1, units_held: 0, rows_loaded: 0, slices_left: 0 },
    ]) // biome-ignore format: a table
  })

  test('keep the types of their columns, which BI tools depend on', async () => {
    expect(
      await db.query(`select c.relname as mart, string_agg(a.attname || ' ' || format_type(a.atttypid, null), ', ' order by a.attnum) as columns
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
        where c.relnamespace = 'bi'::regnamespace and c.relname in ('coverage', 'coverage_months', 'freshness', 'quota_history', 'restatements', 'run_history')
        group by 1 order by 1`),
    ).toEqual([
      { mart: 'coverage', columns: 'pipeline text, version integer, period date, month date, domain text, country text, category_id text, slice text, has_data boolean, reason text, error_code text, domain_group text, ownership text, rows_loaded text, share_of_clicks numeric' },
      { mart: 'coverage_months', columns: 'pipeline text, version integer, month date, cells bigint, cells_with_rows bigint, cells_service_had_none bigint, cells_held bigint, cells_failed bigint, cells_under_way bigint, cells_not_asked bigint, domains bigint, domains_with_all_rows bigint, completeness text, is_answered boolean, is_complete boolean, ends date, method bigint, last_loaded_at timestamp with time zone, last_checked_at timestamp with time zone' },
      { mart: 'freshness', columns: 'pipeline text, version integer, newest_window date, oldest_window date, last_loaded_at timestamp with time zone, last_checked_at timestamp with time zone, units_loaded bigint, units_waiting bigint, units_held bigint, units_failed bigint, rows_loaded bigint, slices_left bigint' },
      { mart: 'quota_history', columns: 'account text, pipeline text, day date, reports bigint, used numeric, reserved numeric, requests bigint' },
      { mart: 'restatements', columns: 'pipeline text, window_from date, slice text, seen_at timestamp with time zone, rows_changed bigint, rows_ended bigint, rows_new bigint, share_changed numeric, cause text, run_id bigint' },
      { mart: 'run_history', columns: 'run_id bigint, command text, state text, started_at timestamp with time zone, seconds numeric, units bigint, units_in_trouble bigint, rows_written bigint' },
    ]) // biome-ignore format: a table
  })
})

describe('summaries', () => {
  const months = ['2026-08', '2026-09']
  const change = fc.record({
    month: fc.constantFrom(...months),
    domain: fc.constantFrom('shop.com', 'rival.com'),
    keyword: fc.constantFrom('shoes', 'the shop', 'sandals', 'rival shoes', 'a'),
    kind: fc.constantFrom('add', 'change', 'end'),
    clicks: fc.option(fc.integer({ min: 0, max: 1000 })),
    position: fc.option(fc.integer({ min: 1, max: 60 })),
  })

  test('refreshed unit by unit equal what a full recomputation gives, whatever the loads did', async () => {
    const definition = await shippedDefinition('keywords')
    const own = marts.filter(({ summaryOf }) => summaryOf === 'keywords')
    expect(own.length).toBeGreaterThan(1)
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 12 }), async (changes) => {
        for (const { month, domain, keyword, kind, clicks, position } of changes)
          await db.database.kysely.transaction().execute(async (trx) => {
            const unit = unitOf(definition, month, { domain, country: 'us' })
            const row = sql`month = ${`${month}-01`}::date and domain = ${domain} and keyword = ${keyword}`
            if (kind === 'end') await sql`delete from data.keywords_v1 where ${row}`.execute(trx)
            else if (kind === 'change')
              await sql`update data.keywords_v1 set clicks = ${clicks}, position = ${position} where ${row}`.execute(trx)
            else
              await sql`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, position,
                _unit_id, _run_id, _revision, _loaded_at) values (${`${month}-01`}, ${domain}, 'us', 'All', 'Total', 'All', ${keyword}, ${String(clicks)},
                ${clicks}, ${position}, 1, 1, 1, now()) on conflict do nothing`.execute(trx)
            await addDimensions(trx, definition, newValues(unit))
            await refreshSummaries(trx, definition, { ...unit, leftOut: [], units: sql`false` }, knownMarts(own))
          })
        for (const mart of own) {
          const whole = sql`select q::text as line from (${summaryQuery(mart, definition, { facts: sql.table('data.keywords_v1'), units: sql`false` })}) q order by 1`
          const kept = sql`select q::text as line from ${sql.table(`bi.${mart.name}`)} q order by 1`
          expect((await kept.execute(db.database.kysely)).rows).toEqual((await whole.execute(db.database.kysely)).rows)
        }
      }),
      {
        numRuns: 12,
        // What is asked below is there whatever the seed.
        examples: [[[{ month: '2026-08', domain: 'rival.com', keyword: 'rival shoes', kind: 'add', clicks: 1, position: 1 }]]],
      },
    )
    expect(await db.query(`select keyword, words::int from bi.dim_keyword where keyword = 'rival shoes'`)).toEqual([
      { keyword: 'rival shoes', words: 2 },
    ])
  })

  test('keep every digit of a sum, also beyond 2^53 and beyond what a bigint holds', async () => {
    const definition = await shippedDefinition('keywords')
    const huge = ['9007199254740993', '9223372036854775807', '9223372036854775807', '0.1']
    const rows = huge.map(
      (clicks, at) => `('2026-08-01', 'big.com', 'us', 'All', 'Total', 'All', 'k${at}', 'u', ${clicks}, 1, 1, 1, now())`,
    )
    await db.query(`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks,
      _unit_id, _run_id, _revision, _loaded_at) values ${rows.join(', ')}`)
    await db.database.kysely.transaction().execute(async (trx) => {
      const unit = unitOf(definition, '2026-08', { domain: 'big.com', country: 'us' })
      await addDimensions(trx, definition, newValues(unit))
      await refreshSummaries(trx, definition, { ...unit, leftOut: [], units: sql`false` }, knownMarts(marts))
    })
    const sum = '18455751272964292607.1'
    for (const view of ['keywords', 'keyword_months', 'keyword_intents', 'keyword_domains', 'domain_share_of_voice'])
      expect(await db.query(`select sum(clicks)::text as clicks from bi.${view} where domain = 'big.com'`), view).toEqual([
        { clicks: sum },
      ])
    // A measure that is bigint in the rows of a pipeline is summed without overflowing, too.
    const own = marts.flatMap((mart) =>
      mart.name === 'keyword_intents'
        ? [{ ...mart, name: 'own_sums', sql: mart.sql.replace('sum(clicks)', 'sum(trunc(clicks)::bigint)') }]
        : [],
    )
    await publish(db.database, definitions, own)
    expect(await db.query(`select clicks::text from bi.own_sums where domain = 'big.com'`)).toEqual([
      { clicks: '18455751272964292607' },
    ])
    await db.query(`drop table bi.own_sums`)
    await db.query(`delete from data.keywords_v1 where domain = 'big.com'`)
    await db.database.kysely.transaction().execute(async (trx) => {
      await refreshSummaries(
        trx,
        definition,
        { ...unitOf(definition, '2026-08', { domain: 'big.com', country: 'us' }), leftOut: [], units: sql`false` },
        knownMarts(marts),
      )
    })
  })

  test('have primary keys and validated foreign keys that a tool reads from the catalog', async () => {
    const keys =
      await db.query(`select conrelid::regclass::text as table, confrelid::regclass::text as refers, convalidated from pg_constraint
      where contype = 'f' and connamespace = 'bi'::regnamespace order by 1, 2`)
    expect(keys).toContainEqual({ table: 'bi.keyword_months', refers: 'bi.dim_domain', convalidated: true })
    expect(keys).toContainEqual({ table: 'bi.keyword_months', refers: 'bi.dim_date', convalidated: true })
  })

  test('are left alone by publishing again, and made anew when their query changes', async () => {
    const oid = async () => (await db.query<{ oid: string }>(`select 'bi.keyword_months'::regclass::oid::text as oid`))[0]?.oid
    const before = await oid()
    await publish(db.database, definitions, marts)
    expect(await oid()).toBe(before)
    await publish(
      db.database,
      definitions,
      marts.map((mart) => (mart.name === 'keyword_months' ? { ...mart, sql: `${mart.sql} having true` } : mart)),
    )
    expect(await oid()).not.toBe(before)
    expect((await db.query('select 1 from bi.keyword_positions')).length).toBeGreaterThan(0)
    await publish(db.database, definitions, marts)
  })
})

describe('what stands in bi', () => {
  test('no view is replaced when nothing changed, so that publishing never waits for a reader', async () => {
    const reader = await db.database.pool.connect()
    try {
      await reader.query('begin')
      await reader.query('select * from bi.keywords limit 1')
      await reader.query('select * from bi.keyword_positions limit 1')
      await reader.query(`select * from bi.keywords_as_of(now()) limit 1`)
      const done = await Promise.race([
        publish(db.database, definitions, marts).then(() => 'published'),
        new Promise((resolve) => setTimeout(() => resolve('waited for the reader'), 15_000)),
      ])
      expect(done).toBe('published')
    } finally {
      await reader.query('rollback')
      reader.release()
    }
  })

  test('a question as of a moment uses the key and not the whole table', async () => {
    const plan = await db.query<{ 'QUERY PLAN': string }>(
      `explain select * from bi.keywords_as_of(now()) where month = '2026-09-01' and domain = 'shop.com'`,
    )
    const text = plan.map((line) => line['QUERY PLAN']).join('\n')
    expect(text).not.toContain('Function Scan on keywords_as_of')
    expect(text).not.toContain('p202608')
  })

  test('a question as of a moment is answered whatever the settings of the session', async () => {
    const reader = await db.database.pool.connect()
    try {
      await reader.query('begin')
      await reader.query('create schema odd')
      await reader.query('create domain odd.text as varchar(3)')
      await reader.query('set local search_path = odd, pg_catalog')
      await reader.query('set local standard_conforming_strings = off')
      await reader.query('set local client_min_messages = error')
      expect((await reader.query(`select count(*) > 0 as is from bi.keywords_as_of(now())`)).rows).toEqual([{ is: true }])
      await reader.query('savepoint one')
      await expect(reader.query('select bi.keywords_as_of(now())')).rejects.toMatchObject({ code: '0A000' })
      await reader.query('rollback to one')
    } finally {
      await reader.query('rollback')
      reader.release()
    }
  })

  test('a question as of a moment that another query finds is refused with the way out, and that way out uses the key', async () => {
    for (const moment of ['(select max(_loaded_at) from bi.keywords)', 'clock_timestamp()'])
      await expect(db.query(`select * from bi.keywords_as_of(${moment}) where month = '2026-09-01'`)).rejects.toMatchObject({
        code: '0A000',
        hint: expect.stringContaining('cross join lateral bi.keywords_as_of(m.at) k'),
      })
    await expect(db.query('select bi.keywords_as_of(now())')).rejects.toMatchObject({ code: '0A000' })
    const wayOut = `from (select max(_loaded_at) as at from bi.traffic_and_engagement) m cross join lateral bi.keywords_as_of(m.at) k
      where month = '2026-09-01' and domain = 'shop.com'`
    const plan = await db.query<{ 'QUERY PLAN': string }>(`explain select k.* ${wayOut}`)
    expect(plan.map((line) => line['QUERY PLAN']).join('\n')).not.toMatch(/Function Scan on keywords_as_of|p202608/)
    expect(await db.query(`select count(*) > 0 as is ${wayOut}`)).toEqual([{ is: true }])
    // In a function of an analyst's own, too, and with quotation marks.
    await db.query(
      `create function pg_temp.mine() returns bigint language plpgsql as $$ begin return (select count(*) from bi."keywords_as_of"(now())); end $$`,
    )
    expect(await db.query('select pg_temp.mine() > 0 as is')).toEqual([{ is: true }])
  })

  test('a quarter of the calendar reads its own months alone, between its first and its last day', async () => {
    const days = (one: string): string => `(select ${one}(date) from bi.dim_date where fiscal_quarter_name = 'FY2025 Q3')`
    const plan = await db.query<{ 'QUERY PLAN': string }>(
      `explain (analyze, costs off) select sum(all_traffic_visits) from bi.traffic_and_engagement where date between ${days('min')} and ${days('max')}`,
    )
    const lines = plan.map((line) => line['QUERY PLAN'])
    expect(lines.filter((line) => / on t_\d+/.test(line) && !line.includes('never executed'))).toEqual([
      expect.stringContaining('t_202509'),
    ])
  })

  test('month over month and share of voice read the months they are asked about, and no other', async () => {
    for (const question of [
      `select * from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on = '2026-08-01' and domain = 'shop.com'`,
      `select * from bi.keyword_share_of_voice where month = '2026-08-01' and keyword in ('shoes', 'sandals')`,
    ]) {
      const plan = await db.query<{ 'QUERY PLAN': string }>(`explain (analyze, costs off) ${question}`)
      const lines = plan.map((line) => line['QUERY PLAN'])
      expect(
        lines.filter((line) => line.includes('on keywords_v1_p202609') && !line.includes('never executed')),
        question,
      ).toEqual([])
    }
  })

  test('rights somebody gave on a view outlive a change of its shape', async () => {
    await db.query(`do $$ begin create role analyst_test nologin; exception when duplicate_object then null; end $$`)
    await db.query('grant select on bi.keyword_brand_split to analyst_test')
    const changed = marts.map((mart) =>
      mart.name === 'keyword_brand_split'
        ? { ...mart, sql: mart.sql.replace('select month,', 'select 1 as more, month,') }
        : mart,
    )
    await publish(db.database, definitions, changed)
    expect(await db.query(`select has_table_privilege('analyst_test', 'bi.keyword_brand_split', 'select') as may`)).toEqual([
      { may: true },
    ])
    await publish(db.database, definitions, marts)
  })

  test('days of one month are final together: the month is asked for as a whole', async () => {
    const client = await db.database.pool.connect()
    try {
      await client.query('begin')
      // The last month that is final: look-back two months, published ten days after.
      const [first, next] = [3, 2].map((back) => `(date_trunc('month', current_date - 10) - interval '${back} months')::date`)
      await client.query(
        `do $$ begin execute format('create table data.final_days partition of data.traffic_and_engagement_v1 for values from (%L) to (%L)', ${first}, ${next});
          exception when invalid_object_definition then null; end $$`,
      )
      await client.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
        select d, 'daily', 'days.com', 'us', true, 1, 1, 1, 1, now() from generate_series(${first}, ${next} - 1, interval '1 day') as d`)
      const { rows } = await client.query(`select distinct is_final from bi.traffic_and_engagement where domain = 'days.com'`)
      expect(rows).toEqual([{ is_final: true }])
    } finally {
      await client.query('rollback')
      client.release()
    }
  })

  test('is_final and restated_at say what may still change', async () => {
    const rows = await db.query(
      `select distinct month::text, is_final, restated_at from bi.keywords where domain = 'shop.com' order by 1`,
    )
    expect(rows.every((row) => row['restated_at'] === null)).toBe(true)
    expect(await db.query(`select bool_and(is_final) as all from bi.traffic_and_engagement where date = '2025-09-01'`)).toEqual([
      { all: true },
    ])
  })
})

test('marts of Millrace are left out where a definition lacks a column that they read; one of your own is an error', async () => {
  const all = await publish(db.database, definitions, marts)
  const lacking = definitions.map((one) => ({
    ...one,
    columns: one.columns.filter(({ name }) => name !== 'mobile_visits' && name !== 'clicks'),
  }))
  const left = await publish(db.database, lacking, marts)
  expect(all.filter((name) => !left.includes(name))).toEqual(expect.arrayContaining(['device_mix', 'keyword_months']))
  expect(left).toEqual(expect.arrayContaining(['shopper_funnel', 'coverage']))
  const there = await db.query(`select to_regclass('bi.keyword_months') as summary, to_regclass('bi.device_mix') as view`)
  expect(there).toEqual([{ summary: null, view: null }])
  const own = marts.map((one) => ({ ...one, isShipped: one.isShipped && one.name !== 'device_mix' }))
  await expect(publish(db.database, lacking, own)).rejects.toThrow('device_mix.sql: PostgreSQL refuses the query')
  expect(await publish(db.database, definitions, marts)).toEqual(all)
})

test('a column that is named like a word of their headers stands in the way of none, and is not told of them', async () => {
  for (const suffix of ['', '_history'])
    await db.query(`alter table data.traffic_and_engagement_v1${suffix} add column answer numeric, add column time numeric`)
  const more = definitions.map((one) => {
    const last = one.columns.at(-1)
    const added = ['answer', 'time'].flatMap((name) => (last === undefined ? [] : [{ ...last, name, from: [name] }]))
    return one.pipeline === 'traffic_and_engagement' ? { ...one, columns: [...one.columns, ...added] } : one
  })
  await publish(db.database, more, marts)
  const described = describedViews(more, marts).find(({ name }) => name === 'restatements')
  expect(described?.columns.map(({ name }) => name)).not.toContain('answer')
})
