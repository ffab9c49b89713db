// A small run beside a large one on the same account: it takes its share of the requests, and works on nothing of the other.
import { complaint, run, start, until } from './commands.ts'
import type { Databases } from './databases.ts'
import { snapshot } from './ledger-state.ts'
import { createWorld, names, type World } from './world.ts'

export interface BesideFigures {
  readonly alone: number
  readonly beside: number
  readonly wrong: readonly string[]
}

const rate = 50
const small = ['run', 'traffic_and_engagement', '--json']

const createBesideWorld = async (databases: Databases, jobs: number): Promise<World> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    rate,
    lists: { domains: names('site', Math.ceil(jobs / 2)), countries: ['us', 'gb'] },
    sandbox: { keywordsPerDomain: 8, requestsPerSecond: rate, reportDurationMs: 1000 },
  })
  world.set('traffic_and_engagement', ['for_each', 'domain'], ['site0.example', 'site1.example'])
  return world
}

/** @param jobs walks of the large backfill. */
export const tryBeside = async (databases: Databases, jobs: number): Promise<BesideFigures> => {
  const alone = await withWorld(databases, jobs, async (world) => (await run(world, small, { caller: 'small' })).seconds)
  return withWorld(databases, jobs, async (world) => {
    const wrong: string[] = []
    const month = world.months[0] ?? ''
    const large = start(world, ['backfill', 'keywords', '--from', month, '--to', month, '--json'], {
      caller: 'large',
      bound: 600,
    })
    if (!(await until(() => askedBy(world, 'large') > 20, 60)))
      wrong.push(`the backfill asked nothing\n${large.printed().slice(-1500)}`)
    const ended = await run(world, small, { caller: 'small', bound: 120 })
    if (ended.hung) wrong.push(await snapshot(world.database.pool))
    if (ended.code !== 0) wrong.push(`${ended.name} ended with ${ended.code}\n${complaint(ended)}`)
    if (ended.seconds > 2 * alone + 2) wrong.push(`it took ${ended.seconds.toFixed(1)} s, alone ${alone.toFixed(1)} s`)
    const largeIsOver = await Promise.race([large.ended.then(() => true), Promise.resolve(false)])
    if (largeIsOver) wrong.push('the backfill was over before the small run: nothing was shown')
    large.signal('SIGINT')
    const stopped = await large.ended
    if (stopped.code !== 130) wrong.push(`the backfill, told to stop, ended with ${stopped.code}\n${complaint(stopped)}`)
    wrong.push(...(await strangersWork(world, ended.summary?.run_id ?? 0)), ...tooFast(world))
    return { alone, beside: ended.seconds, wrong }
  })
}

const withWorld = async <T>(databases: Databases, jobs: number, work: (world: World) => Promise<T>): Promise<T> => {
  const world = await createBesideWorld(databases, jobs)
  try {
    return await work(world)
  } finally {
    await world.remove()
  }
}

const askedBy = ({ sandbox }: World, name: string): number =>
  sandbox.books().requests.filter(({ caller }) => caller === name).length

/** By the service's own books, and by the ledger's. */
const strangersWork = async ({ sandbox, database }: World, runId: number): Promise<string[]> => {
  const asked = sandbox.books().requests
  const walks = asked.filter(({ caller, endpoint }) => caller === 'small' && endpoint === 'keywords').length
  const polls = asked.filter(
    ({ caller, endpoint }) => caller === 'large' && ['status', 'submit-report'].includes(endpoint ?? ''),
  ).length
  const { rows } = await database.pool.query<{ pipeline: string; n: number }>(
    `select p.pipeline, count(*)::int as n from etl.requests r join etl.jobs j using (job_id) join etl.pipelines p using (pipeline_id)
     where r.run_id = $1 and p.pipeline <> 'traffic_and_engagement' group by 1`,
    [runId],
  )
  return [
    ...(walks > 0 ? [`the small run asked for ${walks} pages of keywords`] : []),
    ...(polls > 0 ? [`the backfill of keywords sent ${polls} requests about the report`] : []),
    ...rows.map(({ pipeline, n }) => `${n} requests of the small run were for ${pipeline}`),
  ]
}

/** The account's rate is shared by all of it: the service, which counts too, has nothing to refuse. */
const tooFast = ({ sandbox }: World): string[] => {
  const refused = sandbox.books().requests.filter(({ status }) => status === 429).length
  return refused > 0 ? [`the service refused ${refused} requests as too many`] : []
}
