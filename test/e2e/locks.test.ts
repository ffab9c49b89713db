// Somebody's locks, poolers and stopped processes around a real command: it ends when it is told to, waits for no reader, and loses nothing.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { calmTruth } from '../storm/calm-truth.ts'
import { createStormWorld, type StormWorld, startStormSandbox } from '../storm/storm-world.ts'
import { digestWarehouse, loadsTwice, type UnitDigest } from '../storm/warehouse-digest.ts'
import { type RunningCommand, startCommand } from '../support/command.ts'
import { pgbouncer, startPooler } from '../support/pgbouncer.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let world: StormWorld
let truth: ReadonlyMap<string, UnitDigest>
let bought: number

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

beforeAll(async () => {
  world = createStormWorld(20)
  ;({ truth, bought } = await calmTruth(world))
})
afterAll(() => world.remove())

interface Place {
  readonly db: TestDatabase
  readonly sandbox: Sandbox
  readonly begin: (args: readonly string[], url?: string) => RunningCommand
}

const place = async (name: string, latencyMs: number): Promise<Place> => {
  const db = await createTestDatabase()
  const sandbox = await startStormSandbox()
  sandbox.configure({ latencyMs })
  return {
    db,
    sandbox,
    begin: (args, url = db.url) => startCommand(args, world.environment(sandbox, url, name), world.folder),
  }
}

const leave = async ({ db, sandbox }: Place): Promise<void> => {
  await sandbox.close()
  await db.drop()
}

/** The same command again ends with the whole truth, and nothing was bought twice. */
const expectWhole = async (here: Place): Promise<void> => {
  here.sandbox.configure({ latencyMs: 0 })
  const last = await here.begin(world.command).result
  expect(last.code, last.stderr).toBe(0)
  expect(await digestWarehouse(here.db.database.pool)).toEqual(truth)
  expect(await loadsTwice(here.db.database.pool)).toEqual([])
  expect(here.sandbox.books().submissions).toHaveLength(bought)
}

const connected = async (url: string, name: string): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url, application_name: name })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

const rowsOf = <T extends pg.QueryResultRow>({ db }: Place, query: string): Promise<T[]> => db.query<T>(query)

const firstRequest = async ({ sandbox }: Place): Promise<void> => {
  while (sandbox.books().submissions.length === 0) await wait(20)
}

