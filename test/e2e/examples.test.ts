// The warehouses of `examples/`, each from nothing: copied, checked with the settings its env.example names, migrated, loaded and read.
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { cleanEnvironment, launcher, summaryOf } from '../support/command.ts'
import { testDatabase } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const examples = resolve(import.meta.dirname, '..', '..', 'examples')

let root: string
let sandbox: Sandbox
let bucket: S3Server
const db = testDatabase({ each: true })
const servers: Server[] = []

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'millrace-examples-'))
  sandbox = await startSandbox({ requestsPerSecond: null, reportDurationMs: 0, keywordsPerDomain: 60, now: '2026-11-20' })
  bucket = await startS3Server()
})
afterAll(async () => {
  await sandbox.close()
  await bucket.close()
  rmSync(root, { recursive: true, force: true })
})
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => new Promise((ended) => server.close(ended))))
})

const listen = async (server: Server): Promise<string> => {
  servers.push(server)
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return `http://127.0.0.1:${address.port}`
}

const rows = (query: string): Promise<readonly Record<string, unknown>[]> => db.query(query)

/** The example in a folder of its own, with the names that its env.example has and the values given. */
const copied = (name: string, values: Readonly<Record<string, string>> = {}) => {
  const folder = join(root, name)
  cpSync(join(examples, name), folder, { recursive: true })
  const service = { WEB_ANALYTICS_BASE_URL: sandbox.url, WEB_ANALYTICS_API_KEY: sandbox.apiKey }
  const known: Record<string, string> = { ...service, DATABASE_URL: db.url, ...values }
  const lines = readFileSync(join(folder, 'env.example'), 'utf8').matchAll(/^([A-Z_0-9]+)=(.*)$/gm)
  const named: Record<string, string> = Object.fromEntries(
    [...lines].map(([, variable = '', value = '']) => [variable, known[variable] ?? value]),
  )
  expect(Object.entries(named).filter(([, value]) => value === '')).toEqual([])
  const environment = {
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: db.url,
    ...named,
    ...values,
    MILLRACE_HOME: join(folder, 'home'),
  }
  const millrace = async (...args: string[]) => {
    const ended = await succeeded(runWarm([...args, '--json'], environment, folder))
    return ended
  }
  return { folder, environment, millrace }
}

/** Checked before and after `migrate`: no error, and nothing that is set is unknown. */
const migrated = async (example: ReturnType<typeof copied>): Promise<void> => {
  await example.millrace('migrate')
  const { events } = await example.millrace('check')
  const told = events.filter(({ event, level }) => event === 'finding' && ['error', 'warning'].includes(String(level)))
  expect(told.map(({ message }) => String(message)).filter((message) => !message.includes('nothing is loaded'))).toEqual([])
}

test('an agency: credits by client, a view over both, and a budget that holds one client alone', async () => {
  const agency = copied('agency', { MILLRACE_TAG_BUDGETS: 'client=acme:5000/month,client=beta:30/month' })
  await migrated(agency)
  const first = await agency.millrace('backfill', 'acme_traffic', 'beta_traffic', '--from', '2026-09', '--to', '2026-09', '--yes')
  expect(summaryOf(first).units).toMatchObject({ loaded: 4 + 4 })
  const held = await runWarm(
    ['backfill', 'acme_traffic', 'beta_traffic', '--from', '2026-08', '--to', '2026-08', '--yes', '--json'],
    agency.environment,
    agency.folder,
  )
  expect(held.code).not.toBe(0)
  expect(await rows('select client, date::text, count(*)::int as n from bi.client_visits group by 1, 2 order by 1, 2')).toEqual([
    { client: 'acme', date: '2026-08-01', n: 4 },
    { client: 'acme', date: '2026-09-01', n: 4 },
    { client: 'beta', date: '2026-09-01', n: 4 },
  ])
  const { stdout } = await agency.millrace('quota')
  expect(stdout).toContain('"value":"acme"')
  // Readers of bi have what the command says, as the last run of each pipeline computed it.
  const said = z.object({ event: z.string(), pipeline: z.string(), spent: z.number(), forecast: z.number().nullable() })
  const foretold = stdout
    .split('\n')
    .flatMap((line) => (line.includes('"event":"forecast"') ? [said.parse(JSON.parse(line))] : []))
  expect(foretold.map(({ pipeline }) => pipeline)).toEqual(['acme_traffic', 'beta_traffic'])
  expect(
    await rows(`select 'forecast' as event, pipeline, spent::float8 as spent, forecast::float8 as forecast from bi.credits_forecast
      where month = date_trunc('month', now() at time zone 'UTC') order by pipeline`),
  ).toEqual(foretold)
})

test('a brand: its alarms reach their receivers, signed', async () => {
  const received: string[] = []
  const address = await listen(
    createServer((request, response) => {
      void text(request).then((body) => {
        const how = request.headers['millrace-signature'] === undefined ? 'unsigned' : 'signed'
        received.push(`${request.url} ${how} ${/"kind":"(\w+)"|\((\w+)\)/.exec(body)?.slice(1).find(Boolean)}`)
        response.end('{}')
      })
    }),
  )
  const brand = copied('brand', {
    SLACK_SEARCH_TEAM: `${address}/slack`,
    ONCALL_URL: `${address}/oncall`,
    ONCALL_KEY: 'signing-key-0123456789abcdef',
  })
  await migrated(brand)
  await brand.millrace('backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--yes')
  await brand.millrace('notify', 'test')
  // Of the months that are due one is loaded: the others are told of, too.
  expect(new Set(received)).toEqual(
    new Set(['due', 'test'].flatMap((kind) => [`/oncall signed ${kind}`, `/slack unsigned ${kind}`])),
  )
})

