// Planning in a real ledger: what is asked for, joined, left alone, and in which order.
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { asksOf } from '../../src/core/asks.ts'
import { newRun, setJob } from '../support/ledger.ts'
import { allLoaded, cellsOf, died, jobsOf, loaded, submitted } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, preview, range, sourceOf, withLists } from '../support/planning.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const reports = sourceOf({ kind: 'report' })
const walks = sourceOf({ kind: 'walk' })
const january = range('2025-01', '2025-01')
const report = (...domains: string[]): Planning => ({ source: reports, definition: definitionFor(reports, { domains }) })
const walk = (...domains: string[]): Planning => ({ source: walks, definition: definitionFor(walks, { domains }) })
const only = (domain: string) => new Map([['domain', [domain]]])

/** `reason: cells` of the jobs that somebody waits for. */
const asked = async (planning: Planning): Promise<string[]> =>
  (await jobsOf(db, planning.definition))
    .filter(({ waiting }) => waiting.length > 0)
    .map(({ reason, cells }) => `${reason}: ${cells}`)

const onlyJob = async ({ definition }: Planning): Promise<number> => (await jobsOf(db, definition))[0]?.jobId ?? 0

const setJobs = async ({ definition }: Planning, set: Parameters<typeof setJob>[2]): Promise<void> => {
  for (const { jobId } of await jobsOf(db, definition)) await setJob(db, jobId, set)
}

describe('what is asked for', () => {
  test('1,000 domains, 3 countries and 36 months are 10 reports', async () => {
    const domains = Array.from({ length: 1000 }, (_, index) => `d${String(index).padStart(4, '0')}.com`)
    const definition = definitionFor(reports, { domains, countries: ['us', 'gb', 'world'] })
    const counts = await plan(db, { source: reports, definition }, range('2022-01', '2024-12'))
    expect(counts).toMatchObject({ units: 108_000, jobs: 10 })
    expect((await jobsOf(db, definition)).map(({ cells }) => cells.length)).toEqual(Array(10).fill(10_800))
  })

  test('a bucket in the definition lowers what one report asks for', async () => {
    const { definition } = report('a.com', 'b.com', 'c.com')
    const [domain] = definition.dimensions
    if (domain === undefined) throw new Error('no dimension')
    const planning = { source: reports, definition: { ...definition, dimensions: [{ ...domain, bucket: 2 }] } }
    await plan(db, planning, january)
    expect(await asked(planning)).toEqual(['new: 2025-01 a.com,2025-01 b.com', 'new: 2025-01 c.com'])
  })

  test('of walks one job a unit; the newest window goes first, or the oldest', async () => {
    for (const [order, first] of [
      ['newest-first', '2025-02'],
      ['oldest-first', '2025-01'],
    ] as const) {
      const planning = walk('a.com', 'b.com')
      const { runId } = await plan(db, planning, range('2025-01', '2025-02', { order }))
      const { rows } = await db.database.pool.query(
        `select to_char(j.window_from, 'YYYY-MM') as month from etl.run_jobs r join etl.jobs j using (job_id) where r.run_id = $1
          order by r.priority, r.job_id`,
        [runId],
      )
      expect(rows.map(({ month }) => month)).toEqual([
        first,
        first,
        ...Array(2).fill(first === '2025-01' ? '2025-02' : '2025-01'),
      ])
    }
  })

  test('the order holds over all pipelines: each window is a mixture of them', async () => {
    const runId = await newRun(db)
    for (const planning of [walk('a.com'), report('a.com')]) {
      await plan(db, planning, range('2025-02', '2025-02'), runId)
      await plan(db, planning, january, runId)
    }
    const { rows } = await db.database.pool.query(
      'select priority, count(*)::int from etl.run_jobs where run_id = $1 group by 1 order by 1',
      [runId],
    )
    expect(rows.map(({ count }) => count)).toEqual([2, 2])
  })

  test('values that are added are asked for, in one small report; the others stand', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, range('2025-01', '2025-03'))
    await allLoaded(db, planning.definition)
    const more = { ...planning, definition: withLists(planning.definition, { domains: ['c.com', 'b.com', 'a.com'] }) }
    expect(await plan(db, more, range('2025-01', '2025-03'))).toMatchObject({ units: 3, jobs: 1, done: 6 })
    expect(await asked(more)).toEqual(['new: 2025-01 c.com,2025-02 c.com,2025-03 c.com'])
  })

  test('a value that left is not asked for; one that comes back is covered by the rows that stayed', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    const fewer = { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }
    expect(await plan(db, fewer, range('2025-01', '2025-02'))).toMatchObject({ units: 1, done: 1 })
    expect(await plan(db, planning, january)).toMatchObject({ units: 0, done: 2 })
  })

  test('only narrows to its values, and leaves the others alone whatever their state', async () => {
    const planning = report('a.com', 'b.com', 'c.com')
    await plan(db, planning, range('2025-01', '2025-01', { only: only('a.com') }))
    expect(await asked(planning)).toEqual(['new: 2025-01 a.com'])
    await submitted(db, await onlyJob(planning))
    expect(await plan(db, planning, range('2025-01', '2025-01', { only: only('b.com') }))).toMatchObject({ done: 0 })
    expect((await jobsOf(db, planning.definition)).map(({ cells }) => cells[0])).toEqual(['2025-01 a.com', '2025-01 b.com'])
  })

  test('months that are not published are shown without calling for them; what was asked for of them is finished', async () => {
    const planning = report('a.com')
    expect(await plan(db, planning, range('2099-01', '2099-02'))).toMatchObject({ units: 0, notPublished: 2 })
    expect(await jobsOf(db, planning.definition)).toEqual([])
  })
})

