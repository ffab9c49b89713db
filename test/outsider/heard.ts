// Each endpoint answers something else than it should, for good; then it is well again, and the same command ends true with the submissions of a calm run.
import { complaint, type Ended, run, start, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { createWorld, type World } from './world.ts'
import type { Fault, FaultPlace } from '../../src/sandbox/fault-kinds.ts'

/** What commands ask while they load. */
export const loadingPlaces = ['keywords', 'submit', 'status', 'download', 'validate'] as const satisfies readonly FaultPlace[]
/** What people ask beside it. */
export const lookingPlaces = ['capabilities', 'describe', 'credits'] as const satisfies readonly FaultPlace[]
export type HeardPlace = (typeof loadingPlaces)[number] | (typeof lookingPlaces)[number]

export const badAnswers = [401, 403, 404, 408, 409, 410, 422, 429, 500, 502, 503, 'reset', 'stall', 'html'] as const
export type BadAnswer = (typeof badAnswers)[number]

const faultOf = (on: HeardPlace, answer: BadAnswer): Fault => {
  if (answer === 'reset') return { kind: 'drop-before', on }
  if (answer === 'stall') return { kind: 'stall', on }
  if (answer === 'html') return { kind: 'html-200', on }
  return { kind: 'any-status', status: answer, on }
}

const commandOf = (place: HeardPlace, month: string): string[] => {
  if (place === 'describe' || place === 'capabilities') return [place, '--json']
  if (place === 'credits') return ['quota', '--json']
  const pipeline = place === 'keywords' ? 'keywords' : 'traffic_and_engagement'
  return ['backfill', pipeline, '--from', month, '--to', month, '--json']
}

/** How long the fault lasts while a command is at it, and how long the command may take to notice that it is over. */
const badForSeconds = 4
const boundSeconds = 150

const createHeardWorld = async (databases: Databases): Promise<World> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    rate: 200,
    lists: { domains: ['site0.example', 'site1.example'], countries: ['us', 'gb'] },
    sandbox: { keywordsPerDomain: 40, requestsPerSecond: null, history: 'ids' },
  })
  for (const pipeline of ['keywords', 'traffic_and_engagement'] as const) {
    world.set(pipeline, ['limits', 'timeout'], '1s')
    world.set(pipeline, ['limits', 'attempts'], 2)
  }
  return world
}

const isLoading = (place: HeardPlace): boolean => loadingPlaces.some((one) => one === place)

const rowsOf = async ({ database }: World, place: HeardPlace): Promise<string> => {
  const table = place === 'keywords' ? 'keywords' : 'traffic_and_engagement'
  const text =
    place === 'keywords' ? 'month, domain, country, keyword, top_url, clicks' : 'date, domain, country, all_traffic_visits'
  const { rows } = await database.pool.query<{ digest: string }>(
    `select count(*) || ' ' || coalesce(md5(string_agg(md5((${text})::text), ',' order by md5((${text})::text))), '') as digest from data.${table}_v1`,
  )
  return rows[0]?.digest ?? ''
}

/** What a calm run buys and loads. */
export interface Calm {
  readonly submissions: number
  readonly rows: string
}

export const calmRun = async (databases: Databases, place: HeardPlace): Promise<Calm> => {
  const world = await createHeardWorld(databases)
  try {
    const month = world.months[0] ?? ''
    const ended = await run(world, commandOf(place, month))
    if (ended.code !== 0) throw new Error(`the calm run ended with ${ended.code}\n${complaint(ended)}`)
    const rows = isLoading(place) ? await rowsOf(world, place) : ''
    return { submissions: world.sandbox.books().submissions.length, rows }
  } finally {
    await world.remove()
  }
}

export interface Heard {
  readonly wrong: readonly string[]
  /** The command that met the fault to its end, seconds. */
  readonly seconds: number
}

/**
 * The fault lasts until the command has ended by itself, or is over while it is still at it; then the same command. A submission whose answer was
 * lost is held, and goes on with consent.
 */
export const tryHeard = async (databases: Databases, place: HeardPlace, answer: BadAnswer, calm: Calm): Promise<Heard> => {
  const world = await createHeardWorld(databases)
  try {
    const month = world.months[0] ?? ''
    const args = commandOf(place, month)
    world.sandbox.configure({ faults: [faultOf(place, answer)] })
    const command = start(world, args, { bound: boundSeconds })
    const over = await Promise.race([command.ended.then(() => true), wait(badForSeconds * 1000).then(() => false)])
    if (!over && isPatient(place, answer)) world.sandbox.configure({ faults: [] })
    const first = await command.ended
    world.sandbox.configure({ faults: [] })
    const wrong = judgeFirst(first, place, answer)
    const last = first.code === 0 ? first : await again(world, args)
    if (last.hung || last.code !== 0) wrong.push(`recovered, ${last.name} ended with ${last.code}\n${complaint(last)}`)
    if (isLoading(place) && (await rowsOf(world, place)) !== calm.rows) wrong.push('the rows are not those of a calm run')
    const { submissions } = world.sandbox.books()
    if (submissions.length !== calm.submissions)
      wrong.push(`${submissions.length} submissions, a calm run has ${calm.submissions}`)
    return { wrong, seconds: first.seconds }
  } finally {
    await world.remove()
  }
}

/** Reports are waited for: a status nobody knows, or a download that is refused, is asked for again for as long as the deadline lets a run wait. */
const isPatient = (place: HeardPlace, answer: BadAnswer): boolean =>
  (place === 'status' && answer === 404) || (place === 'download' && typeof answer === 'number' && answer < 500)

const judgeFirst = (first: Ended, place: HeardPlace, answer: BadAnswer): string[] => {
  const wrong: string[] = []
  if (first.hung) wrong.push(`with the fault for good it did not end\n${complaint(first)}`)
  // What is optional may be done without; what loads may not.
  const isOptional = place === 'validate' || !isLoading(place)
  if (!isOptional && !isPatient(place, answer) && first.code !== 1)
    wrong.push(`with the fault for good it ended with ${first.code}, not 1\n${complaint(first)}`)
  if (answer === 429 && first.code === 1 && !/429/.test(first.stderr)) wrong.push(`it did not say 429\n${complaint(first)}`)
  return wrong
}

/** The same command; a submission whose answer was lost needs consent, once. */
const again = async (world: World, args: readonly string[]): Promise<Ended> => {
  const same = await run(world, args, { bound: boundSeconds })
  if (same.code === 0 || (!same.stderr.includes('REPORT_UNCERTAIN') && !(await isHeld(world)))) return same
  return run(world, [...args, '--resubmit-uncertain'], { bound: boundSeconds })
}

const isHeld = async ({ database }: World): Promise<boolean> =>
  (await database.pool.query(`select from etl.jobs where state = 'held' and report_state = 'uncertain'`)).rows.length > 0
