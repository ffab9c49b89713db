// Lives through a year with a price, six hours at a time, and holds it against what guard, calendar and the service's own books demand.
import { approve } from '../../src/ledger/approvals.ts'
import { notify } from '../../src/schedule/notify/send-alarms.ts'
import type { OpenRuntime } from '../../src/run/open-runtime.ts'
import { pricesOf } from '../../src/plan/price.ts'
import { forecasts } from '../../src/ledger/month-end.ts'
import { meterMonths } from '../../src/web/reads/spending.ts'
import { spendingByMonth, spendingByTag } from '../../src/web/reads/spending.ts'
import { addMonths } from '../../src/sandbox/publication-calendar.ts'
import { createTicker } from '../../src/schedule/ticker.ts'
import { budget, clients, firstDomains, pages, type PricedWorld, reports } from './priced-world.ts'

const stepMs = 6 * 3_600_000

/** Nobody keeps time in between; a worker lives. */
export const deadScheduler = { from: '2026-08-09T12:00:00Z', to: '2026-08-12T12:00:00Z' } as const
const lateFrom = '2026-10-08T12:00:00Z'
const lateDays = 3

/** When a person allows what the first night held. */
const firstWordOf = ({ startMs }: PricedWorld): string => new Date(startMs + 2.5 * 86_400_000).toISOString()
const waveComes = '2026-05-20T12:00:00Z'
const waveGoes = '2026-05-23T12:00:00Z'
const clientsCome = '2026-07-05T12:00:00Z'
const clientsWord = '2026-07-08T12:00:00Z'

type Act = (world: PricedWorld, runtime: OpenRuntime) => unknown

const word: Act = (_, runtime) => approve(runtime.database.kysely, [], 'a person')

const happeningsOf = (world: PricedWorld): { readonly at: string; readonly act: Act }[] =>
  [
    { at: firstWordOf(world), act: word },
    { at: waveComes, act: ({ list, wave }: PricedWorld) => list([...firstDomains, ...wave]) },
    { at: waveGoes, act: ({ list }: PricedWorld) => list(firstDomains) },
    { at: clientsCome, act: ({ list }: PricedWorld) => list([...firstDomains, ...clients]) },
    { at: clientsWord, act: word },
    { at: lateFrom, act: ({ sandbox }: PricedWorld) => sandbox.configure({ lateDays }) },
    { at: '2026-10-25T12:00:00Z', act: ({ sandbox }: PricedWorld) => sandbox.configure({ lateDays: 0 }) },
  ].filter(({ at }) => Date.parse(at) >= world.startMs && Date.parse(at) < world.endMs)

/** What `quota` would have said on a day, and what the service's books said when the month was over. */
interface Foretold {
  readonly month: string
  readonly day: string
  readonly forecast: number
}

export interface Lived {
  readonly foretold: readonly Foretold[]
  /** Credits by month, by the service's books. */
  readonly spent: ReadonlyMap<string, number>
}

export const livePricedYear = async (world: PricedWorld, progress: (day: string) => void = () => undefined): Promise<Lived> => {
  const foretold: Foretold[] = []
  const spent = new Map<string, number>()
  const coming = happeningsOf(world)
  let before = 0
  for (const life of livesOf(world)) {
    if (life.from > world.clock.now()) await world.clock.moveTo(life.from)
    let runtime = await world.open()
    try {
      let keeping = life.keepsTime ? await keeperOf(runtime) : null
      for (let at = life.from + stepMs; at <= life.to; at += stepMs) {
        const month = new Date(world.clock.now()).toISOString().slice(0, 7)
        if (at > world.clock.now()) await world.clock.moveTo(at)
        const now = new Date(at).toISOString()
        if (now.slice(0, 7) !== month) {
          // Nothing was bought since the last step, or it belongs to the month that begins.
          spent.set(month, world.sandbox.books().quotaUsed - before)
          before = world.sandbox.books().quotaUsed
        }
        if ((coming[0]?.at ?? '9') <= now) {
          while ((coming[0]?.at ?? '9') <= now) await coming.shift()?.act(world, runtime)
          // A changed list is read by a scheduler that starts anew, as after a deployment.
          await runtime.close()
          runtime = await world.open()
          if (keeping !== null) keeping = await keeperOf(runtime)
        }
        await keeping?.()
        await notify(runtime)
        if (new Date(at).getUTCHours() === 12) foretold.push(await foretell(runtime, now))
        if (new Date(at).getUTCHours() === 0) progress(now.slice(0, 10))
      }
    } finally {
      await runtime.close()
    }
  }
  const last = new Date(world.endMs - 1).toISOString().slice(0, 7)
  spent.set(last, (spent.get(last) ?? 0) + world.sandbox.books().quotaUsed - before)
  return { foretold, spent }
}

