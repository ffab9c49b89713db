// Marts that compare: with earlier months and quarters, with what was first loaded; and landing pages and features as rows. On rows worked out by hand.
import { beforeAll, describe, expect, test } from 'vitest'
import { loadDashboards } from '../../src/definition/dashboards.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { parsedColumns } from '../../src/load/table-columns.ts'
import { publish } from '../../src/publish/publish.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import { boxOf, shippedDefinition, shippedDefinitions } from '../support/definitions.ts'
import { months, newJob, newPipeline, newSlices } from '../support/ledger.ts'
import { newAnswer } from '../support/ledger-answers.ts'
import { mergeRows } from '../support/merging.ts'
import { readerOf } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const month = (table: string, first: string): Promise<unknown> =>
  db.query(
    `create table data.${table}_p${first.replace('-', '')} partition of data.${table} for values from ('${first}-01') to ('${first}-01'::date + interval '1 month')`,
  )

const keywordRows = `insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, position, _unit_id, _run_id, _revision, _loaded_at)
  select m::date, d, 'us', 'All', 'Total', 'All', k, u, c, p, 1, 1, 1, now() from (values`

const urls = { 'shop.com': '/ /', 'shop.com/': '/ /', 'shop.com/a': '/a /a', 'www.shop.com/a/b?q=/c/d#e': '/a/b /a', 'shop.com?x=/y': '/ /', 'shop.com/a#/b': '/a /a', u: '/ /' } // biome-ignore format: a table

