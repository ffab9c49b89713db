// Every table of the batch service by YAML alone: written by `millrace new dataset`, checked, planned, loaded, restated, against a service that knows their filters.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { summaryOf } from '../support/command.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

/** With what tells a row apart beside the period; those with more rows of a domain than come unasked name a limit. */
const tables: Readonly<Record<string, { readonly key: readonly string[]; readonly limit?: number }>> = {
  website_marketing_channels: { key: ['domain', 'country', 'channel', 'include_subdomains'] },
  traffic_sources: { key: ['domain', 'country', 'source', 'include_subdomains'] },
  referrals: { key: ['domain', 'country', 'referring_domain'], limit: 500 },
  desktop_top_geo: { key: ['domain', 'country'], limit: 500 },
  similar_sites: { key: ['domain', 'similar_domain'] },
  website: { key: ['domain'] },
  demographics: { key: ['domain', 'country', 'age_group'] },
  audience_interests: { key: ['domain', 'country', 'interest'], limit: 500 },
  popular_pages: { key: ['domain', 'country', 'page'], limit: 500 },
  website_keywords: { key: ['domain', 'country', 'keyword'], limit: 500 },
  segments: { key: ['segment_id', 'country'] },
  apps: { key: ['app_id', 'country'] },
  companies: { key: ['company_id'] },
  market_overview: { key: [] },
}
const names = Object.keys(tables)

const { db, service, millrace, fileOf } = testWorld({
  copied: ['marts/coverage_months.sql'],
  service: () => startVendorSandbox({ requestsPerSecond: null, reportMs: 0 }),
  json: true,
})

const range = ['--from', '2026-07', '--to', '2026-08', '--yes']
const count = async (text: string): Promise<number> => Number((await db.query(text))[0]?.n)

