// Planning as lists, definitions and versions change, and the preview of it.
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { requestDigest } from '../../src/core/request-digest.ts'
import type { Definition } from '../../src/core/types.ts'
import { addWindows, lastRestatementMs } from '../../src/core/window.ts'
import { windowsInScope } from '../../src/plan/frames.ts'
import { allLoaded, died, jobsOf, loaded, onlyJob, submitted } from '../support/plan-ledger.ts'
import {
  definitionFor,
  january,
  plan,
  preview,
  previewAll,
  range,
  report,
  reports,
  sourceOf,
  walk,
  withLists,
} from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const isAnswerTo = async (definition: Definition, answer: number): Promise<void> => {
  await sql`update etl.answer_rows set shape_id = etl.shape_of(${requestDigest(definition)}, '{}', null, null, null, null, null, null) where answer_id = ${answer}`.execute(
    db.database.kysely,
  )
}

/** Every open job is loaded; the answers of all jobs. */
const loadedAsAsked = async (definition: Definition): Promise<number[]> => {
  await allLoaded(db, definition)
  const answers = (await jobsOf(db, definition)).flatMap(({ answerId }) => answerId ?? [])
  for (const answer of answers) await isAnswerTo(definition, answer)
  return answers
}

const loadedJanuary = async (...versions: readonly Definition[]): Promise<void> => {
  for (const definition of versions) {
    await plan(db, { source: reports, definition }, january)
    await loadedAsAsked(definition)
  }
}

const forced = range('2025-01', '2025-01', { force: true })

/** As where the service had no credits for what was forced: the run is over. */
const withoutCredits = async (runId: number): Promise<void> => {
  const { kysely } = db.database
  await sql`update etl.jobs set error_code = 'QUOTA_EXHAUSTED', state = 'failed' where state = 'open' and forced`.execute(kysely)
  await sql`update etl.run_jobs set outcome = 'failed' where run_id = ${runId}`.execute(kysely)
  await sql`update etl.runs set state = 'failed', finished_at = now() where run_id = ${runId}`.execute(kysely)
}