beforeAll(async () => {
  for (const first of ['2020-01', '2020-02', '2026-08', '2026-09']) await month('keywords_v1', first)
  for (const first of ['2025-09', '2026-08', '2026-09']) await month('traffic_and_engagement_v1', first)
  for (const domain of ['shop.com', 'rival.com', 'page.com'])
    await db.query(`insert into bi.dim_domain (domain) values ('${domain}')`)
  await db.query(`insert into bi.dim_country (country) values ('us')`)
  await db.query(`${keywordRows} ('2026-08-01', 'shop.com', 'shoes', 'u', 100, 2), ('2026-08-01', 'shop.com', 'shoes', 'v', 20, 12), ('2026-08-01', 'shop.com', 'the shop', 'u', 50, 1),
    ('2026-08-01', 'shop.com', 'gone', 'u', 30, 25), ('2026-09-01', 'shop.com', 'shoes', 'u', 150, 1), ('2026-09-01', 'shop.com', 'the shop', 'u', 40, 1),
    ('2026-09-01', 'shop.com', 'brand new', 'u', 10, 8), ('2026-09-01', 'shop.com', 'nothing', 'u', null, null), ('2026-09-01', 'rival.com', 'shoes', 'u', 450, 3),
    ('2026-09-01', 'rival.com', 'sandals', 'u', 70, 4)) r (m, d, k, u, c, p)`)
  await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
    values ('2025-09-01', 'monthly', 'shop.com', 'us', true, 80, 1, 1, 1, now()), ('2026-08-01', 'monthly', 'shop.com', 'us', true, 100, 1, 1, 1, now()),
    ('2026-09-01', 'monthly', 'shop.com', 'us', true, 120, 1, 1, 1, now()), ('2026-09-01', 'monthly', 'rival.com', 'us', true, 50, 1, 1, 1, now())`)
  // One page comes without features: they are the keyword's all the same.
  for (const [at, url] of Object.keys(urls).entries())
    await db.database.pool.query(
      `insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, volume, serp_features,
        _unit_id, _run_id, _revision, _loaded_at) values ('2020-01-01', 'page.com', 'us', 'All', 'Total', 'All', 'k', $1, 2, 9, $2, 1, 1, 1, now())`,
      [url, at === 0 ? null : ['news', 'video', 'news']],
    )
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
})

describe('marts that compare, on rows worked out by hand', () => {
  test('comparisons pair each month with any earlier one, and say which of the two months have the row', async () => {
    const compared = `select domain, visits::int, visits_before::int, loaded_in from bi.traffic_comparison where month = '2026-09-01'`
    expect(await db.query(`${compared} and comparison = 'previous' order by 1`)).toEqual([
      { domain: 'rival.com', visits: 50, visits_before: null, loaded_in: 'now' },
      { domain: 'shop.com', visits: 120, visits_before: 100, loaded_in: 'both' },
    ])
    expect(await db.query(`${compared} and comparison = 'same last year' and domain = 'shop.com'`)).toEqual([
      { domain: 'shop.com', visits: 120, visits_before: 80, loaded_in: 'both' },
    ])
    expect(await db.query(`select month::text, visits_before::int as before from bi.traffic_comparison where domain = 'shop.com' and months_back = 11 and loaded_in = 'both'`)).toEqual([
      { month: '2026-08-01', before: 80 },
    ]) // biome-ignore format: one look
    // A domain that this month lacks stands in it all the same.
    await db.query(`delete from data.traffic_and_engagement_v1 where date = '2026-09-01' and domain = 'shop.com'`)
    expect(await db.query(`${compared} and comparison = 'previous' and domain = 'shop.com'`)).toEqual([
      { domain: 'shop.com', visits: null, visits_before: 100, loaded_in: 'before' },
    ])
    await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, mobile_visits,
      desktop_visits, _unit_id, _run_id, _revision, _loaded_at) values ('2026-09-01', 'monthly', 'shop.com', 'us', true, 120, 90, 30, 1, 1, 1, now())`)
    expect(
      await db.query(`select domain, clicks::int, clicks_before::int, clicks_with_position::int as with_position, clicks_with_position_before::int as with_position_before,
        loaded_in from bi.keyword_comparison where month = '2026-09-01' and months_back = 1 order by 1`),
    ).toEqual([
      { domain: 'rival.com', clicks: 520, clicks_before: null, with_position: 520, with_position_before: null, loaded_in: 'now' },
      { domain: 'shop.com', clicks: 200, clicks_before: 200, with_position: 200, with_position_before: 200, loaded_in: 'both' },
    ]) // biome-ignore format: a table
  })

  test('the newest month is that of monthly rows, whatever other rows are newer', async () => {
    const newest = `select distinct month::text from bi.traffic_comparison where is_newest and months_back in (1, 12)`
    const before = await db.query(newest)
    await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
      values ('2026-09-30', 'daily', 'shop.com', 'us', true, 4, 1, 1, 1, now())`)
    expect([before, await db.query(newest)]).toEqual([[{ month: '2026-09-01' }], [{ month: '2026-09-01' }]])
    await db.query(`delete from data.traffic_and_engagement_v1 where granularity = 'daily'`)
  })

  test('quarters are compared month by month with those of the quarter before, of traffic and of keywords, like with like', async () => {
    for (const [first, visits] of [
      ['2021-01', 10],
      ['2021-02', 20],
      ['2021-03', 40],
      ['2021-04', 100],
      ['2021-05', 200],
    ] as const) {
      await month('traffic_and_engagement_v1', first)
      await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
        values ('${first}-01', 'monthly', 'page.com', 'us', true, ${visits}, 1, 1, 1, now())`)
      await db.query(`insert into bi.keyword_months (month, domain, country, traffic_source, web_source, branded_type, keywords, clicks)
        values ('${first}-01', 'page.com', 'us', 'All', 'Total', 'All', 1, ${visits})`)
    }
    // June is not there yet: April and May stand against January and February alone.
    for (const [view, measure] of [
      ['traffic_comparison', 'visits'],
      ['keyword_comparison', 'clicks'],
    ] as const)
      expect(
        await db.query(`select quarter::text, sum(${measure})::int as now, sum(${measure}_before)::int as before, count(*)::int as months
          from bi.${view} where comparison = 'previous quarter' and loaded_in = 'both' and domain = 'page.com' and month between '2021-01-01' and '2021-06-01' group by 1`),
        view,
      ).toEqual([{ quarter: '2021-04-01', now: 300, before: 30, months: 2 }])
  })

  test('keyword_movements sums the months of quarters, and marks the newest month and quarter', async () => {
    expect(
      await db.query(`select distinct period, starts_on::text, months_back from bi.keyword_movements
        where is_newest and months_back in (1, 3) and domain = 'shop.com' order by 1, 2, 3`),
    ).toEqual([
      { period: 'month', starts_on: '2026-09-01', months_back: 1 },
      { period: 'month', starts_on: '2026-09-01', months_back: 3 },
      { period: 'quarter', starts_on: '2026-07-01', months_back: 3 },
    ])
    expect(
      await db.query(`select keyword, clicks::int, movement, is_loaded from bi.keyword_movements
        where period = 'quarter' and starts_on = '2026-07-01' and months_back = 3 and domain = 'shop.com' order by 1`),
    ).toEqual([
      { keyword: 'brand new', clicks: 10, movement: 'first', is_loaded: false },
      { keyword: 'gone', clicks: 30, movement: 'first', is_loaded: false },
      { keyword: 'nothing', clicks: null, movement: 'first', is_loaded: false },
      { keyword: 'shoes', clicks: 270, movement: 'first', is_loaded: false },
      { keyword: 'the shop', clicks: 90, movement: 'first', is_loaded: false },
    ])
  })

  test('landing pages have a path and a section, and features of the results page are rows', async () => {
    const pages = await db.query<{ top_url: string; said: string }>(
      `select top_url, path || ' ' || section as said from bi.landing_pages where domain = 'page.com' and month = '2020-01-01'`,
    )
    expect(Object.fromEntries(pages.map(({ top_url: url, said }) => [url, said]))).toEqual(urls)
    expect(
      await db.query(
        `select feature, clicks::int, volume::int from bi.keyword_serp_features where domain = 'page.com' and month = '2020-01-01' order by 1`,
      ),
    ).toEqual([
      { feature: 'news', clicks: 14, volume: 9 },
      { feature: 'video', clicks: 14, volume: 9 },
    ])
    expect(
      await db.query(
        `select keywords::int, keywords_with_features::int as featured from bi.keyword_months where domain = 'page.com' and month = '2020-01-01'`,
      ),
    ).toEqual([{ keywords: 1, featured: 1 }])
  })

  test('restatements are told in clicks and visits, with rows that came, changed and went', async () => {
    const at = { first: '2020-03-01', later: '2020-04-01' }
    const columns = `month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, _unit_id, _run_id, _revision, _loaded_at`
    const row = (keyword: string, clicks: number, revision: number, loaded: string) =>
      `'2020-02-01', 'page.com', 'us', 'All', 'Total', 'All', '${keyword}', 'u', ${clicks}, 1, 1, ${revision}, '${loaded}'`
    await db.query(
      `insert into data.keywords_v1 (${columns}) values (${row('same', 100, 1, at.first)}), (${row('up', 30, 2, at.later)}), (${row('came', 7, 1, at.later)})`,
    )
    await db.query(`insert into data.keywords_v1_history (${columns}, _valid_from, _valid_to, _ended_run_id) values
      (${row('up', 20, 1, at.first)}, '${at.first}', '${at.later}', 1), (${row('went', 5, 1, at.first)}, '${at.first}', '${at.later}', 1)`)
    expect(
      await db.query(`select clicks_first::int, clicks_now::int, clicks_change::int, change_share::float8, rows_restated::int,
        restated_at::date::text from bi.keyword_restatements where domain = 'page.com' and month = '2020-02-01'`),
    ).toEqual([
      { clicks_first: 125, clicks_now: 137, clicks_change: 12, change_share: 0.096, rows_restated: 3, restated_at: at.later },
    ])
    expect(
      await db.query(`select restated_at, rows_restated::int as n from bi.keyword_restatements where domain = 'rival.com'`),
    ).toEqual([{ restated_at: null, n: 0 }])
    await db.query(`insert into data.traffic_and_engagement_v1_history (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id,
      _revision, _loaded_at, _valid_from, _valid_to, _ended_run_id) select date, granularity, domain, country, include_subdomains, 40, 1, 1, 1, '2020-03-01', '2020-03-01', _loaded_at, 1
      from data.traffic_and_engagement_v1 where domain = 'rival.com'`)
    expect(
      await db.query(`select visits_first::int, visits_now::int, visits_change::int, change_share::float8, times_restated::int from bi.traffic_restatements
        where domain = 'rival.com'`),
    ).toEqual([{ visits_first: 40, visits_now: 50, visits_change: 10, change_share: 0.25, times_restated: 1 }])
  })
})

