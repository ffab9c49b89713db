// 40,000 domains: as many reports as the table's limit asks for, never more of them pending than the service takes, in little memory.
import { expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { summaryOf } from '../support/command.ts'
import { peakOfMemory } from '../support/peak-memory.ts'
import { testWorld } from '../support/test-world.ts'

const domains = 40_000
const mostMb = 200

const { db, service, edit, start } = testWorld({
  each: true,
  lists: { domains: Array.from({ length: domains }, (_, index) => `shop-${index}.example.com`) },
  service: () => startVendorSandbox({ requestsPerSecond: null, reportMs: 200, pendingReports: 100 }),
})

const load = (limit: string) => {
  edit(
    'traffic_and_engagement',
    ['include_subdomains: true }', `include_subdomains: true${limit} }`],
    ['[us, gb, world]', '[us]'],
    ['poll_every: 5s', 'poll_every: 1s'],
    // The sandbox's figures do not add up: a failure for each of 40,000 units is not the subject.
    [/\n# Tested[\s\S]*/, '\n'],
  )
  return peakOfMemory(start(['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--yes', '--json']))
}

test.each([
  { limit: '', reports: 1, name: 'the table’s own limit' },
  { limit: ', most_values: 100', reports: 400, name: 'a limit of 100' },
])(
  '$name: $reports reports',
  async ({ limit, reports }) => {
    const { ended: result, peakMb } = await load(limit)
    expect(result.code, result.stderr).toBe(0)
    expect(summaryOf(result)).toMatchObject({ units: { loaded: domains, failed: 0, held: 0 }, reports_submitted: reports })
    expect(service.books.reports.size).toBe(reports)
    const rows = await db.query(
      `select count(*)::int as jobs, count(*) filter (where state <> 'done')::int as open, max(attempts)::int as attempts from etl.jobs`,
    )
    expect(rows[0]).toEqual({ jobs: reports, open: 0, attempts: 1 })
    process.stderr.write(`${reports} reports over ${domains} domains: ${Math.round(peakMb)} MB at most\n`)
    expect(peakMb).toBeLessThan(mostMb)
  },
  300_000,
)
