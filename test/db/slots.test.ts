// Slots kept filled from the ledger: how many at once, whose jobs, and what ends them.
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { asEtlError } from '../../src/run/settle.ts'
import { EtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Db } from '../../src/db/tables.ts'
import { leaveRun, requestCancel } from '../../src/ledger/cancel-request.ts'
import { openJobs } from '../../src/ledger/runs.ts'
import { finishJob, parkJob, returnJob } from '../../src/ledger/claim-fence.ts'
import { type LoopOptions, type SlotRuntime, type Work, workInSlots } from '../../src/run/work-loop.ts'
import {
  type PipelineKit,
  type ProcessKit,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  newWalks,
  takeOne,
  waitFor,
} from '../support/ledger.ts'
import { jobRow, outcomeOf } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let own: ProcessKit
let pipeline: PipelineKit
let runId: number
const k = (): Db => db.database.kysely

beforeEach(async () => {
  await sql`update etl.runs set state = 'done'`.execute(k())
  own = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await newRun(db, own.processId)
})

const runtimeOf = (process: ProcessKit): SlotRuntime => ({
  database: db.database,
  process,
  claimable: async () => ({ load: [pipeline.pipelineId], fetch: [], same: [] }),
  clock: systemClock,
  log: silentLog,
})

const isOver = (id: number) => async (): Promise<boolean> => (await openJobs(k(), id)).count === 0
const never = new AbortController().signal

const loop = (work: Work, options: Partial<LoopOptions> = {}, process = own): Promise<void> =>
  workInSlots(runtimeOf(process), { runId, concurrency: 4, signal: never, done: isOver(runId), ...options }, work)

const finish: Work = (claim) => finishJob(k(), claim, 'loaded')

/** Works until it is told to stop, then gives back. */
const endless =
  (reasons: string[], begun: () => void = () => undefined): Work =>
  async (claim, signal) => {
    begun()
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    reasons.push(asEtlError(signal.reason).code)
    if (asEtlError(signal.reason).code !== 'FENCED') await returnJob(k(), claim)
  }

describe('slots', () => {
  test('work on a run until none of its jobs is open, never on more than allowed at once', async () => {
    await newWalks(db, pipeline, runId, 60)
    let active = 0
    let most = 0
    const worked: number[] = []
    await loop(async (claim, signal) => {
      active += 1
      most = Math.max(most, active)
      await sleep(2)
      await finish(claim, signal)
      worked.push(claim.jobId)
      active -= 1
    })
    expect(most).toBe(4)
    expect(new Set(worked).size).toBe(60)
    expect(worked).toHaveLength(60)
  })

  test('of one run work on nothing of another', async () => {
    const other = await newRun(db)
    const theirs = await newWalks(db, pipeline, other, 30)
    const [mine] = await newWalks(db, pipeline, runId, 1)
    const worked: number[] = []
    await loop(async (claim, signal) => {
      worked.push(claim.jobId)
      await finish(claim, signal)
    })
    expect(worked).toEqual([mine])
    expect(await jobRow(db, theirs[0] ?? 0)).toMatchObject({ holder: null, attempts: 0 })
  })

  test('end when somebody else settles the last job they wait for', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const two = await newProcess(db)
    const other = await newRun(db, two.processId)
    await waitFor(db, other, jobId)
    const claim = await takeOne(db, two, other, pipeline, jobId)
    const ended = loop(finish)
    await sleep(300)
    await finishJob(k(), claim, 'loaded')
    await ended
  })

  test('of two runs over the same jobs both end, each job worked on once', async () => {
    const two = await newProcess(db)
    const other = await newRun(db, two.processId)
    const jobIds = await newWalks(db, pipeline, runId, 80)
    for (const [index, jobId] of jobIds.entries()) await waitFor(db, { runId: other, priority: 80 - index }, jobId)
    const worked: number[] = []
    const work: Work = async (claim, signal) => {
      await sleep(3)
      await finish(claim, signal)
      worked.push(claim.jobId)
    }
    await Promise.all([loop(work), sleep(40).then(() => loop(work, { runId: other, done: isOver(other) }, two))])
    expect(worked).toHaveLength(80)
    expect(new Set(worked).size).toBe(80)
  })

  test('of a helper serve every run, and end when told', async () => {
    const other = await newRun(db)
    await newWalks(db, pipeline, runId, 10)
    await newWalks(db, pipeline, other, 10)
    const stop = new AbortController()
    let worked = 0
    const helper = loop(
      async (claim, signal) => {
        await finish(claim, signal)
        worked += 1
        if (worked === 20) stop.abort()
      },
      { runId: null, signal: stop.signal, done: async () => false },
    )
    await helper
    expect(await openJobs(k(), runId)).toMatchObject({ count: 0 })
    expect(await openJobs(k(), other)).toMatchObject({ count: 0 })
  })

  test('take a parked job up again when it is due', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    let tries = 0
    const reason = { code: 'REPORT_PENDING', message: 'not yet' }
    await loop(async (claim, signal) => {
      tries += 1
      if (tries < 4) await parkJob(k(), claim, { notBeforeMs: 100, countsAttempt: false, final: false, ...reason })
      else await finish(claim, signal)
    })
    expect(tries).toBe(4)
    expect(await outcomeOf(db, runId, jobId)).toBe('loaded')
  })
})

