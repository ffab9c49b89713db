// What the ledger remembers of a purchase: before, while and after, by whom, and what may be spent.
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { EtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import type { ReportMemo } from '../../src/core/report-shape.ts'
import { type ReportState, reportStates } from '../../src/core/types.ts'
import type { Db } from '../../src/db/tables.ts'
import { adoptWork, knownPipeline } from '../../src/ledger/adopt-work.ts'
import { requestCancel } from '../../src/ledger/cancel-request.ts'
import type { ClaimedJob } from '../../src/ledger/claim.ts'
import { creditsOfUnit } from '../../src/ledger/prices.ts'
import { renewLease } from '../../src/ledger/processes.ts'
import { adoptReport, giveUpReport, lostPurchases } from '../../src/ledger/purchases.ts'
import { replaceJob } from '../../src/ledger/replace-job.ts'
import { type ReportMemoOptions, reportMemo } from '../../src/ledger/report-memo.ts'
import { holdJob, isIdKnown } from '../../src/ledger/claim-fence.ts'
import { reportTransitions, type Transition } from '../../src/ledger/transitions.ts'
import { runSummary } from '../../src/ledger/runs.ts'
import { joinOrphans } from '../../src/ledger/wait-list.ts'
import { createProgress } from '../../src/run/progress.ts'
import { nothingPaid } from '../../src/run/job-work.ts'
import { settleJob } from '../../src/run/settle.ts'
import {
  bought,
  months,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  nextAskNumber,
  type PipelineKit,
  type ProcessKit,
  takeOne,
  waitFor,
} from '../support/ledger.ts'
import { jobRow, newAnswer, outcomeOf, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let one: ProcessKit
let pipeline: PipelineKit
let runId: number
let claim: ClaimedJob
let memo: ReportMemo
let count = 0
const k = (): Db => db.database.kysely
const noBudget = { perMonth: null, perDay: null }
const no = { statusWord: 'no', usedQuota: null, message: 'no' }
const ahead = new Date(Date.now() + 365 * 86_400_000).toISOString()
const intent = { endpoint: '/batch', request: { domains: ['a.com'] }, requestHash: 'h1', estimatedQuota: 7 }

const memoOf = (of: ClaimedJob, options: Partial<ReportMemoOptions> = {}): ReportMemo =>
  reportMemo(k(), of, {
    account: `a${count}`,
    pipeline: pipeline.pipeline,
    source: 'web-analytics.traffic',
    runId: of.runId,
    process: one,
    deadlineMs: 3_600_000,
    requestsPerSecond: 10,
    budget: noBudget,
    tagBudgets: [],
    accountBudget: noBudget,
    ...options,
  })

const claimed = async (of = pipeline, set = {}): Promise<ClaimedJob> =>
  takeOne(db, one, runId, of, await newJob(db, of, { runs: [runId], set: { kind: 'report', account: `a${count}`, ...set } }))

/** The job as another process has it now. */
const takenOver = async (from: ClaimedJob): Promise<ClaimedJob> => {
  await setJob(db, from.jobId, { holder: null })
  return takeOne(db, await newProcess(db), runId, pipeline, from.jobId)
}

beforeEach(async () => {
  count += 1
  one = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await newRun(db, one.processId)
  claim = await claimed()
  memo = memoOf(claim)
})

const id = (): string => `r${count}`
const row = () => jobRow(db, claim.jobId)

describe('a purchase', () => {
  test('is nothing before there is an intent', async () => {
    expect(await memo.current()).toBeNull()
    await expect(memo.submitted(id(), null)).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining('not recorded'),
    })
    expect(await row()).toMatchObject({ ask_number: null, report_state: null })
  })

  test('intended: the request, its price and deadline, and the ask number, drawn now', async () => {
    const number = await nextAskNumber(db)
    await memo.intend(intent)
    expect(await row()).toMatchObject({
      ask_number: String(number + 1),
      asked_at: expect.any(String),
      report_state: 'intent',
      endpoint: '/batch',
      request: { domains: ['a.com'] },
      request_hash: 'h1',
      estimated_quota: '7',
      run_id: String(runId),
    })
    const record = await memo.current()
    expect(record).toMatchObject({
      jobId: claim.jobId,
      state: 'intent',
      requestHash: 'h1',
      reportId: null,
      statusWord: null,
      polls: 0,
      nextPollInMs: null,
      retries: 0,
      submittedMsAgo: null,
      estimatedQuota: 7,
      usedQuota: null,
    })
    expect(record?.deadlineInMs).toBeGreaterThan(3_590_000)
    expect(record?.deadlineInMs).toBeLessThanOrEqual(3_600_000)
  })

  test('is made once by a job, whatever became of it', async () => {
    await memo.intend(intent)
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'INTERNAL' })
    await memo.submitted(id(), null)
    await memo.failed('failed', no)
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'INTERNAL', message: expect.stringContaining('is failed') })
  })

  test('submitted: the id, once; the same again changes nothing of it, another one is refused', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), 'queued')
    await memo.submitted(id(), 'queued')
    expect(await row()).toMatchObject({
      report_state: 'submitted',
      report_id: id(),
      status_word: 'queued',
      submitted_at: expect.any(String),
    })
    expect((await memo.current())?.submittedMsAgo).toBeLessThan(5_000)
    await expect(memo.submitted('another', 'queued')).rejects.toMatchObject({ code: 'INTERNAL' })
    expect(await row()).toMatchObject({ report_id: id() })
  })

  test('one id belongs to one job', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    const other = memoOf(await claimed())
    await other.intend(intent)
    expect(await other.submitted(id(), null)).not.toBeNull()
  })

  test('polled, ready, retried, failed: each as it was said, with how often it was asked', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await memo.polled({ statusWord: 'processing', nextPollInMs: 60_000 })
    await memo.polled({ statusWord: 'processing 2', nextPollInMs: 30_000 })
    const record = await memo.current()
    expect(record).toMatchObject({ state: 'submitted', statusWord: 'processing 2', polls: 2 })
    expect(record?.nextPollInMs).toBeGreaterThan(25_000)
    expect(record?.nextPollInMs).toBeLessThanOrEqual(30_000)
    await memo.retried()
    expect(await memo.current()).toMatchObject({ state: 'submitted', retries: 1, nextPollInMs: null, reportId: id() })
    await memo.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: 12 })
    expect(await memo.current()).toMatchObject({ state: 'ready', usedQuota: 5, polls: 3 })
    expect(await row()).toMatchObject({ data_points_count: '12', completed_at: expect.any(String) })
    await memo.failed('expired', { statusWord: 'deleted', usedQuota: null, message: 'link gone' })
    expect(await row()).toMatchObject({ report_state: 'expired', status_word: 'deleted', error_message: 'link gone' })
  })

  test('is done since the service first said so, until it is made again; then no time for a look is set', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    expect((await row()).completed_at).toBeNull()
    await memo.polled({ statusWord: 'processing', nextPollInMs: 60_000 })
    const ready = () => memo.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: 12 })
    await ready()
    expect(await memo.current()).toMatchObject({ state: 'ready', nextPollInMs: null })
    await setJob(db, claim.jobId, { completed_at: '2026-01-01T00:00:00Z' })
    await memo.polled({ statusWord: 'complete', nextPollInMs: 60_000 })
    await ready()
    expect((await row()).completed_at).toBe('2026-01-01T00:00:00Z')
    await memo.retried()
    expect((await row()).completed_at).toBeNull()
  })

  test.each([
    ['polled', () => memo.polled({ statusWord: 'processing', nextPollInMs: 5 })],
    ['ready', () => memo.ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 })],
    ['retried', () => memo.retried()],
  ])('without a deadline, as a person records it, has one from when it is %s; one that has one keeps it', async (_, act) => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await setJob(db, claim.jobId, { deadline_at: null })
    await act()
    expect((await memo.current())?.deadlineInMs).toBeGreaterThan(3_590_000)
    await setJob(db, claim.jobId, { report_state: 'submitted', deadline_at: '2026-01-01T00:00:00Z' })
    await act()
    expect((await memo.current())?.deadlineInMs).toBeLessThan(0)
  })

  test('that was certainly not taken is a plan again, which is asked for under a later number', async () => {
    await memo.intend(intent)
    const { ask_number: first } = await row()
    await memo.withdrawn('refused')
    expect(await row()).toMatchObject({
      ask_number: null,
      asked_at: null,
      report_state: null,
      request_hash: null,
      estimated_quota: '7',
    })
    expect(await memo.current()).toBeNull()
    await memo.intend(intent)
    expect(Number((await row()).ask_number)).toBeGreaterThan(Number(first))
    await memo.submitted(id(), null)
    await expect(memo.withdrawn('too late')).rejects.toMatchObject({ code: 'INTERNAL' })
  })

  test('an answer that got lost is kept with its reason', async () => {
    await memo.intend(intent)
    await memo.uncertain('reset')
    expect(await row()).toMatchObject({ report_state: 'uncertain', error_message: 'reset', ask_number: expect.any(String) })
  })
})