/** Keywords by slice and month, and of how many rows a slice was cut. */
interface SliceLife {
  readonly source: string
  readonly months: readonly { readonly month: string; readonly keywords: readonly string[]; readonly top: number | null }[]
}

/** Rows, the summary of months, units and what is cut of them, as loads leave them. */
const loadSlices = async (domain: string, lives: readonly SliceLife[]): Promise<void> => {
  await db.query(`insert into bi.dim_domain (domain) values ('${domain}') on conflict do nothing`)
  const kept = await db.query<{ pipeline_id: number }>(`select pipeline_id from etl.pipelines where pipeline = 'keywords'`)
  const dimensions = ['domain', 'country', 'traffic_source']
  const pipeline = kept[0]
    ? { pipelineId: kept[0].pipeline_id, pipeline: 'keywords', dimensions }
    : await newPipeline(db, { pipeline: 'keywords', dimensions, parameters: JSON.stringify({ web_source: 'Total', branded_type: 'All' }) }) // biome-ignore format: one look
  for (const { source, months: loaded } of lives) {
    const [slice = 0] = await newSlices(db, pipeline, [[domain, 'us', source]])
    for (const { month: at, keywords, top } of loaded) {
      const jobId = await newJob(db, pipeline, { sliceIds: [slice], window: months(at) })
      const answerId = await newAnswer(db, jobId)
      await db.query(`update etl.units set answer_id = ${answerId}, job_id = null where job_id = ${jobId}`)
      await db.query(`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, slices_without_rows, loaded_at)
        values (${answerId}, ${pipeline.pipelineId}, '${at}-01', ${jobId}, 'loaded', 1, ${keywords.length === 0 ? `'{${slice}}'` : `'{}'`}, now())`)
      if (top !== null)
        await db.query(
          `insert into etl.cut_units (unit_id, answer_id, row_limit) select unit_id, ${answerId}, ${top} from etl.units where answer_id = ${answerId}`,
        )
      for (const keyword of keywords)
        await db.query(`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, position, _unit_id, _run_id, _revision, _loaded_at)
          values ('${at}-01', '${domain}', 'us', '${source}', 'Total', 'All', '${keyword}', 'u', 10, 1, 1, 1, 1, now())`)
      if (keywords.length > 0)
        await db.query(`insert into bi.keyword_months (month, domain, country, traffic_source, web_source, branded_type, keywords, clicks)
          values ('${at}-01', '${domain}', 'us', '${source}', 'Total', 'All', ${keywords.length}, ${keywords.length * 10})`)
    }
  }
}

