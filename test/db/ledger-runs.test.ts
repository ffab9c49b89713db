// Runs and requests in the ledger: begun, ended once, cancelled, reaped, and summed up from what is on record.
import { spawnSync } from 'node:child_process'
import { hostname } from 'node:os'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { zeroCounts } from '../../src/core/types.ts'
import { markLoaded } from '../../src/ledger/loads.ts'
import { recordRequests } from '../../src/ledger/requests.ts'
import {
  cancelledRuns,
  finishRun,
  foreignRuns,
  openUnits,
  reapDeadRuns,
  requestCancel,
  runState,
  runSummary,
  startRun,
  unitsAtHand,
} from '../../src/ledger/runs.ts'
import { failUnit, holdUnit } from '../../src/ledger/units.ts'
import { claimed, newRun, planned } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())
let run: number
beforeEach(async () => {
  run = await newRun(db)
})

const k = () => db.database.kysely
const row = async (id: number): Promise<Readonly<Record<string, unknown>>> =>
  (await db.database.pool.query('select * from etl.runs where run_id = $1', [id])).rows[0] ?? {}

const request = (unitId: number, runId: number, part: number) => ({
  unitId,
  runId,
  edition: 2,
  account: 'a',
  method: 'GET',
  endpoint: '/k',
  parameters: { a: ['ü', 1] },
  part,
  attempt: 3,
  status: 503,
  errorCode: 'SERVICE_ERROR',
  bytes: 100,
  sha256: 'abc',
  startedAt: '2026-01-01T00:00:00.123Z',
  milliseconds: 1.5,
})

describe('a run', () => {
  test('is on record with its command, arguments and process from the start', async () => {
    const id = await startRun(k(), { command: 'backfill', arguments: { from: '2026-01' } })
    expect(await row(id)).toMatchObject({
      command: 'backfill',
      arguments: { from: '2026-01' },
      state: 'running',
      host: hostname(),
      process_id: process.pid,
      finished_at: null,
      summary: null,
    })
    expect(await runState(k(), id)).toBe('running')
    expect(await runState(k(), id + 999)).toBeNull()
  })

  test('ends once, with its summary; none where there is none; no other run ends with it', async () => {
    const other = await newRun(db)
    await finishRun(k(), run, 'done', { units: 1 })
    expect(await row(run)).toMatchObject({ state: 'done', summary: { units: 1 }, finished_at: expect.any(String) })
    await finishRun(k(), run, 'failed', { units: 2 })
    await finishRun(k(), run, 'cancelled', null)
    expect(await row(run)).toMatchObject({ state: 'done', summary: { units: 1 } })
    expect(await runState(k(), other)).toBe('running')
    await finishRun(k(), other, 'interrupted', null)
    expect(await row(other)).toMatchObject({ state: 'interrupted', summary: null })
  })

  test('that was cancelled stays cancelled', async () => {
    await finishRun(k(), run, 'cancelled', null)
    await finishRun(k(), run, 'done', { units: 1 })
    expect(await row(run)).toMatchObject({ state: 'cancelled', summary: null })
    await finishRun(k(), run, 'cancelled', { units: 3 })
    expect(await row(run)).toMatchObject({ state: 'cancelled', summary: { units: 3 } })
  })

  test('is asked to stop alone', async () => {
    const other = await newRun(db)
    await requestCancel(k(), run)
    expect(await cancelledRuns(k(), [run, other])).toEqual([run])
    expect(await cancelledRuns(k(), [other])).toEqual([])
    expect(await openUnits(k(), run)).toEqual({ count: 0, cancelled: true })
    expect(await openUnits(k(), other)).toEqual({ count: 0, cancelled: false })
  })

  test('whose process is gone is over; one that lives, is elsewhere or has ended is not touched', async () => {
    const { pid } = spawnSync('true')
    const make = async (host: string, process: number, state = 'running'): Promise<number> =>
      Number(
        (
          await sql<{
            run_id: string
          }>`insert into etl.runs (command, host, process_id, state) values ('run', ${host}, ${process}, ${state}) returning run_id`.execute(
            k(),
          )
        ).rows[0]?.run_id,
      )
    const [dead, elsewhere, ended, living] = [
      await make(hostname(), pid),
      await make('elsewhere', pid),
      await make(hostname(), pid, 'failed'),
      await make(hostname(), process.ppid),
    ]
    await reapDeadRuns(k())
    expect(await row(dead)).toMatchObject({ state: 'interrupted', finished_at: expect.any(String) })
    expect(await runState(k(), elsewhere)).toBe('running')
    expect(await row(ended)).toMatchObject({ state: 'failed', finished_at: null })
    expect(await runState(k(), living)).toBe('running')
    expect(await runState(k(), run)).toBe('running')
    const second = await make(hostname(), pid)
    await startRun(k(), { command: 'run', arguments: {} })
    expect(await runState(k(), second)).toBe('interrupted')
  })

  test('of another command is seen, those that call nothing aside', async () => {
    const before = await foreignRuns(k(), 'demo')
    for (const command of ['demo', 'replay', 'quarantine retry']) await startRun(k(), { command, arguments: {} })
    expect(await foreignRuns(k(), 'demo')).toBe(before)
    await startRun(k(), { command: 'backfill', arguments: {} })
    expect(await foreignRuns(k(), 'demo')).toBe(before + 1)
  })
})

