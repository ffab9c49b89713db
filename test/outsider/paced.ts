// A limit lower than what is configured: found out, kept, said aloud, and no page asked for twice; judged by the service's own books.
import { complaint, run, start, until, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { createWorld, names, type World } from './world.ts'

interface Request {
  readonly endpoint: string | null
  readonly status: number | null
  readonly at: string
  readonly query: Readonly<Record<string, string>>
}

const pagesOf = (world: World): readonly Request[] =>
  world.sandbox.books().requests.filter(({ endpoint }) => endpoint === 'keywords')

/** Pages that were answered 200 more than once. */
const twice = (world: World): string[] => {
  const counts = new Map<string, number>()
  for (const { query, status } of pagesOf(world)) {
    if (status !== 200) continue
    const page = [query['URL'], query['country'], query['start_date'], query['offset'], query['limit']].join(' ')
    counts.set(page, (counts.get(page) ?? 0) + 1)
  }
  return [...counts].filter(([, count]) => count > 1).map(([page, count]) => `${page}: fetched ${count} times`)
}

const backfill = (world: World): string[] => {
  const month = world.months[0] ?? ''
  return ['backfill', 'keywords', '--from', month, '--to', month, '--json']
}

export interface PagesFigures {
  readonly seconds: number
  readonly requests: number
  readonly refused: number
  readonly wrong: readonly string[]
}

/** @param pages of one unit. @param retryAfter how the service says when to come back. @param most seconds it may take */
export const tryPages = async (
  databases: Databases,
  {
    pages,
    allowed,
    configured,
    retryAfter,
    most,
  }: { pages: number; allowed: number; configured: number; retryAfter: 'none' | 'seconds' | 'date'; most: number },
): Promise<PagesFigures> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    rate: configured,
    lists: { domains: ['site0.example'], countries: ['us'] },
    sandbox: { keywordsPerDomain: pages * 15, requestsPerSecond: allowed, retryAfter },
  })
  try {
    const ended = await run(world, backfill(world), { bound: 90 })
    const wrong = twice(world)
    if (ended.code !== 0) wrong.push(`it ended with ${ended.code}\n${complaint(ended)}`)
    if (ended.summary?.rows.inserted !== pages * 15) wrong.push(`${ended.summary?.rows.inserted} rows instead of ${pages * 15}`)
    if (ended.seconds > most) wrong.push(`it took ${ended.seconds.toFixed(1)} s`)
    const all = pagesOf(world)
    return { seconds: ended.seconds, requests: all.length, refused: all.filter(({ status }) => status === 429).length, wrong }
  } finally {
    await world.remove()
  }
}

export interface SteadyFigures {
  readonly requests: number
  /** Share answered 429 after the time of learning. */
  readonly refusedShare: number
  /** Part of what is allowed that is used then. */
  readonly used: number
  readonly wrong: readonly string[]
}

/** So many processes ask for as much as they can, each for a pipeline's units of its own. */
export const trySteady = async (
  databases: Databases,
  {
    processes,
    allowed,
    configured,
    seconds,
    learnSeconds,
  }: Record<'processes' | 'allowed' | 'configured' | 'seconds' | 'learnSeconds', number>,
): Promise<SteadyFigures> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    rate: configured,
    lists: { domains: names('site', Math.ceil((allowed * seconds * 1.5) / 3)), countries: ['us'] },
    sandbox: { keywordsPerDomain: 40, requestsPerSecond: allowed },
  })
  try {
    const share = Math.ceil(world.lists.domains.length / processes)
    const wrong: string[] = []
    const began = Date.now()
    const commands = Array.from({ length: processes }, (_, index) => {
      const own = world.lists.domains.slice(index * share, (index + 1) * share)
      return start(world, [...backfill(world), '--only', `domain=${own.join(',')}`], {
        caller: `p${index}`,
        bound: seconds + 120,
      })
    })
    await wait(seconds * 1000)
    const all = world.sandbox.books().requests.filter(({ endpoint }) => endpoint === 'keywords')
    for (const command of commands) command.signal('SIGINT')
    for (const ended of await Promise.all(commands.map((command) => command.ended)))
      if (ended.code !== 130 && ended.code !== 0)
        wrong.push(`${ended.name.slice(0, 60)} ended with ${ended.code}\n${complaint(ended)}`)
    const first = Math.min(...all.map(({ at }) => Date.parse(at)), began + 60_000)
    const later = all.filter(({ at }) => Date.parse(at) >= first + learnSeconds * 1000)
    const refused = later.filter(({ status }) => status === 429).length
    const span = (began + seconds * 1000 - first) / 1000 - learnSeconds
    const figures = {
      requests: all.length,
      refusedShare: refused / Math.max(1, later.length),
      used: (later.length - refused) / span / allowed,
    }
    if (figures.refusedShare > 0.02)
      wrong.push(`${(figures.refusedShare * 100).toFixed(1)} % of ${later.length} requests were answered 429`)
    if (figures.used < 0.5) wrong.push(`only ${(figures.used * 100).toFixed(0)} % of what is allowed is used`)
    return { ...figures, wrong }
  } finally {
    await world.remove()
  }
}

