// What the service charges is learned from its bills and used alike by plan, ledger and budgets: against the sandbox that another hand wrote, and its own books.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { expect, test } from 'vitest'
import { hashText, unit } from '../../src/sandbox/hash.ts'
import type { VendorOptions } from '../../src/sandbox/vendor/vendor-options.ts'
import { type Price, priceBases } from '../../src/sandbox/vendor/vendor-prices.ts'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { startCommand, summaryOf } from '../support/command.ts'
import { type Listening, listen } from '../support/listen.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { succeeded, testWorld } from '../support/test-world.ts'
import { v5Routes } from '../support/vendor-v5.ts'
import { runWarm } from '../support/warm-command.ts'

const world = testWorld<VendorSandbox>({ each: true, lists: { domains: ['a.com', 'b.com', 'c.com', 'd.com'] }, json: true })
const { folder, db, service, edit, list, environment } = world

const start = (options: VendorOptions = {}) => world.serve(startVendorSandbox({ requestsPerSecond: null, ...options }, v5Routes))

const millrace = (args: readonly string[], more: Readonly<Record<string, string>> = {}) => world.millraceWith(more, ...args)

const month = (name: string): string[] => ['--from', name, '--to', name]
const keywords = (...args: string[]): string[] => ['backfill', 'keywords', ...args]

const one = <Row extends object>(statement: string): Promise<Row> => db.one<Row>(statement)

const charged = (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0)
const onRecord = async (): Promise<{ used: number; unpriced: number }> =>
  one(`select coalesce(sum(used_quota), 0)::float8 as used, coalesce(sum(unpriced), 0)::int as unpriced from etl.spending`)

interface Planned {
  readonly quota: number | null
  readonly rows: number | null
  readonly range: { readonly low: number; readonly high: number } | null
}

const planned = async (...args: string[]): Promise<Planned[]> => {
  const plan = await succeeded(millrace(keywords(...args, '--dry-run')))
  return plan.stdout
    .split('\n')
    .filter((line) => line.startsWith('{"event":"job"'))
    .map((line) => JSON.parse(line))
}

const within = (found: number, expected: number, where: unknown = ''): void =>
  expect(Math.abs(found - expected), `${found} where ${expected} is right ${JSON.stringify(where)}`).toBeLessThanOrEqual(
    0.01 * expected,
  )

test('a price is unknown, with the range others paid, until the first bill; then plan, ledger and the service agree', async () => {
  await start({ keywords: 240 })
  const before = await planned(...month('2026-08'))
  expect(before).toMatchObject([{ quota: null, range: { low: expect.any(Number), high: expect.any(Number) } }])
  await succeeded(millrace(keywords(...month('2026-08'), '--only', 'domain=a.com', '--yes')))
  within((await onRecord()).used, charged())
  expect(await one(`select count(*)::int as n, min(said_in) as said from etl.prices where dropped_at is null`)).toEqual({
    n: 1,
    said: 'answer',
  })
  const [rest] = await planned(...month('2026-08'))
  const paid = charged()
  await succeeded(millrace(keywords(...month('2026-08'), '--yes')))
  within(rest?.quota ?? 0, charged() - paid)
  within((await onRecord()).used, charged())
})

test('a bill that stands only in the balance is seen by two readings around a page', async () => {
  await start({ keywords: 240, bill: 'balance', purses: { rest: 100_000, batch: 100_000 } })
  await succeeded(millrace(keywords(...month('2026-08'), '--yes')))
  expect(await one(`select count(*)::int as n, min(said_in) as said from etl.prices where dropped_at is null`)).toEqual({
    n: 1,
    said: 'balance',
  })
  within((await onRecord()).used, charged())
  expect(await onRecord()).toMatchObject({ unpriced: 0 })
})

test('a balance of reports alone says nothing of pages: where it stays their price is unknown, not 0', async () => {
  await start({ keywords: 240, bill: 'balance', purses: { rest: null, batch: 100_000 } })
  await succeeded(millrace(keywords(...month('2026-08'), '--yes')))
  expect(await one(`select count(*)::int as n from etl.prices`)).toEqual({ n: 0 })
  expect(await onRecord()).toEqual({ used: 0, unpriced: service.books.charges.length })
})

test('a bill in the balance that fits several prices, or contradicts the one that is set, is followed by another look, until one is left', async () => {
  const purses = { rest: 100_000, batch: 100_000 }
  await start({ keywords: 240, bill: 'balance', purses, prices: { keywords: { by: 'request', credits: 7.3, rounding: 'none' } } })
  edit('keywords', ['page_size: 1000', 'page_size: 100'])
  const set = { WEB_ANALYTICS_PRICES: 'keywords=0.001/row asked' }
  await succeeded(millrace(keywords(...month('2026-08'), '--only', 'domain=a.com,b.com', '--yes'), set))
  expect(charged()).toBeCloseTo(7.3 * 12, 6)
  expect((await onRecord()).used).toBeCloseTo(charged(), 6)
  const rest = await millrace(keywords(...month('2026-08'), '--dry-run'), set)
  expect(summaryOf(rest)).toMatchObject({ unpriced_units: 0 })
  expect(await one(`select count(*)::int as n from etl.prices where dropped_at is null`)).toEqual({ n: 2 })
})

test('another price is noticed at its first bill', async () => {
  await start({ keywords: 240, prices: { keywords: { by: 'rows-asked', credits: 0.13 } } })
  await millrace(keywords(...month('2026-07'), '--yes'))
  service.configure({ prices: { keywords: { by: 'rows-returned', credits: 2.5 } } })
  await millrace(keywords(...month('2026-08'), '--only', 'domain=a.com', '--yes'))
  expect(await one(`select count(*)::int as n from etl.prices where dropped_at is not null`)).toEqual({ n: 1 })
  const [rest] = await planned(...month('2026-08'))
  const paid = charged()
  await millrace(keywords(...month('2026-08'), '--yes'))
  within(rest?.quota ?? 0, charged() - paid)
  within((await onRecord()).used, charged())
})

