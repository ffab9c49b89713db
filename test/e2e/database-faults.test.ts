// The database fails in every way it has while a backfill runs: the same command again ends equal to a calm run, and nothing is bought twice.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { calmTruth } from '../storm/calm-truth.ts'
import { createStormWorld, type StormWorld, startStormSandbox } from '../storm/storm-world.ts'
import { digestWarehouse, loadsTwice, type UnitDigest } from '../storm/warehouse-digest.ts'
import { type CommandResult, startCommand } from '../support/command.ts'
import { startOwnServer } from '../support/own-server.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { succeeded } from '../support/test-world.ts'

let world: StormWorld
let truth: ReadonlyMap<string, UnitDigest>
let bought: number

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Slow enough that a command is still at work when it is noticed that it has begun. */
const slowMs = 200

const begun = async (sandbox: Sandbox, running: () => boolean): Promise<void> => {
  while (running() && sandbox.books().submissions.length === 0) await wait(20)
}

beforeAll(async () => {
  world = createStormWorld(20)
  ;({ truth, bought } = await calmTruth(world))
})
afterAll(() => world.remove())

interface Place {
  readonly db: TestDatabase
  readonly sandbox: Sandbox
  /** Runs the command against `url`; it gives a dead connection up after a second. */
  run(url: string, during?: (running: () => boolean) => Promise<void>): Promise<CommandResult>
}

const place = async (name: string): Promise<Place> => {
  const db = await createTestDatabase()
  const sandbox = await startStormSandbox()
  sandbox.configure({ latencyMs: slowMs })
  return {
    db,
    sandbox,
    run: async (url, during) => {
      const environment = { ...world.environment(sandbox, url, name), MILLRACE_DATABASE_SILENCE: '1' }
      const command = startCommand(world.command, environment, world.folder)
      let running = true
      const result = command.result.finally(() => {
        running = false
      })
      await during?.(() => running)
      return result
    },
  }
}

/** The same command again, and then the whole truth. */
const expectWhole = async ({ db, sandbox, run }: Place): Promise<void> => {
  await succeeded(run(db.url))
  expect(await digestWarehouse(db.database.pool)).toEqual(truth)
  expect(await loadsTwice(db.database.pool)).toEqual([])
  expect(sandbox.books().submissions).toHaveLength(bought)
  await sandbox.close()
  await db.drop()
}

/** The command runs with what is between it and the database in the test's hands; in the end all is there. */
const throughProxy = async (
  name: string,
  disturb: (proxy: TcpProxy, running: () => boolean, here: Place) => Promise<void>,
): Promise<TcpProxy> => {
  const here = await place(name)
  const proxy = await startTcpProxy(here.db.url)
  expectClear(await here.run(proxy.url, (running) => disturb(proxy, running, here)))
  await proxy.close()
  await expectWhole(here)
  return proxy
}

const expectClear = (result: CommandResult): void => {
  expect([0, 1], result.stderr).toContain(result.code)
  expect(result.stdout + result.stderr).not.toMatch(/INTERNAL|defect/)
}

describe('a backfill', () => {
  test('whose connections are cut again and again', async () => {
    const here = await place('cut')
    const cut = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'millrace %:%'`
    let cuts = 0
    const result = await here.run(here.db.url, async (running) => {
      await begun(here.sandbox, running)
      while (running() && cuts < 40) {
        cuts += (await here.db.database.pool.query(cut)).rows.length
        await wait(400)
      }
    })
    expectClear(result)
    expect(cuts).toBeGreaterThan(0)
    await expectWhole(here)
  })

  test('whose connections fall silent without closing', () =>
    throughProxy('silent', async (proxy, running, { sandbox }) => {
      await begun(sandbox, running)
      for (let silences = 0; running() && silences < 2; silences += 1) {
        proxy.silenceOpen()
        await wait(1_500)
      }
    }))

  test('whose network is gone for seconds, and has forgotten its connections when it comes back', () =>
    throughProxy('gone', async (proxy, running, { sandbox }) => {
      await begun(sandbox, running)
      for (let outages = 0; running() && outages < 2; outages += 1) {
        proxy.fallSilent()
        await wait(4_000)
        proxy.speak()
        await wait(1_500)
      }
    }))

  test('whose answers to COMMIT are lost: what happened is looked up', async () => {
    const proxy = await throughProxy('commit', async (proxy, running) => {
      while (running()) {
        proxy.loseCommit((statements) => statements.includes('etl.load_rows'))
        await wait(100)
      }
    })
    expect(proxy.lostCommits()).toBeGreaterThan(0)
  })

  test('whose server is killed and started again every few seconds', async () => {
    const server = await startOwnServer()
    const db = await createOwnDatabase(server.url, 'killed')
    const sandbox = await startStormSandbox()
    sandbox.configure({ latencyMs: slowMs })
    const run = () => startCommand(world.command, world.environment(sandbox, db.url, 'killed'), world.folder)
    const command = run()
    let running = true
    const result = command.result.finally(() => {
      running = false
    })
    let kills = 0
    await begun(sandbox, () => running)
    for (; running && kills < 3; await wait(1_500)) {
      server.kill()
      kills += 1
      await server.restart()
    }
    expectClear(await result)
    expect(kills).toBeGreaterThan(0)
    const last = await run().result
    expect(last.code, last.stderr).toBe(0)
    expect(await digestWarehouse(db.pool)).toEqual(truth)
    expect(sandbox.books().submissions).toHaveLength(bought)
    await db.close()
    await sandbox.close()
    await server.remove()
  })
})
