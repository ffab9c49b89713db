// One HTTP service and one budget of requests for each account, whatever asks: a check, a question, a plan or a load.
import { beforeAll, expect, test } from 'vitest'
import { servicesFor } from '../../src/cli/check/discover.ts'
import { silentLog } from '../../src/core/log.ts'
import { readApiSettings } from '../../src/run/apis.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const allowed = 20
/** Of the service: two budgets of their own would exceed it, one does not, however unevenly a busy machine sends. */
const served = 30

const world = sandboxWorld({
  lists: { domains: ['a.example'], shop_domains: ['a.example'], category_ids: [1001] },
  sandbox: { requestsPerSecond: served, keywordsPerDomain: 5, now: '2026-11-20' },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: String(allowed) },
})
const { db, sandbox, environment } = world
const millrace = (...args: string[]) => world.start([...args, '--json']).result

beforeAll(async () => {
  await succeeded(millrace('migrate'))
})

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
  await succeeded(millrace(...args))
  expect(asked()).toBeGreaterThan(before)
  expect(await db.query('select account from etl.pace')).toEqual([{ account: 'web-analytics/default' }])
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