describe('what is cut and what is empty, slice by slice', () => {
  const first = (count: number): string[] => Array.from({ length: count }, (_, at) => `k${at}`)

  test('a slice that is whole in one month and cut in the other is told by its own unit, whatever other slices of the domain are', async () => {
    await month('keywords_v1', '2023-01')
    await month('keywords_v1', '2023-02')
    const slice = (source: string, before: [number, number | null], now: [number, number | null]): SliceLife => ({
      source,
      months: [
        { month: '2023-01', keywords: first(before[0]), top: before[1] },
        { month: '2023-02', keywords: first(now[0]), top: now[1] },
      ],
    })
    const lives = [slice('Organic', [3, null], [2, 5]), slice('Paid', [5, 5], [3, null]), slice('All', [2, null], [4, null]), slice('Other', [5, 5], [5, 5])] // biome-ignore format: a table
    await loadSlices('cut.com', lives)
    await loadSlices('whole.com', [slice('Organic', [5, null], [5, null]), slice('Paid', [5, null], [5, null])])
    const ordered = [...lives].sort((one, other) => (one.source < other.source ? -1 : 1))
    expect(
      await db.query(`select traffic_source as source, is_cut, clicks::int, clicks_before::int as before from bi.keyword_comparison
        where domain = 'cut.com' and month = '2023-02-01' and months_back = 1 order by 1`),
    ).toEqual(
      ordered.map(({ source, months: [before, now] }) => {
        const cut = before?.top !== now?.top
        return { source, is_cut: cut, clicks: 10 * (now?.keywords.length ?? 0), before: cut ? null : 10 * (before?.keywords.length ?? 0) } // biome-ignore format: one look
      }),
    )
    const moved = await db.query<{ source: string; keyword: string; movement: string; is_cut: boolean }>(
      `select traffic_source as source, keyword, movement, is_cut from bi.keyword_movements
        where domain = 'cut.com' and period = 'month' and starts_on = '2023-02-01' and months_back = 1 order by 1, 2`,
    )
    const expected = ordered.flatMap(({ source, months: [before, now] }) =>
      first(5).flatMap((keyword) => {
        const [was, is] = [before?.keywords.includes(keyword), now?.keywords.includes(keyword)]
        if (!was && !is) return []
        const gone = now?.top ? `not in the top ${now.top}` : 'lost'
        const came = before?.top ? `not in the top ${before.top} before` : 'new'
        return [{ source, keyword, movement: was && is ? 'same' : was ? gone : came, is_cut: Boolean(now?.top || before?.top) }]
      }),
    )
    expect(moved).toEqual(expected)
    // What an answer shows, the next question may name.
    const reader = await readerOf(db)
    const named = Object.entries({ domain: 'cut.com', traffic_source: 'Organic', movement: 'not in the top 5' })
    const question = {
      metrics: ['moved_domains'],
      period: { from: '2023-02', to: '2023-02' },
      where: named.map(([dimension, is]) => ({ dimension, is })),
    }
    const answer = await answerQuery(reader, await loadSemantics([]), question).finally(() => reader.close())
    expect(answer.rows).toEqual([{ moved_domains: 1 }])
    expect(
      await db.query(`select distinct traffic_source as source, top_of_domain as top from bi.keyword_gap
        where domain = 'cut.com' and other_domain = 'whole.com' and month in ('2023-01-01', '2023-02-01') and is_loaded order by 1, 2`),
    ).toEqual([{ source: 'Organic', top: 5 }, { source: 'Organic', top: null }, { source: 'Paid', top: null }]) // biome-ignore format: one look
  })
})

