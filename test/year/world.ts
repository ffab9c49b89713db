// Three pipelines in three time zones, a service, a warehouse that tells simulated time, and a team that is told.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { readSettings } from '../../src/core/env.ts'
import { createLog } from '../../src/core/log.ts'
import { migrateAndPublish } from '../../src/run/migrate-and-publish.ts'
import { type OpenRuntime, openRuntime } from '../../src/run/open-runtime.ts'
import { createProgress } from '../../src/run/progress.ts'
import { addMonths } from '../../src/sandbox/publication-calendar.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { type Receiver, startReceiver } from './receiver.ts'
import { createSimulatedClock, type SimulatedClock } from './simulated-clock.ts'

export interface Pipeline {
  readonly name: string
  readonly kind: 'walk' | 'report'
  readonly timeZone: string
  readonly cron: string
  /** What a clock on the wall shows at a tick. */
  readonly localTime: string
  /** The day of 2026 on which daylight saving skips that time, and the time it goes on at. */
  readonly skippedOn: { readonly day: string; readonly goesOnAt: string } | null
  readonly catchUp: 'last' | 'all' | 'none'
  /** First month it loads. */
  readonly from: string
  /** Credits a month; null: no budget. */
  readonly quotaPerMonth: number | null
}

const shopDomains = 12
/** Domains x metrics of `traffic_and_engagement` x one country x one month. */
const price = shopDomains * 6
/** Windows published before the start: one more than the first month's budget pays for. */
const windowsBefore = 11

/** Between them the zones skip and repeat hours of these schedules, one of them by half an hour. */
const pipelinesFrom = (startMonth: string): readonly Pipeline[] => [
  {
    name: 'keywords',
    kind: 'walk',
    timeZone: 'Europe/Berlin',
    cron: '30 2 * * *',
    localTime: '02:30',
    skippedOn: { day: '2026-03-29', goesOnAt: '03:00' },
    catchUp: 'last',
    from: addMonths(startMonth, -3),
    quotaPerMonth: null,
  },
  {
    name: 'traffic_and_engagement',
    kind: 'report',
    timeZone: 'America/New_York',
    cron: '30 2 * * *',
    localTime: '02:30',
    skippedOn: { day: '2026-03-08', goesOnAt: '03:00' },
    catchUp: 'all',
    from: addMonths(startMonth, -windowsBefore - 1),
    quotaPerMonth: price * (windowsBefore - 1),
  },
  {
    name: 'shopper_category_performance',
    kind: 'report',
    timeZone: 'Australia/Lord_Howe',
    cron: '45 1 * * *',
    localTime: '01:45',
    skippedOn: null,
    catchUp: 'none',
    from: addMonths(startMonth, -3),
    quotaPerMonth: null,
  },
]

const key = 'year-key-0123456789'

/** What every warehouse of a world talks to. */
export interface Service {
  readonly pipelines: readonly Pipeline[]
  readonly sandbox: Sandbox
  readonly receiver: Receiver
}

export interface Warehouse {
  readonly clock: SimulatedClock
  /** Asks the warehouse; values as node-postgres gives them. */
  readonly client: pg.Client
  /** A program that starts now, as `millrace schedule` does. */
  open(): Promise<OpenRuntime>
  close(): Promise<void>
}

export interface YearWorld extends Warehouse, Service {
  readonly service: Service
  readonly startMs: number
  readonly endMs: number
  /** Credits of one report of `traffic_and_engagement`. */
  readonly price: number
  /** First day of the month after the start, `YYYY-MM-DD`. */
  readonly budgetSpentUntil: string
}

export interface Span {
  /** First days of months, `YYYY-MM-DD`. */
  readonly start: string
  readonly end: string
}

/** @param databaseUrl an empty database that is this world's alone. */
export const createYearWorld = async (databaseUrl: string, { start, end }: Span): Promise<YearWorld> => {
  const startMs = Date.parse(`${start}T00:00:00Z`)
  const pipelines = pipelinesFrom(start.slice(0, 7))
  let clock: SimulatedClock | null = null
  const nowMs = (): number => clock?.now() ?? startMs
  const receiver = await startReceiver(nowMs)
  const options = { apiKey: key, requestsPerSecond: null, reportDurationMs: 10, keywordsPerDomain: 30 } as const
  const sandbox = await startSandbox({ ...options, now: nowMs })
  const service = { pipelines, sandbox, receiver }
  const warehouse = await openWarehouse(service, databaseUrl, startMs, { budgets: true })
  clock = warehouse.clock
  return {
    ...warehouse,
    ...service,
    service,
    startMs,
    endMs: Date.parse(`${end}T00:00:00Z`),
    price,
    budgetSpentUntil: `${addMonths(start.slice(0, 7), 1)}-01`,
    close: async () => {
      await warehouse.close()
      await sandbox.close()
      receiver.close()
    },
  }
}

/** A warehouse and home of its own beside the same service; without budgets nobody is told of anything either. */
export const openWarehouse = async (
  { pipelines, sandbox, receiver }: Service,
  databaseUrl: string,
  atMs: number,
  { budgets }: { readonly budgets: boolean },
): Promise<Warehouse> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-year-'))
  mkdirSync(join(folder, 'home'))
  makeDefinitions(folder, pipelines, budgets)
  const clock = await createSimulatedClock(databaseUrl, atMs)
  const told = { MILLRACE_NOTIFY_WEBHOOK: receiver.url, MILLRACE_NOTIFY_WEBHOOK_SECRET: 'year-signing-key-0123' }
  const settings = readSettings(
    {
      DATABASE_URL: clock.url,
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: key,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000',
      MILLRACE_GUARD: 'off',
      MILLRACE_HOME: join(folder, 'home'),
      ...(budgets ? told : {}),
    },
    folder,
  )
  const pipelinesFolder = join(folder, 'pipelines')
  const log = createLog('error')
  await migrateAndPublish({ settings, pipelinesFolder, dryRun: false })
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  return {
    clock,
    client,
    open: async () => {
      const progress = createProgress()
      const options = { settings, pipelinesFolder, pipelines: [], callsService: true, usesLanding: true, progress, log, clock }
      return openRuntime(options)
    },
    close: async () => {
      await client.end()
      await clock.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const makeDefinitions = (folder: string, pipelines: readonly Pipeline[], budgets: boolean): void => {
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const names = Array.from({ length: shopDomains }, (_, index) => `runtime-${index + 1}.example\n`).join('')
  const shops = names.replace(/.*-(2|10|11)\..*\n/g, '')
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), names)
  // Without those that lose a category's only row by a restatement: such units wait for a person.
  writeFileSync(join(folder, 'pipelines', 'shop_domains.txt'), shops)
  for (const { name, from, timeZone, cron, catchUp, quotaPerMonth } of pipelines) {
    const file = join(folder, 'pipelines', `${name}.yaml`)
    const quota = budgets && quotaPerMonth !== null ? `, quota_per_month: ${quotaPerMonth}` : ''
    const text = readFileSync(file, 'utf8')
      .replace(/country: \[.*\]/, 'country: [us]')
      .replace('domain: { file: domains.txt }', name === 'keywords' ? 'domain: [shop-1.example]' : '$&')
      .replace(/from: \d{4}-\d{2}/, `from: ${from}`)
      .replace(/schedule: \{.*\}/, `schedule: { cron: "${cron}", time_zone: ${timeZone}, catch_up: ${catchUp} }`)
      .replace('poll_every: 5s', 'poll_every: 50ms')
      .replace('attempts: 5', 'attempts: 1')
      .replace(/(limits: \{.*) \}/, `$1${quota} }`)
    writeFileSync(file, text)
  }
}
