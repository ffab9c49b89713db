// A year with a price: a warehouse under the guard and a budget, a team that approves, lists that change, a scheduler that dies, a service that is late.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { readSettings } from '../../src/core/env.ts'
import { createLog } from '../../src/core/log.ts'
import { migrateAndPublish } from '../../src/run/migrate-and-publish.ts'
import { type OpenRuntime, openRuntime } from '../../src/run/open-runtime.ts'
import { createProgress } from '../../src/run/progress.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { type Receiver, startReceiver } from './receiver.ts'
import { createSimulatedClock, type SimulatedClock } from './simulated-clock.ts'

export const reports = 'traffic_and_engagement'
export const pages = 'keywords'
/** Credits the reports may cost in a month: seven times the usual. */
export const budget = 2_000
const domainsAtFirst = 12

const names = (word: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${word}-${index + 1}.example`)

/** Values that come to the list to stay. */
export const clients = names('client', 20)
export const firstDomains = names('shop', domainsAtFirst)

export interface PricedWorld {
  readonly clock: SimulatedClock
  readonly sandbox: Sandbox
  readonly receiver: Receiver
  readonly client: pg.Client
  readonly startMs: number
  readonly endMs: number
  /** Values that come to the list for some nights, by mistake. */
  readonly wave: readonly string[]
  /** The list of the reports from here on. */
  list(domains: readonly string[]): void
  open(): Promise<OpenRuntime>
  close(): Promise<void>
}

const key = 'priced-key-0123456789'

/** @param databaseUrl an empty database that is this world's alone */
export const createPricedWorld = async (
  databaseUrl: string,
  { start, end, waveSize = 10_000 }: { readonly start: string; readonly end: string; readonly waveSize?: number },
): Promise<PricedWorld> => {
  const startMs = Date.parse(`${start}T00:00:00Z`)
  let clock: SimulatedClock | null = null
  const nowMs = (): number => clock?.now() ?? startMs
  const receiver = await startReceiver(nowMs)
  const sandbox = await startSandbox({
    ...{ apiKey: key, requestsPerSecond: null, reportDurationMs: 10, keywordsPerDomain: 30, quota: 10_000_000, now: nowMs },
  })
  const folder = mkdtempSync(join(tmpdir(), 'millrace-priced-'))
  mkdirSync(join(folder, 'home'))
  const pipelines = join(folder, 'pipelines')
  cpSync(pipelinesOfRepository, pipelines, { recursive: true })
  rmSync(join(pipelines, 'shopper_category_performance.yaml'))
  const list = (domains: readonly string[]): void =>
    writeFileSync(join(pipelines, 'domains.txt'), domains.map((one) => `${one}\n`).join(''))
  list(firstDomains)
  for (const name of [reports, pages]) define(join(pipelines, `${name}.yaml`), name, start)
  clock = await createSimulatedClock(databaseUrl, startMs)
  const own = clock
  const settings = readSettings(
    {
      DATABASE_URL: clock.url,
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: key,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000',
      MILLRACE_HOME: join(folder, 'home'),
      MILLRACE_NOTIFY_WEBHOOK: receiver.url,
      MILLRACE_NOTIFY_WEBHOOK_SECRET: 'year-signing-key-0123',
    },
    folder,
  )
  const log = createLog('error')
  await migrateAndPublish({ settings, pipelinesFolder: pipelines, dryRun: false })
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  return {
    ...{
      clock: own,
      sandbox,
      receiver,
      client,
      startMs,
      endMs: Date.parse(`${end}T00:00:00Z`),
      list,
      wave: names('wave', waveSize),
    },
    open: () =>
      openRuntime({
        ...{
          settings,
          pipelinesFolder: pipelines,
          pipelines: [],
          callsService: true,
          usesLanding: true,
          progress: createProgress(),
        },
        ...{ log, clock: own },
      }),
    close: async () => {
      await client.end()
      await own.close()
      await sandbox.close()
      receiver.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** From ten months before the start, every night at 02:30, expected on the 12th. */
const define = (file: string, name: string, start: string): void => {
  const year = Number(start.slice(0, 4)) - 1
  const text = readFileSync(file, 'utf8')
    .replace(/country: \[.*\]/, 'country: [us]')
    .replace('domain: { file: domains.txt }', name === pages ? 'domain: [shop-1.example]' : '$&')
    .replace(/from: \d{4}-\d{2}/, `from: ${year}-03`)
    .replace(/schedule: \{.*\}/, 'schedule: { cron: "30 2 * * *", time_zone: Europe/Berlin }')
    .replace('poll_every: 5s', 'poll_every: 50ms')
    .replace(/(limits: \{.*) \}/, name === reports ? `$1, quota_per_month: ${budget} }` : '$1 }')
  writeFileSync(file, `${text}\ntags: { client: ${name === pages ? 'acme' : 'beta'} }\nexpect: { month_by: 12 }\n`)
}
