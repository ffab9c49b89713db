// One HTTP service and one budget of requests for each account, whatever asks: a check, a question, a plan or a load.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { servicesFor } from '../../src/cli/check/discover.ts'
import { silentLog } from '../../src/core/log.ts'
import { readApiSettings } from '../../src/run/apis.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { pipelinesOfRepository, runCommand } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const allowed = 20
/** Of the service: two budgets of their own would exceed it, one does not, however unevenly a busy machine sends. */
const served = 30

let folder: string
let db: TestDatabase
let sandbox: Sandbox

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-one-budget-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  for (const list of ['domains.txt', 'shop_domains.txt']) writeFileSync(join(folder, 'pipelines', list), 'a.example\n')
  writeFileSync(join(folder, 'pipelines', 'category_ids.txt'), '1001\n')
  db = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: served, keywordsPerDomain: 5, now: '2026-11-20' })
  expect((await millrace('migrate')).code).toBe(0)
})
afterAll(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const environment = (): Record<string, string> => ({
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: String(allowed),
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, 'home'),
})

const millrace = (...args: string[]) => runCommand([...args, '--json'], environment(), folder)

const asked = (): number => sandbox.books().requests.length
const refusals = (): number => sandbox.books().requests.filter(({ status }) => status === 429).length

test.each([
  ['check'],
  ['describe'],
  ['capabilities'],
  ['quota'],
  ['backfill', 'traffic_and_engagement', '--from', '2026-10', '--to', '2026-10', '--dry-run'],
  ['backfill', 'keywords', '--from', '2026-10', '--to', '2026-10'],
])('%s takes its requests from the budget that all share', async (...args) => {
  await db.database.pool.query('truncate etl.pace')
  const before = asked()
  const result = await millrace(...args)
  expect(result.code, result.stderr).toBe(0)
  expect(asked()).toBeGreaterThan(before)
  const { rows } = await db.database.pool.query('select account from etl.pace')
  expect(rows).toEqual([{ account: 'web-analytics/default' }])
})

test('two of them at once make no more requests a second than the account allows', async () => {
  const { apis } = await loadSourceFolders()
  const settings = readApiSettings(apis, environment())
  const { signal } = new AbortController()
  const each = 2 * allowed
  // As two processes: each makes services of its own, over the same warehouse.
  const question = async (): Promise<void> => {
    const http = (await servicesFor(settings, db.database, silentLog))({ source: 'web-analytics', account: 'default' }).forUnit({
      ...{ account: 'default', signal, timeoutMs: 10_000, attempts: 1, maxBodyBytes: 1_000_000 },
      record: () => undefined,
    })
    const failed = (error: unknown): never => {
      throw error
    }
    await Promise.all(Array.from({ length: each }, () => apis.get('web-analytics')?.credits?.(http, failed)))
  }
  const [before, began] = [refusals(), performance.now()]
  await Promise.all([question(), question()])
  // With a budget each it would take half as long, and the service would refuse what is too much.
  expect(performance.now() - began).toBeGreaterThan(((2 * each - 2) / allowed) * 1_000)
  expect(refusals()).toBe(before)
})