test('a cluster: what distributes the tables names tables and columns that are there', async () => {
  const citus = copied('citus')
  await migrated(citus)
  const statements = [...readFileSync(join(citus.folder, 'distribute.sql'), 'utf8').matchAll(/\('([a-z_0-9.]+)', '([a-z_]+)'/g)]
  expect(statements).toHaveLength(2)
  for (const [, table, column] of statements)
    expect(
      await rows(`select 1 as there from pg_attribute where attrelid = '${table}'::regclass and attname = '${column}'`),
    ).toEqual([{ there: 1 }])
  const loaded = await citus.millrace('backfill', 'keywords', '--from', '2026-09', '--to', '2026-09', '--yes')
  expect(summaryOf(loaded).units).toMatchObject({ loaded: 6 })
})

test('a lake: its nightly script loads into the bucket and writes a Parquet file a month, and only what changed', async () => {
  const lake = copied('lake', bucket.environment('landings'))
  await migrated(lake)
  mkdirSync(join(lake.folder, 'node_modules', '.bin'), { recursive: true })
  symlinkSync(launcher(), join(lake.folder, 'node_modules', '.bin', 'millrace'))
  const out = join(lake.folder, 'out')
  const environment = cleanEnvironment({ ...lake.environment, LAKE: out })
  const night = () => promisify(execFile)(join(lake.folder, 'nightly.sh'), { cwd: lake.folder, env: environment })
  // The guard lets the first night buy the newest months alone: the rest waits for approval.
  await expect(night()).rejects.toMatchObject({ code: 1 })
  await lake.millrace('approve')
  await night()
  expect(existsSync(join(out, 'export_month=2026-09', 'data.parquet'))).toBe(true)
  expect([...bucket.objects.keys()].some((name) => name.startsWith('landings/'))).toBe(true)
  const written = statSync(join(out, 'export_month=2026-09', 'data.parquet')).mtimeMs
  await night()
  expect(statSync(join(out, 'export_month=2026-09', 'data.parquet')).mtimeMs).toBe(written)
})

test('a second API: pages by cursor, a window a day, a dimension of its own', async () => {
  const charges = (customer: string, day: number) =>
    Array.from({ length: 130 }, (_, index) => ({
      ...{ id: `ch_${customer}_${day}_${index}`, object: 'charge', amount: 100 * index, currency: 'eur', status: 'succeeded' },
      ...(index % 2 === 0 ? { amount_refunded: index } : {}),
    }))
  const address = await listen(
    createServer(({ url, headers }, response) => {
      const { searchParams } = new URL(url ?? '/', 'http://payments')
      if (headers.authorization !== 'Bearer rk_test_0123456789') return response.writeHead(401).end('{}')
      const day = new Date(1000 * Number(searchParams.get('created[gte]'))).getUTCDate()
      const all = charges(String(searchParams.get('customer')), day)
      const start = all.findIndex(({ id }) => id === searchParams.get('starting_after')) + 1
      const data = all.slice(start, start + Number(searchParams.get('limit')))
      response.writeHead(200, { 'content-type': 'application/json' })
      return response.end(JSON.stringify({ object: 'list', data, has_more: start + data.length < all.length }))
    }),
  )
  const payments = copied('second-api', { PAYMENTS_API_URL: address, PAYMENTS_API_KEY: 'rk_test_0123456789' })
  await migrated(payments)
  const loaded = await payments.millrace('backfill', 'charges', '--from', '2026-11-02', '--to', '2026-11-04', '--yes')
  expect(summaryOf(loaded)).toMatchObject({ units: { loaded: 2 * 3 }, requests: 2 * 3 * 2, rows: { inserted: 2 * 3 * 130 } })
  const query =
    'select c.date::text, d.region, count(*)::int as n, sum(amount_refunded)::int as refunded from bi.charges c join bi.dim_customer d using (customer) group by 1, 2 order by 1, 2 limit 2'
  const refunded = 2 * ((64 * 65) / 2)
  expect(await rows(query)).toEqual([
    { date: '2026-11-02', region: 'North', n: 130, refunded },
    { date: '2026-11-02', region: 'South', n: 130, refunded },
  ])
})

test('a dataset of the second API takes the list of the definition beside it; where there is none, and the source gives no example, it is left to fill in', async () => {
  const { folder } = copied('second-api', { PAYMENTS_API_URL: 'http://127.0.0.1:9', PAYMENTS_API_KEY: 'k-0123456789' })
  const dataset = (name: string) => runWarm(['new', 'dataset', name, '--source', 'payments-api.charges'], {}, folder)
  const pipelines = join(folder, 'pipelines')
  expect((await dataset('disputes')).code).toBe(0)
  expect(readFileSync(join(pipelines, 'disputes.yaml'), 'utf8')).toContain('customer: [cus_north, cus_south]')
  for (const name of ['charges', 'disputes']) rmSync(join(pipelines, `${name}.yaml`))
  const written = await dataset('refunds')
  expect([written.code, written.stdout]).toEqual([0, expect.stringContaining('Next: fill in the marked places')])
  const text = readFileSync(join(pipelines, 'refunds.yaml'), 'utf8')
  expect(text).toContain('key: [date, customer, id]')
  expect(text).toContain('customer: ["FILL IN: cus_ and letters or digits"]')
  const checked = await runWarm(['plan', 'refunds'], {}, folder)
  expect([checked.code, checked.stderr]).toEqual([2, expect.stringContaining('FILL IN')])
})
