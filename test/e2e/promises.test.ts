// The seventeen promises of the product, a case of seconds each: the real command, a real PostgreSQL, the service locally, real kills. What lies behind each is tested
// at length elsewhere; what breaks one of these breaks Millrace.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { beforeEach, expect, inject, test } from 'vitest'
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts'
import { runCommand, type Summary, startCommand, summaryOf } from '../support/command.ts'
import { copyDatabase } from '../support/copied-database.ts'
import { sandboxWorld } from '../support/test-world.ts'
import { until } from '../support/until.ts'

const traffic = 'traffic_and_engagement'
const month = ['--from', '2026-08', '--to', '2026-08'] as const
const key = 'promise-key-0123456789'

const world = sandboxWorld({
  each: true,
  lists: { domains: ['a.com', 'b.com'] },
  sandbox: { apiKey: key, keywordsPerDomain: 200, reportDurationMs: 0, now: '2026-10-20' },
  json: true,
})
const { folder, db, sandbox, edit, environment } = world

const domains = (...names: string[]): void => world.list('domains', names)

beforeEach(() => {
  edit(traffic, ['poll_every: 5s', 'poll_every: 50ms'], ['[us, gb, world]', '[us]'], ['from: 2024-01', 'from: 2026-01'])
  edit('keywords', ['[us, gb]', '[us]'], ['page_size: 1000', 'page_size: 50'], ['from: 2024-01', 'from: 2026-01'])
})

const millrace = (args: readonly string[], more: Readonly<Record<string, string>> = {}) => world.millraceWith(more, ...args)

/** One that can be killed. */
const begin = (...args: string[]) => startCommand([...args, '--json'], environment(), folder)

const backfill = async (pipeline: string, ...more: string[]): Promise<Summary & { readonly code: number | null }> => {
  const result = await millrace(['backfill', pipeline, ...month, ...more])
  return { ...summaryOf(result), code: result.code }
}

const table = (pipeline: string): string => `data.${pipeline}_v1`
/** Each row with the row version that wrote it. */
const rowsOf = (pipeline: string, where = 'true') =>
  db.query(
    `select xmin::text as version, to_jsonb(t) - '_run_id' as row from ${table(pipeline)} t where ${where} order by to_jsonb(t)::text`,
  )
const count = async (from: string): Promise<number> =>
  Number((await db.query(`select count(*)::int as n from ${from}`))[0]?.['n'])
const faults = (...list: NonNullable<SandboxOptions['faults']>): void => sandbox.configure({ faults: list })
const noneLoaded = { loaded: 0 }

test('1 a unit is loaded whole: no reader sees some of its rows, nor rows of a unit that is not loaded', async () => {
  expect((await millrace(['migrate'])).code).toBe(0)
  domains('a.com', 'b.com', 'c.com', 'd.com')
  const command = begin('backfill', 'keywords', ...month)
  let ended = false
  command.result.finally(() => {
    ended = true
  })
  const seen: string[] = []
  while (!ended)
    for (const one of await db.query(
      `select k.domain || ' ' || count(*) || ' ' || bool_and(u.state = 'loaded') as seen from ${table('keywords')} k join etl.unit_list u on u.unit_id = k._unit_id group by k.domain`,
    ))
      seen.push(String(one['seen']))
  expect((await command.result).code).toBe(0)
  expect(new Set(seen.filter((one) => !/ 200 true$/.test(one)))).toEqual(new Set())
  expect(await count(table('keywords'))).toBe(800)
})

test('2 a finished unit run again writes no row and asks for nothing', async () => {
  await backfill(traffic)
  const before = await rowsOf(traffic)
  const again = await backfill(traffic)
  expect(again).toMatchObject({ code: 0, requests: 0, reports_submitted: 0, rows: { inserted: 0, updated: 0, ended: 0 } })
  expect(await rowsOf(traffic)).toEqual(before)
})

test('3 a row that is gone from a newer answer ends and stays in history; nothing outside the unit is touched', async () => {
  await millrace(['backfill', 'keywords', '--from', '2026-07', '--to', '2026-08'])
  const others = await rowsOf('keywords', "month < '2026-08-01' or domain = 'b.com'")
  sandbox.configure({ keywordsByDomain: { 'a.com': 180 } })
  sandbox.restate('2026-08', 'a.com')
  const restated = await backfill('keywords', '--force', '--only', 'domain=a.com')
  const { ended, inserted } = restated.rows
  expect(ended).toBeGreaterThanOrEqual(20)
  expect(await count(`${table('keywords')} where month = '2026-08-01' and domain = 'a.com'`)).toBe(200 - ended + inserted)
  expect(await rowsOf('keywords', "month < '2026-08-01' or domain = 'b.com'")).toEqual(others)
  expect(await count(`${table('keywords')}_history`)).toBe(restated.rows.updated + restated.rows.ended)
})