const livesOf = ({ startMs, endMs }: PricedWorld): { from: number; to: number; keepsTime: boolean }[] => {
  const [from, to] = [Date.parse(deadScheduler.from), Date.parse(deadScheduler.to)]
  return [
    { from: startMs, to: from, keepsTime: true },
    { from, to, keepsTime: false },
    { from: to, to: endMs, keepsTime: true },
  ]
    .map((life) => ({ ...life, from: Math.max(life.from, startMs), to: Math.min(life.to, endMs) }))
    .filter((life) => life.from < life.to)
}

/** Takes what is due, then what was approved. */
const keeperOf = async (runtime: OpenRuntime): Promise<() => Promise<void>> => {
  const ticker = createTicker(runtime, new AbortController().signal)
  await ticker.catchUp()
  await ticker.settled()
  return async () => {
    ticker.sweep()
    await ticker.settled()
    await ticker.approved()
    await ticker.settled()
  }
}

const foretell = async (runtime: OpenRuntime, at: string): Promise<Foretold> => {
  const { database, definitions, clock } = runtime
  const all = await forecasts(database.kysely, clock.now(), pricesOf(runtime, definitions))
  return {
    month: at.slice(0, 7),
    day: at.slice(0, 10),
    forecast: all.reduce((sum, { forecast, spent }) => sum + (forecast ?? spent), 0),
  }
}

export interface PricedFigures {
  readonly credits: number
  readonly byPage: number
  readonly alarms: number
  readonly days: number
  /** Of the days from the second month on: what the forecast was off, as a fraction. */
  readonly p50: number
  readonly p95: number
  readonly heldCredits: number
  /** Days on which it was off by more than 5 %, by month. */
  readonly offDays: ReadonlyMap<string, number>
  readonly wrong: readonly string[]
}

export const judgePricedYear = async (
  world: PricedWorld,
  runtime: OpenRuntime,
  { foretold, spent }: Lived,
): Promise<PricedFigures> => {
  const { kysely } = runtime.database
  const books = world.sandbox.books()
  const first = new Date(world.startMs).toISOString()
  const spending = await spendingByMonth(kysely, first.slice(0, 10))
  const sum = (pick: (one: (typeof spending)[number]) => number): number => spending.reduce((total, one) => total + pick(one), 0)
  const used = sum((one) => one.used)
  const byTag = spendingByTag(spending).reduce((total, one) => total + one.used, 0)
  const apart = (await meterMonths(kysely, first.slice(0, 10))).reduce((total, { difference }) => total + (difference ?? 0), 0)
  // What is foretold of a month that is not over when the world ends cannot be compared.
  const whole = foretold.filter(({ month }) => Date.parse(`${addMonths(month, 1)}-01`) <= world.endMs)
  const offs = whole
    .filter(({ month }) => month > first.slice(0, 7) && (spent.get(month) ?? 0) > 0)
    .map(({ month, forecast }) => Math.abs(forecast - (spent.get(month) ?? 0)) / (spent.get(month) ?? 1))
    .sort((left, right) => left - right)
  const offDays = new Map<string, number>()
  for (const { month, forecast } of whole)
    if (Math.abs(forecast - (spent.get(month) ?? 0)) > 0.05 * (spent.get(month) ?? 0))
      offDays.set(month, (offDays.get(month) ?? 0) + 1)
  const at = (share: number): number => offs[Math.min(offs.length - 1, Math.floor(offs.length * share))] ?? 0
  const alarms = await alarmsOf(world)
  const must = expectedAlarms(world)
  const { rows } = await world.client.query<{ credits: number }>(
    `select coalesce(max((details ->> 'credits')::float8), 0) as credits from etl.notifications where kind = 'approval'`,
  )
  return {
    ...{ credits: books.quotaUsed, byPage: sum((one) => one.request_credits), alarms: alarms.length, days: offs.length },
    ...{ p50: at(0.5), p95: at(0.95), heldCredits: rows[0]?.credits ?? 0 },
    offDays,
    wrong: [
      ...(used + apart === books.quotaUsed ? [] : [`on record ${used} and ${apart} apart, the books say ${books.quotaUsed}`]),
      ...(byTag === used ? [] : [`by tag ${byTag}, by pipeline ${used}`]),
      ...boughtWithoutWord(world),
      ...overBudget(world),
      ...must.filter((line) => !alarms.includes(line)).map((line) => `no alarm: ${line}`),
      ...alarms.filter((line) => !must.includes(line)).map((line) => `an alarm too many: ${line}`),
      ...(at(0.95) <= 0.05 ? [] : [`forecast off by ${(at(0.95) * 100).toFixed(1)} % (p95)`]),
    ],
  }
}

