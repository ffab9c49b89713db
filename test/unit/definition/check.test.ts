import { expect, test } from 'vitest'
import type { Column, Definition } from '../../../src/core/types.ts'
import { assertDefinitions } from '../../../src/definition/load.ts'
import { change, check, contractExample, problemsIn, reportExample } from './checking.ts'

const only = (text: string): Definition => {
  const { definitions, problems } = check(text)
  expect(problems).toEqual([])
  const [definition] = definitions
  if (definition === undefined) throw new Error('no definition')
  return definition
}

const column = (definition: Definition, name: string): Column | undefined => definition.columns.find((one) => one.name === name)

test('the example of the contract loads to the letter', () => {
  const definition = only(contractExample)
  expect(definition).toMatchObject({
    file: 'pipelines/p.yaml',
    pipeline: 'keywords',
    version: 1,
    source: 'web-analytics.keywords',
    account: 'default',
    params: { traffic_source: 'All', web_source: 'Total', branded_type: 'All' },
    dimensions: [
      { name: 'domain', values: ['a.com'], bucket: null, file: 'domains.txt' },
      { name: 'country', values: ['us', 'gb'], bucket: null, file: null },
    ],
    window: {
      every: 'month',
      from: '2024-01-01',
      lookBack: 2,
      fullCheckDays: 30,
      publication: { publishedOn: 10, restatedOn: [10, 15], timeZone: 'Etc/GMT+5' },
    },
    schedule: { cron: '30 2 * * *', timeZone: 'Europe/Berlin', overlap: 'queue', catchUp: 'last' },
    limits: {
      pageSize: 1000,
      concurrency: 4,
      timeoutMs: 30_000,
      attempts: 5,
      rejectShare: 0.001,
      rejectCount: null,
      shrink: 0.5,
    },
    report: { resubmitUncertain: false, resubmitFailed: false },
    publish: true,
  })
})

test('a key column that is declared nowhere takes type and words from the field the source knows', () => {
  expect(column(only(contractExample), 'top_url')).toEqual({
    name: 'top_url',
    type: 'text',
    isKey: true,
    nullable: false,
    description: 'Landing page',
    unit: 'URL without scheme',
    origin: 'response',
    from: ['top_url'],
    ifAbsent: null,
    normalize: null,
    rounding: null,
  })
})

test('columns stand in key order, then in the order of the YAML', () => {
  expect(
    only(contractExample)
      .columns.map(({ name }) => name)
      .join(' '),
  ).toBe('month domain country traffic_source web_source branded_type keyword top_url clicks traffic_share serp_features')
})

test.each([
  ['month', 'window', 'date'],
  ['domain', 'slice', 'text'],
  ['web_source', 'param', 'text'],
  ['keyword', 'response', 'text'],
  ['serp_features', 'response', 'text[]'],
])('keywords: %s comes from the %s', (name, origin, type) => {
  expect(column(only(contractExample), name)).toMatchObject({ origin, type, from: origin === 'response' ? [name] : [] })
})

test.each([
  ['date', { origin: 'response', type: 'date', normalize: 'period_start' }],
  ['domain', { origin: 'response', type: 'text', normalize: 'domain', from: ['domain', 'site'], nullable: false }],
  ['country', { origin: 'response', type: 'text', normalize: 'country' }],
  ['granularity', { origin: 'param', type: 'text' }],
  ['include_subdomains', { origin: 'param', type: 'boolean' }],
  ['visits', { origin: 'response', type: 'numeric', from: ['all_traffic_visits', 'visits'], nullable: true }],
])('a report: %s is %j, for values asked for together come back in the answer', (name, expected) => {
  expect(column(only(reportExample), name)).toMatchObject(expected)
})

test('words for a column of the window or slice do not change where it comes from', () => {
  const text = change(contractExample, 'columns:\n', 'columns:\n    domain: { description: Ours }\n')
  expect(column(only(text), 'domain')).toMatchObject({ origin: 'slice', description: 'Ours' })
})

test('from always means the response, also for a name the window, slice or parameters have', () => {
  const text = change(reportExample, 'columns:\n', 'columns:\n    country: { type: text, from: land }\n')
  expect(column(only(text), 'country')).toMatchObject({ origin: 'response', from: ['land'], normalize: 'country' })
})

test('a column under another name keeps what the source knows of the field', () => {
  const text = change(reportExample, 'columns:\n', 'columns:\n    first_day: { from: date }\n    shop: { from: site }\n')
  expect(column(only(text), 'first_day')).toMatchObject({ type: 'date', normalize: 'period_start', description: 'Period' })
  expect(column(only(text), 'shop')).toMatchObject({ type: 'text', normalize: 'domain', from: ['site'] })
})

