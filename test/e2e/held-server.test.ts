// A real PostgreSQL whose processes all stand still (SIGSTOP), and one that dies in one moment with commits that were never synced.
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { createOwnDatabase, type OwnDatabase } from '../storm/own-database.ts'
import { type RunningCommand, startCommand } from '../support/command.ts'
import { type OwnServer, startOwnServer } from '../support/own-server.ts'
import { definitionsIn, testFolder } from '../support/test-world.ts'
import { until } from '../support/until.ts'

let server: OwnServer
let db: OwnDatabase
const folder = testFolder({ each: true, copied: ['pipelines'] })
let sandbox: Sandbox

beforeEach(async () => {
  definitionsIn(folder).list('domains', ['a.com', 'b.com', 'c.com'])
  server = await startOwnServer()
  db = await createOwnDatabase(server.url, 'held')
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 20, now: '2026-11-20' })
})
afterEach(async () => {
  server.signalAll('SIGCONT')
  await sandbox.close()
  await db.close()
  await server.remove()
})

const start = (args: readonly string[], more: Readonly<Record<string, string>> = {}): RunningCommand =>
  startCommand(
    args,
    {
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
      ...more,
    },
    folder,
  )

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const taken = createServer().listen(0, '127.0.0.1', () => {
      const address = taken.address()
      taken.close(() => resolve(address === null || typeof address === 'string' ? 0 : address.port))
    })
  })

const backfill = ['backfill', 'keywords', '--from', '2026-07', '--to', '2026-09', '--yes']

test('while every process of it stands still probes answer within two seconds and commands say what they wait for; then they go on', async () => {
  const port = await freePort()
  const schedule = start(['schedule'], { MILLRACE_WEB_PORT: String(port) })
  const probe = async (path: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/${path}`, { signal: AbortSignal.timeout(2_000) })).status
  await until(
    'the schedule is up',
    () =>
      probe('healthz').then(
        (status) => status === 200,
        () => false,
      ),
    60_000,
  )
  sandbox.configure({ latencyMs: 1_000 })
  const loading = start(backfill)
  await until('the backfill works', () => (sandbox.books().counts['keywords'] ?? 0) > 0, 60_000)

  server.signalAll('SIGSTOP')
  for (let round = 0; round < 5; round += 1) expect([await probe('livez'), await probe('healthz')]).toEqual([200, 503])
  const begun = start(['status'])
  const says = /The database .* (has not answered for \d+ s|cannot be reached)|DATABASE_UNREACHABLE/
  for (const command of [loading, begun])
    await until(
      'it says what it waits for, or ends',
      () => says.test(command.printed()) || command.child.exitCode !== null,
      60_000,
    )
  expect(loading.printed()).toMatch(says)
  expect(begun.printed()).toMatch(says)
  expect(await probe('livez')).toBe(200)

  server.signalAll('SIGCONT')
  await until(
    'it is ready again',
    () =>
      probe('healthz').then(
        (status) => status === 200,
        () => false,
      ),
    60_000,
  )
  const { code, stderr } = await loading.result
  expect([0, 1], stderr).toContain(code)
  begun.child.kill('SIGKILL')
  sandbox.configure({ latencyMs: 0 })
  const again = await start(backfill).result
  expect(again.code, again.stderr).toBe(0)
  expect((await db.pool.query('select from etl.units where answer_id is not null')).rowCount).toBe(18)
  schedule.child.kill('SIGTERM')
  expect((await schedule.result).code).toBe(130)
}, 300_000)

test('a crash of a server that syncs no commit at once leaves a warehouse that knows itself, and nothing is bought twice', async () => {
  // As loose as a server can be: what is not asked to be synced stays in memory for ten seconds.
  for (const setting of [`wal_writer_delay = '10s'`, `wal_writer_flush_after = '1GB'`, 'synchronous_commit = off'])
    await db.pool.query(`alter system set ${setting}`)
  await db.pool.query('select pg_reload_conf()')
  await db.pool.query('checkpoint')
  sandbox.configure({ reportDurationMs: 2_000, latencyMs: 200 })
  const reports = ['backfill', 'traffic_and_engagement', '--from', '2026-07', '--to', '2026-09', '--yes']
  const running = [start(backfill), start(reports)]
  await until('a report is bought', () => sandbox.books().submissions.length > 0, 60_000)
  await new Promise((done) => setTimeout(done, 1_000))
  server.signalAll('SIGKILL')
  for (const { child } of running) child.kill('SIGKILL')
  for (const { result } of running) await result
  await server.restart()
  for (const args of [backfill, reports]) {
    const { code, stderr, stdout } = await start(args).result
    expect(`${stdout}${stderr}`).not.toMatch(/copy|clone|IDENTITY/i)
    expect(code, stderr).toBe(0)
  }
  expect(sandbox.books().submissions).toHaveLength(1)
  expect((await db.pool.query('select from etl.units where answer_id is not null')).rowCount).toBe(18 + 27)
}, 300_000)

test('check warns where a login that may create no roles finds no role for readers', async () => {
  await db.pool.query(`create role plain login password 'plain'`)
  await db.pool.query('create database plain owner plain')
  const url = new URL(db.url)
  ;[url.username, url.password, url.pathname] = ['plain', 'plain', '/plain']
  const checked = async (): Promise<string> => {
    const migrated = await start(['migrate'], { DATABASE_URL: url.href }).result
    expect(migrated.code, migrated.stderr).toBe(0)
    return (await start(['check', '--offline'], { DATABASE_URL: url.href }).result).stdout
  }
  expect(await checked()).toMatch(/warning \(database\): The role bi_reader does not exist/)
  await db.pool.query('create role bi_reader nologin')
  expect(await checked()).not.toContain('bi_reader')
}, 120_000)
