// Every PostgreSQL that the machine has installed holds, after the same commands, what the embedded one holds. `node test/servers/run.ts` runs tests of single parts there.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DatabasePool } from '../../src/db/connect.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { createStormWorld, type StormWorld, startStormSandbox } from '../storm/storm-world.ts'
import { digestWarehouse, loadsTwice, type UnitDigest } from '../storm/warehouse-digest.ts'
import { runCommand } from '../support/command.ts'
import { installedVersions, startInstalled } from '../support/installed-server.ts'
import { createTestDatabase } from '../support/postgres.ts'

const versions = installedVersions()

interface Held {
  readonly units: ReadonlyMap<string, UnitDigest>
  readonly bought: number
  readonly twice: readonly unknown[]
}

let world: StormWorld
let truth: Held

/** A first load, a restated month asked for again, all parsed anew from the landings, and a check. */
const work = async (url: string, pool: DatabasePool, home: string): Promise<Held> => {
  const sandbox = await startStormSandbox()
  const environment = world.environment(sandbox, url, home)
  const millrace = async (...args: string[]): Promise<void> => {
    const { code, stdout, stderr } = await runCommand(args, environment, world.folder)
    expect(code, `${args.join(' ')}\n${stdout}${stderr}`).toBe(0)
  }
  const [, name = '', traffic = '', shops = ''] = world.command
  const pipelines = [name, traffic, shops]
  await millrace('migrate')
  await millrace(...world.command)
  sandbox.restate(world.from)
  await runCommand(['backfill', ...pipelines, '--from', world.from, '--to', world.from, '--force'], environment, world.folder)
  await millrace('replay', ...pipelines, '--from', world.from, '--to', world.to)
  await millrace('check', '--offline')
  const held = { units: await digestWarehouse(pool), bought: sandbox.books().submissions.length, twice: await loadsTwice(pool) }
  await sandbox.close()
  return held
}

beforeAll(async () => {
  world = createStormWorld(8)
  if (versions.length === 0) return
  const db = await createTestDatabase()
  truth = await work(db.url, db.database.pool, 'embedded')
  await db.drop()
})
afterAll(() => world.remove())

test.runIf(versions.length > 0).each(versions)('PostgreSQL %s holds what the embedded one holds', async (version) => {
  const server = await startInstalled(version)
  try {
    const db = await createOwnDatabase(server.url, 'warehouse')
    const held = await work(db.url, db.pool, `server-${version}`)
    await db.close()
    expect(truth.units.size).toBeGreaterThan(10)
    expect(held).toEqual(truth)
  } finally {
    server.remove()
  }
})