/** By the service's own books: what was asked for, before anybody allowed it. */
const boughtWithoutWord = (world: PricedWorld): string[] =>
  world.sandbox.books().submissions.flatMap(({ at, body }) => {
    const text = JSON.stringify(body)
    return [
      ...(text.includes('wave-') ? [`bought on ${at}: values of the mistake`] : []),
      ...(text.includes('client-') && at < clientsWord ? [`bought on ${at}: new values without a word`] : []),
      ...(/"start_date":"2025-0/.test(text) && at < firstWordOf(world) ? [`bought on ${at}: history without a word`] : []),
    ]
  })

const reportCredits = ({ sandbox }: PricedWorld): Map<string, { at: string; sum: number }[]> => {
  const months = new Map<string, { at: string; sum: number }[]>()
  for (const { at, chargedQuota } of sandbox.books().submissions) {
    const month = months.get(at.slice(0, 7)) ?? []
    months.set(at.slice(0, 7), [...month, { at, sum: (month.at(-1)?.sum ?? 0) + (chargedQuota ?? 0) }])
  }
  return months
}

const overBudget = (world: PricedWorld): string[] =>
  [...reportCredits(world)].flatMap(([month, bought]) =>
    (bought.at(-1)?.sum ?? 0) > budget ? [`${month}: ${bought.at(-1)?.sum} credits of ${budget}`] : [],
  )

/** `2026-05-21..2026-05-24 approval traffic_and_engagement` */
const alarmsOf = async ({ client }: PricedWorld): Promise<string[]> => {
  const { rows } = await client.query<{ line: string }>(
    `select to_char(raised_at at time zone 'UTC', 'YYYY-MM-DD') || '..' || coalesce(to_char(resolved_at at time zone 'UTC', 'YYYY-MM-DD'), '')
       || ' ' || regexp_replace(cause, '^(approval/[^/]+)/.*', '\\1') as line from etl.notifications order by notification_id`,
  )
  return rows.map(({ line }) => line)
}

const expectedAlarms = (world: PricedWorld): string[] => {
  const [start, until] = [new Date(world.startMs).toISOString(), new Date(world.endMs).toISOString()]
  const [first, said] = [start.slice(0, 10), firstWordOf(world).slice(0, 10)]
  const back = Number(first.slice(8)) >= 12 ? 1 : 2
  const both = (line: string): string[] => [pages, reports].map((pipeline) => line.replace('*', pipeline))
  const all = [
    // Nothing was ever loaded when the world begins.
    ...both(`${first}..${first} due/*/${addMonths(first.slice(0, 7), -back)}`),
    ...both(`${first}..${said} approval/*`),
    `2026-05-21..2026-05-24 approval/${reports}`,
    `2026-07-06..2026-07-08 approval/${reports}`,
    ...both('2026-08-10..2026-08-12 late/*'),
    ...both('2026-08-12..2026-08-12 due/*/2026-07'),
    ...both('2026-10-12..2026-10-13 due/*/2026-09'),
    ...quotaAlarms(world),
  ]
  return all.filter((line) => line.slice(0, 10) >= first && line.slice(0, 10) < until.slice(0, 10))
}

/** The day on which a month's purchases reach 80 and 100 % of the budget; over when the month turns. */
const quotaAlarms = (world: PricedWorld): string[] =>
  [...reportCredits(world)].flatMap(([month, bought]) =>
    [80, 100].flatMap((level) => {
      const reached = bought.find(({ sum }) => sum * 100 >= budget * level)
      if (reached === undefined) return []
      const next = new Date(Date.parse(`${month}-01T00:00:00Z`) + 32 * 86_400_000).toISOString().slice(0, 7)
      const over = Date.parse(`${next}-01`) < world.endMs ? `${next}-01` : ''
      return [`${reached.at.slice(0, 10)}..${over} quota/${reports}/${month}/${level}`]
    }),
  )
