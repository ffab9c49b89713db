// What a unit whose work threw leaves in the ledger and in the queue, in one transaction; and what people are told.
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { EtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Definition } from '../../src/core/types.ts'
import { registerUnits } from '../../src/ledger/register.ts'
import { type ClaimedUnit, claimUnit, markLanded } from '../../src/ledger/units.ts'
import { createProgress, type RunEvent } from '../../src/pipeline/progress.ts'
import { type Queue, startQueue, type UnitJob } from '../../src/pipeline/queue.ts'
import { type SettlingRuntime, settleUnit } from '../../src/pipeline/settle-unit.ts'
import { shippedDefinition, unitOf } from '../support/definitions.ts'
import { newRun, outcomeOf, unitRow, wholeLedger } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let queue: Queue
let definition: Definition
let runId: number
let job: UnitJob
let claim: ClaimedUnit
let events: RunEvent[]
let runtime: SettlingRuntime
let count = 0

beforeAll(async () => {
  db = await createTestDatabase()
  definition = await shippedDefinition('traffic_and_engagement')
  queue = await startQueue(db.database, silentLog)
})
afterAll(async () => {
  await queue.stop()
  await db.drop()
})
beforeEach(async () => {
  count += 1
  runId = await newRun(db)
  const unit = unitOf(definition, '2026-01', { domain: [`s${count}.com`], country: 'us' })
  await db.database.kysely.transaction().execute(async (trx) => {
    const units = await registerUnits(trx, runId, [{ unit, newEdition: true, forced: false }])
    await queue.enqueue(
      trx,
      units.map(({ unitId }) => ({ unitId, runId, priority: 1 })),
    )
  })
  const [taken] = await queue.fetch(1)
  if (taken === undefined) throw new Error('nothing to take')
  job = taken
  const made = await claimUnit(db.database.kysely, job.unitId, { owner: 'one:1', leaseMs: 1_000, runId, holds: queue.holds(job) })
  if (made === null) throw new Error('not claimed')
  claim = made
  events = []
  const progress = createProgress((event) => events.push(event))
  runtime = { database: db.database, queue, definitions: [definition], progress, log: silentLog, clock: systemClock }
})
afterEach(() => sql`delete from pgboss.job`.execute(db.database.kysely))

const request = () => ({
  unitId: claim.unitId,
  runId,
  edition: 1,
  account: 'a',
  method: 'GET',
  endpoint: '/k',
  parameters: { a: 1 },
  part: 1,
  attempt: 1,
  status: 200,
  errorCode: null,
  bytes: 9,
  sha256: 'abc',
  startedAt: '2026-01-01T00:00:00Z',
  milliseconds: 1.5,
})
const settled = (error: unknown, requests = [request()]) => settleUnit(runtime, job, claim, requests, error)
const jobs = async () =>
  (
    await db.database.pool.query<{ state: string; later: boolean }>(
      `select state::text, start_after > now() + interval '30 seconds' as later from pgboss.job`,
    )
  ).rows
const requestsKept = async (): Promise<number> =>
  Number(
    (await db.database.pool.query<{ n: string }>('select count(*) as n from etl.requests where unit_id = $1', [claim.unitId]))
      .rows[0]?.n,
  )

