// Bills that stand in the balance alone, answers that cannot be read or break off, and kills: no walk hangs, and no budget is passed by more than one request.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import type { VendorOptions } from '../../src/sandbox/vendor/vendor-options.ts'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { type Listening, listen } from '../support/listen.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const price = 10

const world = testWorld<VendorSandbox>({ each: true, copied: [], json: true })
const { folder, db, service, environment } = world
const start = (options: VendorOptions = {}) => {
  const prices = { keywords: { by: 'request', credits: price } } as const
  return world.serve(startVendorSandbox({ requestsPerSecond: null, purses: { rest: 1e6, batch: 2e6 }, prices, ...options }))
}

interface Limits {
  readonly pageSize: number
  readonly concurrency: number
}

/** The shipped pipeline for one country under another name. */
const pipeline = (name: string, domains: readonly string[], { pageSize, concurrency }: Limits): void => {
  const yaml = readFileSync(join(pipelinesOfRepository, 'keywords.yaml'), 'utf8')
  const limits = `limits: { page_size: ${pageSize}, concurrency: ${concurrency}, timeout: 30s, attempts: 4, rejects: 0.1%, shrink: 50% }`
  const own = yaml
    .replace(/^pipeline: .*/m, `pipeline: ${name}`)
    .replace('{ file: domains.txt }', `[${domains.join(', ')}]`)
    .replace('country: [us, gb]', 'country: [us]')
    .replace(/^limits: .*/m, limits)
  writeFileSync(join(folder, 'pipelines', `${name}.yaml`), own)
}

const millrace = (args: readonly string[], more: Readonly<Record<string, string>> = {}) => world.millraceWith(more, ...args)

const august = ['--from', '2026-08', '--to', '2026-08', '--yes']

const one = <Row extends object>(statement: string): Promise<Row> => db.one<Row>(statement)

const charged = (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0)

const rows = (): Promise<{ rows: number }> => one(`select count(*)::int as rows from data.keywords_v1`)

test.each([
  ['half a page', 0, '{"meta":'],
  ['an error with status 200', 1, '{"meta":{"status":"Error","error_code":100,"error_message":"temporarily busy"}}'],
])('a walk whose later page is answered with %s ends where bills stand in the balance alone', async (_, code, body) => {
  await start({ keywords: 730, bill: 'balance', replies: [{ endpoint: 'keywords', match: ['offset=100'], times: 1, body }] })
  pipeline('keywords', ['a.com'], { pageSize: 100, concurrency: 4 })
  const running = startCommand(['backfill', 'keywords', ...august, '--json'], environment(), folder)
  const ended = await Promise.race([running.result, setTimeout(40_000, 'it hangs')])
  running.child.kill('SIGKILL')
  expect(ended).toMatchObject({ code })
  // What may be asked for again by itself was.
  if (code === 0) expect(charged()).toBe(8 * price)
  await succeeded(millrace(['backfill', 'keywords', ...august]))
  expect(await rows()).toEqual({ rows: 730 })
})

test('a last page of one record is kept like any other when a budget interrupts its walk, and bought once', async () => {
  await start({ keywords: 201, bill: 'balance', purses: { rest: null, batch: null } })
  pipeline('keywords', ['a.com', 'b.com', 'c.com', 'd.com'], { pageSize: 100, concurrency: 4 })
  const running = startCommand(
    ['backfill', 'keywords', ...august, '--json'],
    environment({ WEB_ANALYTICS_QUOTA_PER_DAY: '100' }),
    folder,
  )
  const ended = await Promise.race([running.result, setTimeout(40_000, 'it hangs')])
  running.child.kill('SIGKILL')
  expect(ended).toMatchObject({ code: 0 })
  expect(charged()).toBe(4 * 3 * price)
  expect(await rows()).toEqual({ rows: 4 * 201 })
})

test('pages that are refused do not use up the looks at the balance: the price is still learned, and the budget kept', async () => {
  const body = JSON.stringify({ meta: { status: 'Error', error_code: 101, error_message: 'Data is available until 2026-07' } })
  const replies = [{ endpoint: 'keywords' as const, match: ['start_date=2026-08'], status: 400, body }]
  await start({ keywords: 250, bill: 'balance', replies })
  pipeline('keywords', ['a.com', 'b.com', 'c.com', 'd.com', 'e.com', 'f.com'], { pageSize: 100, concurrency: 4 })
  const budget = 5 * price
  const summer = ['backfill', 'keywords', '--from', '2026-07', '--to', '2026-08', '--yes']
  const run = await millrace(summer, { WEB_ANALYTICS_QUOTA_PER_DAY: String(budget) })
  expect(run.code, run.stderr).toBe(1)
  expect(charged()).toBeLessThanOrEqual(budget + price)
})