/** Each event by the step that makes it happen; bytes that land belong to the answer, and a person's word is told in test/db/actions. */
const events: Readonly<
  Record<
    Exclude<keyof typeof reportTransitions, 'bytes landed' | 'bytes unusable' | 'id adopted' | 'asked about again' | 'given up'>,
    () => Promise<unknown>
  >
> = {
  intend: () => memo.intend(intent),
  'id known': () => memo.submitted(id(), 'pending'),
  'answer lost': () => memo.uncertain('lost'),
  'certainly not taken': () => memo.withdrawn('refused'),
  'not yet': () => memo.polled({ statusWord: 'processing', nextPollInMs: 5 }),
  'link not good yet': () => memo.polled({ statusWord: 'done', nextPollInMs: 5 }),
  done: () => memo.ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 }),
  'free retry': () => memo.retried(),
  failed: () => memo.failed('failed', no),
  rejected: () => memo.failed('rejected', no),
  'link gone for good': () => memo.failed('expired', no),
}
const fromNothing = [null, ...reportStates]

describe.each(Object.entries(events))('%s', (event, act) => {
  const known: Readonly<Record<string, Transition<ReportState>>> = reportTransitions
  const { from = [], to = [] } = known[event] ?? {}
  const also =
    event === 'not yet' ? known['link not good yet']?.from : event === 'link not good yet' ? known['not yet']?.from : []
  const may = (state: ReportState | null): boolean =>
    state === null ? event === 'intend' : [...from, ...(also ?? [])].includes(state)

  test.each(fromNothing)('of a report that is %s', async (state) => {
    const asked =
      state === null ? {} : { ask_number: await nextAskNumber(db), asked_at: '2026-02-01T00:00:00Z', request_hash: 'h1' }
    // One that is known to have failed is over; one that failed without an id was given up meanwhile.
    const isGivenUp = event === 'id known' && state === 'failed'
    const hasId = state !== null && !['intent', 'uncertain'].includes(state) && !isGivenUp
    await setJob(db, claim.jobId, { ...asked, report_state: state, report_id: hasId ? id() : null })
    const before = await row()
    // The same id may be said again by whoever knows it, and what was never asked for may be taken back.
    const isSaidAgain = (event === 'id known' && hasId) || (event === 'certainly not taken' && state === null)
    if (!may(state)) {
      await (isSaidAgain
        ? act()
        : expect(act()).rejects.toMatchObject({
            code: state === 'submitted' && event === 'answer lost' ? 'REPORT_PENDING' : 'INTERNAL',
          }))
      expect(await row()).toEqual(before)
      return
    }
    await act()
    const ends = event === 'not yet' || event === 'link not good yet' ? state : (to[0] ?? null)
    expect(await row()).toMatchObject({ report_state: ends, state: 'open', fence: before.fence })
  })
})

