// Bills that stand in the balance alone, answers that cannot be read or break off, and kills: no walk hangs, and no budget is passed by more than one request.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { VendorOptions } from '../../src/sandbox/vendor/vendor-options.ts'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

let folder: string
let db: TestDatabase
let service: VendorSandbox

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-bills-'))
  mkdirSync(join(folder, 'pipelines'))
  db = await createTestDatabase()
})

afterEach(async () => {
  await service.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const price = 10

const start = async (options: VendorOptions = {}): Promise<void> => {
  const prices = { keywords: { by: 'request', credits: price } } as const
  service = await startVendorSandbox({ requestsPerSecond: null, purses: { rest: 1e6, batch: 2e6 }, prices, ...options })
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

const environment = (more: Readonly<Record<string, string>> = {}) => ({
  WEB_ANALYTICS_BASE_URL: service.url,
  WEB_ANALYTICS_API_KEY: service.apiKey,
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, 'home'),
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
  ...more,
})

const millrace = (args: readonly string[], more: Readonly<Record<string, string>> = {}) =>
  runWarm([...args, '--json'], environment(more), folder)

const august = ['--from', '2026-08', '--to', '2026-08', '--yes']

const one = async <Row>(statement: string): Promise<Row> => (await db.database.pool.query(statement)).rows[0]

const charged = (): number => service.books.charges.reduce((sum, { credits }) => sum + credits, 0)

const rows = (): Promise<{ rows: number }> => one(`select count(*)::int as rows from data.keywords_v1`)

test.each([
  ['half a page', 0, '{"meta":'],
  ['no JSON', 0, '{"keywords":[{"a":}]}'],
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
  expect((await millrace(['backfill', 'keywords', ...august])).code).toBe(0)
  expect(await rows()).toEqual({ rows: 730 })
})

/** Makes the tables of pipelines that are not shipped. */
const migrate = async (...names: readonly string[]): Promise<void> => {
  for (const name of names) {
    const { code, stderr } = await millrace(['new', 'migration', name])
    expect(code, stderr).toBe(0)
  }
  const { code, stderr } = await millrace(['migrate'])
  expect(code, stderr).toBe(0)
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