test('a report that is past its deadline and has no bill does not keep the run that it leaves waiting', async () => {
  await start({ replies: [{ endpoint: 'status', match: [], body: '{"status":"processing"}' }] })
  const yaml = readFileSync(join(pipelinesOfRepository, 'traffic_and_engagement.yaml'), 'utf8')
  const own = yaml
    .replace('{ file: domains.txt }', '{ values: [a.com, b.com, c.com], bucket: 1 }')
    .replace('poll_every: 5s, poll_max: 60s, deadline: 6h', 'poll_every: 1s, poll_max: 1s, deadline: 5s, quota_per_day: 5000')
  expect(own).toContain('quota_per_day')
  writeFileSync(join(folder, 'pipelines', 'traffic_and_engagement.yaml'), own)
  const running = startCommand(['backfill', 'traffic_and_engagement', ...august, '--json'], environment(), folder)
  const ended = await Promise.race([running.result, setTimeout(40_000, 'it hangs')])
  running.child.kill('SIGKILL')
  expect(ended).toMatchObject({ code: 1 })
  expect(await one(`select count(*)::int as reports from etl.reports`)).toEqual({ reports: 1 })
})

/** Makes the tables of pipelines that are not shipped. */
const migrate = async (...names: readonly string[]): Promise<void> => {
  for (const name of names) {
    await succeeded(millrace(['new', 'migration', name]))
  }
  await succeeded(millrace(['migrate']))
}

test.each([50, 100])('two pipelines of one process learn the price from the balance, and keep a budget of %i', async (budget) => {
  await start({ keywords: 430, bill: 'balance' })
  pipeline('alpha', ['a1.com', 'a2.com', 'a3.com'], { pageSize: 100, concurrency: 4 })
  pipeline('beta', ['b1.com', 'b2.com', 'b3.com'], { pageSize: 25, concurrency: 4 })
  await migrate('alpha', 'beta')
  const run = await millrace(['backfill', 'alpha', 'beta', ...august], { WEB_ANALYTICS_QUOTA_PER_DAY: String(budget) })
  expect(run.code, run.stderr).toBe(1)
  expect(charged()).toBeGreaterThanOrEqual(budget / 2)
  expect(charged()).toBeLessThanOrEqual(budget + price)
  expect(await one(`select sum(used_quota)::int as used, sum(unpriced)::int as unpriced from etl.spending`)).toEqual({
    used: charged(),
    unpriced: 0,
  })
})

/** In front of the service, which charges at once: how each answer comes. */
interface Fate {
  readonly lateMs?: number
  /** The connection breaks in place of the answer, or after half of it. */
  readonly broken?: 'reset' | 'cut'
}

const startRelay = (fateOf: (asked: URLSearchParams) => Fate): Promise<Listening> =>
  listen((request, response) => {
    const url = new URL(request.url ?? '/', service.url)
    const { lateMs = 0, broken } = fateOf(url.searchParams)
    const headers = { accept: 'application/json', 'api-key': String(request.headers['api-key'] ?? '') }
    void fetch(url, { headers }).then(async (answer) => {
      const body = Buffer.from(await answer.arrayBuffer())
      await setTimeout(lateMs)
      if (broken === 'reset') return void request.socket.destroy()
      response.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': body.length })
      if (broken === undefined) return void response.end(body)
      response.write(body.subarray(0, body.length / 2))
      await setTimeout(30)
      request.socket.destroy()
    })
  })

const others = Array.from({ length: 9 }, (_, index) => `b${index}.com`)

/** Walks over so many rows under the budget; all its pages but the first and the last are long in coming. */
const startWide = async (rows: number, budget: number, lastMs: number) => {
  await start({ keywords: 100, keywordsByDomain: { 'a.com': rows } })
  pipeline('keywords', ['a.com', ...others], { pageSize: 100, concurrency: 8 })
  const relay = await startRelay((asked) => {
    if (asked.get('limit') === '20') return { lateMs: lastMs }
    return { lateMs: Number(asked.get('offset') ?? 0) > 0 ? 6_000 : 0 }
  })
  const bounded = { WEB_ANALYTICS_BASE_URL: relay.url, WEB_ANALYTICS_QUOTA_PER_DAY: String(budget) }
  const backfill = (only: string): string[] => ['backfill', 'keywords', ...august, '--only', `domain=${only}`]
  const wide = startCommand([...backfill('a.com'), '--json'], environment(bounded), folder)
  // The last, of few rows, may seem to fit into what is left; where it leaves before one of the others, that one does not.
  await vi.waitUntil(() => charged() >= Math.floor(rows / 100) * price, { interval: 20, timeout: 30_000 })
  return { wide, relay, buyOthers: () => millrace(backfill(others.join(',')), bounded) }
}

test('the page that takes all that is left of a budget gives back what it has taken, not what other pages of its walk hold', async () => {
  const { wide, relay, buyOthers } = await startWide(420, 45, 300)
  await setTimeout(1_000)
  await buyOthers()
  await wide.result
  await relay.close()
  expect(charged()).toBeLessThanOrEqual(45 + price)
})