describe('an id that the service gave before', () => {
  const former = async (set: Parameters<typeof setJob>[2] = {}): Promise<number> => {
    const job = await newJob(db, pipeline, { set: { kind: 'report', account: `a${count}` } })
    const number = await nextAskNumber(db)
    await setJob(db, job, { ...bought(id(), Number(number)), request_hash: intent.requestHash, ...set })
    return job
  }

  test('is taken up with the answer it had, under the former number', async () => {
    const other = await former({ state: 'done', report_state: 'downloaded' })
    const { ask_number } = await jobRow(db, other)
    const answer = await newAnswer(db, other, { askNumber: Number(ask_number) })
    await setJob(db, other, { answer_id: String(answer) })
    await setJob(db, claim.jobId, { released: true })
    await memo.intend(intent)
    expect(await memo.submitted(id(), 'pending')).toMatchObject({
      waitMs: 0,
      message: expect.stringContaining('its answer is loaded'),
    })
    expect(await row()).toMatchObject({
      state: 'open',
      report_state: null,
      report_id: null,
      answer_id: String(answer),
      ask_number,
      released: false,
    })
    expect((await jobRow(db, other)).report_id).toBe(id())
  })

  test.each([
    ['is loaded already', 0],
    ['is older than what is loaded', 1],
  ])('and that %s counts as a look at the units: they are not due again before the service may restate', async (_, newer) => {
    const other = await former({ state: 'done', report_state: 'downloaded' })
    const answer = await newAnswer(db, other, { askNumber: Number((await jobRow(db, other)).ask_number) })
    await setJob(db, other, { answer_id: String(answer) })
    const loaded = newer === 0 ? answer : await newAnswer(db, await newJob(db, pipeline, { set: { kind: 'report' } }))
    const { window_from, slice_ids } = await row()
    await sql`insert into etl.units (pipeline_id, window_from, slice_id, answer_id, ask_number)
      select ${pipeline.pipelineId}, ${window_from}::date, s, ${loaded}, ${loaded} from unnest(${[...slice_ids]}::integer[]) s
      on conflict (pipeline_id, window_from, slice_id) do update set answer_id = excluded.answer_id, ask_number = excluded.ask_number`.execute(
      k(),
    )
    await memo.intend(intent)
    expect(await memo.submitted(id(), 'pending')).toMatchObject({
      message: expect.stringContaining('or a newer one, is loaded already'),
    })
    const stood = k().selectFrom('etl.answers').select('stood_at').where('answer_id', '=', String(loaded))
    expect((await stood.executeTakeFirstOrThrow()).stood_at).not.toBeNull()
  })

  test('is waited for while another job does, and asked for again then', async () => {
    const other = await former({ state: 'open' })
    await memo.intend(intent)
    expect(await memo.submitted(id(), 'pending')).toMatchObject({ waitMs: 30_000 })
    expect(await row()).toMatchObject({ state: 'open', report_state: null, ask_number: null })
    expect(await jobRow(db, other)).toMatchObject({ state: 'open', report_id: id() })
  })

  test.each(['open', 'done', 'failed'] as const)(
    'for another request is no id of this one: nothing is taken from the %s job',
    async (state) => {
      const other = await former({ state, report_state: 'ready', request_hash: 'of another' })
      const before = await jobRow(db, other)
      await memo.intend(intent)
      expect(await memo.submitted(id(), 'pending')).toMatchObject({
        waitMs: null,
        message: expect.stringContaining(`job ${other}`),
      })
      expect(await row()).toMatchObject({ state: 'open', report_state: 'intent', report_id: null })
      expect(await jobRow(db, other)).toEqual(before)
    },
  )

  test.each(['failed', 'replaced'] as const)('is this job’s where the other is %s without an answer', async (state) => {
    const other = await former({ state, report_state: 'expired' })
    const { ask_number } = await jobRow(db, other)
    await memo.intend(intent)
    expect(await memo.submitted(id(), 'pending')).toBeNull()
    expect(await row()).toMatchObject({ report_state: 'submitted', report_id: id(), ask_number })
    expect((await jobRow(db, other)).report_id).toBeNull()
  })

  test('leaves the other, which failed while it was under way, no purchase that any run would take up or a budget count', async () => {
    const other = await former({ state: 'failed', report_state: 'submitted' })
    await memo.intend(intent)
    expect(await memo.submitted(id(), 'pending')).toBeNull()
    expect(await jobRow(db, other)).toMatchObject({ report_id: null, report_state: 'failed', state: 'failed' })
  })
})

