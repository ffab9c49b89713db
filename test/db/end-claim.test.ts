// What becomes of a claimed job, and of the runs that wait for it; who may write at all.
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { EtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { leaveRun, requestCancel } from '../../src/ledger/cancel-request.ts'
import type { ClaimedJob } from '../../src/ledger/claim.ts'
import { failJob, finishJob, giveBackJobs, holdJob, lockJob, lostJobs, parkJob, returnJob } from '../../src/ledger/claim-fence.ts'
import { replaceJob } from '../../src/ledger/replace-job.ts'
import { runSummary } from '../../src/ledger/runs.ts'
import type { RequestRecord } from '../../src/ledger/requests.ts'
import type { Db } from '../../src/db/tables.ts'
import { noteUnrecorded, recordNoted } from '../../src/run/unrecorded-work.ts'
import { createProgress, type RunEvent } from '../../src/run/progress.ts'
import type { Runtime } from '../../src/run/runtime.ts'
import { nothingPaid } from '../../src/run/job-work.ts'
import { settleJob } from '../../src/run/settle.ts'
import {
  type PipelineKit,
  type ProcessKit,
  bought,
  months,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  newSlices,
  nextAskNumber,
  takeOne,
  waitFor,
} from '../support/ledger.ts'
import { jobRow, newAnswer, outcomeOf, setJob, unitRows } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'
import { wholeLedger } from '../support/whole-ledger.ts'

const db = testDatabase()
let one: ProcessKit
let pipeline: PipelineKit
let runId: number
const k = (): Db => db.database.kysely

beforeEach(async () => {
  one = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await newRun(db, one.processId)
})

const claimed = async (set = {}): Promise<ClaimedJob> =>
  takeOne(db, one, runId, pipeline, await newJob(db, pipeline, { runs: [runId], set }))

const reason = { code: 'BAD_RESPONSE', message: 'half of it' }
const later = { notBeforeMs: 60_000, countsAttempt: true, final: false, ...reason }

test.each([
  ['UNUSABLE', 'held', false],
  ['DEFINITION', 'failed', false],
  ['NOT_PUBLISHED', 'waiting', true],
  ['SERVICE_UNREACHABLE', 'waiting', true],
] as const)('what %s makes of a job is said as the ledger has it: %s', async (code, state, hasTime) => {
  const events: RunEvent[] = []
  const progress = createProgress((event) => events.push(event))
  const claim = await claimed()
  const runtime = { database: db.database, definitions: [], progress, log: silentLog, clock: systemClock }
  await settleJob(runtime, claim, nothingPaid(), new EtlError(code, 'as it was told'))
  const { state: recorded } = await jobRow(db, claim.jobId)
  expect(recorded).toBe(state === 'waiting' ? 'open' : state)
  expect(events).toEqual([
    expect.objectContaining({
      event: 'unit',
      job_id: claim.jobId,
      unit: claim.box.key,
      state,
      code,
      message: expect.stringContaining('as it was told'),
    }),
  ])
  expect(events.some((event) => 'not_before' in event)).toBe(hasTime)
})

test('a run that joins a job while it is settled is told what became of it', async () => {
  const claim = await claimed()
  const joining = await newRun(db, one.processId)
  const planner = await k().startTransaction().execute()
  await sql`select from etl.jobs where job_id = ${claim.jobId} for update`.execute(planner)
  await waitFor(planner, joining, claim.jobId)
  const settling = k()
    .transaction()
    .execute((trx) => failJob(trx, claim, reason))
  await untilSomebodyWaits()
  await planner.commit().execute()
  await settling
  expect([await outcomeOf(db, runId, claim.jobId), await outcomeOf(db, joining, claim.jobId)]).toEqual(['failed', 'failed'])
})

/** For a lock. */
const untilSomebodyWaits = async (): Promise<void> =>
  expect
    .poll(async () => (await sql`select 1 from pg_locks where not granted`.execute(k())).rows.length, {
      interval: 10,
      timeout: 5_000,
    })
    .toBeGreaterThan(0)

describe('a job is', () => {
  test('put off: free again at its time, with what was wrong; its runs go on waiting', async () => {
    const claim = await claimed()
    const before = Date.now()
    await parkJob(k(), claim, later)
    const row = await jobRow(db, claim.jobId)
    expect(row).toMatchObject({
      state: 'open',
      holder: null,
      attempts: 1,
      error_code: 'BAD_RESPONSE',
      error_message: 'half of it',
    })
    expect(Date.parse(row.not_before ?? '')).toBeGreaterThan(before + 55_000)
    expect(await outcomeOf(db, runId, claim.jobId)).toBeNull()
  })

  test('put off without a failure: the attempt is not counted; for good in this run: its runs wait no longer', async () => {
    const claim = await claimed()
    await parkJob(k(), claim, { ...later, countsAttempt: false, final: true })
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'open', attempts: 0 })
    expect(await outcomeOf(db, runId, claim.jobId)).toBe('waiting')
  })

  test('given back: as if it had not been taken; a report that was asked for stays so', async () => {
    const walk = await claimed()
    await returnJob(k(), walk)
    expect(await jobRow(db, walk.jobId)).toMatchObject({
      state: 'open',
      holder: null,
      attempts: 0,
      ask_number: null,
      not_before: null,
    })
    await setJob(db, walk.jobId, { state: 'done' })
    const report = await claimed(bought(`b-${runId}`, await nextAskNumber(db)))
    await returnJob(k(), report)
    expect(await jobRow(db, report.jobId)).toMatchObject({ holder: null, ask_number: report.askNumber, report_id: `b-${runId}` })
    expect(await outcomeOf(db, runId, report.jobId)).toBeNull()
  })

  test.each([
    ['held', holdJob],
    ['failed', failJob],
  ] as const)('%s: with the reason, for every run that waits', async (state, act) => {
    const claim = await claimed()
    const other = await newRun(db)
    await waitFor(db, other, claim.jobId)
    await act(k(), claim, reason)
    expect(await jobRow(db, claim.jobId)).toMatchObject({
      state,
      holder: null,
      error_code: 'BAD_RESPONSE',
      error_message: 'half of it',
    })
    expect([await outcomeOf(db, runId, claim.jobId), await outcomeOf(db, other, claim.jobId)]).toEqual([state, state])
  })

  test('done: for every run that waits; units it holds back are counted for those that asked for them', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
    const jobId = await newJob(db, pipeline, { sliceIds, window: months('2026-01', 2), runs: [runId] })
    const [narrow, past] = [await newRun(db), await newRun(db)]
    const [a = 0, b = 0] = sliceIds
    await waitFor(db, narrow, jobId, 2, { slice_ids: [b], window_from: '2026-01-01', window_to: '2026-03-01' })
    await waitFor(db, past, jobId, 1, { slice_ids: [a], window_from: '2026-02-01', window_to: '2026-03-01' })
    const claim = await takeOne(db, one, runId, pipeline, jobId)
    const answerId = await newAnswer(db, jobId)
    await sql`update etl.units set held_answer_id = ${answerId}, held_code = 'SHRUNK'
      where pipeline_id = ${pipeline.pipelineId} and window_from = '2026-01-01'`.execute(k())
    await finishJob(k(), claim, 'loaded')
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'done', holder: null, answer_id: String(answerId), error_code: null })
    const { rows } = await sql<{ run: string; outcome: string; held: number }>`
      select run_id as run, outcome, held_units as held from etl.run_jobs where job_id = ${jobId} order by run_id`.execute(k())
    expect(rows).toEqual([
      { run: String(runId), outcome: 'loaded', held: 2 },
      { run: String(narrow), outcome: 'loaded', held: 1 },
      { run: String(past), outcome: 'loaded', held: 0 },
    ])
  })

  test('done: a job that loads a part of an answer counts none of the units that hold back the rest of it', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
    const [a = 0] = sliceIds
    const whole = await newJob(db, pipeline, { sliceIds, window: months('2026-01', 1), runs: [] })
    const answerId = await newAnswer(db, whole)
    await sql`update etl.units set held_answer_id = ${answerId}, held_code = 'SHRUNK' where pipeline_id = ${pipeline.pipelineId}`.execute(
      k(),
    )
    const part = await newJob(db, pipeline, { sliceIds: [a], window: months('2026-01', 1), runs: [runId] })
    await sql`update etl.units set held_answer_id = null, held_code = null where slice_id = ${a}`.execute(k())
    const claim = await takeOne(db, one, runId, pipeline, part)
    await sql`update etl.jobs set answer_id = ${answerId} where job_id = ${part}`.execute(k())
    await finishJob(k(), claim, 'loaded')
    const { rows } = await sql<{ held: number }>`select held_units as held from etl.run_jobs where job_id = ${part}`.execute(k())
    expect(rows).toEqual([{ held: 0 }])
  })

  test('not changed for runs whose part is settled already', async () => {
    const claim = await claimed()
    const settled = await newRun(db)
    await waitFor(db, settled, claim.jobId)
    await sql`update etl.run_jobs set outcome = 'let go' where run_id = ${settled}`.execute(k())
    await finishJob(k(), claim, 'unchanged')
    expect([await outcomeOf(db, runId, claim.jobId), await outcomeOf(db, settled, claim.jobId)]).toEqual(['unchanged', 'let go'])
  })

  test.each(['loaded', 'unchanged'] as const)(
    '%s for the run it was done for, although a cancel let go of it meanwhile',
    async (outcome) => {
      const claim = await claimed()
      await requestCancel(k(), runId)
      await leaveRun(k(), runId)
      expect(await outcomeOf(db, runId, claim.jobId)).toBe('let go')
      await finishJob(k(), claim, outcome)
      expect(await outcomeOf(db, runId, claim.jobId)).toBe(outcome)
      expect((await runSummary(k(), runId)).units).toMatchObject({ planned: 1, [outcome]: 1 })
    },
  )

  test('given back in one go with others; not those that are somebody else’s by now', async () => {
    const claims = [await claimed(), await claimed(), await claimed()]
    const [, , third] = claims
    await sql`update etl.jobs set fence = fence + 1 where job_id = ${third?.jobId}`.execute(k())
    await giveBackJobs(k(), claims)
    const rows = await Promise.all(claims.map(({ jobId }) => jobRow(db, jobId)))
    expect(rows.map((row) => row.holder)).toEqual([null, null, one.processId])
    expect(rows.map((row) => row.attempts)).toEqual([0, 0, 1])
  })
})