test('4 a report that was submitted is never submitted again: after kill -9 it is polled, after a lost answer a person is asked', async () => {
  sandbox.configure({ reportDurationMs: 1_500 })
  const killed = begin('backfill', traffic, ...month)
  await until(
    'it comes to that',
    async () => sandbox.books().submissions.length === 1 && (await count('etl.jobs where report_id is not null')) === 1,
  )
  killed.child.kill('SIGKILL')
  await killed.result
  expect(await backfill(traffic)).toMatchObject({ code: 0, reports_submitted: 0, units: { loaded: 2 } })
  expect(sandbox.books().submissions).toHaveLength(1)

  faults({ kind: 'drop-reply', on: 'submit', nth: 1 })
  const lost = ['backfill', traffic, '--from', '2026-07', '--to', '2026-07']
  expect(summaryOf(await millrace(lost)).units).toMatchObject(noneLoaded)
  expect(summaryOf(await millrace(lost)).units).toMatchObject(noneLoaded)
  expect(sandbox.books().submissions).toHaveLength(2)
  const { stdout } = await runCommand(['status'], environment(), folder)
  expect(stdout.match(/held #\d+ .*REPORT_UNCERTAIN/g), stdout).toHaveLength(2)
  expect(stdout.match(/--resubmit-uncertain/g), stdout).toHaveLength(1)
})

test('5 what is not proved complete is not loaded: a row less than announced, a body that is cut', async () => {
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  faults({ kind: 'missing-row', on: 'submit' }, { kind: 'truncate-body', on: 'keywords', mode: 'silent' })
  expect(await backfill(traffic)).toMatchObject({ code: 1, units: noneLoaded })
  expect(await backfill('keywords')).toMatchObject({ code: 1, units: noneLoaded })
  expect(await count(table(traffic))).toBe(0)
  expect(await count(table('keywords'))).toBe(0)
})

test('6 a bad row is in quarantine with its record and its reason; too many of them change no data', async () => {
  await backfill(traffic)
  const before = await rowsOf(traffic)
  sandbox.restate('2026-08')
  faults({ kind: 'bad-number', on: 'submit', row: 1 })
  expect(await backfill(traffic, '--force')).toMatchObject({ code: 1, units: { loaded: 0 } })
  expect(await rowsOf(traffic)).toEqual(before)
  const shown = await millrace(['quarantine', 'list'])
  expect(shown.stdout).toContain('12.3x')
})

test('7 the key is in no table, file or message, also where the service sends it back', async () => {
  faults({ kind: 'key-echo', on: 'keywords' }, { kind: 'key-echo', on: 'submit' })
  const printed = [
    await millrace(['backfill', 'keywords', ...month]),
    await millrace(['backfill', traffic, ...month]),
    await millrace(['status']),
  ]
  expect(printed.map(({ stdout, stderr }) => `${stdout}${stderr}`.includes(key))).toEqual([false, false, false])
  const files = readdirSync(join(folder, 'home'), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, 'home', name))
  const holds = (file: string): boolean => {
    const bytes = readFileSync(file)
    return (bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).includes(key)
  }
  expect(files.filter((file) => statSync(file).isFile() && holds(file))).toEqual([])
  const names = await db.query(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('etl', 'data')",
  )
  for (const { name } of names) expect(await count(`${name} t where t::text like '%${key}%'`), String(name)).toBe(0)
  expect(sandbox.books().keysAstray).toBe(0)
})

test('8 memory does not grow with the unit: 100,000 keywords load with 80 MB of heap', async () => {
  sandbox.configure({ keywordsPerDomain: 100_000 })
  domains('a.com')
  edit('keywords', ['page_size: 50', 'page_size: 2000'])
  const tight = { ...environment(), NODE_OPTIONS: '--max-old-space-size=80' }
  const { events, stderr } = await startCommand(['backfill', 'keywords', ...month, '--json'], tight, folder).result
  expect(events.at(-1), stderr).toMatchObject({ event: 'summary', units: { loaded: 1 }, rows: { read: 100_000 } })
})

test('9 commands at the same time: each ends by itself, none fails another, no unit is asked for twice', async () => {
  expect((await millrace(['migrate'])).code).toBe(0)
  const results = await Promise.all([
    millrace(['backfill', 'keywords', ...month]),
    millrace(['backfill', 'keywords', ...month]),
    millrace(['backfill', traffic, ...month]),
    millrace(['status']),
  ])
  expect(results.map(({ code, stderr }) => [code, code === 0 ? '' : stderr])).toEqual(results.map(() => [0, '']))
  expect(sandbox.books().submissions).toHaveLength(1)
  expect(sandbox.books().counts['keywords']).toBe(8)
})

test('10 the newest answer wins: an older one that is loaded again changes nothing', async () => {
  await backfill(traffic)
  const [{ older = '' } = {}] = (await db.query('select min(answer_id)::text as older from etl.answers')) as { older?: string }[]
  sandbox.restate('2026-08')
  await backfill(traffic, '--force')
  const newest = await rowsOf(traffic)
  await millrace(['replay', '--answer', older])
  await millrace(['replay', traffic, ...month])
  expect(await rowsOf(traffic)).toEqual(newest)
})

test('11 what was bought is used, though its value has left the list meanwhile', async () => {
  sandbox.configure({ reportDurationMs: 1_500 })
  const killed = begin('backfill', traffic, ...month)
  await until('it comes to that', async () => (await count('etl.jobs where report_id is not null')) === 1)
  killed.child.kill('SIGKILL')
  await killed.result
  domains('b.com')
  await backfill(traffic)
  expect(sandbox.books().submissions).toHaveLength(1)
  expect(await count(`${table(traffic)} where domain = 'a.com'`)).toBe(1)
})

test('12 a copy of the warehouse knows that it is one, and buys nothing', async () => {
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  await millrace(['backfill', traffic, ...month], { DATABASE_URL: original.url })
  const bought = sandbox.books().submissions.length
  const spent = sandbox.books().quotaUsed
  const copy = await original.copy()
  const asked = await millrace(['backfill', traffic, 'keywords', ...month, '--force'], { DATABASE_URL: copy.url })
  await copy.drop()
  await original.drop()
  expect(bought).toBe(1)
  expect(asked.code).not.toBe(0)
  expect(`${asked.stdout}${asked.stderr}`).toContain('migrate --as')
  expect(sandbox.books().submissions).toHaveLength(bought)
  expect(sandbox.books().quotaUsed).toBe(spent)
})

test('13 nothing is bought beyond the usual without approval', async () => {
  await millrace(['run', traffic])
  const usual = sandbox.books().quotaUsed
  domains(...Array.from({ length: 40 }, (_, index) => `new-${index}.com`), 'a.com', 'b.com')
  const night = await millrace(['run', traffic])
  expect(night.code).toBe(1)
  expect(summaryOf(night).units.held).toBeGreaterThan(40)
  expect(sandbox.books().quotaUsed).toBeLessThanOrEqual(2 * usual)
  expect((await millrace(['approve', traffic])).code).toBe(0)
  expect((await millrace(['run', traffic])).code).toBe(0)
})

test('14 429 slows down and costs nothing else: every page is read once', async () => {
  faults({ kind: 'status-429', on: 'keywords', every: 3, retryAfter: 'seconds', retryAfterSeconds: 1 })
  expect(await backfill('keywords')).toMatchObject({ code: 0, units: { loaded: 2 } })
  const pages = sandbox.books().requests.filter(({ endpoint, status }) => endpoint === 'keywords' && status === 200)
  expect(pages.map(({ query: asked }) => `${asked['URL']} ${asked['offset'] ?? 0}`)).toHaveLength(8)
})

test('15 no budget is passed', async () => {
  const quota = { WEB_ANALYTICS_QUOTA_PER_MONTH: '20' }
  const wanted = ['backfill', traffic, '--from', '2026-03', '--to', '2026-08'] as const
  const result = await millrace(wanted, quota)
  expect(sandbox.books().quotaUsed).toBeLessThanOrEqual(20)
  expect(result.code).toBe(1)
})

test('16 complete means complete: a unit whose count drifts is not loaded, and coverage says what is missing', async () => {
  expect((await millrace(['migrate'])).code).toBe(0)
  faults({ kind: 'count-drift', on: 'keywords', by: 5 })
  await backfill('keywords', '--only', 'domain=a.com')
  faults()
  await backfill('keywords', '--only', 'domain=b.com')
  expect(
    await db.query(
      "select domain, reason is null as there from bi.coverage where pipeline = 'keywords' and period = '2026-08-01' order by 1",
    ),
  ).toEqual([
    { domain: 'a.com', there: false },
    { domain: 'b.com', there: true },
  ])
})

test('17 one bad thing stops one thing: a domain without data beside healthy ones', async () => {
  domains('a.com', 'gone.com', 'b.com')
  sandbox.configure({ keywordsByDomain: { 'gone.com': 0 } })
  faults({ kind: 'any-status', on: 'keywords', domain: 'b.com', status: 418 })
  const { units } = await backfill('keywords')
  expect(units).toMatchObject({ loaded: 2, failed: 1 })
  expect(await count(`${table('keywords')} where domain = 'a.com'`)).toBe(200)
})
