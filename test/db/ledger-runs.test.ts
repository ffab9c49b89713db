// Runs: when they are over, what they count, what a cancel leaves, and who takes up what nobody waits for.
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tables.ts'
import {
  cancelledJobs,
  dissolveJobs,
  isCancelled,
  jobsInFlight,
  leaveRun,
  requestCancel,
} from '../../src/ledger/cancel-request.ts'
import { reapDead } from '../../src/ledger/processes.ts'
import { recordRequests } from '../../src/ledger/requests.ts'
import { finishRun, foreignRuns, openJobs, requestsSaved, runState, runSummary, startRun } from '../../src/ledger/runs.ts'
import { failJob, finishJob, holdJob, parkJob } from '../../src/ledger/claim-fence.ts'
import { makeJobsDue, endMissedWaits, joinOrphans, leaveUntakeable, runWaits } from '../../src/ledger/wait-list.ts'
import {
  bought,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  newSlices,
  newWalks,
  nextAskNumber,
  type PipelineKit,
  type ProcessKit,
  take,
  takeOne,
  waitFor,
} from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, outcomeOf, setJob, unitRows } from '../support/ledger-answers.ts'
import { withRequests } from '../../src/run/job-work.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let one: ProcessKit
let pipeline: PipelineKit
let runId: number
const k = (): Db => db.database.kysely

beforeEach(async () => {
  one = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await startRun(k(), one, { command: 'run', arguments: { pipelines: ['traffic'] } })
})

const reason = { code: 'BAD_REQUEST', message: 'no' }
const last = { notBeforeMs: 1_000, countsAttempt: false, final: true, code: 'NOT_PUBLISHED', message: 'not yet' }

describe('a run is over', () => {
  test('when none of the jobs it waits for is open, whatever became of them', async () => {
    const [a, b, c, d] = await newWalks(db, pipeline, runId, 4)
    expect(await openJobs(k(), runId)).toEqual({ count: 4, cancelled: false, state: 'running' })
    await finishJob(k(), await takeOne(db, one, runId, pipeline, a), 'loaded')
    await failJob(k(), await takeOne(db, one, runId, pipeline, b), reason)
    await holdJob(k(), await takeOne(db, one, runId, pipeline, c), reason)
    expect(await openJobs(k(), runId)).toMatchObject({ count: 1 })
    await parkJob(k(), await takeOne(db, one, runId, pipeline, d), last)
    expect(await openJobs(k(), runId)).toMatchObject({ count: 0 })
  })

  test('also when another run settles the job they share, which leaves nothing of it to do', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const two = await newProcess(db)
    const other = await newRun(db, two.processId)
    await waitFor(db, other, jobId)
    await finishJob(k(), await takeOne(db, two, other, pipeline, jobId), 'loaded')
    expect(await openJobs(k(), runId)).toMatchObject({ count: 0 })
    expect(await take(db, one, runId, [pipeline])).toEqual([])
    expect((await runSummary(k(), runId)).units).toMatchObject({ planned: 1, loaded: 1 })
  })

  test('for good: it stays cancelled, and a later word changes nothing', async () => {
    await finishRun(k(), runId, 'cancelled', null)
    await finishRun(k(), runId, 'done', { late: true })
    expect(await runState(k(), runId)).toBe('cancelled')
    const { rows } = await sql`select summary from etl.runs where run_id = ${runId}`.execute(k())
    expect(rows).toEqual([{ summary: null }])
    expect(await runState(k(), 999_999)).toBeNull()
  })
})