describe('a claim that is over', () => {
  const acts: readonly (readonly [string, (claim: ClaimedJob) => Promise<unknown>])[] = [
    ['lock', (claim) => lockJob(k(), claim)],
    ['put off', (claim) => parkJob(k(), claim, { ...later, final: true })],
    ['give back', (claim) => returnJob(k(), claim)],
    ['hold', (claim) => holdJob(k(), claim, reason)],
    ['fail', (claim) => failJob(k(), claim, reason)],
    ['finish', (claim) => finishJob(k(), claim, 'loaded')],
    ['replace', (claim) => replaceJob(k(), claim, [{ sliceIds: claim.sliceIds, window: claim.box.window }])],
  ]

  test.each(acts)('cannot %s a job that somebody took since, and changes nothing', async (_, act) => {
    const stale = await claimed()
    await sql`update etl.jobs set holder = null where job_id = ${stale.jobId}`.execute(k())
    const two = await newProcess(db)
    const fresh = await takeOne(db, two, runId, pipeline, stale.jobId)
    const before = await wholeLedger(db)
    await expect(
      k()
        .transaction()
        .execute(async () => act(stale)),
    ).rejects.toMatchObject({ code: 'FENCED' })
    expect(await wholeLedger(db)).toEqual(before)
    expect(await lostJobs(k(), [stale])).toEqual([stale])
    expect(await lostJobs(k(), [fresh])).toEqual([])
  })

  test.each(acts)('cannot %s a job that it has settled itself', async (_, act) => {
    const claim = await claimed()
    await parkJob(k(), claim, later)
    await expect(act(claim)).rejects.toMatchObject({ code: 'FENCED' })
    expect(await lostJobs(k(), [claim])).toEqual([claim])
  })

  test('keeps a job that lost its holder and that nobody took', async () => {
    const claim = await claimed()
    await sql`update etl.jobs set holder = null where job_id = ${claim.jobId}`.execute(k())
    await lockJob(k(), claim)
    expect(await lostJobs(k(), [claim])).toEqual([])
    expect(await jobRow(db, claim.jobId)).toMatchObject({ holder: one.processId })
    await finishJob(k(), claim, 'loaded')
  })
})