test('each is written with its key, checked and migrated', async () => {
  for (const name of names) {
    await succeeded(millrace('new', 'dataset', name, '--source', 'web-analytics.report'))
    const text = readFileSync(fileOf(name), 'utf8')
    const key = /key: \[(.*)\]/.exec(text)?.[1]?.split(', ') ?? []
    expect(key.filter((column) => column !== 'date' && column !== 'granularity').sort(), name).toEqual(
      [...(tables[name]?.key ?? [])].sort(),
    )
    expect(text).toMatch(/one row per (\S.*\S and )?month\."/)
    // An id with zeros before it is no number.
    const ids = text.replace(/segment_id: \[.*\]/, 'segment_id: ["0017"]')
    writeFileSync(fileOf(name), ids.replace('poll_every: 5s', 'poll_every: 1s'))
  }
  await succeeded(millrace('migrate'))
  await succeeded(millrace('check'))
  // A test of each was written with it: its names, key and types hold, and a change of them is found.
  const tested = await succeeded(millrace('test'))
  expect(summaryOf(tested)).toMatchObject({ tested: names.length, failed: 0 })
})

test('a source with an endpoint of its own is none of them, and is written without', async () => {
  const named = ['new', 'dataset', 'by_brand', '--source', 'web-analytics.shopper-report']
  expect((await millrace(...named, '--table', 'by_brand')).stderr).toMatch(/offers no dataset 'by_brand'/)
  const made = await millrace(...named)
  expect(made.code, made.stderr).toBe(0)
  expect(readFileSync(fileOf('by_brand'), 'utf8')).toContain('source: web-analytics.shopper-report')
  rmSync(fileOf('by_brand'))
})

test('each is planned, loaded, held where it was cut at its limit, and restated', async () => {
  await succeeded(millrace('plan', ...names, ...range.slice(0, 4)))
  const cut = await millrace('backfill', ...names, ...range)
  expect(cut.code, cut.stderr).toBe(1)
  expect(summaryOf(cut).units).toMatchObject({ planned: 2 * names.length, failed: 0, waiting: 0 })
  for (const name of names) {
    const { limit } = tables[name] ?? {}
    if (limit === undefined) expect(await count(`select count(*) as n from data.${name}_v1`), name).toBeGreaterThan(0)
    else {
      expect(cut.stderr).toMatch(new RegExp(`${name}.*CAPPED`))
      writeFileSync(fileOf(name), readFileSync(fileOf(name), 'utf8').replace('params: {', `params: { limit: ${limit},`))
    }
  }
  // Of those that were held the first of these is the first load, of the others a restatement; the second is one of each.
  for (const seed of [2, 3]) {
    service.configure({ seed })
    const again = await succeeded(millrace('backfill', ...names, ...range, '--force'))
    expect(summaryOf(again).units).toMatchObject({ failed: 0, held: 0, loaded: 2 * names.length })
  }
  for (const name of names) {
    expect(await count(`select count(*) as n from data.${name}_v1`), name).toBeGreaterThan(0)
    expect(await count(`select count(*) as n from data.${name}_v1_history`), name).toBeGreaterThan(0)
  }
}, 120_000)

test('a wrong filter, granularity or metric is an error with the list of the table', async () => {
  const change = async (name: string, from: string | RegExp, to: string, ...args: string[]): Promise<string> => {
    const text = readFileSync(fileOf(name), 'utf8')
    writeFileSync(fileOf(name), text.replace(from, to))
    const { stdout, stderr } = await millrace('check', ...args)
    writeFileSync(fileOf(name), text)
    return stdout + stderr
  }
  expect(await change('website', 'for_each:', 'for_each:\n  country: [us]', '--offline')).toContain(
    "the table website (it filters by domain) cannot run for each 'country'",
  )
  expect(await change('similar_sites', 'granularity: monthly', 'granularity: weekly', '--offline')).toMatch(
    /similar_sites has no weekly rows; write one of daily, monthly/,
  )
  expect(await change('segments', 'params: {', 'params: { include_subdomains: true,', '--offline')).toMatch(
    /segments does not filter by include_subdomains; it filters by segment_ids, countries/,
  )
  expect(await change('companies', /company_visits: \{ type/, 'visits: { from: company_hits, type')).toMatch(
    /no metric 'company_hits' .*It has company_visits, company_employees/,
  )
})

test('a file of several tables is held, and once the definition names its own that one loads whole; nothing is bought again', async () => {
  const { take } = service.books
  const others = ['country,date,channel,channel_visits\nUS,2026-06-01,mail,7\n', 'domain,date,pages\nNo data returned\n']
  // As large as the service says: points are cells, three more of them in rows of others.
  service.books.take = (report) => take({ ...report, rows: report.rows + 3, text: others.join('') + report.text })
  const june = ['--from', '2026-06', '--to', '2026-06', '--yes']
  const text = readFileSync(fileOf('website'), 'utf8').replace('poll_every: 1s', 'poll_every: 1s, attempts: 1')
  writeFileSync(fileOf('website'), text)
  const held = await millrace('backfill', 'website', ...june)
  service.books.take = take
  expect([held.code, held.stdout]).toEqual([1, expect.stringMatching(/lacks part of the key.*report: \{ section: 2 \}/)])
  const reports = service.books.reports.size
  const loaded = `select count(*) as n from data.website_v1 where date = '2026-06-01'`
  expect(await count(loaded)).toBe(0)
  writeFileSync(fileOf('website'), text.replace('schedule:', 'report: { section: 3, data_points: non_empty_cells }\nschedule:'))
  const again = await millrace('backfill', 'website', ...june)
  expect([again.code, summaryOf(again).rows.quarantined], again.stdout).toEqual([0, 0])
  expect(await count(loaded)).toBe(summaryOf(again).rows.inserted)
  expect([(await count(loaded)) > 0, service.books.reports.size]).toEqual([true, reports])
})

test('a table that ends is planned up to its last month, which coverage names; a definition that does not say so is told', async () => {
  await succeeded(millrace('new', 'dataset', 'marketing_channels', '--source', 'web-analytics.report'))
  const told = await millrace('check')
  expect(told.stdout + told.stderr).toMatch(
    /marketing_channels ends with 2026-11; website_marketing_channels continues it; write until: 2026-11/,
  )
  const text = readFileSync(fileOf('marketing_channels'), 'utf8').replace('poll_every: 5s', 'poll_every: 1s')
  writeFileSync(
    fileOf('marketing_channels'),
    text.replace('schedule:', 'until: 2026-07\nsuccessor: website_marketing_channels\nschedule:'),
  )
  await succeeded(millrace('migrate'))
  // Said to have months until its end, of which the service takes these only apart: the newest is not there yet.
  const due = readFileSync(fileOf('marketing_channels'), 'utf8')
  writeFileSync(fileOf('marketing_channels'), due.replace('until: 2026-07', 'until: 2026-11'))
  const planned = await millrace('plan', 'marketing_channels', '--from', '2026-09', '--to', '2026-10')
  expect([planned.code, planned.stderr]).toEqual([0, expect.stringContaining('takes fewer months in one request')])
  writeFileSync(fileOf('marketing_channels'), due)
  const run = await succeeded(millrace('backfill', 'marketing_channels', ...range))
  expect(summaryOf(run).units).toMatchObject({ planned: 1, loaded: 1, waiting: 0 })
  expect(
    await db.query(
      `select pipeline, month::text, ends::text from bi.coverage_months where pipeline like '%marketing_channels' and month >= '2026-07-01' order by 1, 2`,
    ),
  ).toEqual([
    { pipeline: 'marketing_channels', month: '2026-07-01', ends: '2026-07-01' },
    { pipeline: 'website_marketing_channels', month: '2026-07-01', ends: null },
    { pipeline: 'website_marketing_channels', month: '2026-08-01', ends: null },
  ])
})
