// Many processes on one queue: workers killed at random, a run cancelled, a run interrupted. Each unit loads once, each report is bought once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { randomFrom } from '../storm/fault-mix.ts'
import { createStormWorld, type StormWorld, startStormSandbox } from '../storm/storm-world.ts'
import { loadsTwice, uncertainUnits } from '../storm/warehouse-digest.ts'
import { type RunningCommand, runCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { succeeded } from '../support/test-world.ts'

let world: StormWorld
let db: TestDatabase
let sandbox: Sandbox

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

beforeAll(async () => {
  world = createStormWorld(40)
})
afterAll(() => world.remove())

const begin = async (latencyMs: number): Promise<void> => {
  db = await createTestDatabase()
  sandbox = await startStormSandbox()
  sandbox.configure({ latencyMs })
}
const end = async (): Promise<void> => {
  await sandbox.close()
  await db.drop()
}

const start = (args: readonly string[]): RunningCommand =>
  startCommand(args, { ...world.environment(sandbox, db.url, 'many'), MILLRACE_WEB_PORT: '0' }, world.folder)

const loadedTwice = (): Promise<unknown[]> => loadsTwice(db.database.pool)

const boughtBodies = (): string[] => sandbox.books().submissions.map(({ body }) => JSON.stringify(body))

const untilSubmitted = async (): Promise<void> => {
  for (let look = 0; look < 600 && sandbox.books().submissions.length === 0; look += 1) await wait(50)
}

describe('several processes', () => {
  test('killed at random and replaced buy each report once and load each unit once', async () => {
    await begin(60)
    const random = randomFrom(11)
    const workers = [start(['worker']), start(['worker'])]
    const backfill = start(world.command)
    await untilSubmitted()
    for (let kill = 0; kill < 3; kill += 1) {
      await wait(300 + random() * 500)
      const at = Math.floor(random() * workers.length)
      workers[at]?.child.kill('SIGKILL')
      workers[at] = start(['worker'])
    }
    const result = await backfill.result
    for (const { child } of workers) child.kill('SIGKILL')
    await Promise.all(workers.map((worker) => worker.result))
    expect(summaryOf(result).units.held, result.stderr).toBe(await uncertainUnits(db.database.pool))
    expect(summaryOf(result).units).toMatchObject({ failed: 0, waiting: 0 })
    expect(await loadedTwice()).toEqual([])
    expect(new Set(boughtBodies()).size).toBe(boughtBodies().length)
    await end()
  })
})

describe('a backfill that is told to stop', () => {
  test('by cancel ends within five seconds and submits nothing after it', async () => {
    await begin(150)
    const backfill = start([...world.command, '--order', 'oldest'])
    await untilSubmitted()
    await succeeded(runCommand(['cancel', '1'], world.environment(sandbox, db.url, 'many'), world.folder))
    const cancelledAt = Date.now()
    const bought = sandbox.books().submissions.length
    expect((await backfill.result).code).toBe(1)
    expect(Date.now() - cancelledAt).toBeLessThan(5_000)
    await wait(500)
    expect(sandbox.books().submissions).toHaveLength(bought)
    const again = await start([...world.command]).result
    expect(again.code, again.stderr).toBe(0)
    expect(new Set(boughtBodies()).size).toBe(boughtBodies().length)
    expect(await loadedTwice()).toEqual([])
    await end()
  })

  test('by SIGINT parks what is at hand, and by a second one stops at once; the same command goes on', async () => {
    await begin(150)
    const first = start(world.command)
    await untilSubmitted()
    first.child.kill('SIGINT')
    const stopped = await first.result
    expect(stopped.code, stopped.stderr).toBe(130)
    expect(await db.query(`select 1 from etl.jobs where holder is not null`)).toEqual([])

    const second = start(world.command)
    while (!second.printed().includes('planned')) await wait(50)
    second.child.kill('SIGINT')
    await wait(700)
    second.child.kill('SIGTERM')
    const asked = Date.now()
    const { code, signal } = await second.result
    expect([130, 'SIGINT']).toContain(signal ?? code)
    expect(Date.now() - asked).toBeLessThan(2_000)

    const last = await start([...world.command, '--resubmit-uncertain']).result
    expect(last.code, last.stderr).toBe(0)
    expect(await loadedTwice()).toEqual([])
    await end()
  })

  test('by one signal that comes twice, from the terminal and from what started it, parks all the same', async () => {
    await begin(150)
    const backfill = start(world.command)
    await untilSubmitted()
    backfill.child.kill('SIGINT')
    await wait(20)
    backfill.child.kill('SIGINT')
    const stopped = await backfill.result
    expect(stopped.code, stopped.stderr).toBe(130)
    expect(summaryOf(stopped).units.failed).toBe(0)
    expect(await db.query(`select 1 from etl.jobs where holder is not null`)).toEqual([])
    await end()
  })
})
