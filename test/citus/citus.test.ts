// The same commands over a Citus cluster and over one PostgreSQL: the data distributed by domain, the ledger on the coordinator.
// `npx vitest run --project citus` needs CITUS_DATABASE_URL: an empty database with the extension and its nodes added; it is filled and left for a look.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { contentsOf } from '../crash-matrix/warehouse.ts'
import { pipelinesOfRepository, runCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const citusUrl = process.env['CITUS_DATABASE_URL'] ?? ''
const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']
const backfill = ['backfill', ...pipelines, '--from', '2026-06', '--to', '2026-10']

let folder: string
let plain: TestDatabase
let sandbox: Sandbox
let citus: pg.Client

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-citus-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  for (const list of ['domains.txt', 'shop_domains.txt']) writeFileSync(join(folder, 'pipelines', list), 'a.example\nb.example\n')
  for (const pipeline of pipelines) {
    const file = join(folder, 'pipelines', `${pipeline}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace('from: 2024-01', 'from: 2026-06')
      .replace('poll_every: 5s', 'poll_every: 200ms')
    writeFileSync(file, text)
  }
  plain = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 300, now: '2026-11-20' })
  citus = new pg.Client({ connectionString: citusUrl })
  await citus.connect()
})
afterAll(async () => {
  await citus.end()
  await sandbox.close()
  await plain.drop()
  rmSync(folder, { recursive: true, force: true })
})

const millrace = async (url: string, ...args: string[]) => {
  const ended = await runCommand(
    [...args, '--json'],
    {
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
      MILLRACE_GUARD: 'off',
      DATABASE_URL: url,
      MILLRACE_HOME: join(folder, url === citusUrl ? 'home-citus' : 'home-plain'),
    },
    folder,
  )
  expect(ended.code, ended.stderr).toBe(0)
  return ended
}

const rowsOnBoth = async (...args: string[]): Promise<unknown> => {
  const { rows, units } = summaryOf(await millrace(citusUrl, ...args))
  const other = summaryOf(await millrace(plain.url, ...args))
  expect([rows, units]).toEqual([other.rows, other.units])
  return rows
}

const distribute = async (): Promise<void> => {
  for (const [index, pipeline] of pipelines.entries()) {
    const how = index === 0 ? 'shard_count => 8' : `colocate_with => 'data.keywords_v1'`
    await citus.query(`select create_distributed_table('data.${pipeline}_v1', 'domain', ${how})`)
    await citus.query(
      `select create_distributed_table('data.${pipeline}_v1_history', 'domain', colocate_with => 'data.keywords_v1')`,
    )
  }
}

test('a first load, a restated month, a replay and a nightly run change the same rows in both, history included', async () => {
  for (const url of [citusUrl, plain.url]) await millrace(url, 'migrate')
  await distribute()
  await rowsOnBoth(...backfill)
  sandbox.restate('2026-09')
  expect(await rowsOnBoth(...backfill, '--force')).toMatchObject({ updated: expect.any(Number), ended: expect.any(Number) })
  await rowsOnBoth('replay', 'keywords', '--from', '2026-09', '--to', '2026-10')
  await rowsOnBoth('run')
  const { rows } = await citus.query(`select count(*)::int as n from citus_tables where citus_table_type = 'distributed'`)
  // Three tables, their histories, and the partitions of five months each, made by the loads.
  expect(rows[0]).toEqual({ n: 3 + 3 + 3 * 5 })
  const client = new pg.Client({ connectionString: plain.url })
  await client.connect()
  const expected = await contentsOf(client)
  await client.end()
  expect(await contentsOf(citus)).toEqual(expected)
})
