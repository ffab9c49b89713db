// A night that is stopped half way: what it had found to be refreshed is refreshed by the next one, however the first was stopped.
import { complaint, run, start, until } from './commands.ts'
import type { Databases } from './databases.ts'
import { differences } from './pairs.ts'
import { rangeOf } from './takeover.ts'
import { wantedTruth } from './truth.ts'
import { age, currentRows } from './warehouse.ts'
import { createWorld, names, type Pipeline } from './world.ts'

export const stops = ['cancel', 'SIGINT', 'SIGKILL'] as const

export const tryStoppedNight = async (
  databases: Databases,
  pipeline: Pipeline,
  stop: (typeof stops)[number],
): Promise<string[]> => {
  const lists = { domains: names('site', 12) }
  // Long enough for the command that cancels to start on a busy machine.
  const sandbox = { latencyMs: 60, reportDurationMs: 5_000, keywordsPerDomain: 8 }
  const world = await createWorld({ database: await databases.create(), lists, sandbox })
  const { pool } = world.database
  const asked = (caller: string): number => world.sandbox.books().requests.filter((request) => request.caller === caller).length
  try {
    await run(world, ['backfill', pipeline, ...rangeOf(world)], { caller: 'prepare' })
    await age(pool, 30)
    for (const month of world.months.slice(-2)) world.sandbox.restate(month)
    const first = start(world, ['run', pipeline, '--json'], { caller: 'stopped' })
    const enough = pipeline === 'keywords' ? 30 : 3
    if (!(await until(() => asked('stopped') > enough, 30))) return [`the night asked nothing\n${first.printed().slice(-1500)}`]
    if (stop === 'cancel') {
      const { rows } = await pool.query<{ id: string }>('select max(run_id) as id from etl.runs')
      await run(world, ['cancel', String(rows[0]?.id)])
    } else first.signal(stop)
    const ended = await first.ended
    const wrong = ended.code === 0 ? ['the night was over before it was stopped: nothing was shown'] : []
    const next = await run(world, ['run', pipeline, '--json'])
    if (next.hung || ![0, 1].includes(next.code ?? -1)) wrong.push(`the next night ended with ${next.code}\n${complaint(next)}`)
    const { rows: held } = await pool.query<{ id: string }>(`select unit_id as id from etl.unit_list where state = 'held'`)
    if (held.length > 0) await run(world, ['release', ...held.map(({ id }) => id)])
    if (held.length > 0) await run(world, ['run', pipeline, '--json'])
    const truth = [...wantedTruth(world)].filter(([unit]) => unit.startsWith(`${pipeline} `))
    return [...wrong, ...differences(new Map(truth), await currentRows(pool))]
  } finally {
    await world.remove()
  }
}

/** All domains but the last were asked for by hand after the service had corrected the month: the night still has the last one to refresh. */
export const tryPartlyRefreshed = async (databases: Databases): Promise<string[]> => {
  const domains = names('site', 12)
  const world = await createWorld({ database: await databases.create(), lists: { domains }, sandbox: { keywordsPerDomain: 8 } })
  try {
    await run(world, ['backfill', 'keywords', ...rangeOf(world)])
    await age(world.database.pool, 30)
    const newest = world.months.at(-1) ?? ''
    world.sandbox.restate(newest)
    const byHand = `domain=${domains.slice(0, -1).join(',')}`
    await run(world, ['backfill', 'keywords', '--from', newest, '--to', newest, '--force', '--only', byHand])
    const night = await run(world, ['run', 'keywords', '--json'])
    const wrong = night.code === 0 ? [] : [`the night ended with ${night.code}\n${complaint(night)}`]
    const truth = [...wantedTruth(world)].filter(([unit]) => unit.startsWith('keywords '))
    return [...wrong, ...differences(new Map(truth), await currentRows(world.database.pool))]
  } finally {
    await world.remove()
  }
}
