// The price before the night, at the command line: what is planned, held, approved and spread over a budget, against the service's own books.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { approvedReady } from '../../src/ledger/approved-jobs.ts'
import { startCommand, summaryOf } from '../support/command.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const pipeline = 'traffic_and_engagement'
const world = sandboxWorld({ each: true, json: true })
const { db, sandbox, millrace, folder } = world
const edit = (change: (text: string) => string): void => world.edit(pipeline, change)

const list = (count: number): void =>
  world.list(
    'domains',
    Array.from({ length: count }, (_, index) => `shop-${index}.example`),
  )

beforeEach(() => {
  list(2)
  world.edit(pipeline, ['from: 2024-01', 'from: 2025-11'], ['poll_every: 5s', 'poll_every: 50ms'], ['[us, gb, world]', '[us]'])
})

const spent = (): number => sandbox.books().quotaUsed

test('what was approved with another parameter of the key waits for its definition: no night tries it, and the schedule begins none for it', async () => {
  await succeeded(millrace('migrate'))
  const before = summaryOf(await millrace('run', pipeline)).units
  expect(before).toMatchObject({ loaded: 4, held: 20 })
  const paid = spent()
  edit((text) => text.replace('include_subdomains: true', 'include_subdomains: false'))
  expect(summaryOf(await millrace('run', pipeline)).units).toMatchObject({ loaded: 0, held: 24 })
  await succeeded(millrace('approve', pipeline))
  const night = await millrace('run', pipeline)
  expect([night.code, summaryOf(night).units]).toMatchObject([0, { planned: 24, loaded: 24, waiting: 0 }])
  expect(summaryOf(await millrace('run', pipeline)).units).toMatchObject({ planned: 0, waiting: 0 })
  expect(spent() - paid).toBe(144)
  const definition = await shippedDefinition(pipeline)
  const now = { ...definition, params: { ...definition.params, include_subdomains: false } }
  expect(await approvedReady(db.database.kysely, [now])).toEqual([])
  expect(await approvedReady(db.database.kysely, [definition])).toEqual([pipeline])

  edit((text) => text.replace('include_subdomains: false', 'include_subdomains: true'))
  expect(summaryOf(await millrace('run', pipeline)).units).toMatchObject({ loaded: 20, waiting: 0 })
  expect(spent() - paid).toBe(144 + 120)
})

test('what waits under another parameter of the key is not what a night of the definition ends with 1 for', async () => {
  await succeeded(millrace('migrate'))
  expect((await millrace('run', pipeline)).code).toBe(1)
  edit((text) => text.replace('include_subdomains: true', 'include_subdomains: false'))
  await succeeded(millrace('run', pipeline, '--yes'))
  expect((await millrace('run', pipeline)).code).toBe(0)
})

test('what waits for a word goes with the months that a definition begins later than, and comes back with them', async () => {
  await succeeded(millrace('migrate'))
  expect(summaryOf(await millrace('run', pipeline)).units).toMatchObject({ loaded: 4, held: 20 })
  const paid = spent()
  edit((text) => text.replace('from: 2025-11', 'from: 2026-06'))
  expect(summaryOf(await millrace('run', pipeline)).units).toMatchObject({ loaded: 0, held: 6 })
  edit((text) => text.replace('from: 2026-06', 'from: 2026-09'))
  expect((await millrace('run', pipeline)).code).toBe(0)
  await millrace('approve', pipeline)
  await succeeded(millrace('run', pipeline))
  expect(spent()).toBe(paid)
  edit((text) => text.replace('from: 2026-09', 'from: 2025-11'))
  expect((await millrace('run', pipeline)).code).toBe(1)
  expect(spent()).toBe(paid)
})

test('of two nights that plan at the same time each says that something waits for a word', async () => {
  await succeeded(millrace('migrate'))
  // Both ask for the prices before either holds what is dear.
  sandbox.configure({ faults: [{ kind: 'slow', on: 'validate', delayMs: 3_000 }] })
  const nights = [1, 2].map(() => startCommand(['run', pipeline, '--json'], world.environment(), folder).result)
  expect((await Promise.all(nights)).map(({ code }) => code)).toEqual([1, 1])
})

