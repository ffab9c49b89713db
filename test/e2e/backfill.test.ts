// What a backfill says beforehand is what it then does, and nothing outside its range is touched.
import { describe, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']

const { db, sandbox, millrace, edit } = sandboxWorld({
  sandbox: { keywordsPerDomain: 50, reportDurationMs: 0 },
})

const backfill = (from: string, to: string, ...options: string[]) =>
  millrace('backfill', ...pipelines, '--from', from, '--to', to, '--json', ...options)

/** The dry run, then the real one; the dry one must have spent nothing. */
const both = async (from: string, to: string, ...options: string[]) => {
  const { submissions, quotaUsed } = sandbox.books()
  const asked = sandbox.books().requests.length
  const foretold = await backfill(from, to, ...options, '--dry-run')
  const dry = summaryOf(foretold)
  const between = sandbox.books()
  expect([between.submissions.length, between.quotaUsed]).toEqual([submissions.length, quotaUsed])
  expect(foretold.events.at(-1)?.['free_requests']).toBe(between.requests.length - asked)
  const real = await succeeded(backfill(from, to, ...options))
  const done = summaryOf(real)
  // What is left of the account is read beside the work, for nothing.
  const work = sandbox
    .books()
    .requests.slice(between.requests.length)
    .filter(({ path }) => !/credits|capabilities/.test(path))
  expect(work).toHaveLength(done.requests)
  expect(Object.keys(dry)).toEqual(expect.arrayContaining(Object.keys(done)))
  return { dry, real: done }
}

const effort = ({ units, requests, reports_submitted }: ReturnType<typeof summaryOf>) => ({
  units: { planned: units.planned, loaded: units.loaded, unchanged: units.unchanged },
  requests,
  reports_submitted,
})

describe('a dry run and the real run after it', () => {
  test('agree on a first backfill, a partly loaded range, --force and --only', async () => {
    const first = await both('2026-07', '2026-08')
    expect(effort(first.dry)).toEqual(effort(first.real))

    // Several pages a walk from here on: the size of a slice is known from its earlier load.
    edit('keywords', ['page_size: 1000', 'page_size: 20'])
    const partly = await both('2026-08', '2026-09')
    expect(effort(partly.dry)).toEqual(effort(partly.real))
    expect(partly.real.units.unchanged).toBeGreaterThan(0)
    expect(partly.dry.quota_used).toBe(partly.real.quota_used)

    // Given twice, both count.
    const narrowed = await both('2026-06', '2026-06', '--only', 'domain=example.com', '--only', 'domain=example.net')
    expect(narrowed.real.units.planned).toBe(
      2 * (await both('2026-06', '2026-06', '--only', 'domain=example.com')).real.units.planned,
    )
    expect(effort(narrowed.dry)).toEqual(effort(narrowed.real))

    const forced = await both('2026-09', '2026-09', '--force')
    expect(effort(forced.dry)).toEqual(effort(forced.real))
    expect(forced.dry.quota_used).toBe(forced.real.quota_used)

    const again = await both('2026-09', '2026-09')
    expect(again.real).toMatchObject({ requests: 0, reports_submitted: 0 })
    expect(effort(again.dry)).toEqual(effort(again.real))
  })

  test('quota is exact from the first backfill on where the service prices reports', async () => {
    const command = ['backfill', 'traffic_and_engagement', '--from', '2026-03', '--to', '2026-04', '--json']
    const dry = summaryOf(await millrace(...command, '--dry-run'))
    const real = summaryOf(await millrace(...command))
    expect(dry.quota_used).toBeGreaterThan(0)
    expect(dry.quota_used).toBe(real.quota_used)
  })
})

const everyRow = async (query: string): Promise<string[]> => {
  const rows = await db.query<{ line: string }>(`select (to_jsonb(t))::text as line from (${query}) t order by 1`)
  return rows.map(({ line }) => line)
}

/** Rows, history and ledger of months before `month`, every column. */
const earlierThan = async (month: string): Promise<string[]> => {
  const data = pipelines.flatMap((pipeline) =>
    ['', '_history'].map(
      (suffix) =>
        `select * from data.${pipeline}_v1${suffix} where ${pipeline === 'keywords' ? 'month' : 'date'} < '${month}-01'`,
    ),
  )
  const jobs = `select job_id from etl.jobs where window_to <= '${month}-01'`
  const ledger = [
    `select * from etl.units where window_from < '${month}-01'`,
    `select * from etl.loads where window_from < '${month}-01'`,
    `select * from etl.answers where window_to <= '${month}-01'`,
    `select * from etl.jobs where job_id in (${jobs})`,
    `select * from etl.requests where job_id in (${jobs})`,
  ]
  const lines: string[] = []
  for (const query of [...data, ...ledger]) lines.push(...(await everyRow(query)))
  return lines
}

/** What a nightly run owes for windows before `month`. */
const dueBefore = async (month: string): Promise<string[]> => {
  const { events } = await millrace('run', '--dry-run', '--json')
  return events
    .filter((event) => event['event'] === 'job' && String(event['window']) < month)
    .map(({ job, reason, units }) => `${String(job)} ${String(reason)} ${String(units)}`)
}

describe('a range', () => {
  test('is all that is touched, also with --force: rows, history and ledger outside stay byte by byte, nightly owes the same', async () => {
    await backfill('2026-08', '2026-08')
    const rows = await earlierThan('2026-09')
    const due = await dueBefore('2026-09')
    expect(rows.length).toBeGreaterThan(100)
    expect(due.length).toBeGreaterThan(3)
    sandbox.restate('2026-08')
    sandbox.restate('2026-09')
    const forced = await succeeded(backfill('2026-09', '2026-09', '--force'))
    expect(summaryOf(forced).rows.updated).toBeGreaterThan(0)
    expect(await earlierThan('2026-09')).toEqual(rows)
    expect(await dueBefore('2026-09')).toEqual(due)
  })

  test.each([
    [['--from', '2026-09', '--to', '2026-08'], /lies after --to 2026-08; swap them/],
    [['--from', '2014-12', '--to', '2015-01'], /outside the calendar of bi, 2015-01 to 2049-12/],
    [['--from', '2049-12', '--to', '2050-01'], /outside the calendar of bi/],
    [['--from', '2026-13', '--to', '2026-14'], /--from is '2026-13'; write a month as YYYY-MM/],
    [['--from', '2026-08', '--to', '2026-08', '--order', 'sideways'], /Allowed choices are newest, oldest/],
    [['--from', '2026-08'], /Both --from YYYY-MM and --to YYYY-MM are needed/],
  ])('that is wrong (%j) is refused with what to write instead, before anything is called', async (options, words) => {
    const asked = sandbox.books().requests.length
    const result = await millrace('backfill', 'keywords', ...options)
    expect([result.code, result.stderr]).toEqual([2, expect.stringMatching(words)])
    expect(sandbox.books().requests).toHaveLength(asked)
  })
})

test('some values are all that a backfill of them works on: a report of others that cannot be loaded is left to a run for all', async () => {
  const traffic = (...options: string[]) =>
    millrace('backfill', 'traffic_and_engagement', '--from', '2025-02', '--to', '2025-02', '--json', ...options)
  sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit', times: 1 }] })
  const broken = await traffic('--only', 'domain=example.com')
  expect([broken.code, summaryOf(broken).units]).toMatchObject([1, { planned: 3, failed: 3 }])
  sandbox.configure({ faults: [] })
  const other = await traffic('--only', 'domain=example.org')
  expect([other.code, summaryOf(other).units], other.stderr).toMatchObject([0, { planned: 3, loaded: 3, failed: 0 }])
  const all = await traffic()
  expect([all.code, summaryOf(all).units]).toMatchObject([1, { failed: 3 }])
})

test('a report of another month that is not made yet is looked after and not waited for: a range ends with its own work', async () => {
  const visits = (month: string) => millrace('backfill', 'traffic_and_engagement', '--from', month, '--to', month, '--json')
  edit('traffic_and_engagement', ['deadline: 6h', 'deadline: 1s'])
  sandbox.configure({ faults: [{ kind: 'report-stuck', on: 'submit' }] })
  expect((await visits('2024-02')).code).toBe(1)
  sandbox.configure({ faults: [] })
  edit('traffic_and_engagement', ['deadline: 1s', 'deadline: 6h'])
  const started = performance.now()
  const ended = await succeeded(visits('2024-03'))
  expect(performance.now() - started).toBeLessThan(25_000)
  expect(summaryOf(ended).units).toMatchObject({ waiting: 0, failed: 0, held: 0 })
  // It stays bought, and open for the next run.
  const open = await db.query(`select state, report_state from etl.jobs where kind = 'report' and state = 'open'`)
  expect(open).toEqual([{ state: 'open', report_state: 'submitted' }])
  expect(sandbox.books().submissions.filter(({ body }) => JSON.stringify(body).includes('2024-02'))).toHaveLength(1)
}, 90_000)
