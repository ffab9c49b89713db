// A warehouse as an analyst finds it: months of three pipelines, loaded by the real command, with April 2025 restated after it was loaded, and a domain
// of which the reports of May have nothing.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Pool } from 'pg'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, pipelinesOfRepository, runCommand } from './command.ts'

/** When the first load is said to have happened, and the one that found April changed. */
const loadedAt = '2025-05-10T03:00:00Z'
const restatedAt = '2025-06-10T03:00:00Z'
const reports = ['traffic_and_engagement', 'shopper_category_performance']

type Range = readonly [from: string, to: string]

/** Months of the keywords and of the reports; the few that the questions need. */
const fewMonths = {
  keywords: [
    ['2024-04', '2024-04'],
    ['2025-01', '2025-04'],
  ],
  reports: [
    ['2024-03', '2024-04'],
    ['2025-01', '2025-04'],
  ],
} as const satisfies Months

interface Months {
  readonly keywords: readonly Range[]
  readonly reports: readonly Range[]
}

/** How the service stands: before April was restated, after it, and without any data of example.org, as in May. */
export type Moment = 'first' | 'restated' | 'gone'

/**
 * Fills the migrated, empty database at `url`; the same rows each time.
 * @param see asks the service itself, at each moment
 */
export const fillAnalystWarehouse = async (
  url: string,
  pool: Pick<Pool, 'query'>,
  months: Months = fewMonths,
  see: (sandbox: Sandbox, moment: Moment) => Promise<void> = async () => undefined,
): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-analyst-'))
  const sandbox = await startSandbox({
    keywordsPerDomain: 60,
    requestsPerSecond: null,
    reportDurationMs: 50,
    now: '2025-06-20',
  })
  const backfill = async (...more: readonly string[]): Promise<void> => {
    const environment = {
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
      DATABASE_URL: url,
      MILLRACE_HOME: join(folder, 'home'),
    }
    assertLoaded(await runCommand(['backfill', ...more, '--json'], environment, folder))
  }
  try {
    pollOften(folder)
    for (const [from, to] of months.keywords) await backfill('keywords', '--from', from, '--to', to)
    for (const [from, to] of months.reports) await backfill(...reports, '--from', from, '--to', to)
    await pretend(pool, loadedAt, '2025-05-09')
    await see(sandbox, 'first')
    sandbox.restate('2025-04')
    await backfill('keywords', ...reports, '--from', '2025-04', '--to', '2025-04', '--force')
    await see(sandbox, 'restated')
    sandbox.configure({ keywordsByDomain: { 'example.org': 0 } })
    await backfill(...reports, '--from', '2025-05', '--to', '2025-05')
    await see(sandbox, 'gone')
    await pretend(pool, restatedAt, '2025-06-09')
  } finally {
    await sandbox.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

const pollOften = (folder: string): void => {
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  for (const name of reports) {
    const file = join(folder, 'pipelines', `${name}.yaml`)
    writeFileSync(file, readFileSync(file, 'utf8').replace('poll_every: 5s', 'poll_every: 100ms'))
  }
}

const assertLoaded = (result: CommandResult): void => {
  if (result.code !== 0) throw new Error(`backfill ended with ${result.code}:\n${result.stdout}\n${result.stderr}`)
}

/** Moves what was loaded just now, and only that, to `moment`. */
const pretend = async (pool: Pick<Pool, 'query'>, moment: string, after: string): Promise<void> => {
  const set = (table: string, column: string) =>
    pool.query(`update ${table} set ${column} = '${moment}' where ${column} > '${after}'::date + 2`)
  for (const pipeline of ['keywords', ...reports]) {
    await set(`data.${pipeline}_v1`, '_loaded_at')
    await set(`data.${pipeline}_v1_history`, '_valid_to')
  }
  for (const table of ['etl.load_rows', 'etl.answer_rows']) await set(table, 'loaded_at')
  await set('etl.windows', 'looked_at')
  for (const column of ['asked_at', 'stood_at']) await set('etl.answer_rows', column)
}
