// An intent whose submission certainly did not leave is taken back, also where the database was away at that moment: it must not wait for a person.
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { EtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import type { ClaimedJob } from '../../src/ledger/claim.ts'
import { reportMemo } from '../../src/ledger/report-memo.ts'
import { readIdentity } from '../../src/ledger/warehouse.ts'
import { settleIdentity } from '../../src/run/identity.ts'
import { withReceipts } from '../../src/run/leave-receipts.ts'
import { generalReport } from '../../src/sources/web-analytics/batch-reports.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { newJob, newPipeline, newProcess, newRun, type ProcessKit, takeOne } from '../support/ledger.ts'
import { jobRow } from '../support/ledger-answers.ts'
import { type MemoryLanding, memoryLanding } from '../support/memory-landing.ts'
import { testDatabase } from '../support/postgres.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'

const intent = { endpoint: '/batch', request: { domains: ['a.com'] }, requestHash: 'h1', estimatedQuota: 7 }
const noBudget = { perMonth: null, perDay: null }

const db = testDatabase()
let proxy: TcpProxy
let database: Database
let claim: ClaimedJob
let another: () => Promise<ClaimedJob>
let landing: MemoryLanding
let stop: AbortController

let own: ProcessKit
beforeEach(async () => {
  proxy = await startTcpProxy(db.url)
  database = await openDatabase({ databaseUrl: secret('test database', proxy.url), home: '/nowhere' })
  own = await newProcess(db)
  const runId = await newRun(db, own.processId)
  const pipeline = await newPipeline(db)
  another = async () => takeOne(db, own, runId, pipeline, await newJob(db, pipeline, { runs: [runId], set: { kind: 'report' } }))
  claim = await another()
  landing = memoryLanding()
  stop = new AbortController()
})
afterEach(async () => {
  await database.close()
  await proxy.close()
})

const memoHere = async (of = claim, warehouse = { id: 'w', epoch: 1 }) =>
  withReceipts(
    reportMemo(database.kysely, of, {
      ...{
        account: of.account,
        pipeline: of.pipeline,
        source: 'web-analytics.report',
        runId: of.runId,
        process: own,
        deadlineMs: 60_000,
        requestsPerSecond: 10,
      },
      ...{ budget: noBudget, accountBudget: noBudget, tagBudgets: [] },
    }),
    {
      ...{ claim: of, definition: await shippedDefinition('traffic_and_engagement'), source: generalReport, signal: stop.signal },
      runtime: { database, landing, warehouse, log: silentLog, clock: systemClock },
    },
  )

const receipts = async (id = 'w'): Promise<string[]> =>
  (await Array.fromAsync(landing.notes.list(`_warehouses/${id}`))).map(({ path }) => path)

/** Nothing of the database is to be had until the promise it returns is called. */
const takeAway = async (): Promise<() => Promise<void>> => {
  const allow = async (allowed: boolean): Promise<void> => {
    const admin = new pg.Client({ connectionString: inject('postgresUrl') })
    await admin.connect()
    await admin.query(`alter database ${new URL(db.url).pathname.slice(1)} with allow_connections ${allowed}`)
    await admin.end()
  }
  await allow(false)
  proxy.cut()
  return () => allow(true)
}

describe('an id that was paid for', () => {
  test('is noted beside the landings while somebody’s lock keeps it from its row, and put on record once that is gone', async () => {
    const memo = await memoHere()
    await memo.intend(intent)
    const operator = await db.database.pool.connect()
    await operator.query('begin; lock table etl.jobs in access exclusive mode')
    const recorded = memo.submitted('r-1', null)
    await expect.poll(() => receipts(), { timeout: 20_000 }).toHaveLength(2)
    const path = (await receipts()).find((name) => !name.endsWith('.intent.json')) ?? ''
    expect(JSON.parse((await landing.notes.read(path)) ?? '')).toMatchObject({ report_id: 'r-1', request: intent.request })
    await operator.query('rollback')
    operator.release()
    expect(await recorded).toBeNull()
    expect(await jobRow(db, claim.jobId)).toMatchObject({ report_state: 'submitted', report_id: 'r-1' })
    expect(await receipts()).toHaveLength(2)
  })

  test('of another job’s request is noted for that one alone: a restored ledger would give the report to whichever receipt it reads first', async () => {
    const first = await memoHere()
    await first.intend(intent)
    expect(await first.submitted('r-both', null)).toBeNull()
    const second = await memoHere(await another())
    await second.intend({ ...intent, requestHash: 'h2' })
    expect(await second.submitted('r-both', null)).toMatchObject({ waitMs: null })
    const bought = (await receipts()).filter((name) => !name.endsWith('.intent.json'))
    expect(bought).toHaveLength(1)
    expect(JSON.parse((await landing.notes.read(bought[0] ?? '')) ?? '')).toMatchObject({ job_id: String(claim.jobId) })
    // Its own intent stays: what became of it nobody knows.
    expect(await receipts()).toHaveLength(3)
  })

  test('and noted beside the landings alone is put on record by the next start, however much was asked for since', async () => {
    const warehouse = await readIdentity(db.database.kysely)
    const memo = await memoHere(claim, warehouse)
    await memo.intend(intent)
    const giveBack = await takeAway()
    await expect(memo.submitted('r-noted', null)).rejects.toThrow()
    await giveBack()
    // Pages of other pipelines draw numbers, too, and another report is bought behind them.
    await db.database.pool.query(`select setval('etl.ask_numbers', (select last_value + 5000 from etl.ask_numbers))`)
    const later = await memoHere(await another(), warehouse)
    await later.intend(intent)
    await later.submitted('r-later', null)
    expect(await settleIdentity({ database: db.database, landing })).toMatchObject({ warning: null, adopted: { purchases: 1 } })
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'open', report_state: 'submitted', report_id: 'r-noted' })
  })

  test('and was another purchase’s before is let go with its receipt, of which nothing is left that the ledger does not know', async () => {
    const warehouse = await readIdentity(db.database.kysely)
    const first = await memoHere(claim, warehouse)
    await first.intend(intent)
    await first.submitted('r-again', null)
    const again = await another()
    const second = await memoHere(again, warehouse)
    await second.intend(intent)
    const { remove } = landing.notes
    Object.assign(landing.notes, { remove: async () => Promise.reject(new Error('the bucket is away')) })
    await expect(second.submitted('r-again', null)).rejects.toThrow('the bucket is away')
    // Else the next start would take its receipt for that of a newer ledger.
    expect(await settleIdentity({ database: db.database, landing })).toMatchObject({ warning: null })
    expect(await jobRow(db, again.jobId)).toMatchObject({ report_state: 'intent', report_id: null })
    Object.assign(landing.notes, { remove })
    expect(await second.submitted('r-again', null)).toMatchObject({ message: expect.stringContaining('waits for') })
    expect(await receipts(warehouse.id)).toHaveLength(2)
    expect(await settleIdentity({ database: db.database, landing })).toMatchObject({ warning: null })
  })
})