describe('the summary of a run', () => {
  test('counts units by what became of their jobs, those of a job that was cut by its parts', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com', 'c.com', 'd.com', 'e.com', 'f.com'])
    const job = (from: number, to: number) => newJob(db, pipeline, { sliceIds: sliceIds.slice(from, to), runs: [runId] })
    const [loaded, held] = [await job(0, 3), await job(3, 5)]
    const open = await job(5, 6)
    const answerId = await newAnswer(db, loaded)
    await sql`update etl.units set held_answer_id = ${answerId} where pipeline_id = ${pipeline.pipelineId} and slice_id = ${sliceIds[0]}`.execute(
      k(),
    )
    await finishJob(k(), await takeOne(db, one, runId, pipeline, loaded), 'loaded')
    await holdJob(k(), await takeOne(db, one, runId, pipeline, held), reason)
    const cut = await newJob(db, pipeline)
    await waitFor(db, runId, cut, 9)
    await sql`update etl.run_jobs set outcome = 'replaced' where job_id = ${cut}`.execute(k())
    expect((await runSummary(k(), runId)).units).toEqual({ planned: 6, loaded: 2, unchanged: 0, waiting: 0, held: 3, failed: 0 })
    expect(await outcomeOf(db, runId, open)).toBeNull()
  })

  test('counts rows, requests and reports of its own', async () => {
    const jobId = await newJob(db, pipeline, {
      runs: [runId],
      set: {
        ...bought(`s-${runId}`, await nextAskNumber(db)),
        submitted_at: '2026-02-01T00:00:00Z',
        used_quota: 12,
        run_id: runId,
      },
    })
    const earlier = await newRun(db)
    const joined = await newJob(db, pipeline, {
      runs: [runId],
      set: {
        ...bought(`e-${runId}`, await nextAskNumber(db)),
        submitted_at: '2026-02-01T00:00:00Z',
        used_quota: 99,
        run_id: earlier,
      },
    })
    const answerId = await newAnswer(db, jobId)
    await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, rows_read, rows_inserted, rows_unchanged)
      values (${answerId}, ${pipeline.pipelineId}, '2026-01-01', ${jobId}, ${runId}, 'loaded', 5, 3, 2),
        (${answerId}, ${pipeline.pipelineId}, '2026-01-01', ${joined}, ${earlier}, 'loaded', 7, 7, 0)`.execute(k())
    const request = {
      runId,
      pipelineId: pipeline.pipelineId,
      jobId,
      askNumber: null,
      account: 'default',
      method: 'POST',
      endpoint: '/batch',
      parameters: {},
      part: null,
      attempt: 1,
      status: 200,
      errorCode: null,
      bytes: 40,
      sha256: null,
      // With its sister 1.4: whole credits are told, rounded up (contract).
      credits: 0.7,
      isUncertain: false,
      isOpen: false,
      paidFor: null,
      saidIn: null,
      subject: null,
      startedAt: '2026-02-01T00:00:00Z',
      milliseconds: 1,
    }
    // Those that could not be put on record are kept for whoever settles the job.
    const open = [request, { ...request, askNumber: '7', bytes: 2 }]
    const refused = async () => Promise.reject(new Error('the database is away'))
    await expect(withRequests({ kysely: k() }, open, refused)).rejects.toThrow('the database is away')
    expect(open).toHaveLength(2)
    await withRequests({ kysely: k() }, open, async () => undefined)
    expect(open).toEqual([])
    expect(await runSummary(k(), runId)).toMatchObject({
      rows: { read: 5, inserted: 3, updated: 0, ended: 0, unchanged: 2, quarantined: 0, duplicates: 0 },
      requests: 2,
      bytes: 42,
      reports_submitted: 1,
      quota_used: 14,
    })
    const { rows } = await sql<{
      ask_number: string
    }>`select ask_number from etl.requests where job_id = ${jobId} order by request_id`.execute(k())
    expect(rows.map((row) => row.ask_number)).toEqual([(await jobRow(db, jobId)).ask_number, '7'])
  })

  test('counts records of held units as quarantined, and free questions of planning as requests', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const answerId = await newAnswer(db, jobId)
    await sql`insert into etl.quarantine (answer_id, job_id, unit_id, run_id, pipeline, part, line, reason, raw)
      select ${answerId}, ${jobId}, unit_id, ${runId}, 'keywords', 1, line, 'why', 'raw' from etl.units, generate_series(1, 3) line where job_id = ${jobId}`.execute(
      k(),
    )
    expect((await runSummary(k(), runId)).rows).toMatchObject({ read: 0, quarantined: 0 })
    await sql`update etl.units set held_answer_id = ${answerId}, held_code = 'TOO_MANY_REJECTS' where job_id = ${jobId}`.execute(
      k(),
    )
    await recordRequests(k(), [
      {
        ...{
          runId,
          pipelineId: null,
          jobId: null,
          askNumber: null,
          account: 'default',
          method: 'GET',
          endpoint: '/capabilities',
        },
        ...{ parameters: {}, part: null, attempt: 1, status: 200, errorCode: null, bytes: 7, sha256: null, credits: null },
        ...{
          isUncertain: false,
          isOpen: false,
          paidFor: null,
          saidIn: null,
          subject: null,
          startedAt: '2026-02-01T00:00:00Z',
          milliseconds: 1,
        },
      },
    ])
    expect(await runSummary(k(), runId)).toMatchObject({
      rows: { read: 3, inserted: 0, quarantined: 3 },
      requests: 1,
      bytes: 7,
      quota_used: 0,
    })
  })

  test('counts each request once, also where the answer to the commit that put it on record was lost', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const page = (part: number | null, startedAt: string) => ({
      ...{
        runId,
        pipelineId: null,
        jobId,
        askNumber: null,
        account: 'default',
        method: 'GET',
        endpoint: '/keywords',
        parameters: {},
      },
      ...{
        part,
        attempt: 1,
        status: 200,
        errorCode: null,
        bytes: 7,
        sha256: null,
        credits: 3,
        isUncertain: false,
        isOpen: false,
        paidFor: null,
      },
      ...{ saidIn: null, subject: null, startedAt, milliseconds: 1 },
    })
    const [look, first, second] = [null, 1, 2].map((part) => page(part, '2026-02-01T00:00:00.123Z'))
    if (look === undefined || first === undefined || second === undefined) throw new Error('three pages')
    await recordRequests(k(), [look, first])
    const rolledBack = k()
      .transaction()
      .execute(async (trx) => {
        await recordRequests(trx, [second])
        throw new Error('cut off')
      })
    await expect(rolledBack).rejects.toThrow('cut off')
    await recordRequests(k(), [look, first, second])
    await recordRequests(k(), [look, first, second, page(1, '2026-02-01T00:00:01.123Z')])
    expect(await runSummary(k(), runId)).toMatchObject({ requests: 4, bytes: 28, quota_used: 12 })
  })

  test('of nothing is all zeros', async () => {
    expect(await runSummary(k(), runId)).toEqual({
      units: { planned: 0, loaded: 0, unchanged: 0, waiting: 0, held: 0, failed: 0 },
      rows: { read: 0, inserted: 0, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
      requests: 0,
      reports_submitted: 0,
      quota_used: 0,
      bytes: 0,
    })
    expect(await requestsSaved(k(), runId)).toBe(0)
    expect(await foreignRuns(k(), 'run')).toBe(0)
  })

  test('tells the requests that a probe spared: what the answer once took, less the probe', async () => {
    const former = await newJob(db, pipeline)
    const answerId = await newAnswer(db, former)
    const { ask_number: ask } = await jobRow(db, former)
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    await sql`insert into etl.requests (run_id, job_id, ask_number, account, method, endpoint, attempt, started_at, milliseconds)
      select 1, ${former}::bigint, ${ask}::bigint, 'default', 'GET', '/k', case i when 8 then 2 else 1 end, now(), 1 from generate_series(1, 8) i
      union all select 1, ${former}::bigint, ${ask}::bigint - 1, 'default', 'GET', '/k', 1, now(), 1
      union all select ${runId}::bigint, ${jobId}::bigint, 9, 'default', 'GET', '/k', 1, now(), 1`.execute(k())
    await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome)
      values (${answerId}, ${pipeline.pipelineId}, '2026-01-01', ${jobId}, ${runId}, 'unchanged')`.execute(k())
    expect(await requestsSaved(k(), runId)).toBe(6)
  })
})

