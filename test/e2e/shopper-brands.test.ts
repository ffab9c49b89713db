// Shopper brands beside categories: a definition of one's own, its migration, load, restatement and mart; and what is offered of older months after a break.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { summaryOf } from '../support/command.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const definition = `pipeline: brand_sales
version: 1
description: How brands sell on a shop's domain; one row a domain, brand and month.
source: web-analytics.shopper-report
params: { granularity: monthly }
for_each:
  brand: ["Levi's; 501", b, Löwe, H&M]
  domain: [amazon.com, amazon.de]
window: { every: month, from: 2026-06, look_back: 1 }
guard: { credits_per_night: 5 }
table:
  key: [date, granularity, domain, brand]
  columns:
    brand: { type: text, description: The brand }
    product_views: { type: numeric, from: brand_sales_performance_product_views, description: Views of its products }
    revenue: { type: numeric, from: brand_sales_performance_revenue, unit: US dollars, description: Sales }
    revenue_own: { type: numeric, from: brand_sales_performance_revenue_1P, unit: US dollars, description: Sales by the marketplace }
limits: { poll_every: 1s, deadline: 6h }
`
const mart = `-- purpose: Sales of a brand over all shops.
-- grain: One row a date and brand.
-- question: Which brand sells most?
-- topic: Shops
-- reads: brand_sales
-- column date: First day of the month.
-- column brand: The brand.
-- column revenue: Sales. Unit: US dollars.
select date, brand, sum(revenue) as revenue from bi.brand_sales group by date, brand
`

const { folder, service, millrace, query } = testWorld({
  copied: [],
  service: () => startVendorSandbox({ requestsPerSecond: null, reportMs: 0 }),
  json: true,
})

beforeAll(() => {
  for (const name of ['marts', 'migrations']) mkdirSync(join(folder, name))
  writeFileSync(join(folder, 'pipelines', 'brand_sales.yaml'), definition)
  writeFileSync(join(folder, 'marts', 'brand_totals.sql'), mart)
})

const range = ['brand_sales', '--from', '2026-06', '--to', '2026-08']
const reports = () => [...service.books.reports.values()]
/** Rows of the bytes that the service made last, by the header. */
const newestBytes = () => {
  const newest = new Map<string, readonly string[]>()
  for (const { text } of reports()) {
    const [header = '', ...lines] = text.trim().split('\n')
    const at = (name: string) => header.split(',').indexOf(name)
    for (const cells of lines.map((line) => line.split(','))) {
      const [date = '', domain = '', brand = ''] = ['date', 'domain', 'brand'].map((name) => cells[at(name)] ?? '')
      const measures = ['product_views', 'revenue', 'revenue_1P'].map((name) =>
        String(Number(cells[at(`brand_sales_performance_${name}`)])),
      )
      newest.set(`${date.slice(0, 7)} ${domain} ${brand}`, measures)
    }
  }
  return [...newest].sort(([left], [right]) => (left < right ? -1 : 1)).map(([key, measures]) => [key, ...measures])
}
const loaded = async () =>
  (
    await query(`select to_char(date, 'YYYY-MM') || ' ' || domain || ' ' || brand as key, product_views::float8::text as views,
      revenue::float8::text as revenue, revenue_own::float8::text as own from bi.brand_sales`)
  )
    .map(({ key, views, revenue, own }) => [String(key), String(views), String(revenue), String(own)])
    .sort(([left = ''], [right = '']) => (left < right ? -1 : 1))

test('a definition for each brand is checked, has the migration that is written of it, and loads what the service has', async () => {
  await succeeded(millrace('new', 'migration', 'brand_sales'))
  await succeeded(millrace('migrate'))
  await succeeded(millrace('check'))
  const run = await succeeded(millrace('backfill', ...range, '--yes'))
  expect(summaryOf(run).units).toMatchObject({ planned: 24, loaded: 24 })
  expect(await loaded()).toHaveLength(24)
  expect(await loaded()).toEqual(newestBytes())
  const asked = reports().flatMap(({ body }) => (body as { brands: string[] }).brands)
  expect([...new Set(asked)].sort()).toEqual(['H&M', "Levi's; 501", 'Löwe', 'b'])
})

test('what is restated becomes a revision, and a mart of it follows', async () => {
  service.configure({ seed: 2 })
  const run = await succeeded(millrace('backfill', ...range, '--force', '--yes'))
  expect(await loaded()).toEqual(newestBytes())
  expect(await query('select count(*)::int as n from bi.brand_sales_history where valid_to is not null')).toEqual([
    { n: summaryOf(run).rows.updated },
  ])
  expect(summaryOf(run).rows.updated).toBeGreaterThan(10)
  const totals = Map.groupBy(newestBytes(), ([key = '']) => `${key.slice(0, 7)} ${key.split(' ').slice(2).join(' ')}`)
  const found = await query(
    `select to_char(date, 'YYYY-MM') || ' ' || brand as key, revenue::float8 as revenue from bi.brand_totals`,
  )
  expect(found).toHaveLength(12)
  for (const { key, revenue } of found)
    expect(revenue, String(key)).toBeCloseTo(
      (totals.get(String(key)) ?? []).reduce((sum, [, , one]) => sum + Number(one), 0),
      6,
    )
})

test('after a break the sample is offered as a shell takes it; it is not bought without approval, and then for the price that was said', async () => {
  await query(`insert into etl.breaks (pipeline_id, run_id, kind, starts_on, seen_back_to, columns, share, change, usual_share, usual_size, ask_number)
    select pipeline_id, 1, 'method', '2026-08-01', '2026-08-01', '{revenue}', 1, 0.2, 0.01, 0.01,
      (select max(ask_number) from etl.units where window_from = '2026-08-01') from etl.pipelines`)
  await query(`update etl.units set ask_number = 1 where window_from < '2026-08-01'`)
  const before = reports().length
  const plan = await millrace('plan', 'brand_sales')
  const { older } = plan.events.find(({ event }) => event === 'pipeline') as {
    older: { sample: { command: string; units: number; credits: number } }[]
  }
  expect(older, plan.stdout).toMatchObject([{ from: '2026-06', to: '2026-07', sample: { units: 2 } }])
  const sample = older[0]?.sample ?? { command: '', credits: -1 }
  const words = execFileSync('sh', ['-c', `printf '%s\\n' ${sample.command}`], { encoding: 'utf8' })
    .trim()
    .split('\n')
  expect(words.slice(-2)).toEqual(['--only', "brand=Levi's\\; 501;domain=amazon.com"])
  const refused = await millrace(...words.slice(1))
  expect([refused.code, refused.stdout]).toEqual([1, expect.stringMatching(/needs_approval/)])
  await millrace('run')
  const months = () =>
    reports()
      .slice(before)
      .map(({ body }) => JSON.stringify(body).match(/"start_date":"(.*?)"/)?.[1])
  expect(months().filter((month) => month === '2026-06' || month === '2026-07')).toEqual([])
  const bought = await succeeded(millrace(...words.slice(1), '--yes'))
  expect(summaryOf(bought)).toMatchObject({ units: { planned: 2 }, quota_used: sample.credits })
  expect(reports().at(-1)?.body).toMatchObject({ domains: ['amazon.com'], brands: ["Levi's; 501"], start_date: '2026-06' })
})
