// Any row survives service > landing > parse > load > bi unchanged: generated rows through the real command, read back from the views.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { bigints, csvCell, days, numerics, orNull, words } from '../support/hostile-rows.ts'
import { monthsAsked, type StrictOptions, type StrictService, startStrictService } from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const key = 'hostile-key-0123456789'
/** More of them where someone has the time: PROPERTY_RUNS=200. */
const rounds = Number(process.env['PROPERTY_RUNS'] ?? 3)
const rowsEach = 150

const world = testWorld<StrictService>({ each: true, lists: { domains: ['a.com'] }, settings: { WEB_ANALYTICS_API_KEY: key } })
const { db, serve, folder } = world
const millrace = (...args: string[]) => world.start([...args, '--json']).result

const start = (options: Partial<StrictOptions>) =>
  serve(startStrictService({ key, keywords: () => [], report: () => '', ...options }))

/** `2024-01` and on, a month a round. */
const monthOf = (round: number): string => `${2024 + Math.floor(round / 12)}-${String((round % 12) + 1).padStart(2, '0')}`

const keywordRow = fc.record({
  keyword: words,
  top_url: words,
  secondary_intent: orNull(words),
  clicks: orNull(bigints),
  cpc: orNull(numerics),
  serp_features: orNull(fc.array(words, { maxLength: 4 })),
})
const uniqueBy = <T>(row: fc.Arbitrary<T>, selector: (one: T) => string) =>
  fc.uniqueArray(row, { minLength: rowsEach, maxLength: rowsEach, selector, size: 'max' })
const keywordRows = uniqueBy(keywordRow, (row) => JSON.stringify([row.keyword, row.top_url]))

/** A number's digits as they are: JSON.stringify would round them. */
const raw = (digits: string | null): unknown =>
  digits === null ? null : (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(digits)

test('every generated keyword row stands in bi.keywords as it was sent, and a replay changes nothing', async () => {
  const sample = fc.sample(keywordRows, { numRuns: rounds, seed: 20_261_121 })
  await start({
    keywords: (_domain, country, month) => {
      const round = sample.findIndex((_rows, at) => monthOf(at) === month)
      if (country !== 'us' || round < 0) return []
      return (sample[round] ?? []).map((row) => ({ ...row, clicks: raw(row.clicks), cpc: raw(row.cpc) }))
    },
  })
  await succeeded(millrace('migrate'))
  const range = ['--from', monthOf(0), '--to', monthOf(rounds - 1), '--only', 'country=us']
  const loaded = await succeeded(millrace('backfill', 'keywords', ...range))
  expect(summaryOf(loaded).rows).toMatchObject({ read: rounds * rowsEach, inserted: rounds * rowsEach, quarantined: 0 })
  const read = (round: number) =>
    db.query<{ keyword: string; top_url: string }>(
      `select keyword, top_url, secondary_intent, clicks::text, cpc::text, serp_features from bi.keywords where month = $1`,
      [`${monthOf(round)}-01`],
    )
  const byKey = (rows: readonly { keyword: string; top_url: string }[]) =>
    new Map(rows.map((row) => [JSON.stringify([row.keyword, row.top_url]), { ...row }]))
  for (const [round, sent] of sample.entries()) expect(byKey(await read(round))).toEqual(byKey(sent))
  const replayed = await millrace('replay', 'keywords', ...range)
  expect(summaryOf(replayed)).toMatchObject({ requests: 0, rows: { inserted: 0, updated: 0, ended: 0, quarantined: 0 } })
})

const definition = `pipeline: edges
version: 1
description: Rows at the edge of every type.
source: web-analytics.report
params: { vtable: edges }
for_each:
  domain: [a.com]
  country: [us]
window: { every: month, from: 2024-01 }
table:
  key: [date, domain, country, word]
  columns:
    word: { type: text, description: A word }
    note: { type: text, description: Another }
    big: { type: bigint, unit: things, description: A whole number }
    exact: { type: numeric, unit: things, description: A decimal number }
    flag: { type: boolean, description: Yes or no }
    seen: { type: date, description: Any day }
    tags: { type: "text[]", description: Words }
limits: { poll_every: 1s }
`
const columns =
  'date date, domain text, country text, word text, note text, big bigint, exact numeric, flag boolean, seen date, tags text[]'
const lineage = '_unit_id bigint not null, _run_id bigint not null, _revision integer not null, _loaded_at timestamptz not null'
const lineageOfLoads =
  "_unit_id bigint not null, _run_id bigint not null default current_setting('millrace.run_id')::bigint, _revision integer not null default 1, _loaded_at timestamptz not null default transaction_timestamp()"
const createEdges = [
  `create table data.edges_v1 (${columns}, ${lineageOfLoads}, primary key (date, domain, country, word)) partition by range (date)`,
  `create table data.edges_v1_history (${columns}, ${lineage}, _valid_from timestamptz not null, _valid_to timestamptz not null,
     _ended_run_id bigint not null, primary key (date, domain, country, word, _revision))`,
]

const edgeRow = fc.record({
  word: words,
  note: orNull(words),
  big: orNull(bigints),
  exact: orNull(numerics),
  flag: orNull(fc.boolean()),
  seen: orNull(days),
  tags: orNull(fc.array(words, { maxLength: 4 })),
})
const edgeRows = uniqueBy(edgeRow, (row) => row.word)

test('every generated report row stands in its view as it was sent', async () => {
  const sample = fc.sample(edgeRows, { numRuns: rounds, seed: 42 })
  await start({
    report: (request) => {
      const [table] = (request as { report_query: { tables: [Record<string, unknown>] } }).report_query.tables
      const asked = new Set(monthsAsked(table))
      const rows = sample.flatMap((ofMonth, at) => (asked.has(monthOf(at)) ? ofMonth.map((row) => ({ ...row, at })) : []))
      const lines = rows.map((row) =>
        [
          'a.com',
          'US',
          monthOf(row.at),
          csvCell(row.word),
          csvCell(row.note),
          row.big ?? '',
          row.exact ?? '',
          row.flag ?? '',
          row.seen ?? '',
          row.tags === null ? '' : csvCell(JSON.stringify(row.tags)),
        ].join(','),
      )
      return `${['domain,country,date,word,note,big,exact,flag,seen,tags', ...lines].join('\r\n')}\r\n`
    },
  })
  writeFileSync(join(folder, 'pipelines', 'edges.yaml'), definition)
  for (const statement of createEdges) await db.database.pool.query(statement)
  await succeeded(millrace('migrate'))
  const loaded = await succeeded(millrace('backfill', 'edges', '--from', monthOf(0), '--to', monthOf(rounds - 1)))
  expect(summaryOf(loaded).rows).toMatchObject({ inserted: rounds * rowsEach, quarantined: 0, duplicates: 0 })
  for (const [round, sent] of sample.entries()) {
    const rows = await db.query(
      `select word, note, big::text, exact::text, flag, seen::text, tags from bi.edges where date = $1`,
      [`${monthOf(round)}-01`],
    )
    expect(new Map(rows.map((row) => [row.word, row]))).toEqual(new Map(sent.map((row) => [row.word, row])))
  }
})
