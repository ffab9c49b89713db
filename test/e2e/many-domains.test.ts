// 40,000 domains: as many reports as the table's limit asks for, never more of them pending than the service takes, in little memory.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startVendorSandbox, type VendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { pipelinesOfRepository, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const domains = 40_000
const mostMb = 200

let folder: string
let db: TestDatabase
let service: VendorSandbox

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-many-domains-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const list = Array.from({ length: domains }, (_, index) => `shop-${index}.example.com`)
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${list.join('\n')}\n`)
  db = await createTestDatabase()
  service = await startVendorSandbox({ requestsPerSecond: null, reportMs: 200, pendingReports: 100 })
})
afterEach(async () => {
  await service.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const peakMbOf = (pid: number | undefined): number => {
  try {
    const [, kb] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kb ?? 0) / 1000
  } catch {
    return 0
  }
}

const load = async (limit: string) => {
  const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
  const yaml = readFileSync(file, 'utf8')
    .replace('include_subdomains: true }', `include_subdomains: true${limit} }`)
    .replace('[us, gb, world]', '[us]')
    .replace('poll_every: 5s', 'poll_every: 1s')
    // The sandbox's figures do not add up: a failure for each of 40,000 units is not the subject.
    .replace(/\n# Tested[\s\S]*/, '\n')
  writeFileSync(file, yaml)
  const running = startCommand(
    ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes', '--json'],
    {
      WEB_ANALYTICS_BASE_URL: service.url,
      WEB_ANALYTICS_API_KEY: service.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )
  let peakMb = 0
  const watch = setInterval(() => {
    peakMb = Math.max(peakMb, peakMbOf(running.child.pid))
  }, 50)
  const result = await running.result
  clearInterval(watch)
  return { result, peakMb }
}

test.each([
  { limit: '', reports: 1, name: 'the table’s own limit' },
  { limit: ', most_values: 100', reports: 400, name: 'a limit of 100' },
])(
  '$name: $reports reports',
  async ({ limit, reports }) => {
    const { result, peakMb } = await load(limit)
    expect(result.code, result.stderr).toBe(0)
    expect(summaryOf(result)).toMatchObject({ units: { loaded: domains, failed: 0, held: 0 }, reports_submitted: reports })
    expect(service.books.reports.size).toBe(reports)
    const { rows } = await db.database.pool.query(
      `select count(*)::int as jobs, count(*) filter (where state <> 'done')::int as open, max(attempts)::int as attempts from etl.jobs`,
    )
    expect(rows[0]).toEqual({ jobs: reports, open: 0, attempts: 1 })
    process.stderr.write(`${reports} reports over ${domains} domains: ${Math.round(peakMb)} MB at most\n`)
    expect(peakMb).toBeLessThan(mostMb)
  },
  300_000,
)