describe('units of a run', () => {
  test('at hand are those that this run holds and has not settled', async () => {
    const [one, two, three] = [
      await planned(db, run, `h1-${run}`),
      await planned(db, run, `h2-${run}`),
      await planned(db, run, `h3-${run}`),
    ]
    await claimed(db, run, one)
    await failUnit(k(), await claimed(db, run, two), { code: 'X', message: '' })
    const other = await newRun(db)
    await claimed(db, other, three)
    expect(await unitsAtHand(k(), run)).toBe(1)
    expect(await openUnits(k(), run)).toEqual({ count: 2, cancelled: false })
    await sql`update etl.run_units set outcome = 'held' where unit_id = ${one}`.execute(k())
    expect(await unitsAtHand(k(), run)).toBe(0)
  })
})

describe('a summary', () => {
  const counts = { ...zeroCounts(), read: 9, inserted: 1, updated: 2, ended: 7, unchanged: 3, quarantined: 1, duplicates: 2 }

  test('of nothing is all zeros', async () => {
    expect(await runSummary(k(), run)).toEqual({
      units: { planned: 0, loaded: 0, unchanged: 0, waiting: 0, held: 0, failed: 0 },
      rows: zeroCounts(),
      requests: 0,
      reports_submitted: 0,
      quota_used: 0,
      bytes: 0,
    })
  })

  test('adds up what this run did, and nothing of another', async () => {
    const fill = async (runId: number): Promise<void> => {
      const units = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => planned(db, runId, `${name}-${runId}`)))
      const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = units
      for (const unitId of [a, b])
        await markLoaded(k(), await claimed(db, runId, unitId), {
          runId,
          counts,
          landing: 'l',
          landingSha256: 's',
          landingBytes: 1,
          fingerprint: { lastUpdated: null, count: null },
          drift: null,
          milliseconds: 1,
        })
      for (const unitId of [c, d, e]) await holdUnit(k(), await claimed(db, runId, unitId), { code: 'X', message: '' })
      await failUnit(k(), await claimed(db, runId, f), { code: 'X', message: '' })
      await recordRequests(
        k(),
        [1, 2, 3].map((part) => request(a, runId, part)),
      )
      for (const [index, submitted] of [true, true, false].entries())
        await sql`insert into etl.reports (unit_id, edition, submission, run_id, account, pipeline, endpoint, request_hash, request, state, submitted_at, used_quota)
          values (${a}, 1, ${index + 1}, ${runId}, 'a', 'p', '/e', 'h', '{}', 'failed', ${submitted ? '2026-01-01' : null}::timestamptz, ${index === 2 ? null : 5})`.execute(
          k(),
        )
    }
    const other = await newRun(db)
    await fill(other)
    await fill(run)
    await sql`update etl.run_units set outcome = 'waiting' where run_id = ${run} and outcome is null`.execute(k())
    expect(await runSummary(k(), run)).toEqual({
      units: { planned: 7, loaded: 2, unchanged: 0, waiting: 1, held: 3, failed: 1 },
      rows: { read: 18, inserted: 2, updated: 4, ended: 14, unchanged: 6, quarantined: 2, duplicates: 4 },
      requests: 3,
      reports_submitted: 2,
      quota_used: 10,
      bytes: 300,
    })
    await sql`update etl.run_units set outcome = 'unchanged' where run_id = ${run} and outcome = 'loaded'`.execute(k())
    expect((await runSummary(k(), run)).units).toMatchObject({ loaded: 0, unchanged: 2 })
  })
})

describe('requests', () => {
  test('none is nothing; each is kept whole', async () => {
    const unitId = await planned(db, run, `q-${run}`)
    await recordRequests(k(), [])
    await recordRequests(k(), [request(unitId, run, 1), { ...request(unitId, run, 2), part: null as unknown as number }])
    const { rows } = await db.database.pool.query('select * from etl.requests where run_id = $1 order by request_id', [run])
    expect(rows).toMatchObject([
      {
        unit_id: String(unitId),
        edition: 2,
        account: 'a',
        method: 'GET',
        endpoint: '/k',
        parameters: { a: ['ü', 1] },
        part: 1,
        attempt: 3,
        status: 503,
        error_code: 'SERVICE_ERROR',
        bytes: '100',
        sha256: 'abc',
        started_at: '2026-01-01T00:00:00.123Z',
        milliseconds: 1.5,
      },
      { part: null },
    ])
  })
})
