// What a person decides: held units released, failed ones opened again, purchases adopted and given up; each with its event.
import { describe, expect, test } from 'vitest'
import { releasable, releaseByPerson, releaseFor, retryByPerson } from '../../src/ledger/release-unit.ts'
import { adoptReport, giveUpReport } from '../../src/ledger/purchases.ts'
import { listPurchases } from '../../src/web/reads/read-reports.ts'
import { bought, months, newJob, newPipeline, newProcess, newRun, newSlices, nextAskNumber } from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, outcomeOf, setJob, unitRows } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const events = async (kind: string): Promise<string[]> =>
  (
    await db.database.kysely.selectFrom('etl.events').select('message').where('kind', '=', kind).orderBy('event_id').execute()
  ).map(({ message }) => message)

const newest = async (pipelineId: number) =>
  db.database.kysely
    .selectFrom('etl.jobs')
    .selectAll()
    .where('pipeline_id', '=', pipelineId)
    .orderBy('job_id', 'desc')
    .limit(1)
    .executeTakeFirstOrThrow()

/** A packed report of two units whose newer answer is held back for the first. */
const held = async () => {
  const pipeline = await newPipeline(db)
  const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
  const runId = await newRun(db)
  const job = await newJob(db, pipeline, { sliceIds, set: { run_id: runId } })
  const old = await newAnswer(db, job)
  await loadedAs(db, job, old, Number((await jobRow(db, job)).ask_number))
  const refresh = await newJob(db, pipeline, { sliceIds, set: { run_id: runId } })
  const answer = await newAnswer(db, refresh)
  await loadedAs(db, refresh, answer, Number((await jobRow(db, refresh)).ask_number))
  await db.database.kysely
    .updateTable('etl.units')
    .set({ held_answer_id: answer, held_code: 'SHRUNK', answer_id: old })
    .where('pipeline_id', '=', pipeline.pipelineId)
    .where('slice_id', '=', sliceIds[0] ?? 0)
    .execute()
  const [first, second] = await unitRows(db, pipeline)
  return { pipeline, answer, refresh, runId, unitId: Number(first?.unit_id), other: Number(second?.unit_id), sliceIds }
}

describe('releasing', () => {
  test('a held answer gives it a job of its own, for that unit alone, which asks for nothing', async () => {
    const { pipeline, answer, refresh, runId, unitId, other, sliceIds } = await held()
    expect(await releaseByPerson(db.database.kysely, other, 'test')).toBe(false)
    expect(await releaseByPerson(db.database.kysely, unitId, 'test')).toBe(true)
    const job = await newest(pipeline.pipelineId)
    expect(job).toMatchObject({
      state: 'open',
      kind: 'report',
      reason: 'release',
      released: true,
      forced: true,
      answer_id: String(answer),
      ask_number: (await jobRow(db, refresh)).ask_number,
      slice_ids: [sliceIds[0]],
      cells: 1,
      window_from: '2026-01-01',
      window_to: '2026-02-01',
      report_state: null,
      run_id: String(runId),
    })
    const [unit] = await unitRows(db, pipeline)
    expect(unit).toMatchObject({ held_answer_id: null, held_code: null, job_id: job.job_id })
    expect(await releaseByPerson(db.database.kysely, unitId, 'test')).toBe(false)
    expect((await events('released')).at(-1)).toMatch(`Unit ${unitId} was released by a person (test)`)
  })

  test('leaves the unit with a newer job that asks for it', async () => {
    const { pipeline, unitId, sliceIds } = await held()
    const newer = await newJob(db, pipeline, { sliceIds: sliceIds.slice(0, 1) })
    expect(await releaseByPerson(db.database.kysely, unitId, 'test')).toBe(true)
    const [unit] = await unitRows(db, pipeline)
    expect(unit).toMatchObject({ held_answer_id: null, job_id: String(newer) })
  })

  test('loads the held answer, which costs nothing, also where a newer job that has brought none is held', async () => {
    const { pipeline, answer, unitId, sliceIds } = await held()
    const set = { state: 'held', error_code: 'REPORT_EXPIRED' } as const
    const newer = await newJob(db, pipeline, { sliceIds: sliceIds.slice(0, 1), set })
    expect(await releasable(db.database.kysely, [unitId])).toMatchObject([{ asksService: false }])
    expect(await releaseByPerson(db.database.kysely, unitId, 'test')).toBe(true)
    expect(await newest(pipeline.pipelineId)).toMatchObject({ reason: 'release', answer_id: String(answer) })
    // By two people, or once more after it was stopped.
    const { job_id: loading } = await newest(pipeline.pipelineId)
    expect(await releasable(db.database.kysely, [unitId])).toMatchObject([{ asksService: false }])
    const release = await releaseFor(db.database.kysely, await newRun(db), unitId, 'test')
    expect(release).toEqual({ kind: 'joined', jobId: Number(loading) })
    expect(await jobRow(db, newer)).toMatchObject(set)
    await setJob(db, Number(loading), { state: 'done' })
    expect(await releasable(db.database.kysely, [unitId])).toMatchObject([{ asksService: true }])
    expect(await releaseByPerson(db.database.kysely, unitId, 'test')).toBe(true)
    expect(await jobRow(db, newer)).toMatchObject({ state: 'open' })
  })

  test('a unit of a held job opens that job again, with all its attempts', async () => {
    const pipeline = await newPipeline(db)
    const job = await newJob(db, pipeline, { set: { state: 'held', attempts: 5, error_code: 'INCOMPLETE' } })
    const [unit] = await unitRows(db, pipeline)
    expect(await releaseByPerson(db.database.kysely, Number(unit?.unit_id), 'test')).toBe(true)
    expect(await jobRow(db, job)).toMatchObject({ state: 'open', released: true, attempts: 0, error_code: null })
  })

  test.each(['failed', 'rejected', 'expired'] as const)(
    'a purchase that %s is asked about again: the service decides',
    async (ended) => {
      const pipeline = await newPipeline(db)
      const job = await newJob(db, pipeline, { set: { ...bought(`gone-${ended}`, 1), state: 'held', report_state: ended } })
      await setJob(db, job, { deadline_at: '2026-01-01T00:00:00Z', next_poll_at: '2031-01-01T00:00:00Z' })
      const [unit] = await unitRows(db, pipeline)
      expect(await releaseByPerson(db.database.kysely, Number(unit?.unit_id), 'test')).toBe(true)
      expect(await jobRow(db, job)).toMatchObject({
        state: 'open',
        report_state: 'submitted',
        report_id: `gone-${ended}`,
        deadline_at: null,
        next_poll_at: null,
      })
    },
  )

  test('by two people at once does it once', async () => {
    const { pipeline, unitId } = await held()
    const both = await Promise.all([1, 2].map(() => releaseByPerson(db.database.kysely, unitId, 'test')))
    expect(both.toSorted()).toEqual([false, true])
    expect(
      await db.query(`select 1 from etl.jobs where pipeline_id = $1 and reason = 'release'`, [pipeline.pipelineId]),
    ).toHaveLength(1)
  })
})