describe('a job that is cut', () => {
  test('is replaced by its parts: units and waiting move, each run to the parts it asked for', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
    const [a = 0, b = 0] = sliceIds
    const jobId = await newJob(db, pipeline, {
      sliceIds,
      window: months('2026-01', 4),
      runs: [{ runId, priority: 7 }],
      set: { forced: true },
    })
    const narrow = await newRun(db)
    await waitFor(db, { runId: narrow, priority: 3 }, jobId, 2, {
      slice_ids: [b],
      window_from: '2026-01-01',
      window_to: '2026-03-01',
    })
    const claim = await takeOne(db, one, runId, pipeline, jobId)
    const [first = 0, second = 0] = await replaceJob(k(), claim, [
      { sliceIds, window: months('2026-01', 2) },
      { sliceIds, window: months('2026-03', 2) },
    ])
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'replaced', holder: null })
    expect(await jobRow(db, first)).toMatchObject({
      state: 'open',
      kind: 'report',
      former_job_id: String(jobId),
      cells: 4,
      forced: true,
      ask_number: null,
      window_from: '2026-01-01',
      window_to: '2026-03-01',
    })
    const units = await unitRows(db, pipeline)
    expect(units.map((unit) => unit.job_id)).toEqual([first, first, first, first, second, second, second, second].map(String))
    const { rows } = await sql`select run_id, job_id, priority, units, slice_ids, window_from, outcome from etl.run_jobs
      where run_id in (${runId}, ${narrow}) order by run_id, job_id`.execute(k())
    expect(rows).toMatchObject([
      { run_id: String(runId), job_id: String(jobId), outcome: 'replaced' },
      { job_id: String(first), priority: 6, units: 4, slice_ids: null, window_from: null, outcome: null },
      { job_id: String(second), priority: 6, units: 4, slice_ids: null },
      { run_id: String(narrow), job_id: String(jobId), outcome: 'replaced' },
      { job_id: String(first), priority: 2, units: 2, slice_ids: [b], window_from: '2026-01-01', outcome: null },
    ])
    expect(a).toBeGreaterThan(0)
  })

  test('leaves out parts whose units are asked for elsewhere by now', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
    const [a = 0, b = 0] = sliceIds
    const jobId = await newJob(db, pipeline, { sliceIds, runs: [runId] })
    const claim = await takeOne(db, one, runId, pipeline, jobId)
    const newer = await newJob(db, pipeline, { sliceIds: [b] })
    const window = months('2026-01')
    const made = await replaceJob(k(), claim, [
      { sliceIds: [a], window },
      { sliceIds: [b], window },
    ])
    expect(made).toHaveLength(1)
    expect((await unitRows(db, pipeline)).map((unit) => unit.job_id)).toEqual([String(made[0]), String(newer)])
  })

  test('into parts that forget a unit is a defect, and stays as it is', async () => {
    const sliceIds = await newSlices(db, pipeline, ['a.com', 'b.com'])
    const jobId = await newJob(db, pipeline, { sliceIds, runs: [runId] })
    const claim = await takeOne(db, one, runId, pipeline, jobId)
    const parts = [{ sliceIds: sliceIds.slice(0, 1), window: months('2026-01') }]
    const cut = k()
      .transaction()
      .execute((trx) => replaceJob(trx, claim, parts))
    await expect(cut).rejects.toMatchObject({ code: 'INTERNAL' })
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'open', holder: one.processId })
  })
})

