// Planning over jobs there are: joined, opened again, dissolved, taken up, bought again with consent.
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { runSummary } from '../../src/ledger/runs.ts'
import { approveSpread } from '../../src/ledger/approved-jobs.ts'
import { newRun } from '../support/ledger.ts'
import { jobRow, newAnswer, setJob } from '../support/ledger-answers.ts'
import { allLoaded, asked, cellsOf, died, jobsOf, loaded, onlyJob, submitted } from '../support/plan-ledger.ts'
import {
  definitionFor,
  january,
  only,
  type Planning,
  plan,
  range,
  report,
  reports,
  walk,
  walks,
  withLists,
} from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const setJobs = async ({ definition }: Planning, set: Parameters<typeof setJob>[2]): Promise<void> => {
  for (const { jobId } of await jobsOf(db, definition)) await setJob(db, jobId, set)
}

describe('jobs there are', () => {
  test('are joined, whoever planned them', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    await submitted(db, await onlyJob(db, planning))
    expect(await plan(db, planning, january)).toMatchObject({ units: 2, jobs: 1 })
    expect((await jobsOf(db, planning.definition))[0]?.waiting).toHaveLength(2)
    // The whole of it: the run narrows nothing.
    expect(
      await db.query('select slice_ids, window_from, window_to from etl.run_jobs where job_id = $1', [
        await onlyJob(db, planning),
      ]),
    ).toEqual(Array(2).fill({ slice_ids: null, window_from: null, window_to: null }))
  })

  test('that failed are opened as new where a run wants them, and no others', async () => {
    const planning = walk('a.com')
    const { runId } = await plan(db, planning, range('2025-01', '2025-02'))
    await died(db, runId)
    const failed = { error_code: 'SERVICE_ERROR', error_message: 'down', attempts: 5, not_before: '2099-01-01T00:00:00Z' }
    await setJobs(planning, { state: 'failed', ...failed })
    await plan(db, planning, january)
    const rows = await db.query(
      `select state, error_code, error_message, attempts, not_before is null as at_once from etl.jobs
        where job_id = any($1) order by window_from`,
      [(await jobsOf(db, planning.definition)).map(({ jobId }) => jobId)],
    )
    const { not_before: _, ...kept } = failed
    expect(rows).toEqual([
      { state: 'open', error_code: null, error_message: null, attempts: 0, at_once: true },
      { state: 'failed', ...kept, at_once: false },
    ])
  })

  test('that are open are forced where they are asked for by force, and no others', async () => {
    const planning = walk('a.com')
    await plan(db, planning, range('2025-01', '2025-02'))
    await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    expect((await jobsOf(db, planning.definition)).map(({ cells, forced }) => [cells[0], forced]).sort()).toEqual([
      ['2025-01 a.com', true],
      ['2025-02 a.com', false],
    ])
  })

  test.each([
    ['was bought is finished', { report_state: 'submitted' }, 'open', { units: 1, notPublished: 0 }],
    ['never was is not begun', { report_state: null }, 'failed', { units: 0, notPublished: 1 }],
  ] as const)('of a month that is not published: what failed and %s', async (_, set, state, counts) => {
    const planning = report('a.com')
    const { runId } = await plan(db, planning, january)
    const job = await onlyJob(db, planning)
    await died(db, runId)
    await setJob(db, job, { state: 'failed', window_from: '2099-01-01', window_to: '2099-02-01', ask_number: 1, ...set })
    await sql`update etl.units set window_from = '2099-01-01' where job_id = ${job}`.execute(db.database.kysely)
    expect(await plan(db, planning, range('2099-01', '2099-01'))).toMatchObject(counts)
    expect(await jobsOf(db, planning.definition)).toMatchObject([{ jobId: job, state }])
  })

  test('are joined for the part that is wanted', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, range('2025-01', '2025-03'))
    const { runId } = await plan(db, planning, range('2025-02', '2025-03', { only: only('b.com') }))
    expect(
      await db.query('select units, slice_ids, window_from, window_to from etl.run_jobs where run_id = $1', [runId]),
    ).toEqual([{ units: 2, slice_ids: [expect.any(Number)], window_from: '2025-02-01', window_to: '2025-04-01' }])
  })

  test('that nobody asked for and nobody waits for are dissolved and packed anew with the lists as they are', async () => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    await died(db, runId)
    const changed = { ...planning, definition: withLists(planning.definition, { domains: ['b.com', 'c.com'] }) }
    await plan(db, changed, january)
    expect(await asked(db, changed)).toEqual(['new: 2025-01 b.com,2025-01 c.com'])
    expect(await jobsOf(db, planning.definition)).toHaveLength(1)
  })

  test('that somebody waits for stay as they are', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    const changed = { ...planning, definition: withLists(planning.definition, { domains: ['a.com', 'c.com'] }) }
    await plan(db, changed, january)
    expect(await asked(db, changed)).toEqual(['new: 2025-01 a.com,2025-01 b.com', 'new: 2025-01 c.com'])
  })

  test('of walks are joined; those of values that left are dissolved', async () => {
    const planning = walk('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    const [first] = await jobsOf(db, planning.definition)
    await died(db, runId)
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }, january)
    expect((await jobsOf(db, planning.definition)).map(({ jobId }) => jobId)).toEqual([first?.jobId])
  })

  test('of walks that failed are opened again, but for values that left', async () => {
    const planning = walk('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    await setJobs(planning, { state: 'failed', error_code: 'SERVICE_ERROR', error_message: 'down', ask_number: 1 })
    await died(db, runId)
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }, january)
    const states = (await jobsOf(db, planning.definition)).map(({ cells, state }) => [cells[0], state])
    expect(states.sort()).toEqual([
      ['2025-01 a.com', 'open'],
      ['2025-01 b.com', 'failed'],
    ])
  })

  test('that were asked for and nobody waits for are taken up by every run of the pipeline, also outside its scope', async () => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    await submitted(db, await onlyJob(db, planning))
    await died(db, runId)
    const gone = { ...planning, definition: withLists(planning.definition, { domains: ['c.com'] }) }
    const next = await plan(db, gone, range('2025-02', '2025-02'))
    expect(next).toMatchObject({ jobs: 2 })
    expect((await jobsOf(db, planning.definition))[0]?.waiting).toContain(next.runId)
  })

  test.each([
    ['another month', range('2025-02', '2025-02')],
    ['other values', range('2025-01', '2025-01', { only: only('b.com') })],
  ])('that failed after they were bought are no matter of a backfill of %s, but of every run', async (_, scope) => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, range('2025-01', '2025-01', { only: only('a.com') }))
    const job = await onlyJob(db, planning)
    await submitted(db, job, { state: 'failed', report_state: 'downloaded', answer_id: await newAnswer(db, job) })
    await died(db, runId)
    expect(await plan(db, planning, scope)).toMatchObject({ jobs: 1 })
    expect(await jobRow(db, job)).toMatchObject({ state: 'failed' })
    await plan(db, planning, { mode: 'due', only: only('b.com') })
    expect(await jobRow(db, job)).toMatchObject({ state: 'failed' })
    await plan(db, planning, { mode: 'due' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'open' })
  })

  test.each([report, walk])(
    'that load a former answer of their own pipeline, whose bytes are lost, buy nothing by themselves',
    async (of) => {
      const planning = of('a.com')
      const { runId } = await plan(db, planning, january)
      const job = await onlyJob(db, planning)
      await plan(db, planning, range('2025-02', '2025-02'))
      const former = (await jobsOf(db, planning.definition)).map(({ jobId }) => jobId).find((one) => one !== job) ?? 0
      // As one of the months that a report had before its newest was published.
      const answer = await newAnswer(db, former)
      await setJob(db, job, { state: 'failed', error_code: 'LANDING_MISSING', answer_id: answer, ask_number: answer })
      await died(db, runId)
      await plan(db, planning, january)
      expect(await jobRow(db, job)).toMatchObject({ state: 'open', answer_id: String(answer) })
      expect(await jobsOf(db, planning.definition)).toHaveLength(2)
    },
  )

  test('that were bought for others are finished beside a range, and count in none of its figures', async () => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    const job = await onlyJob(db, planning)
    await submitted(db, job, { state: 'failed', report_state: 'ready' })
    await died(db, runId)
    const next = await plan(db, planning, range('2025-02', '2025-02'))
    expect(next).toMatchObject({ jobs: 2, units: 2 })
    await sql`update etl.run_jobs set outcome = 'failed' where run_id = ${next.runId} and job_id = ${job}`.execute(
      db.database.kysely,
    )
    expect((await runSummary(db.database.kysely, next.runId)).units).toMatchObject({ planned: 2, failed: 0, held: 0 })
  })

  test.each([
    ['a walk that failed is opened again', walks, { state: 'failed', error_code: 'SERVICE_ERROR' }, ['same open']],
    ['a report whose purchase lives is finished', reports, { state: 'failed', report_state: 'submitted' }, ['same open']],
    [
      'a report that was never bought is packed anew',
      reports,
      { state: 'failed', error_code: 'KEY_REFUSED' },
      ['same replaced', 'new open'],
    ],
    [
      'a report the service could not make is tried as it is, which buys nothing',
      reports,
      { state: 'failed', report_state: 'failed' },
      ['same open'],
    ],
    [
      'a hold for the budget ends by itself and leaves nothing behind',
      reports,
      { state: 'held', error_code: 'QUOTA_EXHAUSTED' },
      ['new open'],
    ],
    ['a walk that kept changing is read again', walks, { state: 'held', error_code: 'UNSTABLE' }, ['same open']],
    [
      'a lost submission waits for a person',
      reports,
      { state: 'held', report_state: 'uncertain', error_code: 'REPORT_UNCERTAIN' },
      ['same held'],
    ],
    [
      'an expired report waits for a person',
      reports,
      { state: 'held', report_state: 'expired', error_code: 'REPORT_EXPIRED' },
      ['same held'],
    ],
    [
      'a report that is short waits for a person: it would be bought again',
      reports,
      { state: 'held', report_state: 'downloaded', answer_id: 1, error_code: 'INCOMPLETE' },
      ['same held'],
    ],
  ] as const)('%s', async (_, source, set, expected) => {
    const planning = { source, definition: definitionFor(source, { domains: ['a.com'] }) }
    const { runId } = await plan(db, planning, january)
    const job = await onlyJob(db, planning)
    await sql`update etl.run_jobs set outcome = 'failed' where run_id = ${runId}`.execute(db.database.kysely)
    await setJobs(planning, 'report_state' in set ? { ask_number: 1, ...set } : set)
    const counts = await plan(db, planning, january)
    const jobs = await jobsOf(db, planning.definition)
    expect(jobs.map(({ jobId, state }) => `${jobId === job ? 'same' : 'new'} ${state}`)).toEqual(expected)
    expect(counts.held + counts.units).toBe(1)
    expect(counts.held).toBe(expected[0] === 'same held' ? 1 : 0)
  })

  test.each([
    ['could not be sent', { error_code: 'SERVICE_AWAY', error_message: 'away', not_before: '2099-01-01T00:00:00Z' }],
    ['had no budget', { state: 'held', error_code: 'QUOTA_EXHAUSTED' }],
  ] as const)(
    'asked for by force that %s are asked for by the next run that wants them, with the lists as they are',
    async (_, set) => {
      const planning = report('a.com', 'b.com')
      await plan(db, planning, january)
      await allLoaded(db, planning.definition)
      const { runId } = await plan(db, planning, range('2025-01', '2025-01', { force: true }))
      await died(db, runId)
      const forced = (await jobsOf(db, planning.definition)).find((job) => job.forced)
      await setJob(db, forced?.jobId ?? 0, set)
      expect(await plan(db, planning, range('2025-02', '2025-02'))).toMatchObject({ units: 2 })
      const changed = { ...planning, definition: withLists(planning.definition, { domains: ['b.com'] }) }
      expect(await plan(db, changed, january)).toMatchObject({ units: 1, jobs: 1, done: 0 })
      const jobs = await jobsOf(db, planning.definition)
      const former = jobs.find(({ jobId }) => jobId === forced?.jobId)
      expect(former?.state).not.toBe('open')
      expect(former?.waiting ?? []).toEqual([])
      // Else the very bytes that are loaded would count as unchanged, and rows that somebody has changed would stay.
      expect(jobs.at(-1)).toMatchObject({ cells: ['2025-01 b.com'], reason: 'forced', forced: true })
    },
  )

  test('of a walk that a person took back go on where their unit is asked for anyway, and are no reason to ask', async () => {
    const planning = { source: walks, definition: definitionFor(walks, { domains: ['a.com'] }) }
    await plan(db, planning, january)
    const first = await onlyJob(db, planning)
    const takenBack = { state: 'failed', error_code: 'CANCELLED', begun_landing: 'begun/pages', wanted_by: 'beyond' } as const
    await setJobs(planning, takenBack)
    // Nothing is loaded: the next that wants it goes on.
    expect(await plan(db, planning, january)).toMatchObject({ units: 1 })
    expect((await jobsOf(db, planning.definition)).map(({ jobId, state }) => [jobId, state])).toEqual([[first, 'open']])
    await allLoaded(db, planning.definition)
    const { runId } = await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    await died(db, runId)
    const forced = (await jobsOf(db, planning.definition)).at(-1)?.jobId ?? 0
    await setJob(db, forced, takenBack)
    // Its rows are there: neither a night nor a range asks for it, but who forces.
    expect(await plan(db, planning, january)).toMatchObject({ units: 0, done: 1 })
    expect(await jobRow(db, forced)).toMatchObject({ state: 'failed', begun_landing: 'begun/pages' })
    await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    expect(await jobRow(db, forced)).toMatchObject({ state: 'open', begun_landing: 'begun/pages' })
    // What a night wanted has been seen to be restated; whether the next one samples the unit is chance.
    await setJob(db, forced, { ...takenBack, wanted_by: 'night' })
    expect(await plan(db, planning, january)).toMatchObject({ units: 1, done: 0 })
    expect(await jobRow(db, forced)).toMatchObject({ state: 'open', begun_landing: 'begun/pages' })
  })

  test('asked for by force that were not tried before their command was stopped are dissolved', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    const { runId } = await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    await died(db, runId)
    expect(await plan(db, planning, january)).toMatchObject({ units: 0, jobs: 0, done: 1 })
    expect((await jobsOf(db, planning.definition)).filter((job) => job.forced)).toEqual([])
  })

  test.each([
    ['reports', report],
    ['walks', walk],
  ])('of %s asked for by force and never tried give their units back to what was asked for before', async (_, planningOf) => {
    const planning = planningOf('a.com')
    await plan(db, planning, january)
    const before = await onlyJob(db, planning)
    await submitted(db, before, { forced: false })
    const { runId } = await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    await died(db, runId)
    // It left the list, so that no forced walk of it is of use either.
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['b.com'] }) }, january)
    const jobs = await jobsOf(db, planning.definition)
    expect(jobs.filter(({ forced }) => forced)).toEqual([])
    const cells = await cellsOf(db, planning.definition)
    expect(cells).toMatchObject([{ cell: '2025-01 a.com', jobId: before }, { cell: '2025-01 b.com' }])
  })

  test('asked for by force with a person’s word give the units of values that have left back to what was asked for before', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    const before = await onlyJob(db, planning)
    await submitted(db, before, { forced: false })
    const { runId } = await plan(db, planning, range('2025-01', '2025-01', { force: true }))
    await db.database.pool.query(`update etl.jobs set error_code = 'QUOTA_EXHAUSTED' where forced`)
    await db.database.pool.query(`update etl.run_jobs set outcome = 'waiting' where run_id = $1`, [runId])
    expect(await approveSpread(db.database.kysely, runId, 'ada', [])).toHaveLength(1)
    await died(db, runId)
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['b.com'] }) }, january)
    const forced = (await jobsOf(db, planning.definition)).find((job) => job.forced)
    expect(forced?.cells).toEqual(['2025-01 b.com'])
    const cells = await cellsOf(db, planning.definition)
    expect(cells).toMatchObject([
      { cell: '2025-01 a.com', jobId: before },
      { cell: '2025-01 b.com', jobId: forced?.jobId },
    ])
  })

  test.each([
    ['reports put off', report, 'open', 'SERVICE_UNREACHABLE', 'waiting', {}],
    ['reports without credits', report, 'held', 'QUOTA_EXHAUSTED', 'held', {}],
    ['forced reports without credits', report, 'held', 'QUOTA_EXHAUSTED', 'held', { force: true }],
    ['pages that did not hold still', walk, 'held', 'UNSTABLE', 'held', {}],
  ] as const)(
    'of a range no night wants, %s, stay while its run is at work on others, then go on with the nights',
    async (_, planningOf, state, code, outcome, scope) => {
      const planning = planningOf('a.com')
      const { runId } = await plan(db, planning, range('2024-01', '2024-01', scope))
      const jobId = await onlyJob(db, planning)
      await setJob(db, jobId, { state, error_code: code })
      await db.database.pool.query('update etl.run_jobs set outcome = $2 where run_id = $1', [runId, outcome])
      await plan(db, planning, { mode: 'due' })
      const isKept = async () => (await jobsOf(db, planning.definition)).find((job) => job.jobId === jobId)
      expect(await isKept()).toMatchObject({ state, cells: ['2024-01 a.com'] })
      expect(await approveSpread(db.database.kysely, runId, 'ada', [])).toHaveLength(1)
      await died(db, runId)
      const night = await plan(db, planning, { mode: 'due' })
      const kept = await isKept()
      expect([kept?.state, kept?.waiting]).toEqual(['open', expect.arrayContaining([night.runId])])
    },
  )

  test.each(['newest-first', 'oldest-first'] as const)(
    'with a person’s word go %s through the nights, as that person began',
    async (order) => {
      const planning = report('a.com')
      const firstMonths = async (runId: number): Promise<string[]> => {
        const text = `select to_char(j.window_from, 'YYYY-MM') as month from etl.run_jobs r join etl.jobs j using (job_id) where r.run_id = $1 order by r.priority`
        return (await db.query<{ month: string }>(text, [runId])).map(({ month }) => month)
      }
      const runId = await newRun(db)
      for (const month of ['2025-01', '2025-03']) await plan(db, planning, range(month, month, { order }), runId)
      const asked = await firstMonths(runId)
      await db.database.pool.query(`update etl.jobs set error_code = 'QUOTA_EXHAUSTED' where run_id = $1`, [runId])
      await db.database.pool.query(`update etl.run_jobs set outcome = 'waiting' where run_id = $1`, [runId])
      expect(await approveSpread(db.database.kysely, runId, 'ada', [])).toHaveLength(1)
      await died(db, runId)
      const night = await plan(db, planning, { mode: 'due' })
      expect((await firstMonths(night.runId)).filter((month) => ['2025-01', '2025-03'].includes(month))).toEqual(asked)
      expect(asked).toEqual(order === 'newest-first' ? ['2025-03', '2025-01'] : ['2025-01', '2025-03'])
    },
  )

  test.each([
    ['uncertain', 'held', { resubmitUncertain: true }, {}],
    ['expired', 'held', {}, { force: true }],
    ['failed', 'failed', {}, { force: true }],
    ['rejected', 'failed', {}, { force: true }],
  ] as const)(
    'with consent a report that is %s is bought again by a new job that names it',
    async (reportState, state, consent, scope) => {
      const planning = { ...report('a.com', 'b.com'), ...consent }
      await plan(db, planning, january)
      const former = await onlyJob(db, planning)
      await submitted(db, former, { state, report_state: reportState, error_code: 'REPORT_UNCERTAIN' })
      expect(await plan(db, planning, range('2025-01', '2025-01', scope))).toMatchObject({ units: 2, held: 0 })
      const jobs = await jobsOf(db, planning.definition)
      expect(jobs.map(({ state: now, former: named }) => [now, named])).toEqual([
        ['replaced', null],
        ['open', former],
      ])
    },
  )
})

