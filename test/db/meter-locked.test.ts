// The questions about an account's credits beside others: under somebody's lock they end with the command that is told to stop; two at once count once.
import { expect, test } from 'vitest'
import { keepReading } from '../../src/ledger/spent.ts'
import { registerPipeline } from '../../src/ledger/pipelines.ts'
import { readBalances } from '../../src/run/read-balance.ts'
import { definitionFor, runtimeFor, sourceOf } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

test('questions about credits end with the command although the ledger is locked', async () => {
  const source = { ...sourceOf({ kind: 'walk' as const }), balance: async () => ({ requests: 1, credits: null }) }
  const definition = definitionFor(source, { domains: ['a.example'] })
  await db.database.kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  const runtime = runtimeFor(db, { definition, source }) as unknown as Parameters<typeof readBalances>[0]
  const locker = await db.database.pool.connect()
  try {
    await locker.query('begin')
    await locker.query('lock table etl.jobs, etl.meter_readings in access exclusive mode')
    for (const when of ['before', 'after'] as const) {
      const stop = new AbortController()
      let isOver = false
      const asked = readBalances(runtime, [definition], stop.signal, when).then(() => {
        isOver = true
      })
      await waitsForLock()
      expect(isOver).toBe(false)
      stop.abort(new Error('told to stop'))
      await asked
    }
  } finally {
    await locker.query('rollback')
    locker.release()
  }
})

test('two processes that read at once count once what the service charged', async () => {
  const { kysely } = db.database
  const of = { api: 'some-api', account: 'twice', pipeline: 'none' }
  const counted = { requests: 0, reports: 0, isQuiet: true }
  const read = (credits: number) => keepReading(kysely, of, { requests: null, credits }, counted)
  expect(await read(100)).toBe(null)
  const all = await Promise.all([90, 90, 90, 90].map(read))
  expect(all.toSorted()).toEqual([0, 0, 0, 10])
})

test.each([
  ['its reports alone', 940, 0],
  ['requests too, from one purse', 440, 0],
  ['requests too, and something else', 430, 10],
  ['reports, and something else', 930, 10],
])('a service that tells one balance for all, as V5 does, took %s', async (what, left, difference) => {
  const { kysely } = db.database
  const of = { api: 'some-api', account: what, pipeline: 'none' }
  const read = (credits: number, requests: number, reports: number) =>
    keepReading(kysely, of, { requests: null, credits }, { requests, reports, isQuiet: true })
  expect(await read(1_000, 0, 0)).toBe(null)
  expect(await read(left, 500, 60)).toBe(difference)
})

test('a purse of requests that was refilled does not make it one with that of reports', async () => {
  const { kysely } = db.database
  const of = { api: 'some-api', account: 'refilled', pipeline: 'none' }
  const read = (left: { requests: number; credits: number }, requests: number, reports: number) =>
    keepReading(kysely, of, left, { requests, reports, isQuiet: true })
  expect(await read({ requests: 100, credits: 1_000 }, 0, 0)).toBe(null)
  expect(await read({ requests: 10_000, credits: 400 }, 500, 60)).toBe(540)
})

const waitsForLock = () =>
  expect
    .poll(async () => {
      const rows = await db.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      return rows.length
    })
    .toBeGreaterThan(0)