test('a budget counts every page that was on its way when its process was killed, also beside one that took all that was left', async () => {
  const { wide, relay, buyOthers } = await startWide(820, 88, 6_000)
  await setTimeout(300)
  wide.child.kill('SIGKILL')
  await wide.result
  await buyOthers()
  await relay.close()
  expect(charged()).toBeLessThanOrEqual(88 + price)
})

test.each([
  ['reset before', 'reset', 300, 35, 0],
  ['cut amid', 'cut', 300, 35, 0],
  ['cut amid later', 'cut', 1_000, 95, 500],
] as const)('a page that is charged and %s its answer is paid for anew with each try', async (_, broken, rows, budget, from) => {
  await start({ keywords: 100, keywordsByDomain: { 'a.com': rows } })
  pipeline('keywords', ['a.com', 'b.com'], { pageSize: 100, concurrency: 8 })
  const relay = await startRelay((asked) => {
    const isHit = asked.get('URL') === 'a.com' && Number(asked.get('offset') ?? 0) >= from
    return isHit ? { lateMs: 100, broken } : {}
  })
  const bounded = { WEB_ANALYTICS_BASE_URL: relay.url, WEB_ANALYTICS_QUOTA_PER_DAY: String(budget) }
  const backfill = (domain: string) => millrace(['backfill', 'keywords', ...august, '--only', `domain=${domain}`], bounded)
  await succeeded(backfill('b.com'))
  const run = await backfill('a.com')
  await relay.close()
  expect(run.code, run.stderr).toBe(1)
  expect(charged(), run.stderr).toBeGreaterThan(2 * price)
  expect(charged(), run.stderr).toBeLessThanOrEqual(budget + price)
  expect(await one(`select sum(used_quota)::int as used, sum(unpriced)::int as unpriced from etl.spending`)).toEqual({
    used: charged(),
    unpriced: 0,
  })
})

test('a page whose bill nobody saw is booked at the highest reading of the price while those before leave several', async () => {
  await start({ keywords: 301, bill: 'balance' })
  const domains = Array.from({ length: 12 }, (_, index) => `d${index}.com`)
  pipeline('keywords', domains, { pageSize: 50, concurrency: 4 })
  const run = await millrace(['backfill', 'keywords', ...august], { WEB_ANALYTICS_QUOTA_PER_DAY: '500' })
  expect(run.code, run.stderr).toBe(1)
  expect(charged()).toBeGreaterThan(400)
  expect(charged()).toBeLessThanOrEqual(500 + price)
  expect(await one(`select sum(used_quota)::int as used from etl.spending`)).toEqual({ used: charged() })
})

test('a price that rises while pages wait for their turn passes no budget by more than what is on its way', async () => {
  await start({ keywords: 3_030 })
  pipeline('keywords', ['a.com', 'b.com', 'c.com'], { pageSize: 100, concurrency: 8 })
  const bounded = { WEB_ANALYTICS_QUOTA_PER_DAY: '400', WEB_ANALYTICS_REQUESTS_PER_SECOND: '8' }
  const running = millrace(['backfill', 'keywords', ...august], bounded)
  while (charged() < 150) await setTimeout(20)
  service.configure({ prices: { keywords: { by: 'request', credits: 40 } } })
  const { code, stderr } = await running
  expect(code, stderr).toBe(1)
  expect(charged()).toBeGreaterThan(300)
  // Two a second of each walk may be on their way when the first dear bill is read.
  expect(charged(), stderr).toBeLessThanOrEqual(400 + 2 * 40)
})

test.each(['', '1000'])(
  'a page that comes while the database is away is kept, and billed once it is back, where bills stand in the balance alone (budget: %s)',
  async (budget) => {
    await start({ keywords: 230, bill: 'balance' })
    pipeline('keywords', ['a.com', 'b.com', 'c.com'], { pageSize: 100, concurrency: 4 })
    const relay = await startRelay((asked) =>
      asked.get('limit') === '100' && asked.get('offset') === '0' ? { lateMs: 2_000 } : {},
    )
    const proxy = await startTcpProxy(db.url)
    const more = { DATABASE_URL: proxy.url, WEB_ANALYTICS_BASE_URL: relay.url, WEB_ANALYTICS_QUOTA_PER_DAY: budget }
    const running = startCommand(['backfill', 'keywords', ...august, '--json'], environment(more), folder)
    while (charged() === 0) await setTimeout(20)
    proxy.refuse()
    await setTimeout(3_500)
    proxy.speak()
    const { code, stderr } = await running.result
    await relay.close()
    await proxy.close()
    expect(code, stderr).toBe(0)
    expect(charged()).toBe(9 * price)
    expect(await one(`select sum(used_quota)::int as used, sum(unpriced)::int as unpriced from etl.spending`)).toEqual({
      used: charged(),
      unpriced: 0,
    })
  },
)