test('a walk that would pass the budget stops between pages and goes on from there, nothing bought twice', async () => {
  await start({ keywords: 5_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  const file = join(folder, 'pipelines', 'domains.txt')
  writeFileSync(file, 'a.com\n')
  const only = ['--only', 'country=us']
  const bounded = { WEB_ANALYTICS_QUOTA_PER_DAY: '320' }
  const first = await millrace(keywords(...month('2026-08'), ...only, '--yes'), bounded)
  expect(first.code, first.stderr).not.toBe(0)
  expect(charged()).toBeGreaterThan(200)
  expect(charged()).toBeLessThanOrEqual(320)
  within((await onRecord()).used, charged())
  const again = await succeeded(
    millrace(keywords(...month('2026-08'), ...only, '--yes'), { WEB_ANALYTICS_QUOTA_PER_DAY: '10000' }),
  )
  expect(summaryOf(again).units).toMatchObject({ loaded: 1 })
  expect(charged()).toBe(500)
  within((await onRecord()).used, charged())
})

/** The fifth of five pages is not answered. */
const stalled = async (times: number, headers: Record<string, string>): Promise<void> => {
  await start({
    keywords: 5_000,
    prices: { keywords: { by: 'rows-returned', credits: 0.1 } },
    replies: [{ endpoint: 'keywords', match: ['offset=4000'], times, status: 503, headers }],
  })
  list('domains', ['a.com'])
}
const stalledWalk = [...keywords(...month('2026-08'), '--only', 'country=us', '--yes')]
const goesOn = async (): Promise<void> => {
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  expect(charged()).toBe(500)
  within((await onRecord()).used, charged())
  await succeeded(millrace(['replay', 'keywords', ...month('2026-08')]))
}

test('a walk that an outage broke off goes on from the pages it paid for', async () => {
  await stalled(1, {})
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  const first = await millrace(stalledWalk)
  expect(first.code, first.stderr).toBe(1)
  expect(charged()).toBe(400)
  await goesOn()
})

test('a walk during which the database was away goes on from the pages it paid for', async () => {
  await start({ keywords: 20_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  const proxy = await startTcpProxy(db.url)
  const more = { DATABASE_URL: proxy.url, WEB_ANALYTICS_REQUESTS_PER_SECOND: '5' }
  const running = startCommand([...stalledWalk, '--json'], { ...environment(), ...more }, folder)
  while (charged() < 1_000) await setTimeout(20)
  proxy.fallSilent()
  proxy.cut()
  await setTimeout(1_000)
  proxy.speak()
  proxy.cut()
  await succeeded(running.result)
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 20_000 })
  // All but the pages of a second and those on their way; without any that was kept it would be 3,000 and more.
  expect(charged()).toBeLessThanOrEqual(2_700)
  await proxy.close()
})

test.each([
  ['no budget', {}],
  ['a budget', { WEB_ANALYTICS_QUOTA_PER_DAY: '100000' }],
])('walks during which the database was away, with %s: each page is bought once and on record once', async (_, budget) => {
  await start({ keywords: 6_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  const proxy = await startTcpProxy(db.url)
  const more = { DATABASE_URL: proxy.url, WEB_ANALYTICS_REQUESTS_PER_SECOND: '8', ...budget }
  const running = startCommand([...stalledWalk, '--json'], { ...environment(), ...more }, folder)
  while (charged() < 900) await setTimeout(20)
  proxy.refuse()
  await setTimeout(6_000)
  proxy.speak()
  await succeeded(running.result)
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 24_000 })
  expect(charged()).toBe(2_400)
  expect((await onRecord()).used).toBe(2_400)
  const pages = await one(`select count(*)::int as n from etl.requests where status = 200 and parameters ->> 'limit' > '1'`)
  expect(pages).toEqual({ n: service.books.charges.length })
  await proxy.close()
})

/** How a database refuses that is there and answers, and how it no longer does. */
const refusals = {
  'takes no connections': ['alter database DB allow_connections false', 'alter database DB allow_connections true'],
  'is read-only': [
    'alter database DB set default_transaction_read_only = on',
    'alter database DB reset default_transaction_read_only',
  ],
  'goes by another name': ['alter database DB rename to DB_away', 'alter database DB_away rename to DB'],
} as const

test.each(Object.entries(refusals))(
  'pages that come while the database %s are bought once and on record once',
  async (_, [begin, end]) => {
    await start({ keywords: 6_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
    const name = new URL(db.url).pathname.slice(1)
    const server = new pg.Client({ connectionString: Object.assign(new URL(db.url), { pathname: '/postgres' }).href })
    await server.connect()
    const cutOff = () =>
      server.query('select pg_terminate_backend(pid) from pg_stat_activity where datname in ($1, $2)', [name, `${name}_away`])
    const tell = async (statement: string): Promise<void> => {
      // Somebody may come in between.
      for (let isDone = false; !isDone; ) {
        await cutOff()
        isDone = await server.query(statement.replaceAll('DB', name)).then(
          () => true,
          () => false,
        )
      }
      await cutOff()
    }
    const running = startCommand([...stalledWalk, '--json'], { ...environment(), WEB_ANALYTICS_REQUESTS_PER_SECOND: '8' }, folder)
    while (charged() < 900) await setTimeout(20)
    await tell(begin)
    await setTimeout(6_000)
    await tell(end)
    await server.end()
    await succeeded(running.result)
    expect(charged()).toBe(2_400)
    expect((await onRecord()).used).toBe(2_400)
  },
)

test.each([0, 500])(
  'a walk that is stopped while the database is away, %i ms after it went, goes on from what it has paid for',
  async (ms) => {
    await start({ keywords: 6_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
    const proxy = await startTcpProxy(db.url)
    const more = { DATABASE_URL: proxy.url, WEB_ANALYTICS_REQUESTS_PER_SECOND: '8' }
    const running = startCommand([...stalledWalk, '--json'], { ...environment(), ...more }, folder)
    while (charged() < 700) await setTimeout(20)
    proxy.refuse()
    await setTimeout(ms)
    running.child.kill('SIGTERM')
    expect((await running.result).code).toBe(130)
    proxy.speak()
    await succeeded(millrace(stalledWalk))
    expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 24_000 })
    expect(charged()).toBe(2_400)
    expect((await onRecord()).used).toBe(2_400)
    await proxy.close()
  },
)

test('pages kept from before the service changed its answer are not mixed with those of now', async () => {
  await stalled(1, {})
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  expect((await millrace(stalledWalk)).code).toBe(1)
  expect(charged()).toBe(400)
  service.configure({ newestMonth: '2026-10' })
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  // The page that told of it, and all five anew; as many may have been on their way with it as are asked for side by side.
  expect(charged()).toBeGreaterThanOrEqual(400 + 100 + 500)
})

test('a walk that was stopped goes on from the pages it paid for', async () => {
  await stalled(1, { 'retry-after': '60' })
  const first = startCommand([...stalledWalk, '--json'], environment(), folder)
  while (charged() < 400) await setTimeout(20)
  // What is charged is on its way to a process that may be slow.
  await setTimeout(1_500)
  first.child.kill('SIGINT')
  expect((await first.result).code).toBe(130)
  expect(charged()).toBe(400)
  await goesOn()
})

test.each([
  ['cancelled', 'cancel'],
  ['stopped, and withdrawn,', 'withdraw'],
])('a walk that is %s goes on from the pages it paid for once somebody asks for it again', async (_, how) => {
  await stalled(1, { 'retry-after': '60' })
  const running = startCommand([...stalledWalk, '--json'], environment(), folder)
  while (charged() < 400) await setTimeout(20)
  await setTimeout(2_500)
  if (how === 'cancel') {
    const { id } = await one<{ id: string }>(`select max(run_id) as id from etl.runs`)
    const { code, stdout } = await millrace(['cancel', id])
    expect([code, stdout]).toEqual([0, expect.stringContaining('"units_parked":1')])
    expect((await running.result).code).toBe(1)
  } else {
    running.child.kill('SIGINT')
    await running.result
    const { code, stdout } = await millrace(['approve', '--withdraw', 'keywords'])
    expect([code, stdout]).toEqual([0, expect.stringContaining('"withdrawn":1')])
  }
  // Nobody buys the rest in the name of who took it back.
  const left = await one(
    `select state, error_code, wanted_by, begun_landing is not null as kept from etl.jobs where kind = 'walk'`,
  )
  expect(left).toEqual({ state: 'failed', error_code: 'CANCELLED', wanted_by: 'beyond', kept: true })
  service.configure({ replies: [] })
  await goesOn()
})

test.each([
  ['a stop', 0],
  ['a page that is no JSON', 100],
])('pages that came behind one that did not are used after %s', async (how, again) => {
  const reply = how === 'a stop' ? { status: 503, headers: { 'retry-after': '60' } } : { status: 200, body: '{"meta":' }
  await start({
    keywords: 5_000,
    prices: { keywords: { by: 'rows-returned', credits: 0.1 } },
    replies: [{ endpoint: 'keywords', match: ['offset=1000'], times: 1, ...reply }],
  })
  list('domains', ['a.com'])
  const first = startCommand([...stalledWalk, '--json'], environment(), folder)
  if (how === 'a stop') {
    // Those on their way come; those that have not left by then wait as long as the service says.
    while (charged() === 0) await setTimeout(20)
    await setTimeout(2_000)
    first.child.kill('SIGINT')
    expect((await first.result).code).toBe(130)
    expect(charged()).toBeLessThan(500)
    await goesOn()
  } else {
    await succeeded(first.result)
    // The one that could not be read may have cost something.
    expect(charged()).toBeLessThanOrEqual(500 + again)
  }
})

test('of a run that is at work, what it has not begun is taken back, and the command says what it buys to the end', async () => {
  await start({ keywords: 3_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  const domains = Array.from({ length: 12 }, (_, at) => `d${at}.com\n`)
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), domains.join(''))
  const more = { WEB_ANALYTICS_REQUESTS_PER_SECOND: '3' }
  const running = startCommand([...stalledWalk, '--json'], { ...environment(), ...more }, folder)
  while (charged() < 300) await setTimeout(20)
  const { stdout, code } = await millrace(['approve', '--withdraw', 'keywords'])
  const [bought, summary] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const { units } = bought
  expect([code, bought]).toMatchObject([0, { event: 'still_bought', pipeline: 'keywords', run_id: 1 }])
  expect(summary).toMatchObject({ event: 'summary', withdrawn: 12 - units })
  expect(units).toBeLessThanOrEqual(4)
  const ended = await running.result
  expect([ended.code, ended.stderr]).toEqual([0, expect.stringContaining(`${12 - units} units`)])
  expect(summaryOf(ended).units).toMatchObject({ planned: 12, loaded: units })
  expect(charged()).toBe(units * 300)
  expect(await one(`select count(*)::int as n from etl.jobs where state <> 'done'`)).toEqual({ n: 0 })
})

test.each(['cancelled', 'withdrawn'])('a killed backfill that is %s is not gone on with by another command', async (how) => {
  await stalled(1, { 'retry-after': '60' })
  await killedWalk()
  service.configure({ replies: [] })
  const { id } = await one<{ id: string }>(`select max(run_id) as id from etl.runs`)
  const words = how === 'cancelled' ? ['cancel', id] : ['approve', '--withdraw', 'keywords']
  await succeeded(millrace(words))
  await succeeded(millrace(keywords(...month('2026-07'), '--only', 'country=us', '--yes')))
  expect(charged()).toBe(400 + 500)
  await succeeded(millrace(stalledWalk))
  expect(charged()).toBe(500 + 500)
})

test('a killed backfill of an older month that is cancelled is not bought on by a night', async () => {
  await stalled(1, { 'retry-after': '60' })
  service.configure({ replies: [] })
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const guard = '\nguard: { credits_per_night: 50 }\n'
  writeFileSync(file, `${readFileSync(file, 'utf8').replace(/from: 20\d\d-\d\d/, 'from: 2026-06')}${guard}`)
  // So that the value is one that nights know.
  await succeeded(millrace(keywords(...month('2026-09'), '--only', 'country=us', '--yes')))
  await millrace(['run', 'keywords'])
  service.configure({
    replies: [{ endpoint: 'keywords', match: ['offset=4000'], times: 1, status: 503, headers: { 'retry-after': '60' } }],
  })
  const before = charged()
  const killed = startCommand(
    [...keywords(...month('2026-06'), '--only', 'country=us', '--yes'), '--json'],
    environment(),
    folder,
  )
  while (charged() < before + 400) await setTimeout(20)
  await setTimeout(2_500)
  killed.child.kill('SIGKILL')
  await killed.result
  service.configure({ replies: [] })
  const { id } = await one<{ id: string }>(`select max(run_id) as id from etl.runs`)
  await succeeded(millrace(['cancel', id]))
  const stood = await one(
    `select state, error_code, wanted_by from etl.jobs where window_from = '2026-06-01' and begun_landing is not null`,
  )
  expect(stood).toEqual({ state: 'failed', error_code: 'CANCELLED', wanted_by: 'beyond' })
  const paid = () =>
    one(`select count(*)::int as loaded from etl.units where window_from = '2026-06-01' and answer_id is not null`)
  await millrace(['run', 'keywords'])
  expect(await paid()).toEqual({ loaded: 0 })
  const had = charged()
  await succeeded(millrace(keywords(...month('2026-06'), '--only', 'country=us', '--yes')))
  expect([await paid(), charged() - had]).toEqual([{ loaded: 1 }, 100])
})

/** In front of the service: pages come so much later than it answers, and requests for pages at the offsets do not reach it. */
const startLateRelay = (lateMs: number, ...held: number[]): Promise<Listening> =>
  listen((request, response) => {
    const url = new URL(request.url ?? '/', service.url)
    const offset = url.searchParams.get('offset')
    if (held.some((one) => offset === String(one))) return
    const asked = fetch(url, { headers: { accept: 'application/json' } })
    void asked.then(async (answer) => {
      const body = Buffer.from(await answer.arrayBuffer())
      if (offset !== null) await setTimeout(lateMs)
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' }).end(body)
    })
  })

test('what fills one gap among kept pages is kept beside the others, also where fewer are asked for side by side', async () => {
  await start({ keywords: 20_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  const stoppedAt = async (credits: number, ...held: number[]): Promise<void> => {
    const relay = await startLateRelay(0, ...held)
    const running = startCommand([...stalledWalk, '--json'], { ...environment(), WEB_ANALYTICS_BASE_URL: relay.url }, folder)
    while (charged() < credits) await setTimeout(20)
    await setTimeout(1_000)
    running.child.kill('SIGINT')
    const { code, stderr } = await running.result
    expect([code, charged()], stderr).toEqual([130, credits])
    await relay.close()
  }
  // Eight are asked for or here at once: all but the second and the fifth come.
  await stoppedAt(700, 1_000, 4_000)
  edit('keywords', ['concurrency: 4', 'concurrency: 1'])
  await stoppedAt(800, 4_000)
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 20_000 })
  expect(charged()).toBe(2_000)
})

test('what fills one gap among kept pages survives kills while the next one is open', async () => {
  await start({ keywords: 20_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  const endedBy = async (signal: 'SIGINT' | 'SIGKILL', credits: number, ...held: number[]): Promise<void> => {
    const relay = await startLateRelay(0, ...held)
    const running = startCommand([...stalledWalk, '--json'], { ...environment(), WEB_ANALYTICS_BASE_URL: relay.url }, folder)
    while (charged() < credits) await setTimeout(20)
    await setTimeout(signal === 'SIGINT' ? 1_000 : 4_000)
    running.child.kill(signal)
    await running.result
    expect(charged()).toBe(credits)
    await relay.close()
  }
  await endedBy('SIGINT', 700, 1_000, 4_000)
  edit('keywords', ['concurrency: 4', 'concurrency: 1'])
  await endedBy('SIGKILL', 800, 4_000)
  await endedBy('SIGKILL', 800, 4_000)
  // What is named as begun is no file that retention may remove.
  await millrace(['run', 'traffic_and_engagement'], { MILLRACE_LANDING_DAYS: '0' })
  const before = charged()
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 20_000 })
  expect(charged() - before).toBe(1_200)
})

test('a stop hears out the pages that are on their way: they are paid for', async () => {
  await start({ keywords: 20_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  const relay = await startLateRelay(700)
  const running = startCommand([...stalledWalk, '--json'], { ...environment(), WEB_ANALYTICS_BASE_URL: relay.url }, folder)
  while (charged() < 600) await setTimeout(10)
  running.child.kill('SIGINT')
  expect((await running.result).code).toBe(130)
  await relay.close()
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 20_000 })
  expect(charged()).toBe(2_000)
})

/** Killed while pages that the service has charged are on their way. */
const killedOnItsWay = async (lateMs: number, credits: number): Promise<void> => {
  const relay = await startLateRelay(lateMs)
  const killed = startCommand([...stalledWalk, '--json'], { ...environment(), WEB_ANALYTICS_BASE_URL: relay.url }, folder)
  while (charged() < credits) await setTimeout(10)
  await setTimeout(200)
  killed.child.kill('SIGKILL')
  await killed.result
  await relay.close()
}

test.each(['killed', 'killed, and taken back'])(
  'a budget counts the pages that were on their way to a process that was %s',
  async (how) => {
    await start({ keywords: 20_000, prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
    list('domains', ['a.com'])
    edit('keywords', [/^limits: \{/m, 'limits: { quota_per_month: 1500,'])
    await killedOnItsWay(1_500, 500)
    const spent = charged()
    if (how !== 'killed') {
      const { id } = await one<{ id: string }>(`select max(run_id) as id from etl.runs`)
      await succeeded(millrace(['cancel', id]))
      expect((await onRecord()).used).toBeGreaterThanOrEqual(spent)
    }
    const again = await millrace(stalledWalk)
    expect(again.code, again.stderr).toBe(1)
    expect(charged()).toBeGreaterThan(spent)
    expect(charged()).toBeLessThanOrEqual(1_500 + 100)
    expect((await onRecord()).used).toBeGreaterThanOrEqual(charged())
  },
)

test('killed again and again before any bill is seen, a walk buys one page of a day, and says why', async () => {
  await start({ keywords: 20_000, bill: 'balance', prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  edit('keywords', [/^limits: \{/m, 'limits: { quota_per_day: 350,'])
  await killedOnItsWay(60_000, 100)
  for (const _ of ['second', 'third']) {
    const again = await millrace(stalledWalk)
    expect(again.code, again.stderr).toBe(1)
    expect(again.stderr + again.stdout).toContain('of unknown price was lost')
  }
  expect(charged()).toBe(100)
  // The day is over: one more may show the price, however often the unit was tried since.
  await db.database.pool.query(`update etl.request_credits set day = day - 1`)
  await millrace(stalledWalk)
  expect(charged()).toBeGreaterThan(100)
})

test('a page whose bill was never seen closes its budget for the day, for other units and after cancel, too', async () => {
  await start({ keywords: 20_000, bill: 'balance', prices: { keywords: { by: 'rows-returned', credits: 0.1 } } })
  list('domains', ['a.com'])
  edit('keywords', [/^limits: \{/m, 'limits: { quota_per_day: 150,'])
  await killedOnItsWay(60_000, 100)
  await succeeded(millrace(['cancel', (await one<{ id: string }>(`select max(run_id) as id from etl.runs`)).id]))
  list('domains', ['b.com'])
  for (const range of ['2026-08', '2026-07']) {
    const again = await millrace([...keywords(...month(range), '--only', 'country=us', '--yes')])
    expect(again.code, again.stderr).toBe(1)
    expect(again.stderr + again.stdout).toContain('of unknown price was lost')
  }
  expect(charged()).toBe(100)
})

/** Killed once the four pages that came are saved. @param credits charged by then */
const killedWalk = async (credits = 400): Promise<void> => {
  const killed = startCommand([...stalledWalk, '--json'], environment(), folder)
  while (charged() < credits) await setTimeout(20)
  await setTimeout(2_500)
  killed.child.kill('SIGKILL')
  await killed.result
}

test('a walk whose process is killed goes on from the pages it paid for, killed twice', async () => {
  await stalled(2, { 'retry-after': '60' })
  const asked = (): number => service.books.counts['keywords'] ?? 0
  for (const _ of ['first', 'second']) {
    const before = asked()
    const killed = startCommand([...stalledWalk, '--json'], environment(), folder)
    // What came is saved within a second.
    while (charged() < 400 || asked() === before) await setTimeout(20)
    await setTimeout(2_000)
    killed.child.kill('SIGKILL')
    expect((await killed.result).signal).toBe('SIGKILL')
    expect(charged()).toBe(400)
  }
  await goesOn()
  // A copy of this warehouse may go on with the pages, or the original may have finished them: retention alone removes landings.
  const landed = readdirSync(join(folder, 'home', 'landing'), { recursive: true, encoding: 'utf8' })
  expect(landed.filter((name) => name.endsWith('manifest.json')).length).toBeGreaterThanOrEqual(2)
})

test('pages of a killed walk that were asked for in one dialect are not read in the other', async () => {
  await stalled(1, { 'retry-after': '60' })
  await killedWalk()
  await succeeded(millrace(stalledWalk, { WEB_ANALYTICS_DIALECT: 'v5' }))
  expect(await one(`select count(*)::int as n from etl.jobs where state = 'held'`)).toEqual({ n: 0 })
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  expect(charged()).toBe(400 + 500)
})

test('a walk that was killed, and then asks with other parameters, uses none of the pages before', async () => {
  await stalled(1, { 'retry-after': '60' })
  await killedWalk()
  edit('keywords', ['traffic_source: All', 'traffic_source: Organic'])
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as n from etl.jobs where state = 'held'`)).toEqual({ n: 0 })
  const { n } = await one<{ n: number }>(`select count(*)::int as n from data.keywords_v1`)
  expect([n, charged()]).toEqual([5_000, 400 + 500])
})

test('the first N keywords, asked for and given up while a walk was half-read, cost it none of the pages it has paid for', async () => {
  await stalled(2, { 'retry-after': '60' })
  await killedWalk()
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const yaml = readFileSync(file, 'utf8')
  writeFileSync(file, yaml.replace(/params: \{ /, 'params: { top: 4500, '))
  await killedWalk(800)
  writeFileSync(file, yaml)
  await succeeded(millrace(stalledWalk))
  expect(charged()).toBe(800 + 100)
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
})

test('pages that a killed process has saved are not mixed with those of another answer, and the killed process spoils nothing', async () => {
  await stalled(1, { 'retry-after': '60' })
  await killedWalk()
  service.configure({ newestMonth: '2026-10' })
  await succeeded(millrace(stalledWalk))
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  expect(charged()).toBeGreaterThanOrEqual(400 + 100 + 500)
  expect(await one(`select count(*)::int as n from etl.jobs where begun_landing is not null`)).toEqual({ n: 0 })
  await succeeded(millrace(['replay', 'keywords', ...month('2026-08')]))
})

test.each([
  ['a proxy in front', { status: 502, type: 'text/html', body: '<HTML>502 ERROR</HTML>' }, 0],
  ['a key that is refused', { status: 401, type: 'text/plain', body: 'invalid API key' }, 0],
  ['a path that is not there for a moment', { status: 404, type: 'text/plain', body: 'not found' }, 0],
  ['a refusal of the page', { status: 400, body: '{"meta":{"status":"Error","error_code":199,"error_message":"odd"}}' }, 0],
  // Asked for twice: whether it cost anything nobody can tell, so that it counts at the known price.
  ['a page that is no JSON', { status: 200, body: '{"meta":' }, 200],
])('a walk that ends with %s between its pages goes on from those it has paid for', async (_, reply, unseen) => {
  const prices = { keywords: { by: 'rows-returned', credits: 0.1 } } as const
  await start({ keywords: 5_000, prices, replies: [{ endpoint: 'keywords', match: ['offset=4000'], ...reply }] })
  edit('keywords', ['attempts: 5', 'attempts: 2'])
  const asked = keywords(...month('2026-08'), '--only', 'domain=a.com;country=us', '--yes')
  const first = await millrace(asked)
  expect(first.code, first.stderr).toBe(1)
  expect(charged(), first.stderr).toBe(400)
  service.configure({ replies: [] })
  // What was cut off twice waits for a person.
  const { held } = await one<{ held: number | null }>(`select min(unit_id)::int as held from etl.unit_list where state = 'held'`)
  await succeeded(millrace(held === null ? asked : ['release', String(held)]))
  expect(held === null).toBe(unseen === 0)
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  expect(charged()).toBe(500)
  within((await onRecord()).used, charged() + unseen)
})

test('the first N keywords are asked for and paid, complete by declaration; another N is a plan with a price', async () => {
  await start({ keywords: 400, prices: { keywords: { by: 'rows-asked', credits: 0.1 } } })
  const domains = Array.from({ length: 50 }, (_, index) => `d${index}.com`)
  list('domains', domains)
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const yaml = readFileSync(file, 'utf8')
  const topped = (top: number): void => writeFileSync(file, yaml.replace(/params: \{ /, `params: { top: ${top}, `))
  topped(100)
  const us = ['--only', 'country=us']
  await succeeded(millrace(keywords(...month('2026-08'), ...us, '--yes')))
  expect(charged()).toBe(500)
  expect(await one(`select count(*)::int as rows from data.keywords_v1`)).toEqual({ rows: 5_000 })
  await succeeded(millrace(keywords(...month('2026-08'), ...us, '--yes')))
  expect(charged()).toBe(500)

  await succeeded(millrace(['migrate']))
  await succeeded(millrace(keywords(...month('2026-07'), '--only', 'country=us', '--yes')))
  // The sandbox's shares of a hundred rows add up to more than the whole: that says nothing.
  const coverage = `select distinct rows_loaded, share_of_clicks from bi.coverage where country = 'us' and month = '2026-08-01'`
  expect(await one(coverage)).toEqual({ rows_loaded: 'top 100 of 400', share_of_clicks: null })

  topped(50)
  const paid = charged()
  const foreseen = async (): Promise<number[]> => {
    const jobs = await planned(...month('2026-08'), ...us)
    return [jobs.reduce((sum, { quota }) => sum + (quota ?? 0), 0), jobs.reduce((sum, { rows }) => sum + (rows ?? 0), 0)]
  }
  expect(await foreseen()).toEqual([250, 2_500])
  await succeeded(millrace(keywords(...month('2026-08'), ...us, '--yes')))
  expect(charged() - paid).toBe(250)
  const { share } = await one<{ share: string }>(
    `select sum(traffic_share)::text as share from bi.keywords where month = '2026-08-01' and domain = 'd0.com'`,
  )
  expect(Number(share)).toBeCloseTo(0.9, 3)
  expect(await one(coverage)).toEqual({ rows_loaded: 'top 50 of 400', share_of_clicks: share })
  expect(
    await one(`select count(*) filter (where movement = 'lost')::int as lost, count(*) filter (where movement = 'new')::int as new,
      count(*) filter (where movement = 'not in the top 50' and clicks is null)::int as cut from bi.keyword_movements
      where period = 'month' and months_back = 1 and starts_on = '2026-08-01'`),
  ).toEqual({ lost: 0, new: 0, cut: 2_500 })

  // What was cut off counts again where all are wanted.
  writeFileSync(file, yaml)
  const [credits, rows] = await foreseen()
  expect(rows).toBe(20_000)
  expect(credits).toBeGreaterThanOrEqual(2_000)
})

test('a bill that is below 0, or no number, is unknown and said once', async () => {
  const page = (bill: unknown): string =>
    JSON.stringify({
      meta: { data_credits_charged: bill },
      keywords: [{ keyword: 'one', top_url: 'x/y', clicks: 1 }],
      keywords_count: 1,
    })
  const reply = { endpoint: 'keywords', status: 200 } as const
  await start({
    replies: [
      { ...reply, times: 2, body: page(-5) },
      { ...reply, body: page('much') },
    ],
  })
  const run = await succeeded(millrace(keywords(...month('2026-08'), '--only', 'country=us', '--yes')))
  expect(summaryOf(run)).toMatchObject({ units: { loaded: 4 }, quota_used: 0 })
  expect(run.stderr.match(/is recorded as unknown/g), run.stderr).toHaveLength(1)
  expect(run.stderr).toMatch(/the service says that it cost -5 credits/)
  expect(await onRecord()).toEqual({ used: 0, unpriced: 4 })
})

test('three commands under one budget, whose bills stand in the balance alone, buy no page twice and pass the budget by one page at most', async () => {
  const prices = { keywords: { by: 'request', credits: 40 } } as const
  await start({ keywords: 900, bill: 'balance', purses: { rest: 1e6, batch: 1e6 }, prices })
  edit('keywords', ['page_size: 1000', 'page_size: 200'])
  list('domains', ['a.com', 'b.com', 'c.com', 'd.com', 'e.com', 'f.com'])
  const bounded = { ...environment(), WEB_ANALYTICS_QUOTA_PER_DAY: '400', WEB_ANALYTICS_REQUESTS_PER_SECOND: '40' }
  const runs = ['2026-06', '2026-07', '2026-08'].map((name) =>
    startCommand([...keywords(...month(name), '--only', 'country=us', '--yes'), '--json'], bounded, folder),
  )
  const whole = 6 * 3 * 5
  while (runs.some(({ child }) => child.exitCode === null) && service.books.charges.length <= whole) await setTimeout(50)
  for (const { child } of runs) child.kill('SIGKILL')
  expect(service.books.charges.length).toBeLessThanOrEqual(whole)
  expect(charged()).toBeLessThanOrEqual(400 + 40)
})

test('where no bill can be seen a budget cannot count, and that is said once, with what sets a price; a set one is counted', async () => {
  await start({ keywords: 40, bill: 'balance' })
  const budget = { WEB_ANALYTICS_QUOTA_PER_DAY: '100' }
  const blind = await succeeded(millrace(keywords(...month('2026-08'), '--only', 'country=us', '--yes'), budget))
  expect(blind.stderr.match(/no budget counts such pages; set one for the account/g), blind.stderr).toHaveLength(1)
  const set = { ...budget, WEB_ANALYTICS_PRICES: 'keywords=60/request' }
  const bounded = await millrace(keywords(...month('2026-07'), '--only', 'country=us', '--yes'), set)
  expect(bounded.stderr).not.toContain('no budget counts')
  expect(summaryOf(bounded).units['loaded'], bounded.stderr).toBeLessThanOrEqual(2)
})

test.each([
  ['an empty list as null', 200, { keywords: null, keywords_count: 0, meta: { status: 'Success', data_credits_charged: 0 } }],
  ['no data with status 204', 204, ''],
  ['no data with status 200', 200, { meta: { status: 'Error', error_code: 401, error_message: 'Data not found' } }],
])('%s is no data, and costs nothing', async (_what, status, body) => {
  const json = typeof body === 'string' ? body : JSON.stringify(body)
  await start({
    replies: ['b.com', 'c.com'].map((name) => ({ endpoint: 'keywords', match: [`URL=${name}`], status, body: json })),
  })
  const run = await succeeded(millrace(keywords(...month('2026-08'), '--only', 'country=us', '--yes')))
  expect(summaryOf(run).units).toMatchObject({ loaded: 4, held: 0, failed: 0 })
  within((await onRecord()).used, charged())
})

test('a refusal that comes with status 200 costs nothing', async () => {
  const body = JSON.stringify({ error: { code: 'VALIDATION_ERROR', message: 'web_source is not valid' } })
  await start({ replies: [{ endpoint: 'keywords', match: ['URL=b.com'], status: 200, body }] })
  const run = await millrace(keywords(...month('2026-08'), '--only', 'country=us', '--yes'))
  expect(summaryOf(run).units, run.stderr).toMatchObject({ loaded: 3, failed: 1 })
  within((await onRecord()).used, charged())
})

test('the bill of an answer that is no page is booked with the unit that is held for it, and teaches no price', async () => {
  const body = JSON.stringify({ meta: { data_credits_charged: 13 }, data: [{ term: 'one', clicks: 1 }] })
  await start({ replies: [{ endpoint: 'keywords', status: 200, times: 1, body }] })
  const run = await millrace(keywords(...month('2026-08'), '--only', 'country=us;domain=a.com', '--yes'))
  expect(run.code, run.stderr).toBe(1)
  expect(run.stderr).toMatch(/did not answer with keywords.*It cost 13 credits and is not requested again automatically/)
  expect(summaryOf(run)).toMatchObject({ units: { held: 1 }, quota_used: 13 })
  expect(await onRecord()).toEqual({ used: 13, unpriced: 0 })
  expect(await one(`select count(*)::int as bills from etl.prices`)).toEqual({ bills: 0 })
})

test('what waits for the budget is counted in units where it is no report, at the price that a bill has told; a dry run says of how many nobody knows it', async () => {
  await start({ keywords: 250, prices: { keywords: { by: 'request', credits: 130 } } })
  const dry = await millrace(keywords(...month('2026-08'), '--dry-run'))
  expect(summaryOf(dry)).toMatchObject({
    quota_used: 0,
    unpriced_units: 8,
    quota_range: { low: expect.any(Number), high: expect.any(Number) },
  })
  const run = await millrace(keywords(...month('2026-08'), '--yes'), { WEB_ANALYTICS_QUOTA_PER_DAY: '300' })
  expect(run.stderr + run.stdout).toMatch(/"event":"paced","pipeline":"keywords","reports":0,"units":\d/)
  // The dearest reading of the first bill, 520, fits into no day: pages are bought one by one at what is likely.
  expect(charged()).toBe(260)
  const told = /"units":(\d+),"credits":(\d+),"done_on"/.exec(run.stdout)
  expect(Number(told?.[2]), run.stdout).toBe(130 * Number(told?.[1]))
  const after = await millrace(keywords(...month('2026-08'), '--dry-run'))
  expect(summaryOf(after)).toMatchObject({ unpriced_units: 0, quota_range: null })
})

test('pages that wait for approval since before any bill have the price of the first one', async () => {
  await start({ keywords: 240 })
  await succeeded(millrace(['migrate']))
  expect((await millrace(['run', 'keywords'])).code).toBe(1)
  const { units, credits } = await one<{ units: number; credits: number | null }>(
    `select units::int as units, credits::float8 as credits from etl.approvals where state = 'waiting'`,
  )
  const waiting = JSON.parse((await millrace(['status', 'keywords'])).stdout.trim().split('\n').at(-1) ?? '{}').needs_approval
  const perUnit = charged() / (await one<{ units: number }>(`select count(answer_id)::int as units from etl.units`)).units
  expect(waiting).toMatchObject([{ units, credits }])
  within(credits ?? 0, perUnit * units)
})

test('what waits for the budget costs what the bills say by now, not what it was planned at', async () => {
  await start({ keywords: 250, prices: { keywords: { by: 'request', credits: 13 } } })
  const priced = { WEB_ANALYTICS_QUOTA_PER_DAY: '30', WEB_ANALYTICS_PRICES: 'keywords=5/request' }
  for (const time of ['first', 'second']) {
    const run = await millrace(keywords(...month('2026-08'), '--yes'), priced)
    const told = /"units":(\d+),"credits":(\d+),"done_on"/.exec(run.stdout)
    expect(Number(told?.[1]), run.stdout).toBeGreaterThan(0)
    expect(Number(told?.[2]), `${time} ${run.stdout}`).toBe(13 * Number(told?.[1]))
  }
})

/** Six reports of a month, each of which the service says costs 18 credits, and charges 54. */
const startDearer = async (reportMs: number): Promise<void> => {
  const body = JSON.stringify({ is_valid: true, estimated_credits: 18 })
  const replies = [{ endpoint: 'free' as const, match: ['request-validate'], body }]
  await start({ reportMs, prices: { traffic_and_engagement: { by: 'request', credits: 54 } }, replies })
  list('domains', ['a.com', 'b.com', 'c.com', 'd.com', 'e.com', 'f.com'])
  const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
  const yaml = readFileSync(file, 'utf8').replace('{ file: domains.txt }', '{ file: domains.txt, bucket: 1 }')
  writeFileSync(file, yaml.replace(/country: \[.*\]/, 'country: [us]').replace('poll_every: 5s', 'poll_every: 100ms'))
}

const dearer = ['traffic_and_engagement', ...month('2026-05')]

test('what the service charges for reports counts, not the lower price that it names for them: in plan, and in a budget', async () => {
  await startDearer(20)
  const first = await millrace(['backfill', ...dearer, '--only', 'domain=a.com', '--yes'])
  expect([first.code, charged()], first.stderr).toEqual([0, 54])
  expect(summaryOf(await millrace(['plan', ...dearer]))).toMatchObject({ reports_submitted: 5, quota_used: 5 * 54 })
  const told = await runWarm(['plan', ...dearer], environment(), folder)
  expect(told.stdout).toContain('Prices by the service, times 3 as its newest bills were, for 5 of 5 reports')
  await millrace(['backfill', ...dearer, '--yes'], { WEB_ANALYTICS_QUOTA_PER_DAY: '154' })
  expect(charged()).toBe(2 * 54)
})

test('a price that no bill has borne out yet passes a budget by one report at most', async () => {
  await startDearer(700)
  const run = await millrace(['backfill', ...dearer, '--yes'], { WEB_ANALYTICS_QUOTA_PER_DAY: '120' })
  expect([run.code, charged()], run.stderr).toEqual([1, 2 * 54])
})

/** What a seed's service charges for each of two pipelines, and what the environment says of it. */
const listOf = (seed: number) => {
  const among = <T>(what: string, ...of: readonly [T, ...T[]]): T => of[hashText(what, seed) % of.length] ?? of[0]
  const price = (of: string): Price => ({
    by: among(`by ${of}`, ...priceBases),
    credits: Number((10 ** (unit(hashText(`credits ${of}`, seed)) * 3 - 2)).toFixed(3)),
    minimum: among(`minimum ${of}`, 0, 0, 1, 10),
    rounding: among(`rounding ${of}`, 'up', 'nearest', 'none'),
  })
  const bill = among<NonNullable<VendorOptions['bill']>>('bill', 'data_credits_charged', 'sw_coins', 'balance')
  const wrong = among(
    'said',
    null,
    null,
    'keywords=333/request,report=333/request',
    'keywords=0.001/row asked,report=0.001/request',
  )
  return {
    seed,
    keywords: price('keywords'),
    traffic_and_engagement: price('reports'),
    bill,
    rows: among('rows', 37, 100, 240),
    page: among('page', 100, 250),
    /** Far from any of them. */
    said: wrong,
  }
}

const count = Number(process.env['MILLRACE_PRICE_LISTS'] ?? 12) / 2
const firstSeed = Number(process.env['MILLRACE_PRICE_SEED'] ?? 1)
const pair = ['keywords', 'traffic_and_engagement'] as const

// A dozen lists; MILLRACE_PRICE_LISTS=200 plays more.
test.each(Array.from({ length: count }, (_, index) => listOf(firstSeed + index)))(
  'after the first bill of $seed plan, ledger and books agree within 1 %, and no budget is passed by more than one request',
  async (list) => {
    const { bill, rows, page, said } = list
    const prices = { keywords: list.keywords, traffic_and_engagement: list.traffic_and_engagement }
    await start({ keywords: rows, bill, prices, purses: { rest: 1e7, batch: 1e7 }, reportMs: 20 })
    for (const name of pair) {
      const file = join(folder, 'pipelines', `${name}.yaml`)
      const yaml = readFileSync(file, 'utf8').replace('page_size: 1000', `page_size: ${page}`)
      writeFileSync(file, yaml.replace(/country: \[.*\]/, 'country: [us]').replace('poll_every: 5s', 'poll_every: 100ms'))
    }
    const settings: Record<string, string> = said === null ? {} : { WEB_ANALYTICS_PRICES: said }
    const buy = (names: readonly string[], args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
      millrace(['backfill', ...names, ...args, '--yes'], { ...settings, ...more })
    for (const name of pair) {
      const first = await buy([name], [...month('2026-05'), '--only', 'domain=a.com'])
      expect(first.code, first.stderr).toBe(0)
    }
    within((await onRecord()).used, charged())
    expect(await onRecord()).toMatchObject({ unpriced: 0 })
    const before = spentBy()
    const plan = await millrace(['plan', ...pair, ...month('2026-05')], settings)
    expect((await buy(pair, month('2026-05'))).code).toBe(0)
    within((await onRecord()).used, charged())
    const after = spentBy()
    for (const name of pair) {
      const jobs = plan.events.filter((event) => event['event'] === 'job' && event['pipeline'] === name)
      const foreseen = jobs.reduce((sum, job) => sum + Number(job['quota'] ?? Number.NaN), 0)
      const spent = after[name] - before[name]
      if (name === 'keywords' && bill === 'balance' && before.keywords === 0) {
        // A balance that did not move may be late: what is free and what others paid are both in the range.
        expect(jobs, JSON.stringify(list)).toMatchObject([{ quota: null, range: { low: 0 } }])
        expect(jobs[0]).toHaveProperty(
          'range.high',
          expect.toSatisfy((high: number) => high >= spent),
        )
        continue
      }
      // Half a credit: the service rounds each page and report.
      const isNear = Math.abs(foreseen - spent) <= Math.max(0.01 * spent, 0.5)
      expect(isNear, `${name}: ${foreseen} foreseen, ${spent} paid ${JSON.stringify([list, before, jobs[0]])}`).toBe(true)
    }
    const dearest = Math.max(...service.books.charges.map(({ credits }) => credits))
    const budget = Math.ceil(charged() + (charged() - before.keywords - before.traffic_and_engagement) / 2)
    await buy(pair, month('2026-06'), { WEB_ANALYTICS_QUOTA_PER_DAY: String(budget) })
    expect(charged()).toBeLessThanOrEqual(budget + dearest)
    within((await onRecord()).used, charged())
  },
)

const spentBy = (): Record<(typeof pair)[number], number> => {
  const of = (purse: 'rest' | 'batch'): number =>
    service.books.charges.reduce((sum, one) => sum + (one.purse === purse ? one.credits : 0), 0)
  return { keywords: of('rest'), traffic_and_engagement: of('batch') }
}
