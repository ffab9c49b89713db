// A claim whose answer was lost: the ledger says that a living process holds the job, and nobody works on it. It is free again while the process lives.
import { beforeEach, expect, test } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { forgetClaims, freeStrays, trackClaim } from '../../src/run/work-loop.ts'
import { keepLease } from '../../src/run/lease.ts'
import { newJob, newPipeline, newProcess, newRun, type PipelineKit, type ProcessKit, takeOne } from '../support/ledger.ts'
import { jobRow } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let own: ProcessKit
let pipeline: PipelineKit
let runId: number

beforeEach(async () => {
  own = await newProcess(db)
  pipeline = await newPipeline(db)
  runId = await newRun(db, own.processId)
})

const newOne = (): Promise<number> => newJob(db, pipeline, { runs: [runId] })
const take = (jobId: number) => takeOne(db, own, runId, pipeline, jobId)
const holderOf = async (jobId: number): Promise<number | null> => (await jobRow(db, jobId)).holder

test('what no loop knows of is given back, what is at hand stays', async () => {
  const known = await newOne()
  const [claim] = await trackClaim(own, async () => [await take(known)])
  const lost = await newOne()
  await take(lost)
  expect(await freeStrays(db.database.kysely, own)).toBe(1)
  expect([await holderOf(known), await holderOf(lost)]).toEqual([own.processId, null])
  // One that another attempt holds is another matter, and so is one that was let go of.
  expect(await take(lost)).toMatchObject({ attempts: 1 })
  if (claim !== undefined) forgetClaims(own, [claim])
  expect(await freeStrays(db.database.kysely, own)).toBe(2)
})

test('nothing is given back while a claim is on its way', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const job = await newOne()
  const claim = await take(job)
  const claiming = trackClaim(own, async () => {
    await promise
    return [claim]
  })
  expect(await freeStrays(db.database.kysely, own)).toBe(0)
  resolve()
  await claiming
  expect(await freeStrays(db.database.kysely, own)).toBe(0)
  expect(await holderOf(job)).toBe(own.processId)
})

test('the keeper of the lease sees to it', async () => {
  const lost = await newOne()
  await take(lost)
  const lease = await keepLease(db.database, own, silentLog)
  try {
    await expect.poll(() => holderOf(lost), { timeout: 30_000 }).toBeNull()
  } finally {
    await lease.end()
  }
})
