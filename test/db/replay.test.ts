// Jobs that load answers again: which answers a range holds, what a job covers, what is opened again, and what is left alone.
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { finishJob } from '../../src/ledger/claim-fence.ts'
import {
  answersHeld,
  answersInQuarantine,
  landedAnswer,
  type PageEnd,
  registerReplay,
  type ReplayScope,
} from '../../src/ledger/register-replay.ts'
import { runSummary } from '../../src/ledger/runs.ts'
import { type PipelineKit, months, newJob, newPipeline, newProcess, newRun, newSlices, take } from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, setJob, unitRows } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const scopeOf = ({ pipelineId }: PipelineKit, from: string, count: number, only: ReplayScope['only'] = null) => ({
  pipelineId,
  range: months(from, count),
  only,
  reason: 'replay',
})
type RangeScope = ReturnType<typeof scopeOf>

const held = async (scope: RangeScope): Promise<number[]> => {
  const found: number[] = []
  for (let end: PageEnd | null | undefined; end !== null; ) {
    const page: Awaited<ReturnType<typeof answersHeld>> = await answersHeld(db.database.kysely, scope, end ?? null)
    found.push(...page.answers.map(({ answerId }) => answerId))
    end = page.end
  }
  return found
}

const register = (runId: number, scope: ReplayScope, answerIds: readonly number[], counts: 'holding' | 'all' = 'holding') =>
  db.database.kysely.transaction().execute((trx) => registerReplay(trx, runId, scope, { answerIds, priority: 0, counts }))

const load = async (jobId: number): Promise<number> => {
  const answer = await newAnswer(db, jobId)
  await loadedAs(db, jobId, answer, Number((await jobRow(db, jobId)).ask_number))
  return answer
}

/** Two domains in two countries over three months in one report, and one unit of it loaded anew since. */
const packed = async () => {
  const pipeline = await newPipeline(db, { dimensions: ['country', 'domain'] })
  const sliceIds = await newSlices(db, pipeline, [
    ['us', 'a.com'],
    ['us', 'b.com'],
    ['gb', 'a.com'],
    ['gb', 'b.com'],
  ])
  const report = await newJob(db, pipeline, { sliceIds, window: months('2026-01', 3) })
  const answer = await load(report)
  const walk = await newJob(db, pipeline, { sliceIds: sliceIds.slice(0, 1), window: months('2026-02') })
  const newer = await load(walk)
  return { pipeline, sliceIds, report, answer, walk, newer }
}

const jobsOf = (runId: number) =>
  db.database.kysely
    .selectFrom('etl.run_jobs as w')
    .innerJoin('etl.jobs as j', 'j.job_id', 'w.job_id')
    .selectAll('j')
    .select(['w.units', 'w.priority', 'w.slice_ids as part_slices', 'w.window_from as part_from', 'w.outcome'])
    .where('w.run_id', '=', String(runId))
    .orderBy('w.priority')
    .execute()