describe('lost submissions', () => {
  test('are those nobody knows the id of, and an id is unknown that no purchase of the account has', async () => {
    await memo.intend(intent)
    await memo.uncertain('reset')
    await holdJob(k(), claim, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    expect(await lostPurchases(k(), pipeline.pipeline)).toMatchObject([{ jobId: claim.jobId, request: intent.request }])
    await adoptReport(k(), { jobId: claim.jobId, reportId: id(), by: 'test', isFound: true })
    expect(await lostPurchases(k(), pipeline.pipeline)).toEqual([])
    expect(await memo.unknown([id(), 'another'])).toEqual(['another'])
    expect(await row()).toMatchObject({ state: 'open', report_state: 'submitted' })
  })

  test('that were given up and are adopted after all take their units back, also from the process that is about to buy them anew', async () => {
    await memo.intend(intent)
    await memo.uncertain('reset')
    await holdJob(k(), claim, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    await giveUpReport(k(), { jobId: claim.jobId, by: 'test' })
    const job = await newJob(db, pipeline, {
      sliceIds: claim.sliceIds,
      runs: [runId],
      set: { kind: 'report', account: `a${count}` },
    })
    const anew = memoOf(await takeOne(db, one, runId, pipeline, job))
    await adoptReport(k(), { jobId: claim.jobId, reportId: id(), by: 'test' })
    await expect(anew.intend(intent)).rejects.toMatchObject({ code: 'FENCED' })
    expect(await jobRow(db, job)).toMatchObject({ state: 'replaced', ask_number: null })
  })

  test('and wait for that process where it is about to cut them, so that neither fails', async () => {
    await memo.intend(intent)
    await memo.uncertain('reset')
    await holdJob(k(), claim, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    await giveUpReport(k(), { jobId: claim.jobId, by: 'test' })
    const set = { kind: 'report', account: `a${count}` } as const
    const job = await newJob(db, pipeline, { sliceIds: claim.sliceIds, runs: [runId], set })
    await takeOne(db, one, runId, pipeline, job)
    const waiting = sql<{ n: number }>`select count(*)::int as n from pg_locks where not granted`
    let adopting: Promise<unknown> = Promise.resolve()
    await k()
      .transaction()
      .execute(async (trx) => {
        await sql`select from etl.jobs where job_id = ${job} for update`.execute(trx)
        adopting = adoptReport(k(), { jobId: claim.jobId, reportId: id(), by: 'test' })
        await expect.poll(async () => (await waiting.execute(k())).rows[0]?.n, { timeout: 5_000 }).toBeGreaterThan(0)
        await sql`update etl.units set job_id = job_id where job_id = ${job}`.execute(trx)
      })
    await adopting
    expect(await jobRow(db, job)).toMatchObject({ state: 'replaced' })
  })

  test.each([
    ['an older one', sql`lease_until = lease_until - interval '9 seconds'`, true],
    ['one that does not know the process', sql`name = 'other:1-0'`, true],
    ['the same, whose times were set right', sql`lease_until = clock_timestamp() + interval '20 seconds'`, false],
  ])('are not bought where the database is %s now', async (_, change, isOther) => {
    await sql`update etl.processes set lease_until = clock_timestamp() where process_id = ${one.processId}`.execute(k())
    await renewLease(k(), one)
    if (!isOther) one.seen.lease = '2056-01-01 00:00:00+00'
    await sql`update etl.processes set ${change} where process_id = ${one.processId}`.execute(k())
    const intended = memo.intend(intent)
    if (isOther) await expect(intended).rejects.toMatchObject({ code: 'WAREHOUSE_COPY' })
    else await intended
    expect((await row()).ask_number === null).toBe(isOther)
  })
})

describe('a process that lost its claim', () => {
  test('intends nothing and changes nothing', async () => {
    const fresh = memoOf(await takenOver(claim))
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'FENCED' })
    await fresh.intend(intent)
    await fresh.submitted(id(), null)
    const before = await row()
    const late: readonly (() => Promise<void>)[] = [
      () => memo.polled({ statusWord: 'x', nextPollInMs: 1 }),
      () => memo.ready({ statusWord: 'x', usedQuota: 1, dataPoints: 1 }),
      () => memo.retried(),
      () => memo.uncertain('lost'),
      () => memo.withdrawn('no'),
      () => memo.failed('failed', no),
    ]
    for (const act of late) await expect(act()).rejects.toMatchObject({ code: 'FENCED' })
    expect(await row()).toEqual(before)
  })

  test('still records the id it paid for, and the successor goes on with it', async () => {
    await memo.intend(intent)
    const successor = memoOf(await takenOver(claim))
    expect(await successor.current()).toMatchObject({ state: 'intent' })
    await memo.submitted(id(), 'queued')
    expect(await row()).toMatchObject({ report_state: 'submitted', report_id: id() })
    // It had found an intent without an id; what it makes of that comes too late.
    await expect(successor.uncertain('the process ended')).rejects.toMatchObject({ code: 'REPORT_PENDING' })
    expect(await successor.current()).toMatchObject({ state: 'submitted', reportId: id() })
    await successor.ready({ statusWord: 'complete', usedQuota: 1, dataPoints: 1 })
    await memo.submitted(id(), 'queued')
    expect(await row()).toMatchObject({ report_state: 'ready' })
  })

  test('and opens a job again that had been given up over the lost answer: the next run takes it up', async () => {
    await memo.intend(intent)
    const successor = await takenOver(claim)
    await memoOf(successor).uncertain('the process ended')
    await holdJob(k(), successor, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    expect(await outcomeOf(db, runId, claim.jobId)).toBe('held')
    await memo.submitted(id(), null)
    expect(await row()).toMatchObject({ state: 'open', report_state: 'submitted', report_id: id(), error_code: null })
    const next = await newRun(db)
    expect(await joinOrphans(k(), next, pipeline)).toBe(1)
    expect(await takeOne(db, one, next, pipeline, claim.jobId)).toMatchObject({ askNumber: (await row()).ask_number })
  })

  test.each([false, true])(
    'and of a job that its successor is about to give up over the lost answer (consent to ask again: %s)',
    async (askAgain) => {
      await memo.intend(intent)
      const successor = await takenOver(claim)
      await memoOf(successor).uncertain('the process ended')
      await memo.submitted(id(), null)
      const lost = new EtlError('REPORT_UNCERTAIN', 'lost', askAgain ? { follows: { next: 'ask again' } } : {})
      const runtime = { database: db.database, definitions: [], progress: createProgress(), log: silentLog, clock: systemClock }
      await settleJob(runtime, successor, nothingPaid(), lost)
      expect(await row()).toMatchObject({ state: 'open', report_state: 'submitted', report_id: id(), error_code: null })
      expect(await outcomeOf(db, runId, claim.jobId)).toBeNull()
    },
  )

  test('and of a job that its successor is about to hold: it is open again, whoever is first', async () => {
    await memo.intend(intent)
    const successor = await takenOver(claim)
    let recorded: Promise<unknown> = Promise.resolve()
    await k()
      .transaction()
      .execute(async (trx) => {
        expect(await isIdKnown(trx, successor)).toBe(false)
        recorded = memo.submitted(`late-${count}`, null)
        // Time enough to be written, unless it has to wait.
        await sql`select pg_sleep(0.3)`.execute(trx)
        await holdJob(trx, successor, { code: 'REPORT_UNCERTAIN', message: 'lost' })
      })
    await recorded
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'open', report_state: 'submitted', report_id: `late-${count}` })
  })

  test('and of a job that a person gave up meanwhile: what was paid for is not dropped', async () => {
    await memo.intend(intent)
    await setJob(db, claim.jobId, { holder: null })
    await giveUpReport(k(), { jobId: claim.jobId, by: 'test' })
    expect(await row()).toMatchObject({ state: 'replaced', report_state: 'failed' })
    await memo.submitted(id(), 'queued')
    expect(await row()).toMatchObject({ state: 'open', report_state: 'submitted', report_id: id(), error_message: null })
    expect(await countOn()).toEqual([claim.jobId])
    expect(await joinOrphans(k(), await newRun(db), pipeline)).toBe(1)
  })

  test('but not of a report that has failed under that id', async () => {
    await setJob(db, claim.jobId, { ask_number: await nextAskNumber(db), report_state: 'failed', report_id: id() })
    const before = await row()
    await memo.submitted(id(), 'queued')
    expect(await row()).toEqual(before)
  })

  const countOn = async (): Promise<number[]> => {
    const rows = await db.query<{ job_id: string }>('select distinct job_id from etl.units where pipeline_id = $1', [
      pipeline.pipelineId,
    ])
    return rows.map((one) => Number(one.job_id))
  }

  test('also of a job that was replaced by one that asks again: that one buys nothing any more', async () => {
    await memo.intend(intent)
    await memo.uncertain('lost')
    const [again = 0] = await replaceJob(k(), claim, [{ sliceIds: claim.sliceIds, window: months('2026-01') }])
    const its = memoOf(await takeOne(db, one, runId, pipeline, again))
    await memo.submitted(id(), null)
    expect(await row()).toMatchObject({ state: 'open', report_id: id() })
    await expect(its.intend(intent)).rejects.toMatchObject({ code: 'FENCED' })
    expect(await jobRow(db, again)).toMatchObject({ state: 'replaced', ask_number: null })
    // The run that waited for the plan waits for the report, and counts its units.
    expect([await outcomeOf(db, runId, claim.jobId), await outcomeOf(db, runId, again)]).toEqual([null, 'replaced'])
    expect((await runSummary(k(), runId)).units.planned).toBe(1)
    expect(await countOn()).toEqual([claim.jobId])
  })

  test('also where a receipt alone has the id: the next command that finds it takes the plan back', async () => {
    await memo.intend(intent)
    await memo.uncertain('lost')
    const { ask_number, asked_at, account } = await row()
    const [again = 0] = await replaceJob(k(), claim, [{ sliceIds: claim.sliceIds, window: months('2026-01') }])
    await k()
      .transaction()
      .execute(async (trx) => {
        const known = await knownPipeline(trx, { ...pipeline, pipeline_version: 1, parameters: {} })
        if (known === null) expect.fail('no such pipeline')
        const { window, slice } = claim.box
        const bought = { endpoint: null, request: {}, request_hash: intent.requestHash, estimated_quota: null, answer: null }
        const work = { kind: 'report', ask_number: ask_number ?? '', asked_at: asked_at ?? '', account, report_id: id() } as const
        expect(await adoptWork(trx, known, 'month', { ...work, ...bought, window, slice })).toBe('taken up')
      })
    expect(await row()).toMatchObject({ state: 'open', report_id: id() })
    expect(await jobRow(db, again)).toMatchObject({ state: 'replaced', ask_number: null })
    expect(await countOn()).toEqual([claim.jobId])
  })

  test('unless that has asked: both are finished', async () => {
    await memo.intend(intent)
    await memo.uncertain('lost')
    const [again = 0] = await replaceJob(k(), claim, [{ sliceIds: claim.sliceIds, window: months('2026-01') }])
    await memoOf(await takeOne(db, one, runId, pipeline, again)).intend(intent)
    await memo.submitted(id(), null)
    expect(await row()).toMatchObject({ state: 'open', report_id: id() })
    expect(await jobRow(db, again)).toMatchObject({ state: 'open', report_state: 'intent' })
    expect(await countOn()).toEqual([again])
  })

  test('never puts its id over another one', async () => {
    await memo.intend(intent)
    const successor = memoOf(await takenOver(claim))
    await successor.submitted('theirs', null)
    await expect(memo.submitted('ours', null)).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining('ours'),
    })
    expect(await row()).toMatchObject({ report_id: 'theirs' })
  })
})

