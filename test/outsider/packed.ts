// Many units in few reports: what is sold is each cell once, at the price of the cells, in little memory; what is refused is split.
import { readFileSync } from 'node:fs'
import { complaint, type Ended, start, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { restless } from './ledger-state.ts'
import { differences } from './pairs.ts'
import { timesBought } from './purchases.ts'
import { type Rows, wantedTruth, wantedUnits } from './truth.ts'
import { currentRows, unfinishedUnits } from './warehouse.ts'
import { createWorld, names, type World } from './world.ts'

export interface PackedOptions {
  readonly domains: number
  readonly months: number
  readonly reportSeconds: number
  readonly mostReports: number
}

export interface PackedFigures {
  readonly reports: number
  readonly credits: number
  readonly seconds: number
  readonly peakMb: number
  readonly wrong: readonly string[]
}

const pipeline = 'traffic_and_engagement'
const metrics = 6
const mostMb = 200

export const tryPacked = async (databases: Databases, options: PackedOptions): Promise<PackedFigures> => {
  const world = await createWorld({
    database: await databases.create(),
    months: options.months,
    lists: { domains: names('site', options.domains), countries: ['us', 'gb', 'world'] },
    sandbox: { reportDurationMs: options.reportSeconds * 1000 },
  })
  try {
    world.set(pipeline, ['limits', 'deadline'], '10m')
    const { ended, peakMb } = await measured(world, ['backfill', pipeline, ...rangeOf(world)])
    const { submissions, quotaUsed } = world.sandbox.books()
    const cells = options.domains * 3 * options.months
    const wrong = [...endedWell(ended), ...(await unlike(world)), ...boughtOnce(world), ...(await restless(world.database.pool))]
    if (submissions.length > options.mostReports)
      wrong.push(`${submissions.length} reports were bought, ${options.mostReports} are enough`)
    if (quotaUsed !== cells * metrics) wrong.push(`${quotaUsed} credits were spent, the cells cost ${cells * metrics}`)
    if (peakMb > mostMb) wrong.push(`the peak was ${peakMb} MB, ${mostMb} are allowed`)
    return { reports: submissions.length, credits: quotaUsed, seconds: ended.seconds, peakMb, wrong }
  } finally {
    await world.remove()
  }
}

const rangeOf = ({ months }: World): string[] => ['--from', months[0] ?? '', '--to', months.at(-1) ?? '', '--json']

/** With the most memory the process held, as the kernel counts it. */
const measured = async (world: World, args: readonly string[]): Promise<{ ended: Ended; peakMb: number }> => {
  const started = start(world, args, { bound: 1200 })
  let over = false
  let peakMb = 0
  const ended = started.ended.finally(() => {
    over = true
  })
  while (!over) {
    peakMb = Math.max(peakMb, highWater(started.pid))
    await wait(100)
  }
  return { ended: await ended, peakMb }
}

const highWater = (pid: number): number => {
  try {
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024)
  } catch {
    return 0
  }
}

const endedWell = ({ code, stderr }: Ended): string[] => (code === 0 ? [] : [`it ended with ${code}\n${complaint({ stderr })}`])

const trafficOf = (rows: Rows): Rows => new Map([...rows].filter(([unit]) => unit.startsWith(`${pipeline} `)))

const unlike = async (world: World): Promise<string[]> =>
  differences(trafficOf(wantedTruth(world)), await currentRows(world.database.pool))

const boughtOnce = (world: World): string[] => {
  const times = timesBought(world.sandbox.books().submissions)
  const wanted = wantedUnits(world, pipeline)
  return [
    ...wanted.filter((cell) => !times.has(cell)).map((cell) => `${cell} was never bought`),
    ...[...times].filter(([, count]) => count > 1).map(([cell, count]) => `${cell} was bought ${count} times`),
  ].slice(0, 8)
}

/** A service with limits nobody told, one domain and one month it does not have: all else is loaded, and nothing twice. */
export const trySplit = async (databases: Databases): Promise<string[]> => {
  const domains = names('site', 9)
  const world = await createWorld({ database: await databases.create(), months: 6, lists: { domains } })
  const [absentDomain = '', absentMonth = ''] = [domains[4], world.months[2]]
  const isRefused = (unit: string): boolean => unit.includes(` ${absentDomain} `) || unit.includes(` ${absentMonth} `)
  try {
    world.sandbox.configure({ mostValues: 4, mostMonths: 4, refusedDomains: [absentDomain], refusedMonths: [absentMonth] })
    const { ended } = await measured(world, ['backfill', pipeline, ...rangeOf(world)])
    const wrong: string[] = []
    if (ended.hung || ended.code !== 1) wrong.push(`it ended with ${ended.code}, not 1\n${complaint(ended)}`)
    const truth = [...trafficOf(wantedTruth(world))].filter(([unit]) => !isRefused(unit))
    wrong.push(...differences(new Map(truth), await currentRows(world.database.pool)))
    wrong.push(...boughtOnce(world).filter((line) => !isRefused(line)))
    const left = (await unfinishedUnits(world.database.pool)).filter((unit) => unit.pipeline === pipeline)
    for (const { unit, state, code } of left)
      if (!isRefused(unit)) wrong.push(`${unit} is ${state} (${code}), though the service has it`)
    const refused = wantedUnits(world, pipeline).filter(isRefused).length
    if (left.length !== refused) wrong.push(`${left.length} units are left, the service refuses ${refused}`)
    const asked = world.sandbox.books().requests.filter(({ status }) => status === 400).length
    if (asked > 4 * refused) wrong.push(`${asked} requests were refused on the way to ${refused} refused units`)
    wrong.push(...(await restless(world.database.pool)))
    return wrong
  } finally {
    await world.remove()
  }
}
