// Two APIs in one warehouse, through the real runtime: each with its own address, key, pace and service.
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { raceAbort } from '../../src/core/clock.ts'
import { readSettings } from '../../src/core/env.ts'
import { silentLog } from '../../src/core/log.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { migrate } from '../../src/db/migrate.ts'
import { requestCancel } from '../../src/ledger/cancel-request.ts'
import { openRuntime } from '../../src/run/open-runtime.ts'
import { planRun, type Scope } from '../../src/plan/plan-run.ts'
import { createProgress } from '../../src/run/progress.ts'
import { runJobs } from '../../src/run/run-jobs.ts'
import { dataDictionary } from '../../src/publish/dictionary.ts'
import { publish } from '../../src/publish/publish.ts'
import { testDatabase } from '../support/postgres.ts'
import { type ShopService, startShopService } from '../support/second-api/server.ts'
import { testFolder } from '../support/test-world.ts'

const root = resolve(import.meta.dirname, '..', 'support', 'second-api')
const token = 'token-of-the-shop-0123456789'

const db = testDatabase()
let shop: ShopService
const folder = testFolder()

beforeAll(async () => {
  await migrate(db.database, { folders: [join(root, 'migrations')] })
  shop = await startShopService([token], 100)
})
afterAll(() => shop.close())

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

const rows = (query: string): Promise<readonly unknown[]> => db.query(query)

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

test('a run that is cancelled while it plans ends at the next step of its plan', async () => {
  const runtime = await open(true)
  try {
    const { signal } = new AbortController()
    const { definitions, database } = runtime
    const plan = async (runId: number, stop: AbortSignal) => {
      await requestCancel(database.kysely, runId)
      await raceAbort(setTimeout(20_000, null, { ref: false }), stop)
      throw new Error('It planned on.')
    }
    const result = await runJobs(runtime, { command: 'run', arguments: {}, definitions, plan, signal })
    expect(result.state).toBe('cancelled')
  } finally {
    await runtime.close()
  }
})

test('its dimension has a table of its own in bi, filled by the loads and in the words of its source', async () => {
  expect(await rows('select shop, quarter from bi.dim_shop order by 1')).toEqual([
    { shop: 'north', quarter: 'Northgate' },
    { shop: 'south', quarter: 'Harbour' },
  ])
  expect(await rows('select * from bi.dim_domain')).toEqual([])
  const runtime = await open(false)
  try {
    const { definitions, database } = runtime
    await publish(database, definitions)
    expect(
      await rows(`select obj_description('bi.dim_shop'::regclass) as about, col_description('bi.dim_shop'::regclass, 2) as quarter,
        has_table_privilege('bi_reader', 'bi.dim_shop', 'select') as readable`),
    ).toEqual([{ about: 'Every shop that facts speak of.', quarter: 'The part of the town it is in.', readable: true }])
    const dictionary = dataDictionary(definitions, [])
    expect(dictionary).toContain('dim_shop ||--o{ prices : shop')
    expect(dictionary).not.toContain('dim_domain')
  } finally {
    await runtime.close()
  }
})

test('its tables are checked: a dimension without a table is named, with what writes one', async () => {
  await db.database.pool.query('alter table bi.dim_shop rename to moved')
  try {
    await expect(open(true)).rejects.toThrow(/bi\.dim_shop, .*does not exist.*`millrace new migration prices` writes one/)
  } finally {
    await db.database.pool.query('alter table bi.moved rename to dim_shop')
  }
})

test('its requests are counted under its own name, beside those of another API’s account of the same name', async () => {
  expect(await rows('select account from etl.pace')).toEqual([{ account: 'shop-api/default' }])
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