describe('a cancelled run', () => {
  test('dissolves its plans that nobody else waits for, and lets go of the rest', async () => {
    const other = await newRun(db)
    const plans = await newWalks(db, pipeline, runId, 3)
    const shared = await newJob(db, pipeline, { runs: [runId, other] })
    const asked = await newJob(db, pipeline, { runs: [runId], set: bought(`c-${runId}`, await nextAskNumber(db)) })
    const parked = await newJob(db, pipeline, { runs: [runId], set: { not_before: '2099-01-01T00:00:00Z' } })
    const replayed = await newJob(db, pipeline, { runs: [runId] })
    const source = await newJob(db, pipeline)
    const answerId = await newAnswer(db, source)
    await setJob(db, replayed, { answer_id: answerId, ask_number: (await jobRow(db, source)).ask_number })
    // No unit counts on a replay.
    await db.query('delete from etl.units where job_id = $1', [replayed])
    const landed = await newJob(db, pipeline, { runs: [runId] })
    await newAnswer(db, landed)
    await requestCancel(k(), runId)
    expect(await isCancelled(k(), runId)).toBe(true)
    expect(await leaveRun(k(), runId)).toBe(5)
    const left = await sql<{
      id: string
    }>`select job_id as id from etl.jobs where pipeline_id = ${pipeline.pipelineId} order by 1`.execute(k())
    expect(left.rows.map(({ id }) => Number(id))).toEqual([shared, asked, source, landed])
    for (const jobId of [...plans, shared, asked, parked, landed]) expect(await outcomeOf(db, runId, jobId)).toBe('let go')
    expect(await outcomeOf(db, other, shared)).toBeNull()
    // A unit that was nothing but planned is gone with its plan.
    expect((await unitRows(db, pipeline)).map((unit) => Number(unit.job_id))).toEqual([shared, asked, source, landed])
    expect(await leaveRun(k(), runId)).toBe(0)
  })

  test('leaves units that are loaded as they were before it planned', async () => {
    const sliceIds = await newSlices(db, pipeline, ['loaded.com'])
    const former = await newJob(db, pipeline, { sliceIds })
    const askNumber = await nextAskNumber(db)
    const answerId = await newAnswer(db, former, { askNumber })
    await loadedAs(db, former, answerId, askNumber)
    await newJob(db, pipeline, { sliceIds, runs: [runId] })
    await requestCancel(k(), runId)
    expect(await leaveRun(k(), runId)).toBe(1)
    expect(await unitRows(db, pipeline)).toMatchObject([
      { job_id: null, answer_id: String(answerId), ask_number: String(askNumber) },
    ])
  })

  test('leaves what is at hand to its holder, who is told; unless another run waits for it', async () => {
    const other = await newRun(db)
    const [mine = 0] = await newWalks(db, pipeline, runId, 1)
    const shared = await newJob(db, pipeline, { runs: [{ runId, priority: 2 }, other] })
    const claims = await take(db, one, runId, [pipeline])
    expect(await cancelledJobs(k(), claims)).toEqual([])
    expect(await jobsInFlight(k(), runId)).toBe(0)
    await requestCancel(k(), runId)
    expect((await cancelledJobs(k(), claims)).map(({ jobId }) => jobId)).toEqual([mine])
    expect(await leaveRun(k(), runId)).toBe(0)
    expect((await cancelledJobs(k(), claims)).map(({ jobId }) => jobId)).toEqual([mine])
    expect(await jobsInFlight(k(), runId)).toBe(1)
    expect(await jobRow(db, shared)).toMatchObject({ holder: one.processId })
  })

  test('does not call back an orphan that somebody finishes', async () => {
    await newJob(db, pipeline, { runs: [runId], set: { ...bought(`f-${runId}`, await nextAskNumber(db)), run_id: runId } })
    await requestCancel(k(), runId)
    const orphans = (await take(db, one, null, [pipeline])).filter((claim) => claim.pipelineId === pipeline.pipelineId)
    expect(orphans).toMatchObject([{ orphan: true, runId }])
    expect(await cancelledJobs(k(), orphans)).toEqual([])
  })

  test('does not dissolve a plan that a run joins at the same moment', async () => {
    for (let time = 0; time < 10; time += 1) {
      const first = await newRun(db)
      const jobId = await newJob(db, pipeline, { runs: [first] })
      await requestCancel(k(), first)
      const second = await newRun(db)
      const joined = k()
        .transaction()
        .execute(async (trx) => {
          const { rows } = await sql`select job_id from etl.jobs where job_id = ${jobId} for update`.execute(trx)
          await new Promise((resolve) => setTimeout(resolve, time % 3))
          if (rows.length > 0)
            await sql`insert into etl.run_jobs (run_id, job_id, priority, units) values (${second}, ${jobId}, 1, 1)`.execute(trx)
          return rows.length > 0
        })
      await leaveRun(k(), first)
      const { rows } = await sql`select from etl.jobs where job_id = ${jobId}`.execute(k())
      expect(rows).toHaveLength((await joined) ? 1 : 0)
    }
  })
})

