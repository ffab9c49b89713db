// A service that refuses every report in the same words, and one that refuses a single value of a report.
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { testDatabase } from '../support/postgres.ts'
import { monthsAsked, type StrictService, startStrictService } from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const key = 'refused-key-0123456789'
const domains = Array.from({ length: 20 }, (_, index) => `d${index}.com`)

const { folder, service, serve, edit, millraceWith } = testWorld<StrictService>({
  lists: { domains },
  settings: { WEB_ANALYTICS_API_KEY: key },
  json: true,
})
const db = testDatabase({ each: true })

/** Whether a report is refused. */
let refuses: (asked: string) => boolean = () => true
/** How long the service takes to refuse. */
let delayMs: (asked: string) => number = () => 0
let submissions: string[] = []
/** Whether each report that was taken is rejected when it is asked after. */
let rejectsLate = false

beforeAll(async () => {
  edit('traffic_and_engagement', ['poll_every: 5s', 'poll_every: 1s'], [/country: \[.*\]/, 'country: [us]'])
  await serve(
    startStrictService({
      key,
      keywords: () => [],
      report: (body) => {
        const table = (body as { report_query: { tables: [{ filters: { domains: string[] }; metrics: string[] }] } }).report_query
          .tables[0]
        const lines = monthsAsked(table).flatMap((month) =>
          table.filters.domains.map((domain) => [domain, 'us', `${month}-01`, ...table.metrics.map(() => '1')].join(',')),
        )
        return [['domain', 'country', 'date', ...table.metrics].join(','), ...lines, ''].join('\n')
      },
      intercept: async (request, response, body) => {
        if (rejectsLate && request.url?.includes('request-status/') === true) {
          response.writeHead(200, { 'content-type': 'application/json' })
          response.end(JSON.stringify({ status: 'bad_request', used_quota: 0 }))
          return true
        }
        if (request.method !== 'POST') return false
        submissions.push(body)
        if (!refuses(body)) return false
        await setTimeout(delayMs(body))
        response.writeHead(400, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ message: 'The request cannot be served.' }))
        return true
      },
    }),
  )
})

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(folder, 'home-'))
  submissions = []
  delayMs = () => 0
})

const millrace = (...args: string[]) => millraceWith({ DATABASE_URL: db.url, MILLRACE_HOME: home }, ...args)

const backfill = (...more: string[]) =>
  millrace('backfill', 'traffic_and_engagement', '--from', '2025-09', '--to', '2026-08', '--yes', ...more)

const failed = async (): Promise<string[]> => {
  const rows = await db.query<{ message: string }>(
    `select distinct error_message as message from etl.jobs where state = 'failed' order by 1`,
  )
  return rows.map(({ message }) => message)
}

/** Cells of 20 domains and 12 months; halving takes eight steps. */
const cells = 240
const mostRefusals = 16
/** Parts are asked side by side: some are on their way when the splitting stops, and each part that waits is asked once. */
const mostSubmissions = cells / 3

test('a refusal of everything is asked about a few times and named; the same command asks as little, and loads once it is taken', async () => {
  refuses = () => true
  for (const _ of ['first', 'again']) {
    submissions = []
    const run = await backfill()
    expect(run.code).toBe(1)
    expect(summaryOf(run).units).toMatchObject({ planned: cells, failed: cells })
    expect(submissions.length).toBeGreaterThanOrEqual(mostRefusals)
    expect(submissions.length).toBeLessThanOrEqual(mostSubmissions)
    expect((await failed())[0]).toMatch(
      /"The request cannot be served\."[\s\S]* \d+ reports in a row were refused with this message, so this one is not split further\.$/,
    )
  }
  refuses = () => false
  const taken = await succeeded(backfill())
  expect(summaryOf(taken).units).toMatchObject({ planned: cells, loaded: cells })
  expect(service.bought).toHaveLength(1)
})

test('what was rejected for free, part by part, is not cut further by the next command, and asked for in one report once a person forces it', async () => {
  refuses = () => false
  rejectsLate = true
  expect(summaryOf(await backfill()).units).toMatchObject({ planned: cells, failed: cells })
  submissions = []
  expect(summaryOf(await backfill()).units).toMatchObject({ planned: cells, failed: cells })
  expect(submissions).toEqual([])
  rejectsLate = false
  expect(summaryOf(await backfill('--force')).units).toMatchObject({ planned: cells, loaded: cells })
  expect(submissions).toHaveLength(1)
})

const goodBesideBad = (asked: string): boolean => asked.includes('"d18.com"') && asked.includes('"d19.com"')

test.each([
  ['a value that is', ['d7.com'], () => 0],
  ['four values far apart that are', ['d0.com', 'd6.com', 'd11.com', 'd19.com'], () => 0],
  // The others go down to their last window before a good value is told from the bad one beside it.
  [
    'four values, one of them slowly,',
    ['d0.com', 'd6.com', 'd11.com', 'd19.com'],
    (asked: string) => (goodBesideBad(asked) ? 700 : 0),
  ],
])('%s refused: everything else is loaded', async (_, bad, delay) => {
  delayMs = delay
  refuses = (asked) => bad.some((domain) => asked.includes(`"${domain}"`))
  const run = await backfill()
  expect(run.code).toBe(1)
  expect(summaryOf(run).units).toMatchObject({ planned: cells, loaded: cells - 12 * bad.length, failed: 12 * bad.length })
  expect(submissions.length).toBeLessThan(cells)
})
