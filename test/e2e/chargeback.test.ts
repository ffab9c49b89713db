// Every credit counted: what the ledger says was spent, by pipeline, tag and value, is what the service's own books say, to the credit.
import { beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import type { CommandResult } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const { db, sandbox, edit, millraceWith, list } = sandboxWorld({
  each: true,
  lists: { domains: ['a.example', 'b.example', 'c.example'], shop_domains: ['a.example', 'b.example', 'd.example'] },
  sandbox: { quota: 1_000_000, keywordsPerDomain: 250, reportDurationMs: 20 },
})

beforeEach(() => {
  edit('keywords', ['page_size: 1000', 'page_size: 100'], [/country: \[.*\]/, 'country: [us]'])
  edit('traffic_and_engagement', ['poll_every: 5s', 'poll_every: 50ms'], [/country: \[.*\]/, 'country: [us]'])
  edit('shopper_category_performance', ['poll_every: 5s', 'poll_every: 50ms'])
  for (const [name, client] of [
    ['keywords', 'acme'],
    ['traffic_and_engagement', 'acme'],
    ['shopper_category_performance', 'beta'],
  ] as const)
    edit(name, [/from: \d{4}-\d{2}/, 'from: 2026-01'], [/$/, `\ntags: { client: ${client} }\n`])
})

const millrace = (...args: string[]): Promise<CommandResult> => spoken(...args, '--json')

const spoken = (...args: string[]): Promise<CommandResult> => millraceWith(settings, ...args)

let settings: Record<string, string> = {}
beforeEach(() => {
  settings = {}
})

const line = z.looseObject({ event: z.string(), used: z.number().optional(), credits: z.number().optional() })
const totals = z.looseObject({ used: z.number(), not_on_record: z.number(), unwanted: z.number() })

const quota = async (...args: string[]) => {
  const { code, events } = await millrace('quota', ...args)
  expect(code).toBe(0)
  const of = (event: string) =>
    z
      .array(line)
      .parse(events)
      .filter((one) => one.event === event)
  return { of, summary: totals.parse(events.at(-1)) }
}

const sum = (lines: readonly z.infer<typeof line>[], name: 'used' | 'credits' = 'used'): number =>
  lines.reduce((total, one) => total + (one[name] ?? 0), 0)

const range = ['--from', '2026-01', '--to', '2026-02']

test('a free endpoint that answers nonsense or not at all takes none of the figures of the ledger away: its failure stands beside them', async () => {
  await succeeded(millrace('migrate'))
  await succeeded(millrace('backfill', 'keywords', ...range, '--only', 'domain=a.example'))
  const { used } = totals.parse((await millrace('quota')).events.at(-1))
  expect(used).toBeGreaterThan(0)
  const asked = async (kind: 'malformed-json' | 'drop-before' | 'any-status', on: 'capabilities' | 'credits') => {
    sandbox.configure({ faults: [{ kind, on }] })
    const { code, events, stderr } = await millrace('quota')
    return [code, stderr, events.filter(({ event }) => event === 'error').length, events.at(-1)]
  }
  const said = (code: string) => expect.stringMatching(new RegExp(`^millrace: .*\\[${code}\\]\n$`, 'm'))
  const left = { remaining: 1_000_000 - used, requests: null }
  expect(await asked('malformed-json', 'capabilities')).toMatchObject([1, said('BAD_RESPONSE'), 1, { used, service: left }])
  expect(await asked('malformed-json', 'credits')).toMatchObject([1, said('BAD_RESPONSE'), 1, { used, service: null }])
  expect(await asked('drop-before', 'credits')).toMatchObject([1, said('SERVICE_UNREACHABLE'), 1, { used, service: null }])
})

test('the chargeback by pipeline, by tag and by value is the books of the service, keyword requests included', async () => {
  await succeeded(millrace('migrate'))
  for (const pipeline of ['keywords', 'traffic_and_engagement', 'shopper_category_performance'])
    await succeeded(millrace('backfill', pipeline, ...range))
  const spent = sandbox.books().quotaUsed
  const { of, summary } = await quota('--by', 'domain')
  expect(of('spending').map(({ pipeline, requests, tags }) => ({ pipeline, isByRequest: Number(requests) > 0, tags }))).toEqual([
    { pipeline: 'keywords', isByRequest: true, tags: { client: 'acme' } },
    { pipeline: 'shopper_category_performance', isByRequest: false, tags: { client: 'beta' } },
    { pipeline: 'traffic_and_engagement', isByRequest: false, tags: { client: 'acme' } },
  ])
  expect(summary).toMatchObject({ used: spent, not_on_record: 0, unwanted: 0 })
  expect(sum(of('spending'))).toBe(spent)
  expect(sum(of('tag'))).toBe(spent)
  expect(of('tag').map(({ value }) => value)).toEqual(['acme', 'beta'])
  expect(sum(of('value'), 'credits')).toBe(spent)
  expect(of('value').filter(({ value }) => value === null)).toEqual([])
  // As MILLRACE_LEDGER_DAYS lets go of them.
  await db.database.pool.query('delete from etl.requests')
  const later = await quota('--by', 'domain')
  expect(sum(later.of('value'), 'credits')).toBe(spent)
  const rest = { pipeline: 'keywords', dimension: 'domain', value: null, wanted: null, credits: of('spending')[0]?.used }
  expect(later.of('value').filter(({ value }) => value === null)).toMatchObject([rest])
  expect((await spoken('quota', '--by', 'domain')).stdout).toMatch(/^no domain known +keywords +\d+ +-$/m)
  expect(of('service_books')).toMatchObject([{ difference: 0 }])
})

test('what the service charged for requests that broke off, and for others who use the key, is shown apart, and the whole is its books', async () => {
  await succeeded(millrace('migrate'))
  await succeeded(millrace('backfill', 'keywords', '--from', '2026-01', '--to', '2026-01'))
  // Three answers get lost on their way, one request never reached the service.
  sandbox.configure({
    faults: [
      { kind: 'drop-reply', on: 'keywords', times: 3 },
      { kind: 'drop-before', on: 'keywords', times: 1 },
    ],
  })
  await succeeded(millrace('backfill', 'keywords', '--from', '2026-02', '--to', '2026-02'))
  const first = await quota()
  expect(first.summary.used + first.summary.not_on_record).toBe(sandbox.books().quotaUsed)
  expect(first.summary.not_on_record).toBe(-1)

  const url = `${sandbox.url}/v4/website-analysis/keywords?api_key=${sandbox.apiKey}&URL=z.example&country=us&start_date=2026-01&end_date=2026-01`
  for (let request = 0; request < 5; request += 1) expect((await fetch(url)).status).toBe(200)
  await succeeded(millrace('backfill', 'keywords', '--from', '2026-03', '--to', '2026-03'))
  const { summary, of } = await quota()
  expect(summary.used + summary.not_on_record).toBe(sandbox.books().quotaUsed)
  expect(of('service_books')).toMatchObject([{ difference: 4 }])
})

test('credits keep the tags they were spent with, and what was bought for a value that left the lists is named', async () => {
  await succeeded(millrace('migrate'))
  await succeeded(millrace('backfill', 'traffic_and_engagement', ...range))
  const before = sandbox.books().quotaUsed
  list('domains', ['a.example', 'c.example'])
  edit('traffic_and_engagement', ['client: acme', 'client: gamma'])
  await succeeded(millrace('backfill', 'traffic_and_engagement', '--from', '2026-03', '--to', '2026-03'))
  const { of, summary } = await quota()
  expect(of('tag').map(({ value, used }) => [value, used])).toEqual([
    ['acme', before],
    ['gamma', sandbox.books().quotaUsed - before],
  ])
  // One of three values of the first report.
  expect(summary.unwanted).toBe(Math.floor(before / 3))
  expect(of('unwanted')).toMatchObject([
    { pipeline: 'traffic_and_engagement', slices: 1, examples: [expect.stringContaining('b.example')] },
  ])
})

test('a budget of a tag, of the account or of the pipeline holds page requests as it holds reports', async () => {
  await succeeded(millrace('migrate'))
  settings = { MILLRACE_TAG_BUDGETS: 'client=acme:7/month' }
  edit('keywords', ['concurrency: 4', 'concurrency: 1'])
  const run = await millrace('backfill', 'keywords', ...range)
  // Three pages a unit: the first page of the third would be the seventh credit, its others would pass the budget.
  const within = sandbox.books().quotaUsed
  expect(within).toBeGreaterThanOrEqual(6)
  expect(within).toBeLessThanOrEqual(7)
  expect(run.events.at(-1)).toMatchObject({ units: { loaded: 2, waiting: 4, held: 0, failed: 0 } })
  const spent = sandbox.books().quotaUsed
  await millrace('backfill', 'keywords', ...range)
  expect(sandbox.books().quotaUsed).toBe(spent)
  // Another tag has its own.
  await succeeded(millrace('backfill', 'shopper_category_performance', ...range))
  expect(sandbox.books().quotaUsed).toBeGreaterThan(spent)
})

test("the column of the month's end adds up to its last line, a pipeline that has spent nothing yet among them", async () => {
  await succeeded(millrace('migrate'))
  const ends = async (): Promise<(readonly [string, number])[]> => {
    const { stdout } = await spoken('quota')
    const [table = ''] = /^\d{4}-\d\d +account.+?\n\n/ms.exec(stdout) ?? []
    const rows = table.trim().split('\n').slice(2)
    return rows.map((row) => [row.split(' ')[0] ?? '', Number(row.split(' ').at(-1)?.replaceAll(',', ''))] as const)
  }
  settings = { WEB_ANALYTICS_PRICES: 'shopper-report=1/value' }
  edit('shopper_category_performance', (text) => text.concat('\nguard: { credits_per_night: 1 }\n'))
  expect((await millrace('run', 'shopper_category_performance')).code).toBe(1)
  await succeeded(millrace('approve', 'shopper_category_performance'))
  const before = await ends()
  expect(before.map(([name]) => name)).toEqual(['shopper_category_performance', 'all'])
  await succeeded(millrace('backfill', 'traffic_and_engagement', ...range))
  const [traffic, shopper, all, ...others] = await ends()
  expect([traffic?.[0], shopper, all?.[0], others]).toEqual(['traffic_and_engagement', before[0], 'all', []])
  expect(shopper?.[1]).toBeGreaterThan(0)
  expect(all?.[1]).toBe((traffic?.[1] ?? 0) + (shopper?.[1] ?? 0))
})
