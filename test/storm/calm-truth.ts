// What the storm's command leaves where nothing goes wrong: what every disturbed run is compared with.
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { runCommand } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { type StormWorld, startStormSandbox } from './storm-world.ts'
import { digestWarehouse, type UnitDigest } from './warehouse-digest.ts'

export interface CalmTruth {
  readonly truth: ReadonlyMap<string, UnitDigest>
  /** Reports submitted. */
  readonly bought: number
}

/** Runs the command once, on a warehouse and a sandbox of its own; throws where it does not end with 0. */
export const calmTruth = async (world: StormWorld, start: () => Promise<Sandbox> = startStormSandbox): Promise<CalmTruth> => {
  const db = await createTestDatabase()
  const sandbox = await start()
  try {
    const result = await runCommand(world.command, world.environment(sandbox, db.url, 'calm'), world.folder)
    if (result.code !== 0) throw new Error(`the undisturbed run ended with ${result.code}:\n${result.stderr}`)
    return { truth: await digestWarehouse(db.database.pool), bought: sandbox.books().submissions.length }
  } finally {
    await sandbox.close()
    await db.drop()
  }
}
