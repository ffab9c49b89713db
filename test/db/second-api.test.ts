// Two APIs in one warehouse, through the real runtime: each with its own address, key, pace and service.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readSettings } from '../../src/config/env.ts'
import { silentLog } from '../../src/core/log.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openRuntime } from '../../src/pipeline/open-runtime.ts'
import { planRun, type Scope } from '../../src/pipeline/plan-run.ts'
import { createProgress } from '../../src/pipeline/progress.ts'
import { runJobs } from '../../src/pipeline/run.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type ShopService, startShopService } from '../support/second-api/server.ts'

const root = resolve(import.meta.dirname, '..', 'support', 'second-api')
const token = 'token-of-the-shop-0123456789'

let db: TestDatabase
let shop: ShopService
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-second-api-'))
  db = await createTestDatabase()
  await migrate(db.database, { folders: [join(root, 'migrations')] })
  shop = await startShopService([token], 100)
})
afterAll(async () => {
  await shop.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const open = (callsService: boolean, others: Readonly<Record<string, string>> = {}) =>
  openRuntime({
    settings: readSettings(
      {
        DATABASE_URL: db.url,
        MILLRACE_HOME: folder,
        SHOP_API_URL: shop.url,
        SHOP_API_TOKEN: token,
        SHOP_API_REQUESTS_PER_SECOND: '200',
        ...others,
      },
      folder,
    ),
    pipelinesFolder: join(root, 'pipelines'),
    pipelines: [],
    callsService,
    usesLanding: true,
    progress: createProgress(),
    log: silentLog,
  })

const rows = async (query: string): Promise<readonly unknown[]> => (await db.database.pool.query(query)).rows

test('a dataset of an API in a folder of one’s own is planned, fetched, proved whole and loaded, without a setting of another API', async () => {
  const runtime = await open(true)
  try {
    const { signal } = new AbortController()
    const { definitions } = runtime
    const scope: Scope = { mode: 'range', rangeOf: () => inclusiveRange('2026-08', '2026-09', 'month') }
    const result = await runJobs(runtime, {
      command: 'backfill',
      arguments: {},
      definitions,
      plan: (runId) => planRun(runtime, runId, definitions, scope, signal),
      signal,
    })
    expect(result.state).toBe('done')
  } finally {
    await runtime.close()
  }
  expect(
    await rows('select shop, count(*)::int as rows, max(price) as most from data.prices_v1 group by shop order by 1'),
  ).toEqual([
    { shop: 'north', rows: 200, most: '99.5' },
    { shop: 'south', rows: 200, most: '99.5' },
  ])
  expect(await rows('select distinct account, endpoint, status from etl.requests')).toEqual([
    { account: 'default', endpoint: '/v1/prices', status: 200 },
  ])
  expect(shop.requests).toHaveLength(12)
})

test('its requests are counted under its own name, beside those of another API’s account of the same name', async () => {
  expect(await rows('select key from etl.rate_windows')).toEqual([{ key: 'requests:shop-api/default' }])
  const runtime = await open(false, {
    WEB_ANALYTICS_BASE_URL: 'http://127.0.0.1:1',
    WEB_ANALYTICS_API_KEY: 'first-key-0123456789',
  })
  try {
    const services = ['shop-api.prices', 'shop-api.others', 'web-analytics.keywords'].map((source) =>
      runtime.service({ source, account: 'default' }),
    )
    expect(services[0]).toBe(services[1])
    expect(services[0]).not.toBe(services[2])
  } finally {
    await runtime.close()
  }
})

test('a command that asks it is refused without its settings, before anything is asked', async () => {
  await expect(open(true, { SHOP_API_TOKEN: '', WEB_ANALYTICS_API_KEY: 'first-key-0123456789' })).rejects.toThrow(
    'SHOP_API_TOKEN is not set',
  )
})
