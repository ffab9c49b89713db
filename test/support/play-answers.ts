// Plays answers of the service, each for one unit among healthy ones, through a backfill and two nights, and says what did not go as the table has it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { type Consequence, consequences, type Meaning } from './answer-meanings.ts'
import { type CommandResult, pipelinesOfRepository } from './command.ts'
import { createTestDatabase, type TestDatabase } from './postgres.ts'
import { type AnswerCase, answerCases, type Where } from './vendor-answers.ts'
import { runWarm } from './warm-command.ts'

/** What a backfill asks for, and the month of it that is answered oddly. */
const months: Readonly<Record<Where, { readonly from: string; readonly to: string; readonly bad: string }>> = {
  inside: { from: '2026-08', to: '2026-08', bad: '2026-08' },
  newest: { from: '2026-09', to: '2026-10', bad: '2026-10' },
  oldest: { from: '2020-06', to: '2020-07', bad: '2020-06' },
}

/** Half of the odd ones stand before the healthy ones in the list. */
const domainOf = (index: number): string => `${index % 2 === 0 ? 'c' : 'w'}${index}.com`
const isHealthy = (domain: string): boolean => domain.startsWith('h')

/** Those that slow, hold or stop a whole endpoint are played alone; the rest of a place in one command. */
const apart: readonly Meaning[] = ['outage', 'unusable', 'uncertain', 'stays open', 'rate limit', 'pending cap']
const isApart = ({ means }: AnswerCase): boolean => apart.includes(means)
const nameOf = (one: AnswerCase): string => {
  const { fact, on, where, means, sent } = one
  if (!isApart(one)) return `${on}, ${where}`
  return `${on}: ${means}, ${sent.status ?? 200} ${JSON.stringify(sent.headers ?? {})} ${sent.body ?? JSON.stringify(sent.merge)} [${fact}]`
}
const groups = [...Map.groupBy(answerCases, nameOf)]
export const together = groups.filter(([, cases]) => !cases.some(isApart))
export const alone = groups.filter(([, cases]) => cases.some(isApart))

interface World {
  readonly db: TestDatabase
  readonly service: VendorSandbox
  run(...args: string[]): Promise<CommandResult>
  close(): Promise<void>
}

const writePipelines = (
  folder: string,
  cases: readonly AnswerCase[],
  { from, to }: { readonly from: string; readonly to: string },
): void => {
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const domains = [...cases.map((_, index) => domainOf(index)), 'h1.com', 'h2.com'].toSorted()
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${domains.join('\n')}\n`)
  // Healthy reports outlast what a page is refused for.
  const deadline = cases[0]?.on === 'keywords' ? '60s' : cases[0]?.on === 'submit' ? '10s' : '2s'
  for (const name of ['keywords', 'traffic_and_engagement']) {
    const file = join(folder, 'pipelines', `${name}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/country: \[.*\]/, 'country: [us]')
      .replace(/from: 2024-01, look_back: 2 \}/, `from: ${from}, look_back: 2 }${to < '2026-10' ? `\nuntil: ${to}` : ''}`)
      .replace('poll_every: 5s, poll_max: 60s, deadline: 6h', `poll_every: 200ms, poll_max: 500ms, deadline: ${deadline}`)
      .replace('attempts: 5', 'attempts: 2')
      .replace('concurrency: 4', 'concurrency: 16')
    // A report for each domain.
    writeFileSync(file, name === 'keywords' ? text : text.replace('{ file: domains.txt }', '{ file: domains.txt, bucket: 1 }'))
  }
}

const matchOf = (on: AnswerCase['on'], domain: string, month: string): string[] =>
  on === 'keywords' ? [`URL=${domain}&`, `start_date=${month}`] : [`"domains":["${domain}"]`, `_date":"${month}"`]

const open = async (cases: readonly AnswerCase[], where: Where, times: { readonly times?: number }): Promise<World> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-answers-'))
  writePipelines(folder, cases, months[where])
  const db = await createTestDatabase({ published: true })
  const odd = cases.map(({ on, sent }, index) => ({
    ...sent,
    ...times,
    endpoint: on,
    match: matchOf(on, domainOf(index), months[where].bad),
  }))
  // The price's question would refuse the dates before anything is submitted.
  const silent = where === 'inside' ? [] : [{ endpoint: 'free' as const, match: ['request-validate'], status: 404 }]
  const service = await startVendorSandbox({ requestsPerSecond: null, keywords: 40, reportMs: 50, replies: [...odd, ...silent] })
  const environment = {
    WEB_ANALYTICS_BASE_URL: service.url,
    WEB_ANALYTICS_API_KEY: service.apiKey,
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
  }
  const close = async (): Promise<void> => {
    await service.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  }
  return { db, service, run: (...args) => runWarm([...args, '--json'], environment, folder), close }
}

interface Unit {
  readonly pipeline: string
  readonly domain: string
  readonly month: string
  readonly state: string
  readonly code: string
  readonly says: string
}