test('plans that a dead run left are dissolved by whoever plans, not those that somebody holds', async () => {
  const [a = 0, b = 0] = await newWalks(db, pipeline, runId, 2)
  await takeOne(db, one, runId, pipeline, a)
  await sql`update etl.runs set state = 'interrupted' where run_id = ${runId}`.execute(k())
  expect(
    await k()
      .transaction()
      .execute((trx) => dissolveJobs(trx, [a, b].map(String))),
  ).toBe(1)
  expect(await outcomeOf(db, runId, b)).toBe('let go')
  expect(await jobRow(db, a)).toMatchObject({ holder: one.processId })
})

describe('orphans', () => {
  const asked = async (set = {}, runs: readonly number[] = []): Promise<number> =>
    newJob(db, pipeline, { runs, set: { ...bought(`x${Math.random()}`, await nextAskNumber(db)), ...set } })

  test('of the pipeline, of other versions while there is something to download, are waited for by the run that takes them up', async () => {
    const dead = await newRun(db)
    const orphan = await asked({}, [dead])
    await sql`update etl.runs set state = 'interrupted' where run_id = ${dead}`.execute(k())
    const waited = await asked({}, [await newRun(db)])
    const former = await newPipeline(db, { pipeline: pipeline.pipeline, version: 2 })
    const older = await newJob(db, former, { set: bought(`older-${runId}`, await nextAskNumber(db)) })
    const landed = await newJob(db, former, { set: bought(`landed-${runId}`, await nextAskNumber(db)) })
    await newAnswer(db, landed)
    const foreign = await newJob(db, await newPipeline(db), { set: bought(`foreign-${runId}`, await nextAskNumber(db)) })
    const plan = await newJob(db, pipeline)
    const taken = await k()
      .transaction()
      .execute((trx) => joinOrphans(trx, runId, pipeline))
    expect(taken).toBe(2)
    expect(await outcomeOf(db, runId, orphan)).toBeNull()
    expect(await outcomeOf(db, runId, older)).toBeNull()
    for (const jobId of [waited, landed, foreign, plan]) expect(await outcomeOf(db, runId, jobId)).toBeUndefined()
    expect(await joinOrphans(k(), runId, pipeline)).toBe(0)
  })

  test('that failed are opened again where their purchase lives, and only there', async () => {
    const live = await asked({ state: 'failed', report_state: 'ready', attempts: 5, error_code: 'SERVICE_ERROR' })
    const over = await asked({ state: 'failed', report_state: 'failed' })
    const held = await asked({ state: 'held', report_state: 'uncertain' })
    expect(await joinOrphans(k(), runId, pipeline)).toBe(1)
    expect(await jobRow(db, live)).toMatchObject({ state: 'open', attempts: 0 })
    expect(await jobRow(db, over)).toMatchObject({ state: 'failed' })
    expect(await jobRow(db, held)).toMatchObject({ state: 'held' })
    expect((await take(db, one, runId, [pipeline])).map(({ jobId }) => jobId)).toEqual([live])
  })
})

