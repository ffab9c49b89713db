// Two warehouses that keep their answers in one place: neither takes, loads or deletes what is the other's.
import { join } from 'node:path'
import { complaint, type Ended, run } from './commands.ts'
import type { Databases } from './databases.ts'
import { differences } from './pairs.ts'
import { judged, rangeOf } from './takeover.ts'
import { wantedTruth } from './truth.ts'
import { age, currentRows } from './warehouse.ts'
import { createWorld, pipelines, type World } from './world.ts'

/** @param cloned the second is a copy of the first, made before anything was loaded: it says it is the same warehouse. */
export const trySharedLanding = async (databases: Databases, cloned = false): Promise<string[]> => {
  // The same domains and months of two services that say other things.
  const [one, two] = await Promise.all(
    [3, 4].map(async (seed) => createWorld({ database: await databases.create(), sandbox: { seed } })),
  )
  if (one === undefined || two === undefined) return ['no worlds']
  if (cloned) await sameName(one, two)
  const environment = { MILLRACE_LANDING: join(one.folder, 'shared'), MILLRACE_LANDING_DAYS: '1' }
  const command = (world: World, ...args: string[]): Promise<Ended> => run(world, [...args, '--json'], { environment })
  try {
    const ends = await Promise.all(
      [one, two].map((world) => command(world, 'backfill', ...pipelines, ...rangeOf(world).slice(0, -1))),
    )
    const wrong = [...(await judged(one, ends.slice(0, 1))), ...(await judged(two, ends.slice(1)))]
    // A month later the first asks anew and sweeps what it does not need any more.
    await age(one.database.pool, 40)
    for (const month of one.months) one.sandbox.restate(month)
    const swept = [
      await command(one, 'backfill', ...pipelines, ...rangeOf(one).slice(0, -1), '--force'),
      await command(one, 'run'),
    ]
    for (const { code, stderr } of swept)
      if (![0, 1].includes(code ?? -1)) wrong.push(`the first ended with ${code}\n${complaint({ stderr })}`)
    const asked = two.sandbox.books().requests.length
    const replayed = await command(two, 'replay', ...pipelines, ...rangeOf(two).slice(0, -1))
    if (replayed.code !== 0) wrong.push(`replay of the second ended with ${replayed.code}\n${complaint(replayed)}`)
    if (two.sandbox.books().requests.length !== asked) wrong.push('replay asked the service')
    return [...wrong, ...differences(wantedTruth(two), await currentRows(two.database.pool))]
  } finally {
    await Promise.all([one.remove(), two.remove()])
  }
}

const sameName = async (one: World, two: World): Promise<void> => {
  const { rows } = await one.database.pool.query<{ id: string }>('select warehouse_id as id from etl.warehouse')
  await two.database.pool.query('update etl.warehouse set warehouse_id = $1', [rows[0]?.id])
}