test('the longest wait for a report is never shorter than the first', () => {
  expect(only(change(reportExample, 'window:', 'limits: { poll_every: 2m }\nwindow:')).limits).toMatchObject({
    pollEveryMs: 120_000,
    pollMaxMs: 120_000,
  })
})

test("the default for an absent field is the definition's, else the source's; null in the definition means none", () => {
  expect(column(only(contractExample), 'traffic_share')?.ifAbsent).toBe('0')
  const text = change(contractExample, 'traffic_share: {', 'traffic_share: { if_absent: null,')
  expect(column(only(text), 'traffic_share')?.ifAbsent).toBeNull()
  expect(column(only(change(contractExample, 'if_absent: 0', 'if_absent: 7')), 'clicks')?.ifAbsent).toBe('7')
})

test('a whole number is rounded only where the definition says how', () => {
  expect(column(only(contractExample), 'clicks')?.rounding).toBeNull()
  const text = change(contractExample, 'clicks: { type: bigint,', 'clicks: { type: bigint, rounding: half_even,')
  expect(column(only(text), 'clicks')?.rounding).toBe('half_even')
})

test("parameters left out have the source's defaults and may stand in the key", () => {
  expect(
    only(change(contractExample, 'params: { traffic_source: All, web_source: Total, branded_type: All }\n', '')).params,
  ).toEqual({
    traffic_source: 'All',
    web_source: 'Total',
    branded_type: 'All',
  })
})

test('everything that may be set is read', () => {
  const text = change(
    reportExample,
    'window: { from: 2024-01 }',
    `account: acme
publish: false
report: { resubmit_uncertain: true, resubmit_failed: true }
schedule: { cron: "0 3 * * mon-fri", overlap: skip, catch_up: all }
limits:
  page_size: 10
  max_pages: 20
  concurrency: 3
  timeout: 1.5s
  attempts: 2
  rejects: 0.5%, 100
  shrink: 12.5%
  walks: 4
  poll_every: 500ms
  poll_max: 5m
  deadline: 2d
  quota_per_month: 1000
  quota_per_day: 100
  max_body: 1GiB
window:
  every: week
  from: 2024-01-01
  look_back: 5
  publication: { published_on: 12, restated_on: [3, 20], time_zone: UTC }`,
  )
  expect(only(text)).toMatchObject({
    account: 'acme',
    publish: false,
    report: { resubmitUncertain: true, resubmitFailed: true },
    schedule: { cron: '0 3 * * mon-fri', timeZone: 'UTC', overlap: 'skip', catchUp: 'all' },
    limits: {
      pageSize: 10,
      maxPages: 20,
      concurrency: 3,
      timeoutMs: 1500,
      attempts: 2,
      rejectShare: 0.005,
      rejectCount: 100,
      shrink: 0.125,
      walks: 4,
      pollEveryMs: 500,
      pollMaxMs: 300_000,
      deadlineMs: 172_800_000,
      quotaPerMonth: 1000,
      quotaPerDay: 100,
      maxBodyBytes: 1_073_741_824,
    },
    window: {
      every: 'week',
      from: '2024-01-01',
      lookBack: 5,
      publication: { publishedOn: 12, restatedOn: [3, 20], timeZone: 'UTC' },
    },
  })
})

test.each([
  ['0.1%', 0.001, null],
  ['10', 1, 10],
  ['"0.1%, 100"', 0.001, 100],
  ['0', 1, 0],
  ['0%', 0, null],
])('rejects: %s allows a share of %d and a count of %j', (written, rejectShare, rejectCount) => {
  expect(only(change(contractExample, 'rejects: 0.1%', `rejects: ${written}`)).limits).toMatchObject({ rejectShare, rejectCount })
})

test('list files may hold comments, blank lines, a byte order mark, CRLF and capitals', () => {
  const domains = '\uFEFF# ours\r\nA.com\r\n\r\n  b.com  # theirs\r\n'
  const { definitions, problems } = check(contractExample, { lists: { 'domains.txt': domains } })
  expect(problems).toEqual([])
  expect(definitions[0]?.dimensions[0]?.values).toEqual(['a.com', 'b.com'])
})

test('lines of a list may end as they did on old Macs', () => {
  expect(check(contractExample, { lists: { 'domains.txt': 'a.com\rb.com\r' } }).definitions[0]?.dimensions[0]?.values).toEqual([
    'a.com',
    'b.com',
  ])
})