/** Sessions of the command that wait for the operator's lock. */
const waitingForLocks = async (here: Place): Promise<number> =>
  (
    await rowsOf<{ count: number }>(
      here,
      `select count(*)::integer as count from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
  )[0]?.count ?? 0

const locked = {
  'a data table': 'lock table data.keywords_v1, data.traffic_and_engagement_v1 in access exclusive mode',
  'the jobs': 'lock table etl.jobs in access exclusive mode',
} as const

describe('while the database makes its sessions wait for locks', () => {
  for (const [what, statement] of Object.entries(locked)) {
    test(`SIGTERM ends a command within 10 seconds: ${what}`, async () => {
      const here = await place('terminated', 100)
      const operator = await connected(here.db.url, 'operator')
      const command = here.begin(world.command)
      await firstRequest(here)
      await operator.query(`begin; ${statement}`)
      await expect.poll(() => waitingForLocks(here), { timeout: 10_000 }).toBeGreaterThan(0)
      const started = performance.now()
      command.child.kill('SIGTERM')
      const result = await command.result
      const took = performance.now() - started
      await operator.end()
      expect(result.code, result.stderr).toBe(130)
      expect(took).toBeLessThan(10_000)
      await expectWhole(here)
      await leave(here)
    })
  }

  test('cancel stops a run within 5 seconds and its own command ends, also while an id that was paid for waits for its row', async () => {
    const here = await place('cancelled', 100)
    const operator = await connected(here.db.url, 'operator')
    const command = here.begin(world.command)
    await firstRequest(here)
    await operator.query(`begin; ${locked['the jobs']}`)
    await expect.poll(() => waitingForLocks(here), { timeout: 10_000 }).toBeGreaterThan(0)
    // What had its intent on record before the rows were locked arrives yet.
    await new Promise((resolve) => setTimeout(resolve, 500))
    const submitted = here.sandbox.books().submissions.length
    const started = performance.now()
    const cancel = here.begin(['cancel', '1', '--json'])
    const result = await cancel.result
    const took = performance.now() - started
    expect(result.code, result.stderr).toBe(0)
    // Of which a second is the start of the process.
    expect(took).toBeLessThan(7_000)
    // A submission that was on its way has bought a report: where its row is locked, the receipt has the id.
    const cancelled = performance.now()
    await command.result
    expect(performance.now() - cancelled).toBeLessThan(10_000)
    await operator.end()
    expect(here.sandbox.books().submissions.length - submitted).toBe(0)
    const rows = await rowsOf(here, 'select state, cancel_requested_at is not null as asked from etl.runs where run_id = 1')
    expect(rows).toEqual([{ state: expect.stringMatching(/cancelled|interrupted|running/), asked: true }])
    await expectWhole(here)
    await leave(here)
  })
})

test('a transaction that reads everything delays no load', async () => {
  const here = await place('read', 0)
  const migrated = await here.begin(['migrate']).result
  expect(migrated.code, migrated.stderr).toBe(0)
  const reader = await connected(here.db.url, 'dashboard')
  const readAll = `select count(*) from bi.keywords; select count(*) from bi.keywords_history; select count(*) from bi.traffic_and_engagement;
    select count(*) from bi.shopper_category_performance; select count(*) from bi.freshness`
  const { rows } = await reader.query<{ name: string }>(
    `select format('select count(*) from bi.%I', c.relname) as name from pg_class c where relnamespace = 'bi'::regnamespace and relkind in ('r', 'v', 'p')`,
  )
  await reader.query(`begin isolation level repeatable read; ${readAll}; ${rows.map(({ name }) => name).join('; ')}`)
  let longest = 0
  const command = here.begin(world.command)
  let running = true
  const result = command.result.finally(() => {
    running = false
  })
  while (running) {
    const blocked = await rowsOf<{ seconds: number }>(
      here,
      `select coalesce(max(extract(epoch from clock_timestamp() - query_start)), 0)::float8 as seconds from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and pg_blocking_pids(pid) @> array[(select pid from pg_stat_activity where application_name = 'dashboard' and datname = current_database())]`,
    )
    longest = Math.max(longest, blocked[0]?.seconds ?? 0)
    await wait(50)
  }
  const done = await result
  expect(done.code, done.stderr).toBe(0)
  expect(longest).toBe(0)
  await reader.end()
  expect(await digestWarehouse(here.db.database.pool)).toEqual(truth)
  await leave(here)
})

describe.skipIf(pgbouncer === null)('PgBouncer', () => {
  test('with session pooling, also where it drops what a start-up message asks for, changes nothing', async () => {
    const here = await place('session', 0)
    const pooler = await startPooler(here.db.url, 'session')
    const result = await here.begin(world.command, pooler.url).result
    expect(result.code, result.stderr).toBe(0)
    expect(await digestWarehouse(here.db.database.pool)).toEqual(truth)
    expect(here.sandbox.books().submissions).toHaveLength(bought)
    const check = await here.begin(['check', '--offline'], pooler.url).result
    expect(check.stdout + check.stderr).not.toMatch(/pooler/)
    await pooler.stop()
    await leave(here)
  })

  for (const mode of ['transaction', 'statement'] as const)
    test(`with ${mode} pooling is refused by name before anything is asked for, and check finds it`, async () => {
      const here = await place(mode, 0)
      const pooler = await startPooler(here.db.url, mode)
      const result = await here.begin(world.command, pooler.url).result
      expect(result.code, result.stdout).toBe(2)
      expect(result.stderr).toMatch(/transaction or statement pooling.*pool_mode = session.*\[CONFIGURATION\]/s)
      expect(here.sandbox.books().requests).toEqual([])
      const check = await here.begin(['check', '--offline'], pooler.url).result
      expect(check.code).not.toBe(0)
      expect(check.stdout + check.stderr).toMatch(/pool_mode = session/)
      await pooler.stop()
      await leave(here)
    })
})