describe('an intent that was not sent', () => {
  test('because the answer to its commit was lost, is taken back', async () => {
    const memo = await memoHere()
    proxy.loseCommit((statements) => statements.includes('ask_numbers'))
    await expect(memo.intend(intent)).rejects.toThrow()
    expect(proxy.lostCommits()).toBe(1)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'open', report_state: null, ask_number: null })
    expect(await receipts()).toEqual([])
    // And it is asked for as if nothing had been.
    await memo.intend(intent)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ report_state: 'intent' })
    expect(await receipts()).toHaveLength(1)
  })

  test('because its receipt could not be written, is taken back as soon as the database is there again', async () => {
    const memo = await memoHere()
    const { write } = landing.notes
    Object.assign(landing.notes, {
      write: async () => {
        const giveBack = await takeAway()
        setTimeout(() => void giveBack(), 700)
        Object.assign(landing.notes, { write })
        throw new Error('no space left')
      },
    })
    await expect(memo.intend(intent)).rejects.toThrow('no space left')
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'open', report_state: null, ask_number: null })
  })

  test('because the bucket refuses its receipt, is taken back though the bucket refuses to remove it, too', async () => {
    const refused = async () => Promise.reject(new EtlError('LANDING_REFUSED', 'the session has ended'))
    Object.assign(landing.notes, { write: refused, remove: refused })
    const memo = await memoHere()
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'LANDING_REFUSED' })
    expect(await memo.current()).toBeNull()
    expect(await jobRow(db, claim.jobId)).toMatchObject({ report_state: null, ask_number: null })
  })

  test('because the bucket refuses its receipt, leaves none of which no answer came at the first try', async () => {
    const { write } = landing.notes
    const lost = async (path: string, text: string) => {
      await write(path, text)
      throw new EtlError('LANDING_REFUSED', 'the bucket is full')
    }
    Object.assign(landing.notes, { write: lost })
    const memo = await memoHere()
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'LANDING_REFUSED' })
    expect([await memo.current(), await receipts()]).toEqual([null, []])
  })

  test('is left, for whoever finds it to judge, by a process that is to stop and whose database stays away', async () => {
    const memo = await memoHere()
    const held: (() => Promise<void>)[] = []
    Object.assign(landing.notes, {
      write: async () => {
        held.push(await takeAway())
        stop.abort(new Error('stopped'))
        throw new Error('no space left')
      },
    })
    const started = performance.now()
    await expect(memo.intend(intent)).rejects.toThrow('no space left')
    expect(performance.now() - started).toBeLessThan(8_000)
    await held[0]?.()
    expect(await jobRow(db, claim.jobId)).toMatchObject({ report_state: 'intent' })
  })

  test('is taken back by the server where somebody’s lock keeps a process that is to stop from waiting for it', async () => {
    const memo = await memoHere()
    const operator = await db.database.pool.connect()
    Object.assign(landing.notes, {
      write: async () => {
        await operator.query('begin; lock table etl.jobs in access exclusive mode')
        stop.abort(new Error('stopped'))
        throw new Error('no space left')
      },
    })
    await expect(memo.intend(intent)).rejects.toThrow('no space left')
    // The process has ended meanwhile, and its connections with it.
    proxy.cut()
    await operator.query('rollback')
    operator.release()
    await expect.poll(async () => (await jobRow(db, claim.jobId)).report_state, { timeout: 20_000 }).toBeNull()
  })

  test('is not taken back where another process has the job by now', async () => {
    const memo = await memoHere()
    Object.assign(landing.notes, {
      write: async () => {
        await db.database.pool.query('update etl.jobs set fence = fence + 1 where job_id = $1', [claim.jobId])
        throw new Error('no space left')
      },
    })
    await expect(memo.intend(intent)).rejects.toThrow('no space left')
    expect(await jobRow(db, claim.jobId)).toMatchObject({ report_state: 'intent' })
  })
})