/** What serves the newest open job of the version. */
const servedBy = async ({ version }: Definition): Promise<unknown> =>
  (
    await sql`select j.served_by::float8 as served, j.answer_id::float8 as answer from etl.jobs j join etl.pipelines p using (pipeline_id)
      where j.state = 'open' and p.version = ${version} order by j.job_id desc limit 1`.execute(db.database.kysely)
  ).rows[0]

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

  test('what was forced, never asked for and put off goes with its value', async () => {
    const planning = walk('a.com', 'b.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    const { runId } = await plan(db, planning, { ...january, force: true })
    await sql`update etl.jobs set error_code = 'RATE_LIMITED', not_before = '2199-01-01' where state = 'open'`.execute(
      db.database.kysely,
    )
    await sql`update etl.run_jobs set outcome = 'waiting' where run_id = ${runId}`.execute(db.database.kysely)
    await died(db, runId)
    await plan(db, { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }, january)
    expect((await jobsOf(db, planning.definition)).filter(({ state }) => state === 'open').map(({ cells }) => cells)).toEqual([
      ['2025-01 a.com'],
    ])
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
    const answer = await loaded(db, await onlyJob(db, planning))
    await isAnswerTo(planning.definition, answer)
    const next = { ...withLists(planning.definition, { domains: ['b.com', 'c.com'] }), version: 2 }
    await plan(db, { ...planning, definition: next }, range('2025-01', '2025-02'))
    expect((await jobsOf(db, next)).map(({ answerId, cells }) => [answerId, cells])).toEqual([
      [answer, ['2025-01 b.com', '2025-02 b.com']],
      [null, ['2025-01 c.com', '2025-02 c.com']],
    ])
  })

  test('by force an answer that another worker loaded for the one version since the run began serves the other, and none from before does', async () => {
    const planning = report('a.com', 'b.com')
    const next = { source: reports, definition: { ...planning.definition, version: 2 } }
    await loadedJanuary(planning.definition, next.definition)
    const { runId } = await plan(db, planning, forced)
    const [, again = 0] = await loadedAsAsked(planning.definition)
    await plan(db, next, forced, runId)
    const served = async () => (await jobsOf(db, next.definition)).map(({ answerId, forced: by }) => [by, answerId]).slice(1)
    expect(await served()).toEqual([[true, again]])
    await loadedAsAsked(next.definition)
    // Whoever forces once more wants newer ones of both.
    await plan(db, next, forced)
    expect((await served()).at(-1)).toEqual([true, null])
  })

  test('by force a report that another worker has submitted for the one version since the run began serves the other, and none from before does', async () => {
    const planning = report('a.com', 'b.com')
    const next = { source: reports, definition: { ...planning.definition, version: 2 } }
    await loadedJanuary(planning.definition, next.definition)
    const { runId } = await plan(db, planning, forced)
    const [again] = (await jobsOf(db, planning.definition)).filter(({ state }) => state === 'open')
    await submitted(db, again?.jobId ?? 0)
    await plan(db, next, forced, runId)
    expect(await servedBy(next.definition)).toEqual({ served: again?.jobId, answer: null })
    // Whoever forces once more wants a newer one.
    await sql`update etl.jobs set state = 'replaced' where served_by is not null`.execute(db.database.kysely)
    await plan(db, next, forced)
    expect(await servedBy(next.definition)).toEqual({ served: null, answer: null })
  })

  test.each(['submitted', 'loaded'] as const)(
    'what was forced of two versions, and could not be bought, is bought once for both by a later run: also what a worker has %s meanwhile serves',
    async (how) => {
      const planning = report('a.com', 'b.com')
      const next = { source: reports, definition: { ...planning.definition, version: 2 } }
      await loadedJanuary(planning.definition, next.definition)
      const { runId } = await plan(db, planning, forced)
      await plan(db, next, forced, runId)
      await withoutCredits(runId)
      const later = await plan(db, planning, january)
      const [again] = (await jobsOf(db, planning.definition)).filter(({ state }) => state === 'open')
      if (how === 'submitted') await submitted(db, again?.jobId ?? 0)
      const answer = how === 'loaded' ? (await loadedAsAsked(planning.definition)).at(-1) : null
      await plan(db, next, january, later.runId)
      const served = how === 'submitted' ? again?.jobId : null
      expect(await servedBy(next.definition)).toEqual({ served, answer })
    },
  )

  test('what was forced, and could not be bought, is not served by an answer from before, though a clock that was ahead dates it', async () => {
    const planning = report('a.com', 'b.com')
    const next = { source: reports, definition: { ...planning.definition, version: 2 } }
    await loadedJanuary(next.definition, planning.definition)
    const { runId } = await plan(db, next, forced)
    await withoutCredits(runId)
    await sql`update etl.answer_rows set asked_at = '2056-01-01'`.execute(db.database.kysely)
    await plan(db, next, january)
    expect(await servedBy(next.definition)).toEqual({ served: null, answer: null })
  })

  test('nor is it, where the service may have restated since, by an answer from before that', async () => {
    const due = { mode: 'due' } as const
    const from = addWindows(new Date().toISOString().slice(0, 8).concat('01'), 'month', -5)
    const definition = definitionFor(reports, { domains: ['a.com', 'b.com'] }, { from })
    const [one, two] = [definition, { ...definition, version: 2 }]
    const restated = lastRestatementMs(definition.window.publication, Date.now())
    const askedAt = new Date(restated - 60_000).toISOString()
    for (const version of [one, two]) {
      await plan(db, { source: reports, definition: version }, due)
      await allLoaded(db, version, { askedAt })
    }
    const month = windowsInScope(definition, due, Date.now()).at(-1)?.from.slice(0, 7) ?? ''
    const newest = range(month, month, { force: true })
    const { runId } = await plan(db, { source: reports, definition: two }, newest)
    await withoutCredits(runId)
    await plan(db, { source: reports, definition: one }, newest)
    await loadedAsAsked(one)
    await sql`update etl.answer_rows set asked_at = ${askedAt}`.execute(db.database.kysely)
    await plan(db, { source: reports, definition: two }, due)
    const open = (await jobsOf(db, two)).filter(({ state }) => state === 'open')
    expect(open.flatMap(({ cells }) => cells.map((cell) => cell.slice(0, 7)))).toContain(month)
    expect(open.map(({ answerId }) => answerId)).toEqual(open.map(() => null))
  })

  test('nor, within the look-back, by an answer that was asked for before the force', async () => {
    const due = { mode: 'due' } as const
    const from = addWindows(new Date().toISOString().slice(0, 8).concat('01'), 'month', -5)
    const definition = definitionFor(reports, { domains: ['a.com', 'b.com'] }, { from })
    const [one, two] = [definition, { ...definition, version: 2 }]
    for (const version of [two, one]) {
      await plan(db, { source: reports, definition: version }, due)
      await loadedAsAsked(version)
    }
    const month = windowsInScope(definition, due, Date.now()).at(-1)?.from.slice(0, 7) ?? ''
    const newest = range(month, month, { force: true })
    await plan(db, { source: reports, definition: one }, newest)
    await loadedAsAsked(one)
    const { runId } = await plan(db, { source: reports, definition: two }, newest)
    await withoutCredits(runId)
    await plan(db, { source: reports, definition: two }, due)
    expect(await servedBy(two)).toEqual({ served: null, answer: null })
  })

  test.each(['report', 'walk'] as const)(
    'two versions side by side ask for a %s once: what the first has asked for serves the second',
    async (kind) => {
      const source = sourceOf({ kind, price: 5 })
      const definition = definitionFor(source, { domains: ['a.com', 'b.com'] })
      const next = { ...withLists(definition, { domains: ['b.com', 'c.com'] }), version: 2 }
      const [one, two] = [
        { source, definition },
        { source, definition: next },
      ]
      const both = await previewAll(db, source, [definition, next], range('2025-01', '2025-01'))
      const bought = both.jobs.reduce((units, job) => (job.requests === 0 ? units : units + job.units), 0)
      expect(bought).toBe(3)
      expect(both.jobs.filter(({ requests }) => requests === 0)).toMatchObject([
        { units: 1, quota: 0, reports: 0, reason: 'new' },
      ])
      const { runId } = await plan(db, one, range('2025-01', '2025-01'))
      await plan(db, two, range('2025-01', '2025-01'), runId)
      const served = await sql<{
        cells: number
        mine: boolean
      }>`select j.cells, y.pipeline_id <> j.pipeline_id as mine from etl.jobs j
      join etl.jobs y on y.job_id = j.served_by where j.run_id = ${runId}`.execute(db.database.kysely)
      expect(served.rows).toEqual([{ cells: 1, mine: true }])
    },
  )
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
    await submitted(db, await onlyJob(db, planning))
    const [first] = (await preview(db, planning, january)).jobs
    expect(first).toMatchObject({ reason: 'unfinished', reports: 0, quota: 0, units: 2, requests: 2, approved: false })
    // What has been downloaded needs no more requests.
    await submitted(db, await onlyJob(db, planning), { report_state: 'downloaded' })
    expect((await preview(db, planning, january)).jobs[0]).toMatchObject({ reports: 0, requests: 0 })
  })

  test('of walks shows the units of a window together', async () => {
    const planning = walk('a.com', 'b.com')
    expect((await preview(db, planning, range('2025-01', '2025-02'))).jobs).toMatchObject([
      { window: '2025-02', units: 2, requests: 2, reports: 0 },
      { window: '2025-01', units: 2, requests: 2, reports: 0 },
    ])
  })

  test('names the month in which a table ends as it is written', async () => {
    const planning = walk('a.com')
    await plan(db, planning, january)
    const { definition } = planning
    const publication = { ...definition.window.publication, until: '2026-09-01' }
    const ending = { ...planning, definition: { ...definition, window: { ...definition.window, publication } } }
    const { pipelines } = await preview(db, ending, january)
    expect(pipelines[0]?.changes.definition).toEqual([{ what: 'until', from: '-', to: '2026-08' }])
  })

  const counts = async (): Promise<unknown> => {
    const rows = await db.query(
      'select (select count(*) from etl.jobs) jobs, (select count(*) from etl.pipelines) pipelines, (select count(*) from etl.slices) slices, (select count(*) from etl.units) units',
    )
    return rows
  }
})