describe('what is at hand', () => {
  test('is given back when the loop is told to stop', async () => {
    await newWalks(db, pipeline, runId, 40)
    const stop = new AbortController()
    const reasons: string[] = []
    let quick = 0
    const slow = endless(reasons)
    const ended = loop(
      async (claim, signal) => {
        quick += 1
        if (quick <= 6) await finish(claim, signal)
        else await slow(claim, signal)
      },
      { signal: stop.signal },
    )
    await sleep(200)
    stop.abort()
    await ended
    expect(reasons).toEqual(['INTERRUPTED', 'INTERRUPTED', 'INTERRUPTED', 'INTERRUPTED'])
    const { rows } = await sql<{ held: number; tried: number }>`
      select count(holder)::integer as held, coalesce(max(attempts) filter (where state = 'open'), 0) as tried from etl.jobs
      where pipeline_id = ${pipeline.pipelineId}`.execute(k())
    expect(rows).toEqual([{ held: 0, tried: 0 }])
    expect((await openJobs(k(), runId)).count).toBe(34)
  })

  test('is let go within half a second once somebody else has taken it, with nothing written', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const reasons: string[] = []
    let endedAt = 0
    const working = loop(async (claim, signal) => {
      await endless(reasons)(claim, signal)
      endedAt = Date.now()
    })
    await sleep(150)
    await sql`update etl.jobs set holder = null where job_id = ${jobId}`.execute(k())
    const takenAt = Date.now()
    const fresh = await takeOne(db, await newProcess(db), runId, pipeline, jobId)
    await sleep(600)
    await finishJob(k(), fresh, 'loaded')
    await working
    expect(reasons).toEqual(['FENCED'])
    expect(endedAt - takenAt).toBeLessThan(550)
  })

  test('ends with its run within half a second of a cancel; the loop ends too', async () => {
    await newWalks(db, pipeline, runId, 20)
    const reasons: string[] = []
    let begun = 0
    const done = async (): Promise<boolean> => (await openJobs(k(), runId)).cancelled
    const ended = loop(
      endless(reasons, () => (begun += 1)),
      { done },
    )
    await sleep(200)
    const cancelledAt = Date.now()
    await requestCancel(k(), runId)
    await ended
    expect(Date.now() - cancelledAt).toBeLessThan(3_000)
    expect(reasons).toHaveLength(begun)
    expect(await leaveRun(k(), runId)).toBe(20)
  })

  test('by a helper ends with the last run that waits for it, not before', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    const other = await newRun(db)
    await waitFor(db, other, jobId)
    const reasons: string[] = []
    const stop = new AbortController()
    const ended = loop(endless(reasons), { runId: null, signal: stop.signal, done: async () => false })
    await sleep(200)
    await requestCancel(k(), runId)
    await sleep(700)
    expect(reasons).toEqual([])
    await requestCancel(k(), other)
    await sleep(600)
    expect(reasons).toEqual(['CANCELLED'])
    stop.abort()
    await ended
    expect(await jobRow(db, jobId)).toMatchObject({ holder: null, state: 'open' })
  })

  test('and could not be settled comes back, though this process lives', async () => {
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    let tries = 0
    await loop(async (claim, signal) => {
      tries += 1
      if (tries === 1) throw new Error('the database went away while settling')
      await finish(claim, signal)
    })
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'done', attempts: 2 })
  })

  test('and can never be settled fails in the end, named, and nothing else does', async () => {
    const broken = await newJob(db, pipeline, { runs: [runId], set: { attempts: 4 } })
    const sound = await newJob(db, pipeline, { runs: [runId] })
    await loop(async (claim, signal) => {
      if (claim.jobId === broken) throw new EtlError('INTERNAL', 'a row breaks an invariant')
      await finish(claim, signal)
    })
    expect(await jobRow(db, broken)).toMatchObject({
      state: 'failed',
      error_code: 'INTERNAL',
      error_message: 'a row breaks an invariant',
    })
    expect(await outcomeOf(db, runId, broken)).toBe('failed')
    expect(await jobRow(db, sound)).toMatchObject({ state: 'done' })
  })
})

test('a database that cuts all connections is waited for', async () => {
  await newWalks(db, pipeline, runId, 40)
  const cut = async (): Promise<void> => {
    for (let time = 0; time < 3; time += 1) {
      await sleep(60)
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`.execute(
        k(),
      )
    }
  }
  await Promise.all([
    loop(async (claim, signal) => {
      await sleep(20)
      await finish(claim, signal)
    }),
    cut(),
  ])
  expect(await openJobs(k(), runId)).toMatchObject({ count: 0 })
})

test('a claim and a settlement take milliseconds', async () => {
  await newWalks(db, pipeline, runId, 600)
  const started = performance.now()
  await loop(finish)
  const each = (performance.now() - started) / 600
  console.log(`a job of nothing but claim and settlement: ${each.toFixed(2)} ms`)
  expect(each).toBeLessThan(15)
})
