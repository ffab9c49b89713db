// An answer that is held because its record is bad: a person asks for it anew by force, and the good answer takes its place.
import { complaint, run } from './commands.ts'
import type { Databases } from './databases.ts'
import { differences } from './pairs.ts'
import { rangeOf } from './takeover.ts'
import { wantedTruth } from './truth.ts'
import { currentRows, unfinishedUnits } from './warehouse.ts'
import { createWorld } from './world.ts'

const pipeline = 'traffic_and_engagement'

export const tryHeld = async (databases: Databases): Promise<string[]> => {
  const world = await createWorld({ database: await databases.create() })
  const { pool } = world.database
  try {
    world.sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit-report', row: 3, times: 1 }] })
    await run(world, ['backfill', pipeline, ...rangeOf(world)])
    const held = (await unfinishedUnits(pool)).filter((unit) => unit.pipeline === pipeline)
    if (held.length !== 1) return [`${held.length} units are held, one record was bad`]
    const forced = await run(world, ['backfill', pipeline, ...rangeOf(world), '--force', '--only', `domain=${held[0]?.domain}`])
    const wrong = forced.code === 0 ? [] : [`the forced backfill ended with ${forced.code}\n${complaint(forced)}`]
    for (const { unit, state, code } of await unfinishedUnits(pool))
      wrong.push(`${unit} is ${state} (${code}), though it was asked for anew`)
    const truth = [...wantedTruth(world)].filter(([unit]) => unit.startsWith(pipeline))
    return [...wrong, ...differences(new Map(truth), await currentRows(pool))]
  } finally {
    await world.remove()
  }
}