describe('a range', () => {
  test('names each answer that its units hold once, however many units hold it', async () => {
    const { pipeline, answer, newer } = await packed()
    expect(await held(scopeOf(pipeline, '2026-01', 3))).toEqual([answer, newer])
    expect(await held(scopeOf(pipeline, '2026-03', 1))).toEqual([answer])
    expect(await held(scopeOf(pipeline, '2026-04', 3))).toEqual([])
  })

  test('narrowed to values names what units of these hold; a dimension the pipeline does not have fits nothing', async () => {
    const { pipeline, answer, newer } = await packed()
    const only = (name: string, ...values: string[]) => held(scopeOf(pipeline, '2026-02', 1, new Map([[name, values]])))
    expect(await only('domain', 'a.com')).toEqual([answer, newer])
    expect(await only('domain', 'b.com')).toEqual([answer])
    expect(await only('domain', 'c.com')).toEqual([])
    expect(await only('site', 'a.com')).toEqual([])
  })

  test('covers of each answer what lies in the range, in the order of the windows, and asks for nothing', async () => {
    const { pipeline, sliceIds, report, answer, newer } = await packed()
    const runId = await newRun(db)
    const scope = scopeOf(pipeline, '2026-02', 2)
    expect(await register(runId, scope, [answer, newer])).toEqual({ jobs: 2, units: 8 })
    const [first, second] = await jobsOf(runId)
    expect(first).toMatchObject({
      state: 'open',
      kind: 'report',
      reason: 'replay',
      forced: true,
      answer_id: String(answer),
      ask_number: (await jobRow(db, report)).ask_number,
      window_from: '2026-02-01',
      window_to: '2026-04-01',
      slice_ids: sliceIds,
      cells: 8,
      // One of the eight holds the newer answer.
      units: 7,
      part_slices: null,
      report_state: null,
      run_id: String(runId),
    })
    expect(second).toMatchObject({ kind: 'walk', answer_id: String(newer), cells: 1, units: 1 })
    expect((await unitRows(db, pipeline)).map(({ job_id }) => job_id)).toEqual(Array.from({ length: 12 }, () => null))
  })

  test('narrowed to values covers every combination of these', async () => {
    const { pipeline, sliceIds, answer } = await packed()
    const runId = await newRun(db)
    await register(runId, scopeOf(pipeline, '2026-01', 3, new Map([['domain', ['b.com']]])), [answer])
    expect(await jobsOf(runId)).toMatchObject([{ slice_ids: [sliceIds[1], sliceIds[3]], cells: 6, units: 6 }])
  })

  test('opens an unfinished job of the same answer again instead of making another, and waits for its part of it', async () => {
    const { pipeline, sliceIds } = await packed()
    const failed = await newJob(db, pipeline, { sliceIds, window: months('2026-05', 2), set: { attempts: 5 } })
    const answer = await newAnswer(db, failed)
    await db.database.kysely
      .updateTable('etl.jobs')
      .set({ state: 'failed', error_code: 'TOO_MANY_REJECTS' })
      .where('job_id', '=', String(failed))
      .execute()
    const scope = scopeOf(pipeline, '2026-06', 1)
    expect(await held(scope)).toEqual([answer])
    const runId = await newRun(db)
    expect(await register(runId, scope, [answer])).toEqual({ jobs: 1, units: 4 })
    const [job] = await jobsOf(runId)
    expect(job).toMatchObject({
      job_id: String(failed),
      state: 'open',
      forced: true,
      attempts: 0,
      error_code: null,
      part_slices: sliceIds,
      part_from: '2026-06-01',
    })
    // A second run joins it, whoever made it.
    const another = await newRun(db)
    await register(another, scope, [answer])
    expect((await jobsOf(another)).map(({ job_id }) => job_id)).toEqual([String(failed)])
  })

  test('leaves alone a newer job that asks for the same units', async () => {
    const { pipeline, sliceIds, answer, newer } = await packed()
    const asked = await newJob(db, pipeline, { sliceIds, window: months('2026-01', 3) })
    const runId = await newRun(db)
    await register(runId, scopeOf(pipeline, '2026-01', 3), [answer, newer])
    expect((await jobsOf(runId)).map(({ job_id }) => job_id)).not.toContain(String(asked))
    expect(await jobRow(db, asked)).toMatchObject({ state: 'open', forced: false })
    expect(new Set((await unitRows(db, pipeline)).map(({ job_id }) => job_id))).toEqual(new Set([String(asked)]))
  })

  test('names answers that are held back, and counts each unit once', async () => {
    const { pipeline, answer, newer, sliceIds } = await packed()
    await db.database.kysely
      .updateTable('etl.units')
      .set({ held_answer_id: newer, held_code: 'SHRUNK', answer_id: answer })
      .where('pipeline_id', '=', pipeline.pipelineId)
      .where('slice_id', '=', sliceIds[0] ?? 0)
      .where('window_from', '=', '2026-02-01')
      .execute()
    const scope = scopeOf(pipeline, '2026-02', 1)
    expect(await held(scope)).toEqual([answer, newer])
    const runId = await newRun(db)
    await register(runId, scope, [answer, newer])
    expect((await jobsOf(runId)).map(({ units }) => units)).toEqual([3, 1])
  })

  test('counts units that hold an older answer or none, as after one whose bytes were dropped: they are loaded', async () => {
    const { pipeline, sliceIds } = await packed()
    const refused = await newJob(db, pipeline, { sliceIds: sliceIds.slice(0, 2), window: months('2026-03', 2) })
    const dropped = await newAnswer(db, refused)
    await setJob(db, refused, { state: 'failed', answer_id: null })
    const runId = await newRun(db)
    const scope = { pipelineId: pipeline.pipelineId, range: null, only: null, reason: 'quarantine retry' }
    expect(await register(runId, scope, [dropped])).toEqual({ jobs: 1, units: 4 })
  })

  test('counts what is loaded again, and as unchanged only what it planned and a newer answer holds by then', async () => {
    const { pipeline, sliceIds, answer, newer } = await packed()
    const own = await newProcess(db)
    const replay = async (meanwhile: () => Promise<unknown>) => {
      const runId = await newRun(db, own.processId)
      await register(runId, scopeOf(pipeline, '2026-01', 3), [answer, newer])
      await meanwhile()
      for (const claim of await take(db, own, runId, [pipeline])) await finishJob(db.database.kysely, claim, 'loaded')
      return (await runSummary(db.database.kysely, runId)).units
    }
    expect(await replay(async () => undefined)).toMatchObject({ planned: 12, loaded: 12, unchanged: 0 })
    const overtake = async () =>
      load(await newJob(db, pipeline, { sliceIds: sliceIds.slice(1, 2), window: months('2026-01', 2) }))
    expect(await replay(overtake)).toMatchObject({ planned: 12, loaded: 10, unchanged: 2 })
  })
})