describe('a run does not wait for ever', () => {
  test('for what an earlier run put off for hours: it is tried at once; not what a living run has put off', async () => {
    const far = { not_before: '2099-01-01T00:00:00Z', attempts: 4 }
    const living = await newRun(db)
    const own = await newRun(db)
    const left = await newJob(db, pipeline, { runs: [own], set: far })
    const theirs = await newJob(db, pipeline, { runs: [own, living], set: far })
    const dead = await newRun(db)
    await sql`update etl.runs set state = 'interrupted' where run_id = ${dead}`.execute(k())
    const orphan = await newJob(db, pipeline, { runs: [own, dead], set: far })
    const foreign = await newJob(db, pipeline, { set: far })
    expect(await makeJobsDue(k(), own)).toBe(2)
    for (const jobId of [left, orphan]) {
      const { not_before: notBefore, attempts } = await jobRow(db, jobId)
      expect(Date.parse(notBefore ?? '')).toBeLessThan(Date.now() + 60_000)
      expect(attempts).toBe(0)
    }
    for (const jobId of [theirs, foreign]) expect(await jobRow(db, jobId)).toMatchObject({ attempts: 4 })
    expect((await take(db, one, own, [pipeline])).map(({ jobId }) => jobId).sort()).toEqual([left, orphan].sort())
  })

  test('for what was put off before two runs began, by the first of them that asks: they do not wait for each other', async () => {
    const runs = [await newRun(db), await newRun(db)]
    const late = { not_before: new Date(Date.now() + 86_400_000).toISOString(), updated_at: '2026-01-01T00:00:00Z', attempts: 4 }
    const meanwhile = { ...late, updated_at: '2099-01-01T00:00:00Z' }
    for (const [order, set] of [
      [runs, late],
      [runs.toReversed(), late],
      [runs, meanwhile],
      [runs.toReversed(), meanwhile],
    ] as const) {
      const jobId = await newJob(db, pipeline, { runs, set })
      for (const own of order) await makeJobsDue(k(), own)
      const { not_before: notBefore } = await jobRow(db, jobId)
      expect(Date.parse(notBefore ?? '')).toBeLessThan(Date.now() + 60_000)
    }
  })

  test('for an answer whose definition is not here: it is left, named, to whoever has it', async () => {
    const elsewhere = await newPipeline(db)
    const landed = await newJob(db, elsewhere, { runs: [runId], set: bought(`w-${runId}`, await nextAskNumber(db)) })
    await newAnswer(db, landed)
    const fetched = await newJob(db, elsewhere, { runs: [runId], set: bought(`v-${runId}`, await nextAskNumber(db)) })
    const mine = await newJob(db, pipeline, { runs: [runId] })
    const claimable = { load: [pipeline.pipelineId], fetch: [pipeline.pipelineId, elsewhere.pipelineId], same: [] }
    expect(await leaveUntakeable(k(), runId, claimable)).toBe(1)
    expect(await jobRow(db, landed)).toMatchObject({
      state: 'open',
      error_code: 'NO_DEFINITION',
      error_message: expect.stringContaining(`${elsewhere.pipeline} version 1`),
    })
    expect(await outcomeOf(db, runId, landed)).toBe('waiting')
    for (const jobId of [fetched, mine]) expect(await outcomeOf(db, runId, jobId)).toBeNull()
    expect((await take(db, one, runId, [elsewhere])).map(({ jobId }) => jobId)).toEqual([fetched])
    expect(await leaveUntakeable(k(), runId, { load: [], fetch: [], same: [] })).toBe(1)
    expect(await outcomeOf(db, runId, mine)).toBe('waiting')
    expect(await outcomeOf(db, runId, fetched)).toBeNull()
  })

  test('for what is being made, and apart from it for what waits for the bill of another', async () => {
    const later = {
      not_before: '2099-01-01T00:00:00Z',
      error_code: 'REPORT_PENDING',
      error_message: 'the bill of another is awaited',
    }
    await newJob(db, pipeline, { runs: [runId], set: { ...bought(`m-${runId}`, await nextAskNumber(db)), ...later } })
    await newJob(db, pipeline, { runs: [runId], set: { ...later, kind: 'walk' } })
    expect(await runWaits(k(), runId, one)).toMatchObject({
      reports: { count: 1 },
      putOff: { count: 1, message: later.error_message },
    })
  })

  test('for jobs that are over, or gone, should anybody forget to say so', async () => {
    const states = ['done', 'held', 'failed', 'replaced'] as const
    const jobIds: number[] = []
    for (const state of states) jobIds.push(await newJob(db, pipeline, { runs: [runId], set: { state } }))
    await waitFor(db, runId, 2_000_000_000)
    const open = await newJob(db, pipeline, { runs: [runId] })
    expect(await endMissedWaits(k(), runId)).toBe(5)
    const outcomes = await Promise.all([...jobIds, 2_000_000_000, open].map((jobId) => outcomeOf(db, runId, jobId)))
    expect(outcomes).toEqual(['loaded', 'held', 'failed', 'let go', 'let go', null])
  })
})

