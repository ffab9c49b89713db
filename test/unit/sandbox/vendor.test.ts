// `millrace sandbox --like vendor` against part G of the facts, number by number.
import { expect, test } from 'vitest'
import * as batch from '../../../src/sandbox/vendor/vendor-batch.ts'
import { openBooks } from '../../../src/sandbox/vendor/vendor-books.ts'
import { readVendorOptions, type VendorOptions } from '../../../src/sandbox/vendor/vendor-options.ts'
import { chargeFor, type Price, type Priced } from '../../../src/sandbox/vendor/vendor-prices.ts'
import { keywords, startVendorSandbox } from '../../../src/sandbox/vendor/vendor-server.ts'
import type { VendorReply } from '../../../src/sandbox/vendor/vendor-words.ts'
import { v5Routes } from '../../support/vendor-v5.ts'

const open = (options: VendorOptions = {}) => {
  const settings = readVendorOptions({ reportMs: 0, ...options })
  return { settings, books: openBooks(() => settings) }
}
const page = (options: VendorOptions = {}, query: Readonly<Record<string, string>> = {}): VendorReply => {
  const { settings, books } = open(options)
  const asked = { api_key: settings.restKey, URL: 'a.com', country: 'us', start_date: '2026-08', end_date: '2026-08', ...query }
  return keywords(settings, books, new URLSearchParams(asked))
}
const table = (more: object = {}) => ({
  vtable: 'traffic_and_engagement',
  granularity: 'monthly',
  filters: { domains: ['a.com'], countries: ['WW'] },
  metrics: ['all_traffic_visits'],
  start_date: '2026-08',
  end_date: '2026-08',
  ...more,
})
const report = (options: VendorOptions, ...tables: readonly object[]) => {
  const { settings, books } = open(options)
  const body = { delivery_information: { response_format: 'csv' }, report_query: { tables } }
  const read = batch.readReport(settings, body)
  return { settings, books, read, reply: batch.submit(settings, books, read, body, false) }
}
const said = ({ status, body }: VendorReply): [number, string] => [status, body]

const coded = (code: string, text: string): string => JSON.stringify({ error: { code, error_message: text } })
const errors = (text: string): string => JSON.stringify({ errors: [text] })

test.each<[fact: number, what: string, VendorReply, status: number, body: string | RegExp]>([
  [60, 'a domain with capitals', page({}, { URL: 'CNN.COM' }), 401, /Data not found/],
  [60, 'a path', page({}, { URL: 'cnn.com/sports' }), 401, /Data not found/],
  [61, 'no credits', page({ purses: { rest: 5 } }), 403, /Invalid API Key or out of data credits/],
  [62, 'no dataset', page({ plan: { tables: [] } }), 403, /Access forbidden. Upgrade your account.*actions/],
  [62, 'no such domain', page({ plan: { domains: ['b.com'] } }), 403, /FORBIDDEN_ERROR/],
  [
    63,
    'after the newest',
    page({}, { start_date: '2026-10', end_date: '2026-10' }),
    400,
    coded('VALIDATION_ERROR', 'Dates not in range'),
  ],
  [
    63,
    'before history',
    page({}, { start_date: '2020-06', end_date: '2020-06' }),
    400,
    coded('VALIDATION_ERROR', 'Dates not in range'),
  ],
  [63, 'a long span', page({}, { start_date: '2026-07' }), 400, coded('VALIDATION_ERROR', 'Dates not in range')],
  [65, 'no country', page({ plan: { countries: ['gb'] } }), 400, /VALIDATION_ERROR.*(no data for requested country|country)/],
  [
    66,
    'before history',
    report({}, table({ start_date: '2019-12', end_date: '2019-12' })).reply,
    400,
    errors('Historical data for monthly granularity is available as of 2020-07. You have requested 2019-12.'),
  ],
  [
    67,
    'a span',
    report({}, table({ vtable: 'website_keywords', metrics: ['clicks'], start_date: '2026-05' })).reply,
    400,
    errors('supports only an interval of 3 month(s) of data'),
  ],
  [
    68,
    'a granularity',
    report({}, table({ granularity: 'yearly' })).reply,
    400,
    errors('granularity should be one of the following - daily, weekly, monthly.'),
  ],
  [
    70,
    'a metric',
    report({}, table({ metrics: ['x'] })).reply,
    400,
    errors('Metrics are not available in table traffic_and_engagement'),
  ],
])('fact %d: %s', (_, __, reply, status, body) => {
  const [found, text] = said(reply)
  expect(found).toBe(status)
  if (typeof body === 'string') expect(text).toBe(body)
  else expect(text).toMatch(body)
})

test.each([
  ['/v4/website-analysis/keywords?api_key=no&URL=a.com&country=us', {}],
  ['/capabilities', {}],
  ['/v3/batch/credits', { 'api-key': 'no' }],
  ['/v5/website-analysis/keywords?domain=a.com', {}],
  ['/v5/website-analysis/keywords?domain=a.com&api_key=vendor-key', { 'api-key': 'vendor-key' }],
])('fact 59: a bad key, or one in the wrong place, at %s', async (path, headers) => {
  const sandbox = await startVendorSandbox({}, v5Routes)
  const answer = await fetch(sandbox.url + path, { headers })
  const said = await answer.text()
  await sandbox.close()
  expect([answer.status, said]).toEqual([401, 'invalid API key'])
})

