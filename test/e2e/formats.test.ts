// Answers in every form the interface has: JSON that is called CSV, weekly reports, fractions where whole numbers were seen, keys sent back, bodies cut at a line's end.
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Fault } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, summaryOf } from '../support/command.ts'
import { landedText } from '../support/landed-text.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const world = sandboxWorld({
  each: true,
  lists: { domains: ['a.example', 'b.example'] },
  sandbox: { reportDurationMs: 30, keywordsPerDomain: 40, now: '2026-03-20' },
  json: true,
})
const { folder, sandbox, edit, query } = world
let key: string

beforeEach(() => {
  edit('traffic_and_engagement', ['poll_every: 5s', 'poll_every: 100ms'])
  key = sandbox.apiKey
})

const millrace = (...args: string[]): Promise<CommandResult> =>
  // A process keeps a key that it was given: another key has processes of its own.
  key === sandbox.apiKey ? world.millrace(...args) : world.start([...args, '--json'], { WEB_ANALYTICS_API_KEY: key }).result

const backfill = (pipeline: string, from = '2026-01'): Promise<CommandResult> =>
  millrace('backfill', pipeline, '--from', from, '--to', from)
const faults = (...list: Fault[]): void => sandbox.configure({ faults: list })
const landed = (): string => landedText(join(folder, 'home', 'landing'))

test('JSON that is called CSV and CSV that is called JSON load alike', async () => {
  faults({ kind: 'wrong-content-type' })
  const csv = summaryOf(await backfill('traffic_and_engagement'))
  edit('traffic_and_engagement', ['granularity: monthly', 'granularity: monthly, response_format: json'])
  const json = summaryOf(await backfill('traffic_and_engagement', '2026-02'))
  expect([csv.units.loaded, json.units.loaded]).toEqual([6, 6])
  expect(csv.rows.inserted * json.rows.inserted).toBeGreaterThan(0)
  const formats = sandbox.books().submissions.map(({ body }) => JSON.stringify(body).match(/response_format":"(\w+)/)?.[1])
  expect(formats).toEqual(['csv', 'json'])
})

test('a weekly report has weekly windows; a week that begins before its month is loaded, others that come with it are passed over', async () => {
  edit('traffic_and_engagement', ['granularity: monthly', 'granularity: weekly'])
  edit('traffic_and_engagement', ['window: { every: month, from: 2024-01', 'window: { every: week, from: 2024-01-01'])
  // The service offers these by months alone.
  for (const name of ['desktop_unique_visitors', 'mobile_unique_visitors', 'all_page_views']) {
    edit('traffic_and_engagement', [`    ${name}:`, `    # ${name}:`])
    for (const table of ['traffic_and_engagement_v1', 'traffic_and_engagement_v1_history'])
      await query(`alter table data.${table} drop column ${name} cascade`)
  }
  const result = await succeeded(backfill('traffic_and_engagement'))
  expect(summaryOf(result).rows.quarantined).toBe(0)
  const weeks = await query<{ date: string }>('select distinct date::text from data.traffic_and_engagement_v1 order by 1')
  expect(weeks.map(({ date }) => date)).toEqual(['2025-12-29', '2026-01-05', '2026-01-12', '2026-01-19', '2026-01-26'])
  expect(await query('select readings from etl.data_point_readings')).toEqual([{ readings: ['cells'] }])
  const again = await backfill('traffic_and_engagement')
  expect([again.code, sandbox.books().submissions.length]).toEqual([0, 1])
})

test('fractions of clicks, volumes and positions load as they come', async () => {
  sandbox.configure({ hostile: true })
  const result = await succeeded(backfill('keywords'))
  expect(summaryOf(result).rows.quarantined).toBe(0)
  const [{ n } = { n: 0 }] = await query<{ n: number }>(
    'select count(*)::int as n from data.keywords_v1 where clicks % 1 <> 0 or volume % 1 <> 0 or position % 1 <> 0',
  )
  expect(n).toBeGreaterThan(0)
})

test('a key that is sent back is in no landing, and said', async () => {
  faults({ kind: 'key-echo' }, { kind: 'key-echo', on: 'submit' })
  const [pages, report] = [await backfill('keywords'), await backfill('traffic_and_engagement')]
  for (const result of [pages, report]) {
    expect(result.code, result.stdout).toBe(0)
    expect(result.events.filter(({ code }) => code === 'KEY_ECHO').length).toBeGreaterThan(0)
  }
  expect(landed()).toContain('[secret]')
  expect(landed()).not.toContain(sandbox.apiKey)
})

test('a key that is sent back in a value is in no row, current or ended, and the landing gives the same rows again', async () => {
  const address = `${sandbox.url}/v4/website-analysis/keywords?api_key=${key}&URL=a.example&country=us&start_date=2026-01&end_date=2026-01`
  const said = /"keyword":"([^"]+)"/.exec(await (await fetch(address)).text())?.[1] ?? ''
  sandbox.configure({ apiKey: said })
  key = said
  await succeeded(backfill('keywords'))
  sandbox.restate('2026-01')
  const january = ['keywords', '--from', '2026-01', '--to', '2026-01']
  expect(summaryOf(await millrace('backfill', ...january, '--force')).rows.updated).toBeGreaterThan(0)
  const rows = () =>
    query(`select keyword, clicks, _revision from data.keywords_v1
      union all select keyword, clicks, _revision from data.keywords_v1_history order by 1, 2, 3`)
  const loaded = await rows()
  const masked = loaded.filter(({ keyword }) => String(keyword).includes('[secret]'))
  expect(new Set(masked.map(({ _revision }) => _revision))).toEqual(new Set([1, 2]))
  expect(JSON.stringify(loaded)).not.toContain(said)
  expect(summaryOf(await millrace('replay', ...january)).rows).toMatchObject({ inserted: 0, updated: 0, ended: 0 })
  expect(await rows()).toEqual(loaded)
})

test('sort and asc of an answer are kept with it', async () => {
  await succeeded(backfill('keywords'))
  expect(await query('select distinct source_order from etl.answers')).toEqual([{ source_order: { sort: null, asc: null } }])
})

test.each([1, 2])('a body cut %i bytes before the end of its last line end is not loaded', async (by) => {
  sandbox.configure({ csv: { crlf: true } })
  edit('traffic_and_engagement', ['attempts: 5', 'attempts: 2'])
  faults({ kind: 'cut-line-end', by })
  const cut = await backfill('traffic_and_engagement')
  expect([cut.code, cut.stdout]).toEqual([1, expect.stringMatching(/TRUNCATED.*last line does not end as the others do/)])
  expect(await query('select 1 from data.traffic_and_engagement_v1')).toEqual([])
  expect(sandbox.books().submissions).toHaveLength(1)
})

test('a service that never ends its last line loads once the definition says so, as the message does; nothing is bought again', async () => {
  edit('traffic_and_engagement', ['attempts: 5', 'attempts: 1'])
  faults({ kind: 'cut-line-end' })
  const cut = await backfill('traffic_and_engagement')
  expect([cut.code, cut.stdout]).toEqual([
    1,
    expect.stringMatching(/TRUNCATED.*`report: \{ final_newline: optional \}` into .*engagement\.yaml/),
  ])
  edit('traffic_and_engagement', ['limits: {', 'report: { final_newline: optional }\nlimits: {'])
  const said = await backfill('traffic_and_engagement')
  expect([said.code, summaryOf(said).units.loaded]).toEqual([0, 6])
  expect(sandbox.books().submissions).toHaveLength(1)
})
