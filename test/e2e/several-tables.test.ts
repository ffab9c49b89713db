// One answer with several tables: in files of their own, or as JSON records one after the other. The definition names its own; nothing is bought again.
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { eventsOf, summaryOf } from '../support/command.ts'
import { landedText } from '../support/landed-text.ts'
import { type Listening, listen } from '../support/listen.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const world = testWorld({
  copied: [],
  lists: { domains: ['a.example', 'b.example', 'c.example'] },
  service: () => startVendorSandbox({ requestsPerSecond: null, reportMs: 0 }),
})
const { folder, db, service, query } = world
/** The same service, which answers reports of January to July in two files. */
let front: Listening
const downloads: string[] = []

const channels = (key: string): string => `country,date,channel,channel_visits\nUS,2026-06-01,${key},7\nUS,2026-06-01,paid,8\n`

const startFront = async (): Promise<void> => {
  front = await listen(async (request, response, body) => {
    const path = request.url ?? '/'
    if (path.startsWith('/files/') || path.startsWith('/other/')) downloads.push(path)
    if (path.startsWith('/other/')) return void response.end(channels(service.apiKey))
    const { method = 'GET' } = request
    const key = String(request.headers['api-key'] ?? '')
    const answer = await fetch(service.url + path, {
      method,
      headers: { 'api-key': key, 'content-type': 'application/json' },
      ...(method === 'GET' ? {} : { body }),
    })
    const text = await answer.text()
    const status: Record<string, unknown> = path.includes('request-status') ? JSON.parse(text) : {}
    const link = status['download_url']
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    if (typeof link !== 'string' || link.endsWith('.json')) return void response.end(text)
    // Four cells more, which the service counts too.
    const count = Number(status['data_points_count']) + 4
    const { download_url: _, ...rest } = status
    const files = [
      { vtable: 'channels', download_url: `${front.url}/other/x.csv?sign=1` },
      { vtable: 'website', download_url: link.replace(service.url, front.url) },
    ]
    response.end(JSON.stringify({ ...rest, data_points_count: count, download_urls: files }))
  })
}

beforeAll(async () => {
  mkdirSync(join(folder, 'marts'))
  await startFront()
})
afterAll(() => front.close())

const millrace = (...args: string[]) => world.millraceWith({ WEB_ANALYTICS_BASE_URL: front.url }, ...args, '--json')

const write = (from: string | RegExp, to: string): void => world.edit('website', [from, to])
const month = (name: string) => ['website', '--from', name, '--to', name, '--yes']
const rowsOf = (date: string) =>
  query(`select domain, global_rank::text as rank from data.website_v1 where date = '${date}' order by domain`)
/** By the header of the bytes the service made. */
const rowsIn = (text: string) => {
  const [header = '', ...lines] = text.trim().split('\n')
  const at = (name: string) => header.split(',').indexOf(name)
  return lines
    .map((line) => line.split(','))
    .map((cells) => ({ domain: cells[at('domain')], rank: cells[at('global_rank')] }))
    .sort((left, right) => String(left.domain).localeCompare(String(right.domain)))
}
const reports = () => [...service.books.reports.values()]
const landed = (): string => landedText(join(folder, 'home', 'landing'))

test('a report of several files is held with their names until the definition names its own; then that one loads, and nothing is bought again', async () => {
  await succeeded(millrace('new', 'dataset', 'website', '--source', 'web-analytics.report'))
  write('poll_every: 5s', 'poll_every: 1s, attempts: 1')
  await succeeded(millrace('migrate'))
  const held = await millrace('backfill', ...month('2026-06'))
  expect([held.code, held.stdout]).toEqual([
    1,
    expect.stringMatching(/lacks part of the key.*\(files: channels, website\).*report: \{ section/),
  ])
  expect(await rowsOf('2026-06-01')).toEqual([])
  write('schedule:', 'report: { section: website, data_points: non_empty_cells }\nschedule:')
  const again = await millrace('backfill', ...month('2026-06'))
  expect([again.code, summaryOf(again).rows.quarantined], again.stdout + again.stderr).toEqual([0, 0])
  expect(reports()).toHaveLength(1)
  const own = rowsIn(reports()[0]?.text ?? '')
  expect(own.length).toBeGreaterThan(1)
  expect(await rowsOf('2026-06-01')).toEqual(own)
})

test('all files are in the landing, masked: it is loaded again without a request, and says which one it was', async () => {
  const text = landed()
  expect(text).toMatch(/"file": "channels"[\s\S]*"file": "website"/)
  expect(text).toContain('US,2026-06-01,')
  expect(text).not.toContain(service.apiKey)
  const before = downloads.length
  await db.database.pool.query(`update data.website_v1 set global_rank = -1`)
  await succeeded(millrace('replay', ...month('2026-06').filter((one) => one !== '--yes')))
  expect([await rowsOf('2026-06-01'), downloads.length]).toEqual([rowsIn(reports()[0]?.text ?? ''), before])
})

test('its record keeps a few rows of each file, and a test of it finds that another one is named', async () => {
  const rows = await db.query<{ unit: string }>('select min(unit_id)::text as unit from etl.units')
  rmSync(join(folder, 'pipelines', 'website.recorded.json'), { force: true })
  await succeeded(millrace('record', rows[0]?.unit ?? '', '--records', '1'))
  const [answer] = JSON.parse(readFileSync(join(folder, 'pipelines', 'website.recorded.json'), 'utf8')).answers
  expect(answer.files).toEqual(['channels', 'website'])
  expect(answer.parts.map((part: string) => part.trim().split('\n').length)).toEqual([2, 2])
  expect(answer.expected.rows).toHaveLength(1)
  await succeeded(millrace('test'))
  write('section: website', 'section: 1')
  const found = await millrace('test')
  write('section: 1', 'section: website')
  expect([found.code, found.stdout]).toEqual([1, expect.stringMatching(/lacks part of the key/)])
})

test('JSON records of several tables are held in the same way, and load from the table that the definition names by its place', async () => {
  const { take } = service.books
  const others = '{"country":"US","date":"2026-07-01","channel":"mail","channel_visits":3}\n'
  // As large as the service says: points are cells, two more of them in the record of another table.
  service.books.take = (report) => take({ ...report, rows: report.rows + 2, text: report.text + others })
  write(/section: website/, 'resubmit_failed: false')
  write('params: {', 'params: { response_format: json,')
  const held = await millrace('backfill', ...month('2026-07'))
  service.books.take = take
  expect([held.code, held.stdout]).toEqual([1, expect.stringMatching(/a second table begins \(.*channel_visits\).*section: 1/)])
  write('resubmit_failed: false', 'section: 1')
  const again = await millrace('backfill', ...month('2026-07'))
  expect([again.code, summaryOf(again).rows.quarantined], again.stdout + again.stderr).toEqual([0, 0])
  expect(reports()).toHaveLength(2)
  const records = eventsOf(reports()[1]?.text ?? '') as unknown as { domain?: string; global_rank?: number }[]
  const own = records
    .filter(({ domain }) => domain !== undefined)
    .map(({ domain, global_rank }) => ({ domain, rank: String(global_rank) }))
  expect(await rowsOf('2026-07-01')).toEqual(own.sort((left, right) => String(left.domain).localeCompare(String(right.domain))))
})
