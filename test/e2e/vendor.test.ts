// The real command against the service as its documentation and others' measurements have it (`sandbox --like vendor`), which another hand wrote than the client's.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { VendorOptions } from '../../src/sandbox/vendor/vendor-options.ts'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { summaryOf } from '../support/command.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const world = testWorld<VendorSandbox>({ each: true, lists: { domains: ['a.com', 'b.com'] } })
const { folder, db, service, edit, list } = world

const start = (options: VendorOptions = {}) => world.serve(startVendorSandbox({ requestsPerSecond: null, ...options }))

const millrace = (...args: string[]) => plain(...args, '--json')

const millraceWith = (more: Readonly<Record<string, string>>, ...args: string[]) => plainWith(more, ...args, '--json')

const plain = world.millrace
const plainWith = world.millraceWith

const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']
const rows = async (table: string): Promise<number> =>
  Number((await db.query(`select count(*)::int as n from data.${table}_v1`))[0]?.n)

describe('the service as it really answers', () => {
  test('the shipped pipelines load a month, and no report is bought twice', async () => {
    await start({ shopperReply: 'data.report_id' })
    for (const pipeline of pipelines) {
      const run = await succeeded(millrace('backfill', pipeline, '--from', '2026-08', '--to', '2026-08', '--yes'))
      expect(summaryOf(run).units).toMatchObject({ failed: 0, held: 0, waiting: 0 })
    }
    expect(await rows('keywords')).toBeGreaterThan(0)
    // Twelve credits and more for a page (fact 44), and each report by its own shape.
    expect(service.books.charges.filter(({ purse }) => purse === 'rest').every(({ credits }) => credits > 1)).toBe(true)
    expect([...service.books.reports.values()].map(({ downloads }) => downloads)).toEqual([1, 1])
  })

  test('a plan that lacks a dataset stops its pipeline alone, says so in one line, and costs nothing the nights after', async () => {
    await start({ plan: { tables: ['keywords', 'traffic_and_engagement'], countries: null, domains: null } })
    const month = ['--from', '2026-08', '--to', '2026-08', '--yes']
    for (const name of pipelines) edit(name, [/from: 2024-\d\d/, 'from: 2026-08'])
    const run = await millrace('backfill', ...pipelines, ...month)
    expect(run.code, run.stderr).toBe(1)
    const said = run.stderr.split('\n').filter((line) => line.includes('NO_CAPABILITY'))
    expect(said, run.stderr).toHaveLength(1)
    expect(said[0]).toMatch(/shopper_category_performance.*Upgrade your account.*plan does not have this/)
    expect(run.stderr).not.toContain('KEY_REFUSED')
    for (const table of ['keywords', 'traffic_and_engagement']) expect(await rows(table), table).toBeGreaterThan(0)
    const lacking = await millrace('check')
    expect(lacking.code, lacking.stdout).toBe(2)
    const problems = lacking.events.filter(({ level }) => level === 'error').map(({ message }) => String(message))
    expect(problems, lacking.stdout).toHaveLength(1)
    expect(problems[0]).toMatch(/shopper.*plan does not have this/)
    // The first night takes the newest month too; the others look whether loaded months of keywords have changed, and buy no report.
    const reports = () => [service.books.charges.filter(({ purse }) => purse === 'batch').length, service.books.reports.size]
    let bought = reports()
    for (const night of [1, 2, 3]) {
      const { code, stderr } = await millrace('run', '--yes')
      expect(code, stderr).toBe(1)
      expect(stderr.match(/NO_CAPABILITY/g), stderr).toHaveLength(1)
      expect(stderr).toMatch(/shopper_category_performance: \d+ more units failed with the same message/)
      if (night > 1) expect(reports()).toEqual(bought)
      bought = reports()
    }
    expect(service.books.counts['shopper']).toBeGreaterThan(0)
    service.configure({ plan: { tables: ['traffic_and_engagement'], countries: null, domains: null } })
    const check = await millrace('check')
    expect(check.stdout).toMatch(/keywords: .*answers 403 .*plan does not have this/)
    expect(check.stdout).not.toContain('the key is refused')
  })

  test('requests, reports and the user have a purse each, and quota names what is left of every one', async () => {
    await start({ purses: { rest: 1_000, batch: 500 }, userCap: 50 })
    expect((await millrace('quota')).events.at(-1)?.['service']).toEqual({
      remaining: 50,
      requests: 1_000,
      userAllowance: 50,
      userRemaining: 50,
    })
    expect((await plain('quota')).stdout).toMatch(
      /has 50 credits left for reports, 1,000 for requests\. This user may spend 50 of 50/,
    )
    // A key for reports alone.
    service.configure({ restKey: 'another', userCap: null })
    const reports = await plain('quota')
    expect(reports.stdout, reports.stderr).toMatch(/has 500 credits left\.\n/)
    // No key at all that is taken: that is said, and not that the service has no word for it.
    const refused = await plainWith({ WEB_ANALYTICS_API_KEY: 'a-key-that-is-wrong' }, 'quota')
    expect([refused.code, refused.stdout, refused.stderr]).toEqual([
      1,
      expect.stringContaining('The service could not be read for the credits left: see the error.'),
      expect.stringMatching(/Check WEB_ANALYTICS_API_KEY .*KEY_REFUSED/),
    ])
  })

  test('one domain that the plan lacks is left out of a report; the others load', async () => {
    list('domains', ['a.com', 'b.com', 'c.com'])
    await start({ plan: { tables: null, countries: null, domains: ['a.com', 'c.com'] } })
    const run = await millrace('backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes')
    expect(run.code, run.stderr).toBe(1)
    expect(run.stderr).toMatch(/b\.com.*NO_CAPABILITY/s)
    const { rows: loaded } = await db.database.pool.query('select distinct domain from data.traffic_and_engagement_v1 order by 1')
    expect(loaded).toEqual([{ domain: 'a.com' }, { domain: 'c.com' }])
    // It is said as long as a definition asks for it, and no longer.
    const refused = /units? of traffic_and_engagement (was|were) refused/
    expect((await plain('check')).stdout).toMatch(refused)
    edit('traffic_and_engagement', [/from: 2024-\d\d/, 'from: 2026-09'])
    expect((await plain('check')).stdout).not.toMatch(refused)
    edit('traffic_and_engagement', ['from: 2026-09', 'from: 2026-08'])
    list('domains', ['a.com', 'c.com'])
    await succeeded(millrace('backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes'))
    expect((await plain('check')).stdout).not.toMatch(refused)
  })

  test('"Dates not in range" is the newest month, which waits, or a month before history, which does not', async () => {
    await start({ newestMonth: '2026-08', oldestMonth: '2025-03' })
    for (const pipeline of ['keywords', 'traffic_and_engagement']) {
      const late = await millrace('backfill', pipeline, '--from', '2026-09', '--to', '2026-09', '--yes')
      expect(summaryOf(late).units, late.stderr).toMatchObject({ failed: 0, held: 0, loaded: 0 })
      const old = await millrace('backfill', pipeline, '--from', '2025-02', '--to', '2025-03', '--yes')
      expect(old.code, old.stderr).toBe(1)
      expect(old.stderr).toMatch(/2025-02.*older than what this key may request/)
      expect(summaryOf(old).units, old.stderr).toMatchObject({ waiting: 0, held: 0 })
      expect(summaryOf(old).units['loaded']).toBe(summaryOf(old).units['failed'])
    }
  })

  test('a report without rows says so in its first record, and is loaded as empty', async () => {
    await start({ keywordsByDomain: { 'a.com': 0, 'b.com': 0 } })
    const run = await succeeded(millrace('backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes'))
    expect(summaryOf(run).units).toMatchObject({ failed: 0, held: 0, waiting: 0 })
  })

  test('of a report that was widened the months asked for load, the others are named; nothing is rejected or bought again', async () => {
    await start({ widens: true })
    const asked = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes']
    const run = await succeeded(millrace(...asked))
    expect(summaryOf(run).units).toMatchObject({ failed: 0, held: 0, waiting: 0 })
    expect(summaryOf(run).rows).toMatchObject({ quarantined: 0 })
    expect(run.stderr).toMatch(/the service answered for 2026-07\.\.2026-09; requested: 2026-08\. \d+ other rows stay/)
    const { rows: months } = await db.database.pool.query('select distinct date from data.traffic_and_engagement_v1')
    expect(months).toEqual([{ date: '2026-08-01' }])
    const before = service.books.reports.size
    await succeeded(millrace(...asked))
    expect(service.books.reports.size).toBe(before)
  })

  test('months that the service says are not there yet cost nothing in a plan', async () => {
    await start({ newestMonth: '2026-09', keywords: 50 })
    edit('keywords', ['from: 2024-01', 'from: 2026-09'])
    const run = await millrace('run', 'keywords', '--yes')
    expect(summaryOf(run).units['loaded'], run.stderr).toBeGreaterThan(0)
    const planned = await millrace('plan', 'keywords')
    const late = planned.events.filter(({ window }) => window === '2026-10')
    expect(
      late.map(({ quota }) => quota),
      planned.stdout,
    ).toEqual(late.map(() => 0))
    expect(late.length, planned.stdout).toBeGreaterThan(0)
    // What is left are looks at units of the month before.
    expect(summaryOf(planned).quota_used, planned.stdout).toBeLessThan(10)
  })

  test('a price set for reports holds a budget before the first bill; the bill takes its place', async () => {
    await start()
    const asked = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes']
    const set = { WEB_ANALYTICS_PRICES: 'traffic_and_engagement=1000/value' }
    const held = await millraceWith({ ...set, WEB_ANALYTICS_QUOTA_PER_DAY: '500' }, ...asked)
    expect(service.books.reports.size, held.stderr).toBe(0)
    const bought = await millraceWith({}, ...asked)
    expect(service.books.reports.size, bought.stderr).toBeGreaterThan(0)
    const paid = service.books.charges.reduce((sum, { credits }) => sum + credits, 0)
    const other = await millraceWith(set, 'plan', 'traffic_and_engagement', '--from', '2026-07', '--to', '2026-07')
    expect(summaryOf(other).quota_used, other.stdout).toBeCloseTo(paid, 0)
  })

  test('a new version of the answer costs three pages and not thirty; the units it was shown for wait for a person', async () => {
    const body = JSON.stringify({ meta: { status: 'Success', data_credits_charged: 13 }, data: [{ term: 'a', clicks: 1 }] })
    await start({ replies: [{ endpoint: 'keywords', status: 200, body }] })
    const asked = ['backfill', 'keywords', '--from', '2026-07', '--to', '2026-08', '--yes']
    const run = await millrace(...asked)
    expect(run.code, run.stderr).toBe(1)
    expect(summaryOf(run).units).toMatchObject({ held: 3, failed: 0, loaded: 0 })
    expect(run.stderr).toMatch(/UNUSABLE.*/)
    expect(run.stderr).toMatch(/not requested, nothing was paid/)
    expect(service.books.counts['keywords']).toBe(3)
    await millrace(...asked)
    expect(service.books.counts['keywords']).toBe(3)
  })

  test.each([
    ['that came whole and is no JSON, a number that JSON does not have', '{"keywords":[{"clicks":NaN}],"keywords_count":1}', 1],
    ['that came whole and is no JSON, a line behind the object', '{"keywords":[],"keywords_count":0}\n{"trace":"x"}', 1],
    ['without a byte', '', 2],
    ['of blanks', ' \n ', 2],
    ['that ends in its middle', '{"keywords": [{"keyword": "a', 2],
  ])('a page %s is never bought again by itself; the others load', async (_what, body, bought) => {
    await start({ replies: [{ endpoint: 'keywords', match: ['URL=b.com', 'country=us'], status: 200, body }] })
    const asked = ['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes']
    const run = await millrace(...asked)
    expect(summaryOf(run).units, run.stderr).toMatchObject({ loaded: 3, held: 1, failed: 0 })
    expect(run.stderr).toMatch(/b\.com.*JSON.*is not (requested|bought) again automatically.*UNUSABLE/)
    await millrace(...asked)
    expect(service.books.replaced).toEqual([bought])
  })

  test.each([
    ['once', ['{"keywords"']],
    ['twice, each time in another way', ['', '{"keywords"']],
  ])('a page that cannot be read %s is asked for again and loads', async (_what, bodies) => {
    const match = ['URL=b.com', 'country=us']
    await start({ replies: bodies.map((body) => ({ endpoint: 'keywords', match, status: 200, body, times: 1 })) })
    await succeeded(millrace('backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes'))
    expect(service.books.replaced).toEqual(bodies.map(() => 1))
  })

  test('units that cannot be read stop the others only where three in a row are wrong in the same way', async () => {
    writeFileSync(
      join(folder, 'pipelines', 'domains.txt'),
      ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `${name}.com\n`).join(''),
    )
    const bodies = { a: '', b: '', c: '{}', d: '{}', e: '{"keywords":[],"meta":1}' }
    const bad = Object.entries(bodies).map(([name, body]) => ({ match: [`URL=${name}.com`], body }))
    await start({ replies: bad.map((reply) => ({ endpoint: 'keywords', status: 200, ...reply })) })
    const asked = ['--from', '2026-08', '--to', '2026-08', '--only', 'country=us', '--yes']
    const run = await millrace('backfill', 'keywords', ...asked)
    expect(summaryOf(run).units, run.stderr).toMatchObject({ loaded: 1, held: 5, waiting: 0, failed: 0 })
    expect(service.books.replaced).toEqual([2, 2, 1, 1, 1])
  })

  test('empty pages of every unit cost two pages of three units', async () => {
    await start({ replies: [{ endpoint: 'keywords', status: 200, body: '' }] })
    const run = await millrace('backfill', 'keywords', '--from', '2026-07', '--to', '2026-08', '--yes')
    expect(summaryOf(run).units, run.stderr).toMatchObject({ loaded: 0, held: 3, failed: 0 })
    expect(service.books.counts['keywords']).toBe(6)
  })

  test.each(['', '{}'])(
    'the pages before one that cannot be read (%j) are kept: who releases the unit buys the rest',
    async (body) => {
      edit('keywords', ['page_size: 1000', 'page_size: 10'], ['concurrency: 4', 'concurrency: 1'])
      await start({ keywords: 40, replies: [{ endpoint: 'keywords', match: ['offset=20'], status: 200, body }] })
      const unit = ['--from', '2026-08', '--to', '2026-08', '--only', 'domain=a.com;country=us', '--yes']
      const run = await millrace('backfill', 'keywords', ...unit)
      expect(summaryOf(run).units, run.stderr).toMatchObject({ held: 1 })
      const unread = service.books.replaced[0] ?? 0
      service.configure({ replies: [] })
      const { rows: units } = await db.database.pool.query(`select unit_id from etl.unit_list where state = 'held'`)
      await succeeded(millrace('release', String(units[0]?.unit_id)))
      expect((service.books.counts['keywords'] ?? 0) - unread, 'each page once').toBe(4)
      expect(await rows('keywords')).toBe(40)
    },
  )

  test('whole pages that cannot be loaded are kept and not bought again; a corrected definition loads them', async () => {
    const meta = { status: 'Success', data_credits_charged: 13 }
    const columns = readFileSync(join(folder, 'pipelines', 'keywords.yaml'), 'utf8').matchAll(/^ {4}(\w+): \{ type: numeric/gm)
    const texts = { search_term: 'a', top_url: 'b.com/a', primary_intent: 'a', secondary_intent: 'a', serp_features: ['a'] }
    const record = { ...texts, ...Object.fromEntries([...columns].map(([, name]) => [name, 1])) }
    const body = JSON.stringify({ keywords: [record], keywords_count: 1, meta })
    await start({ replies: [{ endpoint: 'keywords', match: ['URL=b.com', 'country=us'], status: 200, body }] })
    const asked = ['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes']
    for (const loaded of [3, 0]) {
      const run = await millrace(...asked)
      expect(summaryOf(run).units, run.stderr).toMatchObject({ loaded, failed: 1 })
      expect(run.stderr).toMatch(/No record of part 1 has 'keyword'.*name it in `from`.*The next run tries again/)
    }
    edit('keywords', ['keyword: { type: text,', 'keyword: { type: text, from: [keyword, search_term],'])
    await succeeded(millrace(...asked))
    expect(service.books.replaced).toEqual([1])
  })

  test('a count above the rows that come is paid for twice in one night and never again by itself; the others load', async () => {
    const keyword = (at: number) => ({ keyword: `k${at}`, top_url: `a/${at}`, clicks: 100 - at })
    const meta = { status: 'Success', data_credits_charged: 13 }
    const body = JSON.stringify({ meta, keywords: Array.from({ length: 20 }, (_, at) => keyword(at)), keywords_count: 25 })
    await start({ keywords: 40, replies: [{ endpoint: 'keywords', match: ['URL=b.com', 'country=us'], status: 200, body }] })
    const asked = ['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes']
    const run = await millrace(...asked)
    expect(run.code, run.stderr).toBe(1)
    expect(summaryOf(run).units).toMatchObject({ loaded: 3, held: 1, failed: 0 })
    expect(run.stderr).toMatch(/b\.com: the page at 20 holds 20 records instead of 5.*The same came twice.*--force.*UNUSABLE/)
    // Two walks over two pages.
    expect(service.books.replaced).toEqual([4])
    for (const night of [1, 2]) expect((await millrace(...asked)).code, `night ${night}`).toBe(1)
    expect(service.books.replaced).toEqual([4])
  })

  test('a report of a shape that cannot be read is downloaded twice by each run, and bought once', async () => {
    await start({ replies: [{ endpoint: 'download', status: 200, type: 'text/csv', body: 'name,sum\na.com,5\n' }] })
    const asked = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes']
    for (const downloads of [2, 4]) {
      const run = await millrace(...asked)
      expect(run.code, run.stderr).toBe(1)
      expect(run.stderr).toMatch(/CSV header.*BAD_RESPONSE/)
      expect(service.books.counts['download'], run.stderr).toBe(downloads)
    }
    service.configure({ replies: [] })
    await succeeded(millrace(...asked))
    expect(service.books.reports.size).toBe(1)
  })

  test('a report that came short twice is held, and downloaded again by each later run until it is whole; it is bought once', async () => {
    const short = {
      endpoint: 'download',
      status: 200,
      type: 'text/csv',
      body: 'domain,country,date,all_traffic_visits\na.com,WW,2026-08-01,5\n',
    } as const
    await start({ replies: [{ ...short, times: 3 }] })
    const asked = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes']
    const first = await millrace(...asked)
    expect(first.code, first.stderr).toBe(1)
    expect(summaryOf(first).units).toMatchObject({ held: 6, loaded: 0 })
    const second = await millrace(...asked)
    expect(second.code, second.stderr).toBe(1)
    expect(summaryOf(second).units, second.stderr).toMatchObject({ held: 6, loaded: 0 })
    expect(service.books.counts['download'], 'twice, then once').toBe(3)
    service.configure({ replies: [{ ...short, status: 404 }] })
    const away = await millrace(...asked)
    expect(away.code, away.stderr).toBe(1)
    expect(away.stderr).toMatch(/downloading it again failed.*millrace release/)
    service.configure({ replies: [] })
    const whole = await succeeded(millrace(...asked))
    expect(summaryOf(whole)).toMatchObject({ units: { loaded: 6, held: 0 }, quota_used: 0 })
    expect(await rows('traffic_and_engagement')).toBeGreaterThan(0)
    expect(service.books.reports.size).toBe(1)
  })

  test('an outage is said in one line a cause, with the number of units', async () => {
    await start({ replies: [{ endpoint: 'keywords', status: 503, body: '{"message":"Service Unavailable"}' }] })
    const names = Array.from({ length: 16 }, (_, at) => `d${at}.com`)
    list('domains', names)
    edit('keywords', ['attempts: 5', 'attempts: 2'])
    const run = await millrace('backfill', 'keywords', '--from', '2026-08', '--to', '2026-08', '--yes')
    expect(run.code, run.stderr).toBe(1)
    const lines = run.stderr.split('\n').filter((line) => /\[SERVICE_ERROR\]|with the same message/.test(line))
    expect(lines.length, run.stderr).toBeLessThanOrEqual(4)
    expect(run.stderr).toMatch(/keywords: \d+ more units (wait|failed) with the same message/)
  })

  test('a table cut at its limit is held as capped and never loaded as complete; a higher limit loads it', async () => {
    await start()
    const yaml = referrals
    const file = join(folder, 'pipelines', 'referrals.yaml')
    writeFileSync(file, yaml(''))
    for (const args of [['new', 'migration', 'referrals'], ['migrate']]) {
      await succeeded(millrace(...args))
    }
    const month = ['backfill', 'referrals', '--from', '2026-08', '--to', '2026-08', '--yes']
    const cut = await millrace(...month)
    expect(cut.code, cut.stderr).toBe(1)
    expect(summaryOf(cut).units).toMatchObject({ held: 1, loaded: 0 })
    expect(cut.stderr).toMatch(/100 rows came, exactly the requested limit.*Raise params.limit.*CAPPED/)
    expect(await rows('referrals')).toBe(0)
    expect([...service.books.reports.values()].map(({ body }) => JSON.stringify(body))[0]).toContain('"paging":{"limit":100}')
    writeFileSync(file, yaml(', limit: 500'))
    await succeeded(millrace(...month, '--force'))
    expect(await rows('referrals')).toBeGreaterThan(100)
    const final = await db.database.pool.query('select distinct is_final from bi.referrals')
    expect(final.rows).toEqual([{ is_final: true }])
    // Released, it says nothing of the rows behind its limit: they stay.
    const before = await rows('referrals')
    writeFileSync(file, yaml(''))
    const again = await millrace(...month, '--force')
    const [, unit = ''] = /`millrace release (\d+)`/.exec(again.stderr) ?? []
    const seen = (question: string): Promise<unknown> => db.query(question)
    const isFinal = 'select distinct is_final from bi.referrals'
    const coverage = `select has_data, rows_loaded, share_of_clicks from bi.coverage where pipeline = 'referrals' and period = '2026-08-01'`
    // Complete so far; what is held may say otherwise.
    expect(await seen(coverage)).toEqual([{ has_data: true, rows_loaded: 'all', share_of_clicks: null }])
    expect(await seen(isFinal)).toEqual([{ is_final: false }])
    expect((await millrace('release', unit)).code, again.stderr).toBe(0)
    await succeeded(millrace(...month))
    expect(await seen(coverage)).toEqual([{ has_data: true, rows_loaded: 'capped at 100', share_of_clicks: null }])
    expect(await seen(isFinal)).toEqual([{ is_final: false }])
    expect(await seen(`select distinct is_final from bi.referrals_as_of('2100-01-01')`)).toEqual([{ is_final: false }])
    expect((await millrace('status')).events.at(-1)).toMatchObject({ pipelines: [{ pipeline: 'referrals', capped: 1 }] })
    const { rows: held } = await db.database.pool.query(
      'select count(*)::int as n from etl.units where held_answer_id is not null',
    )
    expect(held).toEqual([{ n: 0 }])
    expect(await rows('referrals')).toBe(before)
  })

  test('a top beyond the rows that are loaded buys the report once, though its bytes are the same', async () => {
    await start()
    const file = join(folder, 'pipelines', 'referrals.yaml')
    writeFileSync(file, referrals(', limit: 500'))
    for (const args of [['new', 'migration', 'referrals'], ['migrate']]) await succeeded(millrace(...args))
    const bought = async (): Promise<number> => {
      await succeeded(millrace('backfill', 'referrals', '--from', '2026-08', '--to', '2026-08', '--yes'))
      return service.books.reports.size
    }
    expect(await bought()).toBe(1)
    writeFileSync(file, referrals(', top: 500'))
    expect(await bought()).toBe(2)
    expect(await bought()).toBe(2)
  })
})

/** @param limit what is added to its parameters */
const referrals = (limit: string): string => `pipeline: referrals
version: 1
description: Sites that send visitors.
source: web-analytics.report
params: { vtable: referrals${limit} }
for_each:
  domain: [a.com]
  country: [us]
window: { every: month, from: 2026-01 }
table:
  key: [date, domain, country, referring_domain]
  columns:
    referring_domain: { type: text, description: The site that sends them }
    visits: { type: bigint, from: referral_visits, description: Visits that it sends }
limits: { poll_every: 1s }
`