test('more units than fit on a page are read to the end, and an answer over several pages is named once', async () => {
  const pipeline = await newPipeline(db)
  const many = 5_200
  await db.database.pool.query(
    `insert into etl.slices (pipeline_id, "values", wanted_since) select $1, array['d' || n || '.com'], 1 from generate_series(1, $2) n`,
    [pipeline.pipelineId, many],
  )
  const rows = await db.query<{ slice_id: number }>('select slice_id from etl.slices where pipeline_id = $1 order by slice_id', [
    pipeline.pipelineId,
  ])
  const report = await newJob(db, pipeline, { sliceIds: rows.map(({ slice_id }) => slice_id) })
  const answer = await load(report)
  expect(await held(scopeOf(pipeline, '2026-01', 1))).toEqual([answer])
  const last = new Map([['domain', [`d${many}.com`]]])
  expect(await held(scopeOf(pipeline, '2026-01', 1, last))).toEqual([answer])
})

test('a report over 12,000 domains is found and planned in moments, also where no statistics are there yet, as after a restore', async () => {
  for (const table of ['units', 'slices']) await db.query(`alter table etl.${table} set (autovacuum_enabled = false)`)
  const pipeline = await newPipeline(db)
  const rows = await db.query<{ slice_id: number }>(`insert into etl.slices (pipeline_id, "values", wanted_since)
    select ${pipeline.pipelineId}, array['d' || n || '.com'], 1 from generate_series(1, 12000) n returning slice_id`)
  const report = await newJob(db, pipeline, { sliceIds: rows.map(({ slice_id }) => slice_id) })
  const answer = await load(report)
  const [runId, scope] = [await newRun(db), scopeOf(pipeline, '2026-01', 1)]
  await db.database.kysely.transaction().execute(async (trx) => {
    // Where every unit is read once for each domain, each statement takes many seconds.
    await sql`set local statement_timeout = '10s'`.execute(trx)
    expect((await answersHeld(trx, scope, null)).answers).toMatchObject([{ answerId: answer }])
    const made = await registerReplay(trx, runId, scope, { answerIds: [answer], priority: 0, counts: 'holding' })
    expect(made).toEqual({ jobs: 1, units: 12_000 })
  })
})

test('one answer is taken whole, also where its units hold newer ones', async () => {
  const { pipeline, newer, answer, sliceIds } = await packed()
  const over = await load(await newJob(db, pipeline, { sliceIds: sliceIds.slice(0, 1), window: months('2026-02') }))
  const found = await landedAnswer(db.database.kysely, newer)
  expect(found).toMatchObject({ answerId: newer, pipelineId: pipeline.pipelineId })
  const runId = await newRun(db)
  const scope = { pipelineId: pipeline.pipelineId, range: null, only: null, reason: 'replay' }
  expect(await register(runId, scope, [newer], 'all')).toEqual({ jobs: 1, units: 1 })
  expect(await jobsOf(runId)).toMatchObject([{ answer_id: String(newer), window_from: '2026-02-01', window_to: '2026-03-01' }])
  expect([answer, over].every((id) => id !== newer)).toBe(true)
  expect(await landedAnswer(db.database.kysely, 999_999)).toBeNull()
})

test.each([false, true])(
  'an answer of another version of the pipeline covers those units of it that the one which holds it has (dimensions turned: %s)',
  async (isTurned) => {
    const { answer } = await packed()
    const turned = (all: string[]): string[] => (isTurned ? all.toReversed() : all)
    const second = await newPipeline(db, { dimensions: turned(['country', 'domain']), version: 2 })
    const sliceIds = await newSlices(db, second, [turned(['us', 'a.com']), turned(['us', 'c.com'])])
    await newJob(db, second, { sliceIds, window: months('2026-01') })
    await newJob(db, second, { sliceIds, window: months('2026-03') })
    const [us] = sliceIds
    for (const [count, covered] of [
      [1, { window_to: '2026-02-01', cells: 1 }],
      [3, { window_to: '2026-04-01', cells: 2 }],
    ] as const) {
      const runId = await newRun(db)
      await register(runId, scopeOf(second, '2026-01', count), [answer])
      expect(await jobsOf(runId)).toMatchObject([{ pipeline_id: second.pipelineId, slice_ids: [us], ...covered }])
    }
  },
)

test('answers with open rows in quarantine are named, those of other pipelines or with closed ones are not', async () => {
  const { pipeline, report, answer, walk, newer } = await packed()
  const quarantine = (jobId: number, answerId: number, state: 'open' | 'superseded') =>
    db.database.kysely
      .insertInto('etl.quarantine')
      .values({
        answer_id: answerId,
        job_id: jobId,
        pipeline: pipeline.pipeline,
        part: 1,
        line: 1,
        column_name: null,
        reason: 'r',
        raw: 'x',
        state,
      })
      .execute()
  await quarantine(report, answer, 'open')
  await quarantine(report, answer, 'open')
  await quarantine(walk, newer, 'superseded')
  const found = await answersInQuarantine(db.database.kysely, [pipeline.pipelineId])
  expect(found).toMatchObject([{ answerId: answer, pipelineId: pipeline.pipelineId }])
  expect(await answersInQuarantine(db.database.kysely, [pipeline.pipelineId + 1])).toEqual([])
  expect(await answersInQuarantine(db.database.kysely, [])).toEqual([])
})