describe('an intent', () => {
  const refused = { code: 'CANCELLED' }

  test('is refused once every run that waits is cancelled or over, and nothing is on record', async () => {
    await requestCancel(k(), runId)
    await expect(memo.intend(intent)).rejects.toMatchObject(refused)
    const dead = await newRun(db)
    await waitFor(db, dead, claim.jobId)
    await sql`update etl.runs set state = 'interrupted' where run_id = ${dead}`.execute(k())
    await expect(memo.intend(intent)).rejects.toMatchObject(refused)
    expect(await row()).toMatchObject({ ask_number: null, report_state: null })
  })

  test('is made for another run that waits, in its name', async () => {
    const other = await newRun(db)
    await waitFor(db, other, claim.jobId)
    await requestCancel(k(), runId)
    await memo.intend(intent)
    expect(await row()).toMatchObject({ report_state: 'intent', run_id: String(other) })
  })

  test('waits for a cancel that is on its way, and is refused by it', async () => {
    let intending: Promise<unknown> = Promise.resolve()
    await k()
      .transaction()
      .execute(async (trx) => {
        await requestCancel(trx, runId)
        intending = memo.intend(intent).then(
          () => 'intended',
          (error: unknown) => error,
        )
        await Promise.race([intending, new Promise((resolve) => setTimeout(resolve, 400))])
      })
    expect(await intending).toMatchObject(refused)
    expect(await row()).toMatchObject({ report_state: null })
  })
})

test('polls of all open reports of an account take half of its rate at most', async () => {
  expect(await memo.fairPauseMs()).toBe(0)
  const [sliceId] = claim.sliceIds
  await sql`
    insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, account, ask_number, report_state, report_id, state)
    select ${pipeline.pipelineId}, 'report', 'new', '2026-01-01', '2026-02-01', array[${sliceId}::integer], 1,
      case when i > 2000 then 'other' else ${`a${count}`} end, 1, 'submitted', ${id()} || '-' || i, case when i > 2005 then 'done' else 'open' end
    from generate_series(1, 2010) i`.execute(k())
  // 2,000 polls at 5 a second.
  expect(await memo.fairPauseMs()).toBe(400_000)
})

