// Jobs are taken: by whom, which first, and what a process may take at all.
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { requestCancel } from '../../src/ledger/cancel-request.ts'
import { claimJobs } from '../../src/ledger/claim.ts'
import { createCursor } from '../../src/ledger/claim-cursor.ts'
import { failJob, parkJob, returnJob } from '../../src/ledger/claim-fence.ts'
import {
  bought,
  months,
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
import { jobRow, loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let one: ProcessKit
let two: ProcessKit
let pipeline: PipelineKit
let runId: number

beforeEach(async () => {
  // What earlier tests left must not be taken by a helper of every run.
  await sql`update etl.runs set state = 'done'`.execute(db.database.kysely)
  await sql`update etl.jobs set state = 'done', holder = null where state = 'open'`.execute(db.database.kysely)
  one = await newProcess(db)
  two = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await newRun(db, one.processId)
})

const ids = (claims: readonly { readonly jobId: number }[]): number[] => claims.map(({ jobId }) => jobId)
const later = { notBeforeMs: 60_000, countsAttempt: true, final: false, code: 'SERVICE_ERROR', message: 'not now' }

describe('a claim', () => {
  test('takes the jobs of a run strictly by priority, each once, under a fence of its own', async () => {
    const [a, b, c, d] = await newWalks(db, pipeline, runId, 4)
    await sql`update etl.run_jobs set priority = 0 where run_id = ${runId} and job_id = ${c}`.execute(db.database.kysely)
    expect(ids(await take(db, one, runId, [pipeline], 3))).toEqual([c, a, b])
    expect(ids(await take(db, one, runId, [pipeline], 3))).toEqual([d])
    expect(await take(db, one, runId, [pipeline])).toEqual([])
    expect(await jobRow(db, a ?? 0)).toMatchObject({ holder: one.processId, fence: '1', attempts: 1, state: 'open' })
  })

  test('tells that nothing may be bought where the ledger is an older one, or another one, than the process knows', async () => {
    await newWalks(db, pipeline, runId, 3)
    expect(await takeOne(db, one, runId, pipeline)).toMatchObject({ mayNotBuy: null })
    const rows = sql`update etl.processes set lease_until = clock_timestamp() where process_id = ${one.processId}`
    await rows.execute(db.database.kysely)
    const restored = { ...one, seen: { lease: new Date(Date.now() + 5_000).toISOString() } }
    for (const own of [restored, { ...one, name: 'other:1-0' }])
      expect((await takeOne(db, own, runId, pipeline)).mayNotBuy).toContain('replaced')
  })

  test('tells all that the work on the job needs', async () => {
    const traffic = await newPipeline(db, { dimensions: ['country', 'domain'], account: 'default' })
    const sliceIds = await newSlices(db, traffic, [
      ['us', 'a.com'],
      ['us', 'b.com'],
      ['gb', 'a.com'],
      ['gb', 'b.com'],
    ])
    const jobId = await newJob(db, traffic, {
      sliceIds,
      window: months('2026-01', 3),
      runs: [runId],
      set: { forced: true, guard: 'needs approval' },
    })
    const [claim] = await take(db, one, runId, [traffic])
    expect(claim).toMatchObject({
      jobId,
      fence: '1',
      holder: one.processId,
      kind: 'report',
      pipelineId: traffic.pipelineId,
      pipeline: traffic.pipeline,
      version: 1,
      windowEvery: 'month',
      box: {
        key: `${traffic.pipeline}/v1/2026-01..2026-03/country=[gb,us];domain=[a.com,b.com]`,
        window: { from: '2026-01-01', to: '2026-04-01' },
        slice: { country: ['gb', 'us'], domain: ['a.com', 'b.com'] },
      },
      sliceIds,
      cells: 12,
      runId,
      orphan: false,
      attempts: 1,
      forced: true,
      released: false,
      askNumber: null,
      answer: null,
      loaded: null,
      account: 'default',
    })
  })

  test('of a refresh tells the answer that is loaded, and of a landed job the landing', async () => {
    const [sliceId = 0] = await newSlices(db, pipeline, ['refreshed.com'])
    const former = await newJob(db, pipeline, { sliceIds: [sliceId] })
    const askNumber = await nextAskNumber(db)
    const answerId = await newAnswer(db, former, { askNumber, sha256: 'abcd', lastUpdated: '2026-01-31', sourceCount: 7 })
    await loadedAs(db, former, answerId, askNumber)
    await newJob(db, pipeline, { sliceIds: [sliceId], runs: [{ runId, priority: 1 }] })
    const landed = await newJob(db, pipeline, { runs: [{ runId, priority: 2 }] })
    const landedId = await newAnswer(db, landed, { landing: 'over/here' })
    const [refresh, whole] = await take(db, one, runId, [pipeline])
    expect(refresh?.loaded).toEqual({
      answerId,
      sha256: 'abcd',
      fingerprint: { lastUpdated: '2026-01-31', count: 7, dataVersion: null },
      top: null,
    })
    expect(whole).toMatchObject({ jobId: landed, answer: { answerId: landedId, landing: 'over/here' }, loaded: null })
  })

  test('draws a new ask number for a walk each time, never for a report, and none where the answer is there', async () => {
    const walk = await newJob(db, pipeline, { runs: [{ runId, priority: 1 }] })
    await newJob(db, pipeline, { runs: [{ runId, priority: 2 }], set: { kind: 'report' } })
    const landed = await newJob(db, pipeline, { runs: [{ runId, priority: 3 }] })
    await newAnswer(db, landed)
    const { ask_number: landedNumber } = await jobRow(db, landed)
    const [first, report, whole] = await take(db, one, runId, [pipeline])
    expect(report?.askNumber).toBeNull()
    expect(whole?.askNumber).toBe(landedNumber)
    if (first === undefined) throw new Error('nothing taken')
    await returnJob(db.database.kysely, first)
    expect(await jobRow(db, walk)).toMatchObject({ ask_number: null, asked_at: null, attempts: 0, holder: null })
    const again = await takeOne(db, one, runId, pipeline, walk)
    expect(Number(again.askNumber)).toBeGreaterThan(Number(first.askNumber))
  })

  test('takes nothing for a run that was cancelled or is over, nor of the list of another', async () => {
    const other = await newRun(db)
    await newWalks(db, pipeline, other, 2)
    const [mine] = await newWalks(db, pipeline, runId, 1)
    await requestCancel(db.database.kysely, runId)
    expect(await take(db, one, runId, [pipeline])).toEqual([])
    await sql`update etl.runs set cancel_requested_at = null, state = 'interrupted' where run_id = ${runId}`.execute(
      db.database.kysely,
    )
    expect(await take(db, one, runId, [pipeline])).toEqual([])
    await sql`update etl.runs set state = 'running' where run_id = ${runId}`.execute(db.database.kysely)
    expect(ids(await take(db, one, runId, [pipeline]))).toEqual([mine])
  })
})

describe('processes that claim at the same time', () => {
  test('get disjoint jobs, and together all of them', async () => {
    const wanted = await newWalks(db, pipeline, runId, 300)
    const drain = async (own: ProcessKit): Promise<number[]> => {
      const taken: number[] = []
      for (
        let some = await take(db, own, runId, [pipeline], 7);
        some.length > 0;
        some = await take(db, own, runId, [pipeline], 7)
      )
        taken.push(...ids(some))
      return taken
    }
    // One that meets only rows the others are about to take ends early.
    const drained = await Promise.all([drain(one), drain(two), drain(one), drain(two)])
    const all = [...drained.flat(), ...(await drain(one))]
    expect(all).toHaveLength(300)
    expect(new Set(all)).toEqual(new Set(wanted))
  })

  test('do not wait for a job whose row is locked', async () => {
    const [first = 0, second] = await newWalks(db, pipeline, runId, 2)
    await db.database.kysely.transaction().execute(async (trx) => {
      await sql`select from etl.jobs where job_id = ${first} for update`.execute(trx)
      expect(ids(await take(db, two, runId, [pipeline]))).toEqual([second])
    })
  })
})

describe('a process takes only', () => {
  test('what it has a definition of', async () => {
    const elsewhere = await newPipeline(db)
    const [here] = await newWalks(db, pipeline, runId, 1)
    await newWalks(db, elsewhere, runId, 3)
    expect(ids(await take(db, one, runId, [pipeline]))).toEqual([here])
    const kysely = db.database.kysely
    expect(await claimJobs(kysely, { process: one, runId, claimable: { load: [], fetch: [], same: [] }, count: 5 })).toEqual([])
  })

  test('with nothing but the source: what was asked for and has no answer yet', async () => {
    await newJob(db, pipeline, { runs: [runId] })
    const open = await newJob(db, pipeline, { runs: [runId], set: bought(`r-${runId}`, await nextAskNumber(db)) })
    const landed = await newJob(db, pipeline, { runs: [runId], set: bought(`l-${runId}`, await nextAskNumber(db)) })
    await newAnswer(db, landed)
    const claimable = { load: [], fetch: [pipeline.pipelineId], same: [] }
    expect(ids(await claimJobs(db.database.kysely, { process: one, runId, claimable, count: 9 }))).toEqual([open])
  })

  test('with the source alone no walk goes on: its pages are bought one by one, for who asks the same', async () => {
    const [walk, planned] = await newWalks(db, pipeline, runId, 2)
    const taking = (process: ProcessKit, same: number[]) => {
      const claimable = { load: [], fetch: [pipeline.pipelineId], same }
      return claimJobs(db.database.kysely, { process, runId, claimable, count: 9 })
    }
    // Nobody has asked for it yet: then it is for the run's own process, whose jobs it may serve.
    expect(await taking(two, [pipeline.pipelineId])).toEqual([])
    await db.database.pool.query('update etl.jobs set ask_number = $1 where job_id = $2', [await nextAskNumber(db), walk])
    expect(await taking(one, [])).toEqual([])
    expect(ids(await taking(two, [pipeline.pipelineId]))).toEqual([walk])
    await db.database.pool.query('update etl.runs set process_id = $1 where run_id = $2', [one.processId, runId])
    expect(ids(await taking(one, [pipeline.pipelineId]))).toEqual([planned])
  })
})

describe('a job that was put off', () => {
  test('is taken when its time has come, before those not begun', async () => {
    const [first, second] = await newWalks(db, pipeline, runId, 3)
    const claim = await takeOne(db, one, runId, pipeline, first)
    await parkJob(db.database.kysely, claim, { ...later, notBeforeMs: 400 })
    expect(ids(await take(db, one, runId, [pipeline], 1))).toEqual([second])
    await new Promise((resolve) => setTimeout(resolve, 450))
    expect(ids(await take(db, one, runId, [pipeline], 1))).toEqual([first])
  })

  test('of another run is left to that one', async () => {
    const other = await newRun(db)
    const [theirs = 0] = await newWalks(db, pipeline, other, 1)
    await setJob(db, theirs, { not_before: '2026-01-01T00:00:00Z' })
    expect(await take(db, one, runId, [pipeline])).toEqual([])
    expect(ids(await take(db, one, other, [pipeline]))).toEqual([theirs])
  })
})

describe('the cursor', () => {
  test('goes on where it was, and finds what came free behind it a moment later', async () => {
    let now = 0
    const cursor = createCursor(() => now)
    const jobs = await newWalks(db, pipeline, runId, 6)
    const next = (count: number) =>
      claimJobs(db.database.kysely, {
        process: one,
        runId,
        claimable: { load: [pipeline.pipelineId], fetch: [], same: [] },
        count,
        cursor,
      })
    const [first] = await next(3)
    if (first === undefined) throw new Error('nothing taken')
    await returnJob(db.database.kysely, first)
    expect(ids(await next(2))).toEqual(jobs.slice(3, 5))
    // To the end, then from the top again.
    expect(ids(await next(2))).toEqual(jobs.slice(5))
    expect(ids(await next(2))).toEqual(jobs.slice(0, 1))
    const [again] = await take(db, two, runId, [pipeline])
    expect(again).toBeUndefined()
    expect(await next(2)).toEqual([])
    const added = await newJob(db, pipeline, { runs: [{ runId, priority: 0 }] })
    expect(await next(2)).toEqual([])
    now += 1_000
    expect(ids(await next(2))).toEqual([added])
  })

  test('spares a claim the thousands that wait before it', async () => {
    const [sliceId = 0] = await newSlices(db, pipeline, ['many.com'])
    await sql`
      with made as (
        insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, account, not_before)
        select ${pipeline.pipelineId}, 'report', 'new', '2026-01-01', '2026-02-01', array[${sliceId}::integer], 1, 'default',
          case when i <= 20000 then clock_timestamp() + interval '1 hour' end
        from generate_series(1, 22000) i returning job_id
      )
      insert into etl.run_jobs (run_id, job_id, priority, units) select ${runId}, job_id, 5, 1 from made`.execute(
      db.database.kysely,
    )
    const cursor = createCursor()
    const next = () =>
      claimJobs(db.database.kysely, {
        process: one,
        runId,
        claimable: { load: [pipeline.pipelineId], fetch: [], same: [] },
        count: 1,
        cursor,
      })
    const timed = async (): Promise<number> => {
      const started = performance.now()
      expect(await next()).toHaveLength(1)
      return performance.now() - started
    }
    const first = await timed()
    const rest: number[] = []
    for (let claim = 0; claim < 200; claim += 1) rest.push(await timed())
    const median = rest.toSorted((left, right) => left - right)[100] ?? Number.NaN
    console.log(`claim behind 20,000 waiting: first ${first.toFixed(1)} ms, then median ${median.toFixed(2)} ms`)
    expect(median).toBeLessThan(first / 4)
  })
})

describe('a helper of every run', () => {
  test('takes of each living run in turn', async () => {
    const small = await newRun(db)
    await newWalks(db, pipeline, runId, 20)
    await newWalks(db, pipeline, small, 3)
    const ended = await newRun(db)
    await newWalks(db, pipeline, ended, 3)
    await sql`update etl.runs set state = 'failed' where run_id = ${ended}`.execute(db.database.kysely)
    const cursor = createCursor()
    const runs: number[] = []
    for (let claim = 0; claim < 6; claim += 1) {
      const options = {
        process: one,
        runId: null,
        claimable: { load: [pipeline.pipelineId], fetch: [], same: [] },
        count: 1,
        cursor,
      }
      runs.push(...(await claimJobs(db.database.kysely, options)).map((taken) => taken.runId))
    }
    expect(runs.filter((id) => id === small)).toHaveLength(3)
    expect(runs.filter((id) => id === runId)).toHaveLength(3)
    expect(await take(db, one, null, [pipeline])).toHaveLength(17)
  })

  test('then finishes what was asked for and nobody waits for; plans that nobody waits for it leaves', async () => {
    const gone = await newRun(db)
    const plan = await newJob(db, pipeline, { runs: [gone], set: { kind: 'report', run_id: gone } })
    const asked = await newJob(db, pipeline, {
      runs: [gone],
      set: { ...bought(`o-${gone}`, await nextAskNumber(db)), run_id: gone },
    })
    const due = await newJob(db, pipeline, {
      set: { ...bought(`d-${gone}`, await nextAskNumber(db)), run_id: gone, not_before: '2026-01-01T00:00:00Z' },
    })
    await newJob(db, pipeline, {
      set: { ...bought(`n-${gone}`, await nextAskNumber(db)), run_id: gone, not_before: '2099-01-01T00:00:00Z' },
    })
    expect(ids(await take(db, one, gone, [pipeline]))).toEqual([plan, asked])
    await sql`update etl.jobs set holder = null where holder = ${one.processId}`.execute(db.database.kysely)
    await sql`update etl.runs set state = 'interrupted' where run_id = ${gone}`.execute(db.database.kysely)
    const orphans = await take(db, one, null, [pipeline])
    expect(ids(orphans)).toEqual([asked, due])
    expect(orphans).toMatchObject([
      { orphan: true, runId: gone },
      { orphan: true, runId: gone },
    ])
  })
})

test('a job that failed is not taken, whoever waits for it', async () => {
  const [jobId = 0] = await newWalks(db, pipeline, runId, 1)
  const claim = await takeOne(db, one, runId, pipeline, jobId)
  await failJob(db.database.kysely, claim, { code: 'BAD_REQUEST', message: 'no' })
  await waitFor(db, await newRun(db), jobId)
  expect(await take(db, one, null, [pipeline])).toEqual([])
})

test('a thousand walks are claimed and settled in a few milliseconds each', async () => {
  await newWalks(db, pipeline, runId, 1_000)
  const started = performance.now()
  let settled = 0
  const cursor = createCursor()
  const options = { process: one, runId, claimable: { load: [pipeline.pipelineId], fetch: [], same: [] }, count: 24, cursor }
  for (
    let some = await claimJobs(db.database.kysely, options);
    some.length > 0;
    some = await claimJobs(db.database.kysely, options)
  ) {
    await Promise.all(some.map((claim) => parkJob(db.database.kysely, claim, { ...later, final: true })))
    settled += some.length
  }
  const each = (performance.now() - started) / 1_000
  console.log(`claim and settle: ${each.toFixed(2)} ms a job`)
  expect(settled).toBe(1_000)
  expect(each).toBeLessThan(15)
})