describe('a month that is loaded and has no row', () => {
  const moved = () =>
    db.query(`select domain, starts_on::text, movement, is_loaded, count(*)::int as n, sum(clicks_change)::int as change from bi.keyword_movements
      where domain in ('empty.com', 'none.com') and period = 'month' and months_back = 1 group by 1, 2, 3, 4 order by 1, 2, 3`)
  const missed = () =>
    db.query(`select month::text, count(keyword)::int as keywords, bool_and(is_loaded) as loaded from bi.keyword_gap
      where domain = 'none.com' and other_domain = 'empty.com' and month >= '2024-01-01' and month < '2024-05-01' group by 1 order by 1`)
  const won = { starts_on: '2024-03-01', movement: 'new', is_loaded: true, n: 5, change: 490 }
  const lost = { starts_on: '2024-02-01', movement: 'lost', is_loaded: true, n: 5, change: -490 }

  test('is there with nothing: what was lost then and won back later is told, of domains that never had a keyword as well', async () => {
    const [definition, marts] = [await shippedDefinition('keywords'), await loadMarts([])]
    const words = [100, 99, 98, 97, 96].map((clicks, at) => [`k${at}`, 'u', clicks, ...parsedColumns(definition).slice(3).map(() => '\\N')].join('\t')) // biome-ignore format: one look
    for (const [at, rows] of [['2024-01', words], ['2024-02', []], ['2024-03', words]] as const) // biome-ignore format: a table
      for (const domain of ['empty.com', 'none.com'])
        await mergeRows(db, definition, boxOf(definition, at, { domain, country: 'us' }), domain === 'none.com' ? [] : rows, { marts }) // biome-ignore format: one look
    const told = [
      { domain: 'empty.com', starts_on: '2024-01-01', movement: 'first', is_loaded: false, n: 5, change: null },
      { domain: 'empty.com', ...lost },
      { domain: 'empty.com', ...won },
    ]
    expect(await moved()).toEqual(told)
    const gap = [
      { month: '2024-01-01', keywords: 5, loaded: true },
      { month: '2024-03-01', keywords: 5, loaded: true },
    ]
    expect(await missed()).toEqual(gap)
    // Of clicks without a position it is not known where they came from; where there were none it is.
    expect(
      await db.query(`select distinct domain, keywords::int, clicks::int from bi.keyword_positions
        where domain in ('empty.com', 'none.com') and month = '2024-01-01' order by 1`),
    ).toEqual([
      { domain: 'empty.com', keywords: null, clicks: null },
      { domain: 'none.com', keywords: 0, clicks: 0 },
    ])
    expect(
      await db.query(`select month::text, loaded_in, clicks::int, clicks_before::int as before, domains_compared::int as domains from bi.keyword_comparison
        where domain = 'empty.com' and months_back = 1 and month > '2024-01-01' order by 1`),
    ).toEqual([
      { month: '2024-02-01', loaded_in: 'both', clicks: 0, before: 490, domains: 2 },
      { month: '2024-03-01', loaded_in: 'both', clicks: 490, before: 0, domains: 2 },
    ])
    // Rows and summaries are made anew from the ledger, too.
    await db.query(`comment on table bi.keyword_months is 'made from another query'`)
    await db.query(`delete from bi.keyword_months where domain = 'none.com'`)
    await db.query(`delete from bi.dim_domain where domain = 'none.com'`)
    await publish(db.database, await shippedDefinitions(), marts)
    expect([await moved(), await missed()]).toEqual([told, gap])
  })

  test('has its rows once they come', async () => {
    const [definition, marts] = [await shippedDefinition('keywords'), await loadMarts([])]
    const row = [
      'k0',
      'u',
      7,
      ...parsedColumns(definition)
        .slice(3)
        .map(() => '\\N'),
    ].join('\t')
    await mergeRows(db, definition, boxOf(definition, '2024-02', { domain: 'empty.com', country: 'us' }), [row], { marts })
    expect((await moved()).map(({ movement, n }) => `${n} ${movement}`)).toEqual(['5 first', '1 down', '4 lost', '4 new', '1 up'])
    expect(
      await db.query(`select month::text, keywords::int from bi.keyword_months where domain = 'empty.com' order by 1`),
    ).toEqual([5, 1, 5].map((keywords, at) => ({ month: `2024-0${at + 1}-01`, keywords })))
  })
})

