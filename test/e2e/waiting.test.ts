// "Not yet" costs nothing: many reports open at once over two slots, none of them a try, none bought twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld } from '../support/test-world.ts'

/** 2,000 by `MILLRACE_TEST_OPEN_REPORTS=2000`; fewer show the same. */
const open = Number(process.env['MILLRACE_TEST_OPEN_REPORTS'] ?? 30)
const slots = 2
const waitMs = 90_000 + open * 150

const { db, sandbox, edit, start } = sandboxWorld({
  lists: { domains: Array.from({ length: open }, (_, index) => `w${index}.com`) },
  sandbox: { seed: 3, openReports: open + 1, reportDurationMs: 1_000_000_000 },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000' },
})

beforeAll(() =>
  edit(
    'traffic_and_engagement',
    ['{ file: domains.txt }', '{ file: domains.txt, bucket: 1 }'],
    ['[us, gb, world]', '[us]'],
    [
      /concurrency: 4, timeout: 60s, attempts: 5, poll_every: 5s, poll_max: 60s/,
      `concurrency: ${slots}, timeout: 60s, attempts: 1, poll_every: 2s, poll_max: 10s`,
    ],
  ),
)

const numbers = async (statement: string): Promise<Readonly<Record<string, number>>> =>
  (await db.query<Record<string, number>>(statement))[0] ?? {}

test(
  `${open} open reports wait over ${slots} slots; all of them finish, each with one try and one purchase`,
  async () => {
    const running = start(['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-08', '--json'])
    const started = Date.now()
    let mostInFlight = 0
    const look = async (): Promise<number> => {
      const { hand = 0, submitted = 0 } =
        await numbers(`select (select count(*)::int from etl.jobs where holder is not null) as hand,
        (select count(*)::int from etl.reports where state = 'submitted') as submitted`)
      mostInFlight = Math.max(mostInFlight, hand)
      return submitted
    }
    while ((await look()) < open) {
      if (Date.now() - started > waitMs || running.child.exitCode !== null) break
      await sleep(100)
    }
    expect(await look(), running.printed().slice(-2_000)).toBe(open)
    const openAfter = Date.now() - started
    sandbox.configure({ reportDurationMs: 0 })
    const result = await running.result
    expect(result.code, result.stderr.slice(-2_000)).toBe(0)
    expect(summaryOf(result).units).toMatchObject({ planned: open, loaded: open, waiting: 0, failed: 0 })
    expect(mostInFlight).toBeLessThanOrEqual(slots)
    expect(sandbox.books().submissions).toHaveLength(open)
    // A fence grows with each claim and each settlement; a report is submitted, polled and loaded under claims of its own.
    const tries = await numbers(
      'select max(attempts) as tries, sum(fence)::int / 2 as claims, count(*)::int as jobs, sum(cells)::int as units from etl.jobs',
    )
    expect(tries).toMatchObject({ tries: 1, jobs: open, units: open })
    expect(tries['claims']).toBeGreaterThanOrEqual(2 * open)
    console.log(
      `${open} reports open after ${openAfter} ms, all loaded after ${Date.now() - started} ms, ${tries['claims']} claims`,
    )
  },
  waitMs * 2,
)