describe('a budget', () => {
  const exhausted = { code: 'QUOTA_EXHAUSTED' }
  /** A report that ended: what the service says that others cost is not its word alone. */
  const bearOut = (of: PipelineKit): Promise<number> =>
    newJob(db, of, {
      set: { kind: 'report', state: 'done', account: `a${count}`, report_state: 'downloaded', said_quota: 1 },
    })
  beforeEach(() => bearOut(pipeline))

  const buy = async (
    budget: ReportMemoOptions['budget'],
    estimatedQuota: number | null,
    options: Partial<ReportMemoOptions> = {},
  ) => {
    const job = await claimed(pipeline, options.account === undefined ? {} : { account: options.account })
    const its = memoOf(job, { budget, ...options })
    await its.intend({ ...intent, estimatedQuota })
    return { its, job }
  }

  test.each(['perMonth', 'perDay'] as const)('%s is spent to the last credit and not beyond', async (period) => {
    const budget = { ...noBudget, [period]: 10 }
    await buy(budget, 4)
    await buy(budget, 6)
    await expect(buy(budget, 1)).rejects.toMatchObject(exhausted)
    await expect(buy(noBudget, 100)).resolves.toBeDefined()
  })

  test.each([
    ['dearer than the whole', 0, 11, { next: 'split', about: 'size' }],
    ['that half of would fit into what is left', 4, 10, { next: 'split', about: 'size', elseInMs: expect.any(Number) }],
    ['that must wait for the turn', 7, 8, { next: 'retry', inMs: expect.any(Number), isFinal: true }],
  ])('says of a report %s whether its parts may fit', async (_what, spent, price, follows) => {
    const budget = { ...noBudget, perMonth: 10 }
    if (spent > 0) await buy(budget, spent)
    await expect(buy(budget, price)).rejects.toMatchObject({ ...exhausted, follows })
  })

  const refused = { error_code: 'QUOTA_EXHAUSTED', error_message: 'x' }
  test('of several windows is cut where one of them fits into what is left, once those of newer months had their turn', async () => {
    const budget = { ...noBudget, perDay: 10 }
    await buy(budget, 7)
    const planned = (first: string, priority: number, set = {}): Promise<number> =>
      newJob(db, pipeline, { window: months(first, 3), runs: [{ runId, priority }], set: { account: `a${count}`, ...set } })
    const older = await planned('2026-01', -20_000)
    const newer = await planned('2026-04', -19_999, { estimated_quota: 9 })
    const job = await takeOne(db, one, runId, pipeline, older)
    const asked = (): Promise<void> => memoOf(job, { budget }).intend({ ...intent, estimatedQuota: 9 })
    await expect(asked()).rejects.toMatchObject({ code: 'REPORT_PENDING' })
    await setJob(db, newer, { ...refused, not_before: '2100-01-01T00:00:00Z' })
    await expect(asked()).rejects.toMatchObject({ ...exhausted, follows: { next: 'split' } })
  })

  const [newestFirst, oldestFirst] = [-20_000, 20_000]
  const dueAgain = { ...refused, not_before: '2026-01-01T00:00:00Z' }
  test.each([
    ['gives way to a newer one that was not tried yet', { priority: newestFirst }, {}, true],
    ['that was cut more often gives way to a newer one', { priority: newestFirst - 3 }, {}, true],
    ['gives way to a newer one that a night before left to the turn', { priority: newestFirst }, dueAgain, true],
    [
      'goes before a newer one that waits for the turn',
      { priority: newestFirst },
      { ...refused, not_before: '2100-01-01T00:00:00Z' },
      false,
    ],
    ['goes before a newer one in a list that begins with the oldest', { priority: oldestFirst }, {}, false],
    ['goes before a newer one of a run that is over', { priority: newestFirst, ended: true }, {}, false],
  ])('of a night %s', async (_what, { priority, ended = false }: { priority: number; ended?: boolean }, set, gives) => {
    const other = await newRun(db, one.processId)
    const place = { runId: other, priority: Math.sign(priority) * 20_000 }
    await newJob(db, pipeline, {
      window: months('2026-04', 3),
      runs: [place],
      set: { kind: 'report', estimated_quota: 4, ...set },
    })
    const older = await newJob(db, pipeline, {
      window: months('2026-01', 3),
      runs: [{ runId, priority }],
      set: { account: `a${count}` },
    })
    const job = await takeOne(db, one, runId, pipeline, older)
    await waitFor(db, { runId: other, priority }, older)
    if (ended) await sql`update etl.runs set state = 'interrupted' where run_id = ${other}`.execute(k())
    const asked = memoOf(job, { budget: { ...noBudget, perDay: 6 } }).intend({ ...intent, estimatedQuota: 6 })
    await (gives ? expect(asked).rejects.toMatchObject({ code: 'REPORT_PENDING' }) : expect(asked).resolves.toBeUndefined())
  })

  test('of two that lists of opposite orders wait for, one is bought', async () => {
    const other = await newRun(db, one.processId)
    const runs = [
      { runId, priority: newestFirst },
      { runId: other, priority: oldestFirst },
    ]
    const ask = async (first: string) => {
      const jobId = await newJob(db, pipeline, {
        window: months(first, 3),
        runs,
        set: { account: `a${count}`, estimated_quota: 6 },
      })
      return memoOf(await takeOne(db, one, runId, pipeline, jobId), { budget: { ...noBudget, perDay: 6 } })
    }
    const [older, newer] = [await ask('2026-01'), await ask('2026-04')]
    await expect(newer.intend({ ...intent, estimatedQuota: 6 })).rejects.toMatchObject({ code: 'REPORT_PENDING' })
    await expect(older.intend({ ...intent, estimatedQuota: 6 })).resolves.toBeUndefined()
  })

  /** Asks for two credits of an account that has ten a month. */
  const buyIn = (job: ClaimedJob): Promise<void> =>
    memoOf(job, { pipeline: job.pipeline, accountBudget: { ...noBudget, perMonth: 10 } }).intend({ ...intent, estimatedQuota: 2 })

  test.each(['perMonth', 'perDay'] as const)('%s of the account holds over all its pipelines', async (period) => {
    const accountBudget = { ...noBudget, [period]: 10 }
    const shopper = await newPipeline(db)
    await bearOut(shopper)
    const buyIn = async (of: PipelineKit, estimatedQuota: number): Promise<void> =>
      memoOf(await claimed(of), { pipeline: of.pipeline, accountBudget }).intend({ ...intent, estimatedQuota })
    await buyIn(pipeline, 6)
    await buyIn(shopper, 4)
    await expect(buyIn(pipeline, 1)).rejects.toMatchObject(exhausted)
    await expect(buyIn(shopper, 2)).rejects.toThrow(/10 of 10 credits of account/)
  })

  test('of an account holds one purchase of a pipeline without a bill, whatever others of its source were billed', async () => {
    const fresh = await newPipeline(db)
    await buyIn(await claimed(fresh))
    for (const of of [fresh, pipeline]) await expect(buyIn(await claimed(of))).rejects.toMatchObject({ code: 'REPORT_PENDING' })
  })

  test('has others wait for the first bill of a pipeline as long as anybody is at it, and leaves them to a later run then', async () => {
    const fresh = await newPipeline(db)
    const first = await claimed(fresh)
    await buyIn(first)
    const waits = (isFinal: boolean) => ({ code: 'REPORT_PENDING', follows: { next: 'retry', isFinal } })
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject(waits(false))
    // Parked between two polls: its run waits for it.
    await setJob(db, first.jobId, { holder: null })
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject(waits(false))
    await sql`update etl.run_jobs set outcome = 'let go', finished_at = clock_timestamp() where job_id = ${first.jobId}`.execute(
      k(),
    )
    // A worker may be at it.
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject(waits(false))
    await setJob(db, first.jobId, { next_poll_at: null, deadline_at: '2026-01-01T00:00:00Z' })
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject(waits(true))
    await setJob(db, first.jobId, { next_poll_at: '2026-01-01T00:00:00Z', deadline_at: null })
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject(waits(true))
    await expect(buyIn(await claimed(pipeline))).rejects.toThrow(`\`millrace run ${fresh.pipeline}\``)
  })

  test.each([
    ['that was adopted after a restore and was asked for by a clock that was ahead', { next_poll_at: null, deadline_at: null }],
    ['that failed while the clock was ahead', { state: 'failed', next_poll_at: ahead, deadline_at: ahead }],
  ] as const)('has nobody wait for the bill of a report %s', async (_, set) => {
    const fresh = await newPipeline(db)
    const first = await claimed(fresh)
    await buyIn(first)
    await sql`update etl.run_jobs set outcome = 'let go', finished_at = clock_timestamp() where job_id = ${first.jobId}`.execute(
      k(),
    )
    const updated_at = new Date(Date.now() - 60_000).toISOString()
    await setJob(db, first.jobId, { report_state: 'submitted', holder: null, asked_at: ahead, updated_at, ...set })
    // Not tried again by a schedule in its next minute.
    const follows = { next: 'retry', isFinal: true, inMs: 600_000 }
    await expect(buyIn(await claimed(pipeline))).rejects.toMatchObject({ follows })
    // As what another clone bought is put on record: nothing ever asks for it.
    await setJob(db, first.jobId, { state: 'replaced' })
    await buyIn(await claimed(pipeline))
  })

  test('of an account is not spent by an account of another API that is named alike', async () => {
    const accountBudget = { ...noBudget, perMonth: 10, setting: { perMonth: 'ITS_QUOTA_PER_MONTH', perDay: 'ITS_QUOTA_PER_DAY' } }
    const shop = await newPipeline(db, { source: 'shop-api.prices' })
    await bearOut(shop)
    const buyIn = async (of: PipelineKit, estimatedQuota: number): Promise<ReportMemo> => {
      const its = memoOf(await claimed(of), { pipeline: of.pipeline, accountBudget })
      await its.intend({ ...intent, estimatedQuota })
      return its
    }
    const ours = await buyIn(pipeline, 10)
    const theirs = await buyIn(shop, 10)
    await expect(buyIn(shop, 1)).rejects.toThrow('ITS_QUOTA_PER_MONTH')
    await ours.submitted(id(), null)
    expect([await ours.fairPauseMs(), await theirs.fairPauseMs()]).toEqual([200, 0])
  })

  test.each(['pipeline', 'account'] as const)('eight who want the last credit of the %s get it once', async (whose) => {
    const budget = { ...noBudget, perMonth: 10 }
    const options = whose === 'pipeline' ? { budget } : { accountBudget: budget }
    await memoOf(claim, options).intend({ ...intent, estimatedQuota: 9 })
    const others: ClaimedJob[] = []
    for (let at = 0; at < 8; at += 1) others.push(await claimed())
    const outcomes = await Promise.allSettled(
      others.map((other) => memoOf(other, options).intend({ ...intent, estimatedQuota: 1 })),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(exhausted)
  })

  test('counts a report with what it cost once that is known, and one without a price keeps all that is left until its bill', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its } = await buy(budget, 9)
    await its.submitted(id(), null)
    await its.ready({ statusWord: 'complete', usedQuota: 7, dataPoints: null })
    const unknown = await buy(budget, null)
    for (const price of [null, 1]) await expect(buy(budget, price)).rejects.toMatchObject({ code: 'REPORT_PENDING' })
    await unknown.its.submitted(`${id()}-unknown`, null)
    await unknown.its.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: null })
    await expect(buy(budget, null)).rejects.toMatchObject(exhausted)
  })

  test('buys no more at unknown prices on the day on which the answer to such a submission was lost', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its, job } = await buy(budget, null)
    await its.uncertain('reset')
    await expect(buy(budget, null)).rejects.toMatchObject({
      ...exhausted,
      message: expect.stringContaining('of unknown price was lost'),
    })
    // Before the service is asked for the price nothing is known of it.
    await expect(memoOf(await claimed(pipeline), { budget }).affordable()).resolves.toBeUndefined()
    await expect(buy(budget, 3)).resolves.toBeDefined()
    // A clock that was ahead would keep them away until that day.
    await setJob(db, job.jobId, { asked_at: '2056-01-01T00:00:00Z' })
    await expect(buy(budget, null)).resolves.toBeDefined()
  })

  test('goes on counting a downloaded report whose price nobody told, and frees what was never bought', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its, job } = await buy(budget, 8)
    await its.submitted(id(), null)
    await its.ready({ statusWord: 'complete', usedQuota: null, dataPoints: null })
    await setJob(db, job.jobId, { report_state: 'downloaded' })
    await expect(buy(budget, 3)).rejects.toMatchObject(exhausted)
    const small = await buy(budget, 2)
    await small.its.withdrawn('refused')
    const again = await buy(budget, 2)
    await again.its.submitted(`${id()}-again`, null)
    await again.its.failed('rejected', no)
    await expect(buy(budget, 2)).resolves.toBeDefined()
  })

  test('goes on counting a report that expired before its bill was seen, and one that a person gave up, until another job has it', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its } = await buy(budget, 8)
    await its.submitted(id(), null)
    await its.failed('expired', no)
    await expect(buy(budget, 3)).rejects.toMatchObject(exhausted)
    const [reportId, gone] = [`${id()}-2`, await buy(budget, 2)]
    await gone.its.submitted(reportId, null)
    await giveUpReport(k(), { jobId: gone.job.jobId, by: 'ada', sure: true })
    await expect(buy(budget, 1)).rejects.toMatchObject(exhausted)
    const { its: other, job } = await buy(noBudget, 1)
    await other.uncertain('reset')
    await holdJob(k(), job, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    await adoptReport(k(), { jobId: job.jobId, reportId, by: 'ada' })
    await expect(buy(budget, 1)).resolves.toBeDefined()
  })

  test.each([
    ['before its bill was seen', null],
    ['after', 4],
  ])('counts once a report that expired %s and that the service, or a person, gives to another job', async (_, bill) => {
    const budget = { ...noBudget, perDay: 20 }
    const ended = async (reportId: string) => {
      const { its, job } = await buy(noBudget, 4)
      await its.submitted(reportId, null)
      if (bill !== null) await its.ready({ statusWord: 'completed', usedQuota: bill, dataPoints: 1 })
      return { its, job }
    }
    const given = await ended(id())
    await given.its.failed('expired', no)
    await holdJob(k(), given.job, { code: 'REPORT_EXPIRED', message: 'gone' })
    const { its: again } = await buy(noBudget, 4)
    expect(await again.submitted(id(), null)).toBeNull()
    const adopted = await ended(`${id()}-2`)
    await giveUpReport(k(), { jobId: adopted.job.jobId, by: 'ada', sure: true })
    const { its: lost, job } = await buy(noBudget, 4)
    await lost.uncertain('reset')
    await holdJob(k(), job, { code: 'REPORT_UNCERTAIN', message: 'lost' })
    await adoptReport(k(), { jobId: job.jobId, reportId: `${id()}-2`, by: 'ada' })
    await expect(buy(budget, 13)).rejects.toMatchObject(exhausted)
    await expect(buy(budget, 12)).resolves.toBeDefined()
  })

  test('buys no more at unknown prices on the day on which such a report expired before its bill was seen', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its } = await buy(budget, null)
    await its.submitted(id(), null)
    await its.failed('expired', no)
    await expect(buy(budget, null)).rejects.toMatchObject(exhausted)
    await expect(buy(budget, 3)).resolves.toBeDefined()
  })

  test('knows what a report was planned to cost also after it was certainly not taken', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const its = memoOf(await claimed(pipeline, { estimated_quota: 9 }), { budget })
    await its.intend({ ...intent, estimatedQuota: null })
    await its.withdrawn('429')
    await buy(budget, 4)
    await expect(its.intend({ ...intent, estimatedQuota: null })).rejects.toMatchObject(exhausted)
  })

  test('takes a named price of nothing for no price: one is bought at a time until a bill tells what such reports cost', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const asked = async (set = {}) => {
      const job = await claimed(pipeline, set)
      const its = memoOf(job, { budget })
      return { its, job, intended: its.intend({ ...intent, estimatedQuota: 0 }) }
    }
    // The plan went by the same word.
    const { its, job, intended } = await asked({ estimated_quota: 0 })
    await intended
    await expect((await asked({ estimated_quota: 0 })).intended).rejects.toMatchObject({ code: 'REPORT_PENDING' })
    await its.submitted(`${id()}-${job.jobId}`, null)
    await its.ready({ statusWord: 'complete', usedQuota: 6, dataPoints: null })
    await expect((await asked({ estimated_quota: 0 })).intended).rejects.toMatchObject(exhausted)
  })

  test('counts what a report cost that was not made, where the service says so; its bill is no price', async () => {
    const { its } = await buy({ ...noBudget, perDay: 10 }, 9)
    await its.submitted(id(), null)
    await its.failed('failed', { ...no, usedQuota: 7 })
    expect(await its.current()).toMatchObject({ state: 'failed', usedQuota: 7 })
    await expect(buy({ ...noBudget, perDay: 10 }, 4)).rejects.toMatchObject(exhausted)
    expect(await creditsOfUnit(k(), pipeline.pipeline)).toBeNull()
  })

  test('reckons with what its own reports cost beyond the price named for them; with what others of the source did where it has no bill', async () => {
    const budget = { ...noBudget, perDay: 150 }
    const bill = async (of: PipelineKit, said: number, used: number) => {
      const job = await claimed(of)
      const its = memoOf(job, { pipeline: of.pipeline })
      await its.intend({ ...intent, estimatedQuota: said })
      await its.submitted(`${id()}-${job.jobId}`, null)
      await its.ready({ statusWord: 'complete', usedQuota: used, dataPoints: null })
    }
    await bill(await newPipeline(db), 10, 30)
    await expect(buy(budget, 60)).rejects.toMatchObject(exhausted)
    await bill(pipeline, 60, 60)
    await expect(buy(budget, 60)).resolves.toBeDefined()
  })

  test('of a day or month forgets the one before, whenever the job was planned, and knows no other pipeline or account', async () => {
    const budget = { perMonth: 10, perDay: 5 }
    const askedAt = (moment: ReturnType<typeof sql>) =>
      sql`update etl.jobs set asked_at = ${moment}, created_at = '2020-01-01' where pipeline_id = ${pipeline.pipelineId} and asked_at is not null`.execute(
        k(),
      )
    const month = sql`date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC'`
    await buy(budget, 5)
    await expect(buy(budget, 1)).rejects.toMatchObject({ ...exhausted, message: expect.stringContaining('this day') })
    await askedAt(month)
    await expect(buy(budget, 6)).rejects.toMatchObject({ ...exhausted, message: expect.stringContaining('this month') })
    await askedAt(sql`${month} - interval '1 second'`)
    await buy(budget, 5)
    await buy(budget, 5, { account: `b${count}` })
    const elsewhere = await newPipeline(db)
    await memoOf(await claimed(elsewhere), { pipeline: elsewhere.pipeline, budget }).intend({ ...intent, estimatedQuota: 5 })
    await expect(buy(budget, 1)).rejects.toThrow(`limits.quota_per_day of ${pipeline.pipeline}`)
  })
})

test('a bought report that is claimed again brings its ask number', async () => {
  const number = await nextAskNumber(db)
  const jobId = await newJob(db, pipeline, { runs: [runId], set: { ...bought(`again-${count}`, number), account: `a${count}` } })
  expect(await takeOne(db, one, runId, pipeline, jobId)).toMatchObject({ askNumber: String(number) })
})