test('a failed unit is opened again, any other is not', async () => {
  const pipeline = await newPipeline(db)
  const job = await newJob(db, pipeline, { set: { state: 'failed', attempts: 5, error_code: 'BAD_REQUEST' } })
  const [unit] = await unitRows(db, pipeline)
  expect(await retryByPerson(db.database.kysely, Number(unit?.unit_id), 'test')).toBe(true)
  expect(await jobRow(db, job)).toMatchObject({ state: 'open', released: false, attempts: 0, error_code: null })
  expect(await retryByPerson(db.database.kysely, Number(unit?.unit_id), 'test')).toBe(false)
  expect(await retryByPerson(db.database.kysely, 999_999, 'test')).toBe(false)
})

describe('a purchase', () => {
  const uncertain = async (set: object = {}) => {
    const pipeline = await newPipeline(db)
    const runId = await newRun(db)
    const ask = await nextAskNumber(db)
    const job = await newJob(db, pipeline, {
      runs: [runId],
      set: { ...bought('r', ask), report_id: null, report_state: 'uncertain', state: 'held', estimated_quota: 7, ...set },
    })
    return { pipeline, job, runId }
  }

  test('without an id takes the one a person found, and is polled from there', async () => {
    const { job } = await uncertain()
    await adoptReport(db.database.kysely, { jobId: job, reportId: 'rep-1', by: 'test' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'open', report_state: 'submitted', report_id: 'rep-1', fence: '1' })
    expect((await events('adopted')).at(-1)).toContain('rep-1')
    const other = await uncertain()
    const again = adoptReport(db.database.kysely, { jobId: other.job, reportId: 'rep-1', by: 'test' })
    await expect(again).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(`job ${job} has it`) })
    await setJob(db, job, { status_word: 'pending' })
    await expect(adoptReport(db.database.kysely, { jobId: job, reportId: 'x', by: 'test' })).rejects.toMatchObject({
      code: 'USAGE',
    })
    await expect(adoptReport(db.database.kysely, { jobId: 999_999, reportId: 'x', by: 'test' })).rejects.toMatchObject({
      code: 'USAGE',
    })
  })

  test('that was asked for again by another job takes its late id too', async () => {
    const { job } = await uncertain({ state: 'replaced' })
    await adoptReport(db.database.kysely, { jobId: job, reportId: 'rep-late', by: 'test' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'open', report_state: 'submitted', report_id: 'rep-late' })
  })

  test('given up frees its units and reserves no quota; an id that turns up later can still be adopted', async () => {
    const { pipeline, job, runId } = await uncertain()
    await giveUpReport(db.database.kysely, { jobId: job, by: 'test' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'replaced', report_state: 'failed' })
    expect((await unitRows(db, pipeline)).map(({ job_id }) => job_id)).toEqual([null])
    expect(await outcomeOf(db, runId, job)).toBe('failed')
    expect(await db.query('select reserved_quota from etl.quota where pipeline = $1', [pipeline.pipeline])).toEqual([
      { reserved_quota: '0' },
    ])
    await expect(giveUpReport(db.database.kysely, { jobId: job, by: 'test' })).rejects.toMatchObject({ code: 'USAGE' })
    await adoptReport(db.database.kysely, { jobId: job, reportId: 'rep-after', by: 'test' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'open', report_id: 'rep-after' })
  })

  test('that a process polls is taken from it when it is given up', async () => {
    const { processId } = await newProcess(db)
    const { job } = await uncertain({ report_id: 'rep-slow', report_state: 'submitted', state: 'open', holder: processId })
    await giveUpReport(db.database.kysely, { jobId: job, by: 'test', sure: true })
    expect(await jobRow(db, job)).toMatchObject({ state: 'replaced', report_state: 'expired', holder: null, fence: '1' })
  })

  const giveUp = (jobId: number, sure?: boolean): Promise<void> =>
    giveUpReport(db.database.kysely, { jobId, by: 'test', ...(sure === undefined ? {} : { sure }) })
  const adopt = (jobId: number, reportId: string): Promise<unknown> =>
    adoptReport(db.database.kysely, { jobId, reportId, by: 'test' })

  test('takes the id of a job that was given up, which stays so; while that one stands it is told what frees the id', async () => {
    const first = await uncertain({ report_id: 'rep-twice', report_state: 'ready', state: 'failed' })
    const second = await uncertain()
    await expect(adopt(second.job, 'rep-twice')).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(new RegExp(`job ${first.job} has it.*reports give-up ${first.job} --sure`)),
    })
    await giveUp(first.job, true)
    await adopt(second.job, 'rep-twice')
    expect(await jobRow(db, second.job)).toMatchObject({ state: 'open', report_state: 'submitted', report_id: 'rep-twice' })
    expect(await jobRow(db, first.job)).toMatchObject({ state: 'replaced', report_state: 'failed', report_id: null })
    const { rows } = await listPurchases(db.database.kysely, { pipelines: [first.pipeline.pipeline], limit: 9 })
    expect(rows).toMatchObject([{ kind: 'given up', message: expect.stringContaining(`Job ${second.job} has it`) }])
    await expect(adopt(first.job, 'rep-twice')).rejects.toMatchObject({ code: 'USAGE' })
  })

  test('that a living process is submitting is not given up, however sure the person is; that of a dead one is', async () => {
    const living = await newProcess(db)
    const flying = await uncertain({ report_state: 'intent', state: 'open', holder: living.processId })
    for (const sure of [false, true])
      await expect(giveUp(flying.job, sure)).rejects.toMatchObject({
        code: 'USAGE',
        message: expect.stringMatching(/submission in flight.*try again in a minute/),
      })
    expect(await jobRow(db, flying.job)).toMatchObject({ report_state: 'intent', holder: living.processId })
    const dead = await newProcess(db, { leaseMs: -1 })
    const left = await uncertain({ report_state: 'intent', state: 'open', holder: dead.processId })
    await giveUp(left.job)
    expect(await jobRow(db, left.job)).toMatchObject({ state: 'replaced', report_state: 'failed' })
  })

  test.each(['submitted', 'ready'])(
    'that is %s and may still come is given up by who is sure, or after its deadline',
    async (state) => {
      const is = { report_state: state, state: 'open' }
      for (const deadline_at of [null, '2999-01-01T00:00:00Z']) {
        const { job } = await uncertain({ ...is, report_id: `early-${state}-${deadline_at}`, deadline_at })
        await expect(giveUp(job)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('--sure') })
        expect(await jobRow(db, job)).toMatchObject(is)
        await giveUp(job, true)
        expect(await jobRow(db, job)).toMatchObject({ state: 'replaced', report_state: 'expired' })
      }
      const late = await uncertain({ ...is, report_id: `late-${state}`, deadline_at: '2020-01-01T00:00:00Z' })
      await giveUp(late.job)
      expect(await jobRow(db, late.job)).toMatchObject({ state: 'replaced', report_state: 'expired' })
    },
  )

  test.each([
    ['failed', { report_state: 'failed', state: 'failed' }],
    ['was rejected', { report_state: 'rejected', state: 'failed' }],
    ['expired', { report_state: 'expired', state: 'held' }],
    ['was never known', { report_state: 'submitted', status_word: 'not found', state: 'failed' }],
    ['was not looked at', { report_state: 'submitted', status_word: null, state: 'open' }],
  ])('whose report %s takes another id, or the same again, and begins anew', async (what, set) => {
    const former = `former ${what}`
    const spent = { polls: 30, retries: 3, deadline_at: '2020-01-01T00:00:00Z', completed_at: '2020-01-01T00:00:00Z' }
    const { job } = await uncertain({ ...spent, ...set, report_id: former })
    const begun = {
      state: 'open',
      report_state: 'submitted',
      polls: 0,
      retries: 0,
      deadline_at: null,
      completed_at: null,
      status_word: null,
    }
    await adopt(job, former)
    expect(await jobRow(db, job)).toMatchObject({ ...begun, report_id: former, fence: '1' })
    expect((await events('adopted')).at(-1)).not.toContain('in place of')
    await adopt(job, `other ${what}`)
    expect(await jobRow(db, job)).toMatchObject({ ...begun, report_id: `other ${what}`, fence: '2' })
    expect((await events('adopted')).at(-1)).toContain(
      `Report other ${what} was recorded for job ${job} in place of ${former} by`,
    )
  })

  test('whose report the service knows keeps its id, and one that a process has is left to it', async () => {
    const refused = (message: string) => ({ code: 'USAGE', message: expect.stringContaining(message) })
    for (const [report_state, status_word] of [
      ['submitted', 'processing'],
      ['ready', 'complete'],
    ]) {
      const { job } = await uncertain({ report_id: `known-${report_state}`, report_state, status_word, state: 'failed' })
      await expect(adopt(job, 'x')).rejects.toMatchObject(refused('already'))
    }
    const { processId } = await newProcess(db)
    const { job } = await uncertain({ report_id: 'mine', report_state: 'submitted', state: 'open', holder: processId })
    await expect(adopt(job, 'x')).rejects.toMatchObject(refused('still in progress'))
    const left = await uncertain({ report_state: 'intent', state: 'open' })
    await expect(adopt(left.job, 'x')).rejects.toMatchObject(refused('still in progress'))
  })

  test('that was given up is listed as that, and not as lost', async () => {
    for (const set of [{}, { report_id: 'given-up', report_state: 'ready', status_word: 'complete' }]) {
      const { pipeline, job } = await uncertain(set)
      await giveUp(job, true)
      const { rows } = await listPurchases(db.database.kysely, { pipelines: [pipeline.pipeline], limit: 3 })
      expect(rows.map(({ kind }) => kind)).toEqual(['given up'])
    }
    const { pipeline } = await uncertain({ report_id: 'gone', report_state: 'expired', state: 'replaced' })
    const { rows } = await listPurchases(db.database.kysely, { pipelines: [pipeline.pipeline], limit: 3 })
    expect(rows.map(({ kind }) => kind)).toEqual(['lost'])
  })

  test('is listed as open, uncertain, lost or unused, and not once it was used', async () => {
    const pipeline = await newPipeline(db)
    const add = async (id: string, set: object): Promise<number> =>
      newJob(db, pipeline, { window: months('2026-01'), set: { ...bought(id, await nextAskNumber(db)), ...set } })
    await add('l-open', {})
    await add('l-uncertain', { report_id: null, report_state: 'uncertain', state: 'held' })
    await add('l-lost', { report_state: 'expired', state: 'failed' })
    // Its bytes were those that are loaded.
    await add('l-unchanged', { report_state: 'ready', state: 'done' })
    const unused = await add('l-unused', { report_state: 'downloaded' })
    const used = await add('l-used', { report_state: 'downloaded' })
    await newAnswer(db, unused)
    await setJob(db, unused, { state: 'failed' })
    const answer = await newAnswer(db, used)
    await loadedAs(db, used, answer, Number((await jobRow(db, used)).ask_number))
    await db.database.kysely
      .insertInto('etl.load_rows')
      .values({
        answer_id: answer,
        pipeline_id: pipeline.pipelineId,
        window_from: '2026-01-01',
        job_id: used,
        outcome: 'loaded',
        ...{
          rows_read: 0,
          rows_inserted: 0,
          rows_updated: 0,
          rows_ended: 0,
          rows_unchanged: 0,
          rows_quarantined: 0,
          rows_duplicates: 0,
        },
        milliseconds: null,
      })
      .execute()
    const { rows, total } = await listPurchases(db.database.kysely, { pipelines: [pipeline.pipeline], limit: 3 })
    expect(total).toBe(4)
    expect(rows.map(({ kind, report_id }) => [kind, report_id])).toEqual([
      ['unused', 'l-unused'],
      ['lost', 'l-lost'],
      ['uncertain', null],
    ])
  })
})