const unitsOf = async ({ db }: World): Promise<Unit[]> =>
  (
    await db.database.pool.query<Unit>(
      `select pipeline, slice->>'domain' as domain, to_char(window_from, 'YYYY-MM') as month, state,
        coalesce(error_code, '') as code, coalesce(error_message, '') as says from etl.unit_list`,
    )
  ).rows

/** What was there after a command. */
interface Seen {
  readonly exit: number | null
  readonly units: readonly Unit[]
  /** How often each odd answer had been sent. */
  readonly sent: readonly number[]
}

const pipelines = ['keywords', 'traffic_and_engagement']

const watch = async (world: World, where: Where, isOnce: boolean): Promise<Seen[]> => {
  const { from, to } = months[where]
  const seen: Seen[] = []
  const night = ['run', ...pipelines, '--yes']
  for (const args of [['backfill', ...pipelines, '--from', from, '--to', to, '--yes'], night, night]) {
    const { code } = await world.run(...args)
    // Over is over: the month is published.
    if (isOnce && where === 'newest') world.service.configure({ newestMonth: '2026-10' })
    seen.push({ exit: code, units: await unitsOf(world), sent: [...world.service.books.replaced] })
  }
  return seen
}

/** @param times how often each answer is sent; undefined: for good. @returns what is wrong, in words */
export const play = async (cases: readonly AnswerCase[], times?: number): Promise<string[]> => {
  const where = cases[0]?.where ?? 'inside'
  const world = await open(cases, where, times === undefined ? {} : { times })
  try {
    const seen = await watch(world, where, times !== undefined)
    const reports = [...world.service.books.reports.values()].map(({ body }) => JSON.stringify(body))
    return [
      ...cases.flatMap((one, index) => judge(one, index, seen, reports, times !== undefined)),
      ...seen.flatMap((one, at) => judgeRest(one, at, where, cases[0]?.on ?? 'keywords')),
    ]
  } finally {
    await world.close()
  }
}

const judge = (one: AnswerCase, index: number, seen: readonly Seen[], reports: readonly string[], isOnce: boolean): string[] => {
  const domain = domainOf(index)
  const pipeline = pipelines[one.on === 'keywords' ? 0 : 1]
  const units = seen.map((each) =>
    each.units.find((unit) => unit.domain === domain && unit.month === months[one.where].bad && unit.pipeline === pipeline),
  )
  const sent = seen.map((each, at) => (each.sent[index] ?? 0) - (seen[at - 1]?.sent[index] ?? 0))
  const means: Consequence = consequences[one.means]
  const bought = reports.filter((body) => body.includes(`"${domain}"`)).length
  const [first] = units
  const last = units.at(-1)
  const isMeant = units.every((unit) => unit !== undefined && means.state.test(unit.state) && means.code.test(unit.code))
  const isPaid = one.on === 'keywords' || one.on === 'submit'
  const wrong = [
    ...(one.where === 'inside' && sent[0] === 0 ? ['it was never sent'] : []),
    ...(!isOnce && !isMeant ? ['another meaning'] : []),
    ...(!isOnce && isMeant && !means.says.test(first?.says ?? '') ? ['another next step'] : []),
    ...(!isOnce && isPaid && !means.asksAgain && (sent[1] ?? 0) + (sent[2] ?? 0) > 0 ? ['asked again'] : []),
    ...(isOnce && means.passes && last?.state !== 'loaded' ? ['not loaded once it was over'] : []),
    // A healthy month beside the odd one may be bought apart.
    ...(bought > (one.where === 'inside' ? 1 : 2) ? [`bought ${bought} times`] : []),
  ]
  const told = units.map((unit) => `${unit?.state} ${unit?.code}`).join(', ')
  const answer = `[${one.fact}] ${one.means}: ${one.sent.status ?? 200} ${one.sent.body ?? JSON.stringify(one.sent.merge)}`
  return wrong.map((text) => `${text}: ${answer}\n    sent ${sent.join(', ')}: ${told}\n    ${first?.says}`)
}

/** Healthy units load in the first command, in both pipelines; what needs a person ends a command with 1. */
const judgeRest = ({ units, exit }: Seen, at: number, where: Where, on: AnswerCase['on']): string[] => {
  const { bad } = months[where]
  const isFine = ({ domain, month, pipeline }: Unit): boolean =>
    month !== bad || (where === 'inside' && (isHealthy(domain) || pipeline !== pipelines[on === 'keywords' ? 0 : 1]))
  const behind = units.filter((unit) => isFine(unit) && unit.state !== 'loaded')
  const isOver = units.every(({ state }) => state === 'loaded' || state === 'waiting')
  return [
    ...(behind.length > 0 ? [`after command ${at + 1} healthy units are not loaded: ${JSON.stringify(behind.slice(0, 3))}`] : []),
    ...(!isOver && exit !== 1 ? [`command ${at + 1} ended with ${exit}`] : []),
  ]
}