test('long numbers and leading zeros in a list stay as written', () => {
  const text = `pipeline: shop
version: 1
description: Shops
source: web-analytics.shopper-report
for_each: { domain: [a.com], category_id: { values: [007, 12345678901234567], bucket: 2 } }
window: { from: 2024-01 }
table: { key: [date, domain, category_id], columns: {} }
`
  expect(only(text).dimensions[1]?.values).toEqual(['007', '12345678901234567'])
})

test('a definition is frozen to its leaves', () => {
  const definition = only(contractExample)
  expect(() => Object.assign(definition.dimensions[0] ?? {}, { name: 'x' })).toThrow(TypeError)
  expect(Object.isFrozen(definition.columns[0]?.from)).toBe(true)
})

test('two versions may stand side by side while one is not published', () => {
  const next = change(contractExample, 'version: 1', 'version: 2')
  expect(
    check({ 'a.yaml': contractExample, 'b.yaml': `${next}publish: false\n` }).definitions.map(({ version }) => version),
  ).toEqual([1, 2])
  expect(problemsIn({ 'a.yaml': contractExample, 'b.yaml': next })).toEqual([
    "pipelines/b.yaml:2:11: pipeline 'keywords' is already defined in pipelines/a.yaml (published keywords); " +
      'set publish: false in the one that is still filling.',
  ])
})

test.each(['1', '01', '1.0', '+1'])(
  'the same pipeline and version twice is a problem, however the number is written: %s',
  (version) => {
    const again = `${change(contractExample, 'version: 1', `version: ${version}`)}publish: false\n`
    expect(problemsIn({ 'a.yaml': contractExample, 'b.yaml': again }).join()).toContain(
      "b.yaml:2:11: pipeline 'keywords' is already defined in pipelines/a.yaml (keywords version 1); rename one",
    )
  },
)

test.each(['False', 'FALSE'])('a version that is not published may say so in capitals: %s', (no) => {
  const next = `${change(contractExample, 'version: 1', 'version: 2')}publish: ${no}\n`
  expect(problemsIn({ 'a.yaml': contractExample, 'b.yaml': next })).toEqual([])
})

test('asking for one pipeline leaves the problems of others aside', () => {
  const files = {
    'a.yaml': contractExample,
    'broken.yaml': 'pipeline: [',
    'visits.yaml': change(reportExample, 'version: 1', 'version: x'),
  }
  expect(check(files, { only: ['keywords'] })).toMatchObject({ problems: [], definitions: [{ pipeline: 'keywords' }] })
  expect(problemsIn(files, { only: ['visits'] })).toHaveLength(1)
  expect(problemsIn(files, { only: ['broken'] })).toHaveLength(1)
  expect(() => check(files, { only: ['keyword', 'visits'] })).toThrow("There is no pipeline 'keyword'. Did you mean 'keywords'?")
  expect(problemsIn(files, { only: [] })).toHaveLength(2)
})

test('one error lists every problem of every file', () => {
  const files = {
    'a.yaml': change(change(contractExample, 'version: 1', 'version: one'), 'timeout: 30s', 'timeout: soon'),
    'b.yaml': change(reportExample, 'web-analytics.report', 'web-analytics.reports'),
  }
  expect(() => assertDefinitions(check(files))).toThrow(
    expect.objectContaining({
      code: 'DEFINITION',
      message: `3 problems in the pipeline definitions:
  pipelines/a.yaml:3:10: version is 'one'; expected a whole number from 1.
  pipelines/a.yaml:19:53: limits.timeout is 'soon'; expected a time such as 500ms, 30s, 5m or 6h.
  pipelines/b.yaml:4:9: there is no source 'web-analytics.reports'. Did you mean 'web-analytics.report'? Correct source, or add the folder under src/sources.
Nothing was called. Correct these lines, then run \`millrace check\`.`,
    }),
  )
  expect(() => assertDefinitions(check(contractExample))).not.toThrow()
})

test('a table that ends names its last month and who goes on; both are checked', () => {
  const ended = (lines: string): string => contractExample.replace(/^schedule:/m, `${lines}\nschedule:`)
  expect(only(ended('until: 2026-11')).window.publication.until).toBe('2026-12-01')
  expect(only(contractExample).window.publication.until).toBeUndefined()
  const said = (lines: string): string[] => check(ended(lines)).problems.map(({ message }) => message)
  expect(said('until: 2023-12')).toEqual([expect.stringContaining('before window.from')])
  expect(said('successor: other')).toEqual(
    expect.arrayContaining([
      expect.stringContaining('successor without until'),
      expect.stringContaining("no pipeline 'other' to continue"),
    ]),
  )
})