test('units whose failed job is loaded after all while a planner waits for it are not asked for again', async () => {
  const planning = report('a.com', 'b.com')
  await plan(db, planning, january)
  const job = await onlyJob(db, planning)
  await setJob(db, job, { state: 'failed', error_code: 'SERVICE_ERROR' })
  const other = report('c.com')
  await plan(db, other, january)
  const answer = await loaded(db, await onlyJob(db, other))
  const load = await db.database.pool.connect()
  try {
    await load.query('begin')
    await load.query('select from etl.jobs where job_id = $1 for update', [job])
    const planned = plan(db, planning, january)
    const waiting = `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await expect.poll(async () => (await db.one<{ n: number }>(waiting)).n, { timeout: 30_000 }).toBe(1)
    await load.query(`update etl.jobs set state = 'done', error_code = null where job_id = $1`, [job])
    await load.query('update etl.units set job_id = null, answer_id = $2, ask_number = $2 where job_id = $1', [job, answer])
    await load.query('commit')
    expect(await planned).toMatchObject({ units: 0 })
  } finally {
    await load.query('rollback')
    load.release()
  }
  expect((await jobsOf(db, planning.definition)).map(({ state }) => state)).toEqual(['done'])
})

describe.each([
  ['reports', report],
  ['walks', walk],
])('a planner of %s beside a load', (_, planningOf) => {
  test('takes units before their windows, as loads do: neither waits for the other', async () => {
    const planning = planningOf('a.com', 'b.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    await db.database.pool.query('update etl.windows set closed_generation = 1, closed_units = 2, closed_rows = 2')
    const load = await db.database.pool.connect()
    try {
      await load.query('begin; select from etl.units for update')
      const planned = plan(db, planning, range('2025-01', '2025-01', { force: true }))
      const waiting = `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await expect.poll(async () => (await db.one<{ n: number }>(waiting)).n, { timeout: 30_000 }).toBe(1)
      // As a load does that ends with other rows than the closed window had.
      await load.query('update etl.windows set closed_rows = closed_rows + 1 where closed_generation is not null')
      await load.query('commit')
      expect(await planned).toMatchObject({ units: 2 })
    } finally {
      await load.query('rollback')
      load.release()
    }
  })
})