describe('jobs there are', () => {
  test('are joined, whoever planned them', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    await submitted(db, await onlyJob(planning))
    expect(await plan(db, planning, january)).toMatchObject({ units: 2, jobs: 1 })
    expect((await jobsOf(db, planning.definition))[0]?.waiting).toHaveLength(2)
  })

  test('are joined for the part that is wanted', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, range('2025-01', '2025-03'))
    const { runId } = await plan(db, planning, range('2025-02', '2025-03', { only: only('b.com') }))
    const { rows } = await db.database.pool.query(
      'select units, slice_ids, window_from, window_to from etl.run_jobs where run_id = $1',
      [runId],
    )
    expect(rows).toEqual([{ units: 2, slice_ids: [expect.any(Number)], window_from: '2025-02-01', window_to: '2025-04-01' }])
  })

  test('that nobody asked for and nobody waits for are dissolved and packed anew with the lists as they are', async () => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    await died(db, runId)
    const changed = { ...planning, definition: withLists(planning.definition, { domains: ['b.com', 'c.com'] }) }
    await plan(db, changed, january)
    expect(await asked(changed)).toEqual(['new: 2025-01 b.com,2025-01 c.com'])
    expect(await jobsOf(db, planning.definition)).toHaveLength(1)
  })

  test('that somebody waits for stay as they are', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    const changed = { ...planning, definition: withLists(planning.definition, { domains: ['a.com', 'c.com'] }) }
    await plan(db, changed, january)
    expect(await asked(changed)).toEqual(['new: 2025-01 a.com,2025-01 b.com', 'new: 2025-01 c.com'])
  })

  test('of walks are joined; those of values that left are dissolved', async () => {
    const planning = walk('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    const [first] = await jobsOf(db, planning.definition)
    await died(db, runId)
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }, january)
    expect((await jobsOf(db, planning.definition)).map(({ jobId }) => jobId)).toEqual([first?.jobId])
  })

  test('that were asked for and nobody waits for are taken up by every run of the pipeline, also outside its scope', async () => {
    const planning = report('a.com', 'b.com')
    const { runId } = await plan(db, planning, january)
    await submitted(db, await onlyJob(planning))
    await died(db, runId)
    const gone = { ...planning, definition: withLists(planning.definition, { domains: ['c.com'] }) }
    const next = await plan(db, gone, range('2025-02', '2025-02'))
    expect(next).toMatchObject({ jobs: 2 })
    expect((await jobsOf(db, planning.definition))[0]?.waiting).toContain(next.runId)
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
      'a hold for the budget ends by itself',
      reports,
      { state: 'held', error_code: 'QUOTA_EXHAUSTED' },
      ['same replaced', 'new open'],
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
    const job = await onlyJob(planning)
    await sql`update etl.run_jobs set outcome = 'failed' where run_id = ${runId}`.execute(db.database.kysely)
    await setJobs(planning, 'report_state' in set ? { ask_number: 1, ...set } : set)
    const counts = await plan(db, planning, january)
    const jobs = await jobsOf(db, planning.definition)
    expect(jobs.map(({ jobId, state }) => `${jobId === job ? 'same' : 'new'} ${state}`)).toEqual(expected)
    expect(counts.held + counts.units).toBe(1)
    expect(counts.held).toBe(expected[0] === 'same held' ? 1 : 0)
  })

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
      const former = await onlyJob(planning)
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