describe('settling, joining, counting, cancelling and reaping at the same time', () => {
  test('take their locks in one order: nobody waits in a circle, and every run ends', async () => {
    const runs = [runId, await newRun(db), await newRun(db)]
    const jobIds: number[] = []
    for (let at = 1; at <= 120; at += 1) {
      const waiting = runs
        .filter((_, index) => (at + index) % 3 > 0)
        .map((id, index) => ({ runId: id, priority: (at * 7 + index) % 13 }))
      jobIds.push(await newJob(db, pipeline, { runs: waiting }))
    }
    const workers = await Promise.all([newProcess(db), newProcess(db), newProcess(db)])
    let working = true
    const work = async (own: ProcessKit, mine: number): Promise<void> => {
      for (let tries = 0; tries < 400; tries += 1) {
        const claims = await take(db, own, mine, [pipeline], 5)
        if (claims.length === 0 && (await openJobs(k(), mine)).count === 0) return
        for (const [index, claim] of claims.entries()) {
          const settled =
            index % 4 === 3 ? parkJob(k(), claim, { ...last, notBeforeMs: 0, final: false }) : finishJob(k(), claim, 'loaded')
          await settled
        }
      }
      throw new Error('the run does not end')
    }
    const disturb = async (seed: number): Promise<void> => {
      for (let at = seed; working; at += 1) {
        const some = jobIds.filter((_, index) => (index * 31 + at) % 5 === 0)
        const late = await newRun(db)
        await k()
          .transaction()
          .execute(async (trx) => {
            await sql`select from etl.pipelines where pipeline_id = ${pipeline.pipelineId} for update`.execute(trx)
            await sql`
              with open as (select job_id from etl.jobs where job_id = any(${some}::bigint[]) and state = 'open' order by job_id for update)
              insert into etl.run_jobs (run_id, job_id, priority, units) select ${late}, job_id, 1, 1 from open`.execute(trx)
          })
        await runSummary(k(), late)
        await reapDead(k(), one)
        await requestCancel(k(), late)
        await leaveRun(k(), late)
      }
    }
    const disturbing = Promise.all([disturb(1), disturb(2)])
    await Promise.all(workers.map((own, index) => work(own, runs[index] ?? 0)))
    working = false
    await disturbing
    for (const id of runs) expect(await openJobs(k(), id)).toMatchObject({ count: 0 })
    const { rows } = await sql<{ open: number }>`select count(*)::integer as open from etl.jobs
      where pipeline_id = ${pipeline.pipelineId} and state <> 'done'`.execute(k())
    expect(rows).toEqual([{ open: 0 }])
  })
})