test('facts 43 to 47: the shapes of a price, for 60 rows of 100 asked for, two metrics, three periods', () => {
  const size: Priced = { rowsAsked: 100, rows: 60, metrics: 2, periods: 3 }
  const costs = (price: Price): number => chargeFor(price, size)
  expect(costs({ by: 'rows-asked', credits: 0.13 })).toBe(13)
  expect(costs({ by: 'rows-asked', credits: 2 })).toBe(200)
  expect(costs({ by: 'rows-returned', credits: 2.5 })).toBe(150)
  expect(costs({ by: 'rows-by-metrics' })).toBe(180)
  expect(costs({ by: 'request', credits: 10 })).toBe(10)
  expect(costs({ by: 'periods', credits: 10 })).toBe(30)
  expect(costs({ by: 'metric-periods', credits: 2 })).toBe(12)
  expect(costs({ by: 'revealed' })).toBe(180)
  expect(chargeFor({ by: 'request' }, { ...size, rows: 0 })).toBe(0)
})

test('fact 46: the bill stands in the meta, under the old name or the new one, or nowhere', () => {
  const meta = (bill: NonNullable<VendorOptions['bill']>) => JSON.parse(page({ bill }).body).meta
  expect(meta('data_credits_charged').data_credits_charged).toBe(13)
  expect(meta('sw_coins').sw_coins).toBe(13)
  expect(JSON.stringify(meta('balance'))).not.toMatch(/credits|coins/)
})

test('facts 50, 51: the balance; both values of a user are null without a cap', () => {
  const credits = (options: VendorOptions) => {
    const { settings, books } = open({ purses: { rest: 5, batch: 90 }, ...options })
    return [JSON.parse(batch.credits(books).body), JSON.parse(batch.userCredits(settings, books).body)]
  }
  expect(credits({})).toEqual([{ remaining_credits: 90 }, { user_allowance: null, user_remaining: null }])
  expect(credits({ userCap: 10 })).toEqual([{ remaining_credits: 10 }, { user_allowance: 10, user_remaining: 10 }])
})

test('fact 52: a span is widened, echoed and charged so', () => {
  const price = { keywords: { by: 'periods' as const } }
  const { request, data_credits_charged: bill } = JSON.parse(page({ widens: true, prices: price }).body).meta
  expect([request.start_date, request.end_date, bill]).toEqual(['2026-07-01', '2026-09-30', 3])
  const { books } = report({ widens: true }, table())
  expect(books.charges.map(({ credits }) => credits)).toEqual([3])
})

test('fact 53: more pending reports than a user may have are refused, and the words say neither so nor how long', () => {
  const { settings, books, read } = report({ reportMs: 60_000, pendingReports: 1 }, table())
  expect(said(batch.submit(settings, books, read, {}, false))).toEqual([429, '{"message":"Too Many Requests"}'])
})

test('facts 54, 55: 100 rows unless told; 100 values of what derives from REST, a million of the own; of several tables the smaller', () => {
  const rows = (more: object): number =>
    report({}, table({ vtable: 'referrals', metrics: ['referral_visits'], ...more })).books.charges[0]?.size.rows ?? 0
  expect(rows({})).toBe(100)
  expect(rows({ paging: { limit: 150 } })).toBe(150)
  const domains = Array.from({ length: 101 }, (_, index) => `d${index}.com`)
  const geography = table({ vtable: 'geography', filters: { domains: ['a.com'] }, metrics: ['geo_total_visits'] })
  const own = table({ filters: { domains, countries: ['WW'] } })
  expect(report({}, own).reply.status).toBe(200)
  expect(report({}, { ...geography, filters: { domains } }).reply.status).toBe(400)
  expect(report({}, own, geography).reply.status).toBe(400)
})

test('fact 68: validate names the errors for free', () => {
  const wrong = table({ granularity: 'yearly' })
  const { settings, read, books } = report({}, wrong)
  expect(JSON.parse(batch.validate(settings, read).body)).toEqual({
    errors: ['granularity should be one of the following - daily, weekly, monthly.'],
    is_valid: false,
    warnings: [],
  })
  expect(books.charges).toEqual([])
})

test('fact 72: "No data returned" stands in the first data row', () => {
  const { books } = report({ keywordsByDomain: { 'a.com': 0 } }, table())
  expect([...books.reports.values()].map(({ text, credits }) => [text, credits])).toEqual([
    ['domain,country,date,all_traffic_visits\nNo data returned\n', 0],
  ])
})

test('a wrong option is refused by its name', () => {
  expect(() => readVendorOptions({ bill: 'x' })).toThrow(/bill: Invalid option/)
})

test('fact 74: the newest month trails', () => {
  expect(open().settings.newestMonth).toBe('2026-09')
})