test('a first night loads the look-back, holds the history with its price, and buys exactly that once it is approved', async () => {
  await succeeded(millrace('migrate'))
  const plan = await millrace('plan', pipeline)
  expect(spent()).toBe(0)
  const foretold = plan.events.at(-1) as {
    needs_approval: { units: number; reports: number; credits: number }
    quota_used: number
  }
  expect(foretold.needs_approval.units).toBeGreaterThan(10)

  const night = await millrace('run', pipeline)
  expect([night.code, summaryOf(night).units]).toMatchObject([1, { loaded: 4, held: foretold.needs_approval.units, failed: 0 }])
  expect(spent()).toBe(foretold.quota_used)
  expect(night.events).toContainEqual(
    expect.objectContaining({ event: 'needs_approval', approve: `millrace approve ${pipeline}` }),
  )

  // Nothing more without a word, however often it runs.
  expect((await millrace('run', pipeline)).code).toBe(1)
  expect(spent()).toBe(foretold.quota_used)

  const list = await millrace('approve', '--dry-run')
  expect(list.events).toContainEqual(
    expect.objectContaining({ event: 'needs_approval', credits: foretold.needs_approval.credits }),
  )
  await succeeded(millrace('approve', pipeline))
  const bought = await millrace('run', pipeline)
  expect([bought.code, bought.stderr]).toEqual([0, expect.anything()])
  expect(summaryOf(bought)).toMatchObject({
    units: { loaded: foretold.needs_approval.units, held: 0 },
    reports_submitted: foretold.needs_approval.reports,
    quota_used: foretold.needs_approval.credits,
  })
  expect(spent()).toBe(foretold.quota_used + foretold.needs_approval.credits)
  expect(await db.query('select state, decided_by, credits::int from etl.approvals')).toEqual([
    { state: 'approved', decided_by: expect.stringContaining('approve'), credits: foretold.needs_approval.credits },
  ])
}, 180_000)

test('a range that is named loads without a question; what came to a list since waits, unless somebody says yes', async () => {
  await succeeded(millrace('migrate'))
  const range = ['--from', '2025-11', '--to', '2026-09']
  await succeeded(millrace('backfill', pipeline, ...range))
  await succeeded(millrace('run', pipeline, '--yes'))
  const before = spent()
  list(60)
  const dry = summaryOf(await millrace('run', pipeline, '--dry-run'))
  expect(dry).toMatchObject({ units: { loaded: 0 }, reports_submitted: 0, quota_used: 0 })
  expect((await millrace('run', pipeline)).code).toBe(1)
  expect(spent()).toBe(before)
  await succeeded(millrace('run', pipeline, '--yes'))
  expect(spent()).toBeGreaterThan(before)
}, 180_000)

test('a range larger than the budget of a day is bought as far as that goes, and waits for the next without a job more', async () => {
  edit((text) => text.replace('limits: {', 'limits: { quota_per_day: 60,'))
  await succeeded(millrace('migrate'))
  const result = await millrace('backfill', pipeline, '--from', '2025-11', '--to', '2026-09')
  const { units } = summaryOf(result)
  expect(units).toMatchObject({ held: 0, failed: 0 })
  expect(units.loaded).toBeGreaterThan(0)
  expect(units.waiting).toBeGreaterThan(0)
  expect(spent()).toBeLessThanOrEqual(60)
  const paced = result.events.find(({ event }) => event === 'paced')
  expect(paced).toMatchObject({ pipeline, units: units.waiting, done_on: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) })
  const jobs = (): Promise<unknown> =>
    db.query('select job_id from etl.jobs where approval_id is not null and ask_number is null order by 1')
  const waiting = await jobs()
  const newest = await db.query('select max(window_from)::text as newest from etl.units where answer_id is not null')
  expect(newest).toEqual([{ newest: '2026-09-01' }])
  // The night takes it up, finds the budget spent, and leaves it as it is.
  await millrace('run', pipeline)
  expect(await jobs()).toEqual(waiting)
  expect(spent()).toBeLessThanOrEqual(60)
  // The next day, as far as the ledger is concerned.
  await db.database.pool.query(`update etl.jobs set asked_at = asked_at - interval '1 day' where asked_at is not null`)
  await millrace('run', pipeline)
  expect(spent()).toBeGreaterThan(60)
  expect(spent()).toBeLessThanOrEqual(120)
}, 180_000)