describe('force', () => {
  const forced = range('2025-01', '2025-01', { force: true })

  test('asks for loaded units again, to be loaded whatever they hold', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    expect(await plan(db, planning, forced)).toMatchObject({ units: 1, done: 0 })
    expect((await jobsOf(db, planning.definition)).at(-1)).toMatchObject({ reason: 'forced', forced: true, state: 'open' })
  })

  test('is satisfied by a job not yet sent, not by one that was', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    await plan(db, planning, forced)
    expect(await jobsOf(db, planning.definition)).toMatchObject([{ forced: true, state: 'open' }])
    await submitted(db, await onlyJob(planning), { forced: false })
    await plan(db, planning, forced)
    const jobs = await jobsOf(db, planning.definition)
    expect(jobs).toMatchObject([{ state: 'open' }, { state: 'open', former: jobs[0]?.jobId, forced: true }])
    expect((await cellsOf(db, planning.definition))[0]?.jobId).toBe(jobs[1]?.jobId)
  })

  test('that was interrupted goes on with what it sent', async () => {
    const planning = report('a.com')
    const { runId } = await plan(db, planning, forced)
    await submitted(db, await onlyJob(planning))
    await died(db, runId)
    await plan(db, planning, forced)
    expect(await jobsOf(db, planning.definition)).toHaveLength(1)
  })

  test('of one value asks for that value alone', async () => {
    const planning = report('a.com', 'b.com', 'c.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    await plan(db, planning, { ...forced, only: only('b.com') })
    expect(await asked(planning)).toEqual(['forced: 2025-01 b.com'])
  })
})