test('a tile writes growth of any size as a number', async () => {
  const { charts } = (await loadDashboards([])).find(({ name }) => name === 'shopper_category_performance') ?? { charts: [] }
  const before = charts.find(({ name }) => name === 'Revenue')?.measures.get('Before')
  expect(
    await db.query<{ text: string }>(
      `select ${before} as text from (values (1, 7638::numeric, 1::numeric)) as comparison (months_back, revenue, revenue_before)`,
    ),
  ).toEqual([{ text: '+763,700.0 % on the month before' }])
})

test('the year so far is answered by domain, also of thousands of domains: their rows are grouped, not compared each with each', async () => {
  await db.query(
    `create table data.year_of_domains partition of data.traffic_and_engagement_v1 for values from ('2019-01-01') to ('2020-01-01')`,
  )
  await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
    select month::date, 'monthly', 'd' || n || '.com', 'us', true, n, 1, 1, 1, now()
    from generate_series(1, 4000) as n, generate_series('2019-01-01'::date, '2019-12-01', interval '1 month') as month`)
  const reader = await readerOf(db)
  const question = {
    metrics: ['visits_this_year'],
    by: ['domain'],
    grain: 'month',
    period: { from: '2019-12', to: '2019-12' },
    where: [{ dimension: 'country', is: 'us' }],
    order: [{ by: 'visits_this_year' }],
    limit: 1,
  }
  const { rows } = await answerQuery(reader, await loadSemantics([]), question).finally(() => reader.close())
  expect(rows).toMatchObject([{ domain: 'd4000.com', visits_this_year: 48_000 }])
})

test.each(['year', 'quarter'])('a filled answer by %s begins with the one that the first month is in', async (grain) => {
  const reader = await readerOf(db)
  const where = [
    { dimension: 'country', is: 'us' },
    { dimension: 'domain', is: 'shop.com' },
  ]
  const question = { metrics: ['visits'], grain, fill: true, period: { from: '2026-08', to: '2026-09' }, where }
  const { rows } = await answerQuery(reader, await loadSemantics([]), question).finally(() => reader.close())
  expect(rows).toMatchObject([{ visits: 220 }])
})