test.each([
  ['that is still of that claim', { attempts: 1 }, true],
  ['that was let go of', { holder: null, fence: sql<string>`fence + 1` }, true],
  ['that another process has taken', { fence: sql<string>`fence + 1` }, false],
])(
  'what was left behind is put on record once; its pages, and the money set aside for them, go to a job %s',
  async (_, set, isIts) => {
    const claim = await claimed({ kind: 'walk', reserved_credits: '30' })
    const notes = new Map<string, string>()
    const landing = {
      notes: {
        write: async (path: string, text: string) => notes.set(path, text).size > 0,
        read: async (path: string) => notes.get(path) ?? null,
        remove: async (path: string) => void notes.delete(path),
        list: async function* () {
          for (const path of notes.keys()) yield { path, writtenMs: async () => 0 }
        },
      },
    }
    const runtime = { database: db.database, warehouse: { id: 'w', epoch: 1 }, landing, log: silentLog } as unknown as Runtime
    await noteUnrecorded(runtime, claim, { requests: [paidRequest(claim)], unnamed: new Set(['a/b']) })
    await k().updateTable('etl.jobs').set(set).where('job_id', '=', String(claim.jobId)).execute()
    const [path = '', text = ''] = [...notes][0] ?? []
    await recordNoted(runtime)
    expect(notes.size).toBe(0)
    // Killed before it took the note away.
    notes.set(path, text)
    await recordNoted(runtime)
    const row = await k()
      .selectFrom('etl.jobs')
      .select(['begun_landing', 'reserved_credits'])
      .where('job_id', '=', String(claim.jobId))
      .executeTakeFirstOrThrow()
    expect(row).toEqual(
      isIts ? { begun_landing: 'a/b', reserved_credits: null } : { begun_landing: null, reserved_credits: '30' },
    )
    const { n } = await k()
      .selectFrom('etl.requests')
      .select((eb) => eb.fn.countAll<string>().as('n'))
      .where('job_id', '=', String(claim.jobId))
      .executeTakeFirstOrThrow()
    expect(n).toBe('1')
  },
)

const paidRequest = ({ jobId, runId: of, pipelineId, askNumber }: ClaimedJob): RequestRecord => ({
  ...{
    jobId,
    runId: of,
    pipelineId,
    askNumber,
    subject: null,
    account: 'default',
    method: 'GET',
    endpoint: '/k',
    parameters: {},
  },
  ...{ part: 1, attempt: 1, status: 200, errorCode: null, bytes: 1, sha256: null, credits: 10, saidIn: null, isUncertain: false },
  ...{ paidFor: null, isOpen: false, startedAt: '2026-02-01T00:00:00.000Z', milliseconds: 1 },
})