describe('definitions and lists', () => {
  test('reordering a list or naming the dimensions in another order changes nothing', async () => {
    const definition = definitionFor(reports, { domains: ['a.com', 'b.com'], countries: ['us', 'gb'] })
    await plan(db, { source: reports, definition }, january)
    await allLoaded(db, definition)
    const turned = {
      ...definition,
      dimensions: definition.dimensions.map((one) => ({ ...one, values: one.values.toReversed() })).toReversed(),
    }
    expect(await plan(db, { source: reports, definition: turned }, january)).toMatchObject({ units: 0, done: 4 })
    const row = await db.database.kysely
      .selectFrom('etl.pipelines')
      .selectAll()
      .where('pipeline', '=', definition.pipeline)
      .executeTakeFirstOrThrow()
    expect(row).toMatchObject({ generation: 1, dimensions: ['domain', 'country'] })
  })

  test('other dimensions than units were made for are refused, with both named', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    const other = {
      ...planning.definition,
      dimensions: definitionFor(reports, { domains: ['a.com'], countries: ['us'] }).dimensions,
    }
    await expect(plan(db, { ...planning, definition: other }, january)).rejects.toThrow(
      expect.objectContaining({
        code: 'DEFINITION',
        message: expect.stringMatching(/names \[domain, country\].*made for \[domain\].*raise version/s),
      }),
    )
  })

  test('units made with another window size are refused, for two sizes would overlap in one table', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    const weekly = {
      ...planning.definition,
      window: { ...planning.definition.window, every: 'week' as const, from: '2025-01-06' },
    }
    await expect(plan(db, { ...planning, definition: weekly }, january)).rejects.toThrow(
      /loads a week.*windows of a month.*raise version/s,
    )
  })

  test('before anything was planned they may change', async () => {
    const planning = report('a.com')
    await plan(db, planning, range('2099-01', '2099-01'))
    const other = {
      ...planning.definition,
      dimensions: definitionFor(reports, { domains: ['a.com'], countries: ['us'] }).dimensions,
    }
    expect(await plan(db, { ...planning, definition: other }, january)).toMatchObject({ units: 1 })
  })

  test('parameters that are part of the key make units of their own', async () => {
    const planning = report('a.com')
    const definition = { ...planning.definition, key: [...planning.definition.key, 'device'], params: { device: 'all' } }
    await plan(db, { ...planning, definition }, january)
    expect(await plan(db, { ...planning, definition: { ...definition, params: { device: 'mobile' } } }, january)).toMatchObject({
      units: 1,
      done: 0,
    })
  })

  test('an answer another version has loaded for the same question is used, and nothing is bought', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, range('2025-01', '2025-02'))
    const answer = await loaded(db, await onlyJob(planning))
    await sql`update etl.answers set asks = ${asksOf(planning.definition)} where answer_id = ${answer}`.execute(
      db.database.kysely,
    )
    const next = { ...withLists(planning.definition, { domains: ['b.com', 'c.com'] }), version: 2 }
    await plan(db, { ...planning, definition: next }, range('2025-01', '2025-02'))
    expect((await jobsOf(db, next)).map(({ answerId, cells }) => [answerId, cells])).toEqual([
      [answer, ['2025-01 b.com', '2025-02 b.com']],
      [null, ['2025-01 c.com', '2025-02 c.com']],
    ])
  })
})

describe('a preview', () => {
  test('tells what the run would do, prices a few reports and writes nothing', async () => {
    const source = sourceOf({ kind: 'report', mostPerRequest: 2, price: 5 })
    const planning = { source, definition: definitionFor(source, { domains: ['a.com', 'b.com', 'c.com'] }) }
    const before = await counts()
    const seen = await preview(db, planning, range('2025-01', '2025-01'))
    expect(await counts()).toEqual(before)
    expect(seen.jobs.map(({ reason, units, reports: bought, quota, from }) => [reason, units, bought, quota, from])).toEqual([
      ['new', 2, 1, 10, 'service'],
      ['new', 1, 1, 5, 'service'],
    ])
    expect((await plan(db, planning, range('2025-01', '2025-01'))).jobs).toBe(seen.jobs.length)
    await submitted(db, await onlyJob(planning))
    const [first] = (await preview(db, planning, january)).jobs
    expect(first).toMatchObject({ reason: 'unfinished', reports: 0, quota: 0, units: 2 })
  })

  test('of walks shows the units of a window together', async () => {
    const planning = walk('a.com', 'b.com')
    expect((await preview(db, planning, range('2025-01', '2025-02'))).jobs).toMatchObject([
      { window: '2025-02', units: 2, requests: 2, reports: 0 },
      { window: '2025-01', units: 2, requests: 2, reports: 0 },
    ])
  })

  const counts = async (): Promise<unknown> => {
    const { rows } = await db.database.pool.query(
      'select (select count(*) from etl.jobs) jobs, (select count(*) from etl.pipelines) pipelines, (select count(*) from etl.slices) slices, (select count(*) from etl.units) units',
    )
    return rows
  }
})