test('a plan beyond a budget says what is spent after it: no more than the budget', async () => {
  edit((text) => text.replace('limits: {', 'limits: { quota_per_month: 60,'))
  await succeeded(millrace('migrate'))
  await millrace('backfill', pipeline, '--from', '2025-11', '--to', '2026-09')
  const { stdout } = await succeeded(runWarm(['plan', pipeline], world.environment(), folder))
  expect(stdout).toMatch(/over a budget; continues each night/)
  expect(stdout).toMatch(/Now, as far as the budgets allow: \d+ units/)
  expect(stdout).toMatch(/Month \(default\): \d+ of 60 credits spent, 60 after this, 0 left\./)
})

test('what a budget leaves of a backfill of pages is counted in units: pages are no reports', async () => {
  const file = join(folder, 'pipelines', 'keywords.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('limits: {', 'limits: { quota_per_day: 3,'))
  await succeeded(millrace('migrate'))
  const only = ['--only', 'country=us']
  const { units } = summaryOf(await millrace('backfill', 'keywords', '--from', '2026-07', '--to', '2026-09', ...only))
  expect(units.waiting).toBeGreaterThan(0)
  const status = JSON.stringify((await millrace('status', 'keywords')).events)
  expect(status).toContain(`"units":${units.waiting},"reports":0`)
  expect(await db.query(`select units::int, reports from etl.approvals where kind = 'backfill'`)).toEqual([
    { units: units.waiting, reports: 0 },
  ])
}, 180_000)

/** The service at the same address, away or with so many credits. */
const serviceAgain = async (options: Parameters<typeof startSandbox>[0] | null): Promise<void> => {
  const port = Number(new URL(sandbox.url).port)
  await sandbox.close()
  if (options !== null) await world.serve(startSandbox({ requestsPerSecond: null, reportDurationMs: 20, port, ...options }))
}

test.each([
  ['reports that the credits of the account do not pay', pipeline, { quota: 0 }],
  ['pages that the credits of the account do not pay', 'keywords', { quota: 0 }],
  ['pages of a service that is away', 'keywords', null],
] as const)(
  'a range older than any night wants, of %s, is bought by the night that can; what leaves the lists is not',
  async (_, name, away) => {
    const file = join(folder, 'pipelines', 'keywords.yaml')
    writeFileSync(
      file,
      readFileSync(file, 'utf8')
        .replace(/from: \d{4}-\d\d/, 'from: 2025-11')
        .replace('attempts: 5', 'attempts: 2')
        .replace('[us, gb]', '[us]'),
    )
    await succeeded(millrace('migrate'))
    await succeeded(millrace('run', name, '--yes'))
    await serviceAgain(away)
    // A night that is planned as soon as the run is over takes back what has nobody's word by then.
    await db.database.pool.query(`create table public.at_the_end (words integer);
      create function public.note_words() returns trigger language plpgsql as $$ begin
        insert into public.at_the_end select count(*) from etl.jobs where approval_id is not null; return null; end $$;
      create trigger words after update on etl.runs for each row when (old.state = 'running' and new.state <> 'running')
        execute function public.note_words()`)
    const stopped = await millrace('backfill', name, '--from', '2025-05', '--to', '2025-06')
    expect(stopped.code, stopped.stderr).toBe(1)
    expect(await db.query('select words > 0 as are_there from public.at_the_end')).toEqual([{ are_there: true }])
    const older = (): Promise<unknown> =>
      db.query(`select state, count(*)::int as units from etl.unit_list where window_from < '2025-11-01' group by 1`)
    expect(await older()).toEqual([{ state: expect.stringMatching(/^(waiting|held)$/), units: 4 }])
    await serviceAgain({})
    list(1)
    const night = await millrace('run', name)
    expect([night.code, await older()], night.stderr).toEqual([0, [{ state: 'loaded', units: 2 }]])
  },
  180_000,
)
