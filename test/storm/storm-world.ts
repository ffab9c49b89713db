// The world of a storm: definitions with as many walks and reports as asked for, a sandbox that is the same in every run, and the command over it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'

export const stormPipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance'] as const

export interface StormWorld {
  /** Holds `pipelines/`; the command runs here. */
  readonly folder: string
  readonly from: string
  readonly to: string
  readonly months: readonly string[]
  /** A backfill of all pipelines over all months. */
  readonly command: readonly string[]
  environment(sandbox: Sandbox, databaseUrl: string, home: string): Record<string, string>
  remove(): void
}

const firstYear = 2025

/** A walk for each month, domain and country; a general report for each domain and a shopper report for each shop, over all months. `jobs` is met within a tenth. */
export const createStormWorld = (jobs: number): StormWorld => {
  const count = jobs >= 200 ? 10 : 2
  const months = Array.from({ length: count }, (_, index) => `${firstYear}-${String(index + 1).padStart(2, '0')}`)
  const perMonth = jobs / count
  const folder = mkdtempSync(join(tmpdir(), 'millrace-storm-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const write = (name: string, lines: readonly string[]): void =>
    writeFileSync(join(folder, 'pipelines', name), `${lines.join('\n')}\n`)
  const names = (word: string, length: number): string[] => Array.from({ length }, (_, index) => `${word}${index}.example`)
  write('domains.txt', names('site', Math.max(1, Math.round(perMonth * 0.4))))
  write('shop_domains.txt', names('shop', Math.max(1, Math.round(perMonth * 0.1))))
  for (const pipeline of stormPipelines) hasten(join(folder, 'pipelines', `${pipeline}.yaml`))
  const [from = '', to = ''] = [months[0], months.at(-1)]
  return {
    folder,
    from,
    to,
    months,
    command: ['backfill', ...stormPipelines, '--from', from, '--to', to, '--json'],
    environment: (sandbox, databaseUrl, home) => ({
      WEB_ANALYTICS_BASE_URL: sandbox.url,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '2000',
      MILLRACE_GUARD: 'off',
      DATABASE_URL: databaseUrl,
      MILLRACE_HOME: join(folder, home),
    }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** Small pages, small buckets and short waits: as many requests as possible in little time, where a restatement may take most of a unit's rows; and consent to buy a failed report again. */
const hasten = (file: string): void => {
  const text = readFileSync(file, 'utf8')
    .replace('page_size: 1000', 'page_size: 15')
    .replace('concurrency: 4', 'concurrency: 12')
    .replace(/timeout: \d+s/, 'timeout: 1s')
    .replace('attempts: 5', 'attempts: 3')
    .replace('poll_every: 5s', 'poll_every: 200ms')
    .replace('poll_max: 60s', 'poll_max: 1s')
    .replace('deadline: 6h', 'deadline: 8s')
    .replace('shrink: 50%', 'shrink: 90%')
  const isReport = text.includes('deadline:')
  const bucketed = isReport ? text.replace(/domain: \{ file: (\w+\.txt) \}/, 'domain: { file: $1, bucket: 1 }') : text
  writeFileSync(file, isReport ? `${bucketed}report: { resubmit_failed: true }\n` : bucketed)
}

/** Always the same data. */
export const startStormSandbox = (): Promise<Sandbox> =>
  startSandbox({
    seed: 7,
    keywordsPerDomain: 40,
    requestsPerSecond: null,
    reportDurationMs: 300,
    openReports: 10_000,
    now: '2026-03-20',
  })
