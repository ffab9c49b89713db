// 429 for good where a person has said how long to wait: the command ends by then with every unit named and waiting, and is quick once it is over.
import { complaint, run, start, until } from './commands.ts'
import type { Databases } from './databases.ts'
import { createWorld } from './world.ts'

/** Places that are asked for a keyword page, a report's state, and a report. */
export const boundedPlaces = ['keywords', 'status', 'submit'] as const
export type BoundedPlace = (typeof boundedPlaces)[number]

export interface Bounded {
  readonly seconds: number
  readonly wrong: readonly string[]
}

/** `attempts`: few, and hours to wait. `deadline`: seconds, and tries without end. */
const limitsOf = {
  attempts: { attempts: 1, deadline: '6h' },
  deadline: { attempts: 100, deadline: '4s' },
} as const

/** A command starts, waits as long as it may, and ends; on a busy machine, too. */
const mostSeconds = 60

/** Which limit ends the waiting. */
export const tryBounded = async (databases: Databases, place: BoundedPlace, bound: keyof typeof limitsOf): Promise<Bounded> => {
  const pipeline = place === 'keywords' ? 'keywords' : 'traffic_and_engagement'
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    lists: { domains: ['site0.example', 'site1.example'], countries: ['us'] },
    sandbox: { requestsPerSecond: null, faults: [{ kind: 'status-429', on: place }] },
  })
  try {
    for (const [name, value] of Object.entries(limitsOf[bound])) world.set(pipeline, ['limits', name], value)
    const month = world.months[0] ?? ''
    const args = ['backfill', pipeline, '--from', month, '--to', month, '--json']
    const ended = await run(world, args, { bound: mostSeconds })
    const wrong: string[] = []
    if (ended.hung || ended.code !== 1)
      wrong.push(`it ended with ${ended.code}${ended.hung ? ' (hung)' : ''}\n${complaint(ended)}`)
    if (ended.summary?.units.waiting !== 2) wrong.push(`${ended.summary?.units.waiting} of 2 units wait\n${complaint(ended)}`)
    const named = new RegExp(`waiting ${pipeline}/v1/.*429`)
    if (!named.test(ended.stderr)) wrong.push(`no unit is named with its 429\n${complaint(ended)}`)
    const { rows } = await world.database.pool.query<{ state: string; code: string }>(
      `select state, error_code as code from etl.unit_list`,
    )
    if (rows.length !== 2 || rows.some(({ state, code }) => state !== 'waiting' || code !== 'RATE_LIMITED'))
      wrong.push(`the ledger says ${JSON.stringify(rows)}`)
    world.sandbox.configure({ faults: [] })
    const recovered = await run(world, args, { bound: mostSeconds })
    if (recovered.code !== 0 || recovered.summary?.units.loaded !== 2)
      wrong.push(`recovered, it ended with ${recovered.code}\n${complaint(recovered)}`)
    const bought = world.sandbox.books().submissions.length
    if (bought !== (pipeline === 'keywords' ? 0 : 1)) wrong.push(`${bought} reports were bought`)
    return { seconds: ended.seconds, wrong }
  } finally {
    await world.remove()
  }
}

/** One endpoint alone answers 429, and others are asked in between: said within ten seconds on standard error and in the ledger, where page and metrics look. */
export const tryAlone = async (databases: Databases): Promise<Bounded> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    lists: { domains: ['site0.example', 'site1.example'], countries: ['us'] },
    sandbox: { requestsPerSecond: null, faults: [{ kind: 'status-429', on: 'submit' }] },
  })
  try {
    world.set('traffic_and_engagement', ['limits', 'attempts'], 100)
    const month = world.months[0] ?? ''
    const command = start(world, ['backfill', 'traffic_and_engagement', '--from', month, '--to', month, '--json'], {
      bound: mostSeconds,
    })
    const refused = () => world.sandbox.books().requests.some(({ status }) => status === 429)
    const wrong: string[] = []
    if (!(await until(refused, 30))) wrong.push(`nothing was refused\n${command.printed().slice(-800)}`)
    const from = performance.now()
    const onRecord = async () =>
      (await world.database.pool.query(`select from etl.pace where trouble_code = 'RATE_LIMITED'`)).rows.length > 0
    if (!(await until(() => /answers 429.*wait/.test(command.printed()), 10)))
      wrong.push('standard error does not say 429 within 10 s')
    if (!(await until(onRecord, 5))) wrong.push('the ledger does not say it')
    const seconds = (performance.now() - from) / 1000
    command.signal('SIGINT')
    const ended = await command.ended
    if (ended.code !== 130) wrong.push(`stopped, it ended with ${ended.code}\n${complaint(ended)}`)
    if (world.sandbox.books().submissions.length > 0) wrong.push('a report was bought')
    return { seconds, wrong }
  } finally {
    await world.remove()
  }
}