export interface LastingFigures {
  readonly saidSeconds: number
  readonly seconds: number
  readonly requests: number
  readonly wrong: readonly string[]
}

/** 429 for good: said within ten seconds wherever people look, ended by itself, every unit named and waiting; and then it is well again. */
export const tryLasting = async (databases: Databases): Promise<LastingFigures> => {
  const world = await createWorld({
    database: await databases.create(),
    months: 1,
    rate: 1000,
    lists: { domains: names('site', 30), countries: ['us'] },
    sandbox: { requestsPerSecond: null, faults: [{ kind: 'status-429', on: 'keywords' }] },
  })
  try {
    const wrong: string[] = []
    const began = performance.now()
    const watcher = start(world, ['worker', '--json'], { bound: 120, environment: { MILLRACE_WEB_TOKEN: '' } })
    const pageUrl = (await until(() => /"url":"[^"]+"/.test(watcher.printed()), 30))
      ? (/"url":"([^"]+)"/.exec(watcher.printed())?.[1] ?? '')
      : ''
    const command = start(world, backfill(world), { bound: 120 })
    const asked = await until(() => pagesOf(world).length > 0, 30)
    if (!asked) wrong.push(`nothing was asked\n${command.printed().slice(-800)}`)
    const firstAt = performance.now()
    const said = await until(() => /429/.test(command.printed()), 10)
    const saidSeconds = (performance.now() - firstAt) / 1000
    if (!said) wrong.push('standard error does not say 429 within 10 s')
    const left = (): number => Math.max(1, 10 - (performance.now() - firstAt) / 1000)
    const text = async (path: string): Promise<string> => (await fetch(new URL(path, pageUrl))).text()
    if (!(await until(async () => /429/.test(await text('/')), left()))) wrong.push('the page does not say 429 within 10 s')
    if (!(await until(async () => /millrace_service_trouble\{[^}]*RATE_LIMITED[^}]*\} 1/.test(await text('/metrics')), left())))
      wrong.push('the metrics do not say it within 10 s')
    const ended = await command.ended
    watcher.signal('SIGINT')
    await watcher.ended
    if (ended.hung || ended.code !== 1) wrong.push(`it ended with ${ended.code}\n${complaint(ended)}`)
    if (ended.summary?.units.waiting !== 30) wrong.push(`${ended.summary?.units.waiting} of 30 units wait`)
    if (!/waiting keywords\/v1\/.*429/.test(ended.stderr)) wrong.push(`no unit is named\n${complaint(ended)}`)
    const requests = pagesOf(world).length
    world.sandbox.configure({ faults: [] })
    const recovered = await run(world, backfill(world), { bound: 90 })
    if (recovered.code !== 0 || recovered.summary?.units.loaded !== 30)
      wrong.push(`recovered, it ended with ${recovered.code}\n${complaint(recovered)}`)
    wrong.push(...twice(world))
    return { saidSeconds, seconds: (performance.now() - began) / 1000, requests, wrong }
  } finally {
    await world.remove()
  }
}