describe('settling', () => {
  test('not yet: the unit waits, its job comes again at that time, the run goes on', async () => {
    await settled(new EtlError('RATE_LIMITED', 'slow', { notBefore: Date.now() + 60_000 }))
    expect(await unitRow(db, claim.unitId)).toMatchObject({
      state: 'waiting',
      attempts: 0,
      error_code: 'RATE_LIMITED',
      error_message: 'slow',
    })
    expect(await jobs()).toEqual([{ state: 'retry', later: true }])
    expect(await outcomeOf(db, runId, claim.unitId)).toBeNull()
    expect(await requestsKept()).toBe(1)
    expect(runtime.progress.counters.unitsDone).toBe(0)
    expect(events).toMatchObject([
      {
        event: 'unit',
        state: 'waiting',
        code: 'RATE_LIMITED',
        run_id: runId,
        unit_id: claim.unitId,
        unit: claim.unit.key,
        message: 'slow',
        not_before: expect.stringMatching(/Z$/),
      },
    ])
  })

  test('not in this run: the unit waits, its job goes, the run is answered', async () => {
    await settled(new EtlError('NOT_PUBLISHED', 'later'))
    expect(await unitRow(db, claim.unitId)).toMatchObject({ state: 'waiting', attempts: 0 })
    expect(await jobs()).toEqual([])
    expect(await outcomeOf(db, runId, claim.unitId)).toBe('waiting')
    expect(runtime.progress.counters.unitsDone).toBe(1)
  })

  test('another try: counted, and again soon', async () => {
    await settled(new EtlError('SERVICE_ERROR', '500'))
    expect(await unitRow(db, claim.unitId)).toMatchObject({ state: 'waiting', attempts: 1 })
    expect(await jobs()).toEqual([{ state: 'retry', later: false }])
  })

  test.each([
    ['held', 'SHRUNK'],
    ['failed', 'BAD_REQUEST'],
  ] as const)('%s: the job goes, the run is answered, people are told', async (state, code) => {
    await settled(new EtlError(code, 'why'))
    expect(await unitRow(db, claim.unitId)).toMatchObject({ state, error_code: code, error_message: 'why' })
    expect(await jobs()).toEqual([])
    expect(await outcomeOf(db, runId, claim.unitId)).toBe(state)
    expect(runtime.progress.counters.unitsDone).toBe(1)
    expect(events).toMatchObject([{ state, code, message: 'why' }])
    expect(events[0]).not.toHaveProperty('not_before')
  })

  test('interrupted: given back without a word', async () => {
    await settled(new EtlError('INTERRUPTED', 'stop'))
    expect(await unitRow(db, claim.unitId)).toMatchObject({ state: 'planned', attempts: 0, error_code: null })
    expect(await jobs()).toEqual([])
    expect([events, runtime.progress.counters.unitsDone]).toEqual([[], 0])
    expect(await outcomeOf(db, runId, claim.unitId)).toBeNull()
  })

  test('taken over: nothing at all is written', async () => {
    const before = await wholeLedger(db)
    await settled(new EtlError('FENCED', 'other'))
    expect(await wholeLedger(db)).toEqual(before)
    expect([await jobs(), events]).toEqual([[{ state: 'active', later: false }], []])
  })

  test('without its definition a unit fails, whatever it was', async () => {
    runtime = { ...runtime, definitions: [] }
    await settled(new EtlError('RATE_LIMITED', 'slow'))
    expect(await unitRow(db, claim.unitId)).toMatchObject({ state: 'failed' })
  })

  test('all of it or nothing: a claim that is lost keeps neither requests nor the job’s end', async () => {
    await claimUnit(db.database.kysely, job.unitId, { owner: 'two:2', leaseMs: 1_000, runId, holds: sql<boolean>`true` })
    await expect(settled(new EtlError('BAD_REQUEST', 'x'))).rejects.toMatchObject({ code: 'FENCED' })
    expect([await requestsKept(), await jobs(), events]).toEqual([0, [{ state: 'active', later: false }], []])
  })

  test.each([
    ['BAD_RESPONSE', null],
    ['TRUNCATED', null],
    ['INCOMPLETE', null],
    ['UNSTABLE', null],
    ['LANDING_CORRUPT', null],
    ['LANDING_MISSING', null],
    ['WRONG_ECHO', null],
    ['SHRUNK', 'here'],
    ['TOO_MANY_REJECTS', 'here'],
    ['DATABASE', 'here'],
  ] as const)('%s keeps the landing only where its bytes are good', async (code, landing) => {
    await markLanded(db.database.kysely, claim, { landing: 'here', sha256: 'abc', bytes: 1 })
    await settled(new EtlError(code, 'x'))
    expect((await unitRow(db, claim.unitId)).landing).toBe(landing)
  })
})
