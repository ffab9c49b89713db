// The queue on a real PostgreSQL: what a transaction takes back, who may hold a unit, and who gets it when its holder dies.
import { spawnSync } from 'node:child_process'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { type Queue, startQueue, type UnitJob } from '../../src/pipeline/queue.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let queue: Queue
const opened: { close(): Promise<void> }[] = []

beforeEach(async () => {
  db = await createTestDatabase()
  queue = await startQueue(db.database, silentLog)
})
afterEach(async () => {
  await queue.stop()
  for (const one of opened.splice(0)) await one.close()
  await db.drop()
})

const job = (unitId: number, runId = 1, priority = 0) => ({ unitId, runId, priority })

const enqueue = (...jobs: Parameters<Queue['enqueue']>[1]): Promise<void> => inTransaction((trx) => queue.enqueue(trx, jobs))

const inTransaction = <T>(work: (trx: Database['kysely']) => Promise<T>): Promise<T> =>
  db.database.kysely.transaction().execute(work)

const rolledBack = async (work: (trx: Database['kysely']) => Promise<void>): Promise<void> => {
  const undo = new Error('undo')
  const attempt = inTransaction(async (trx) => {
    await work(trx)
    throw undo
  })
  await expect(attempt).rejects.toBe(undo)
}

const states = async (): Promise<Record<string, number>> => {
  const { rows } = await db.database.pool.query<{ state: string; count: number }>(
    `select state::text, count(*)::int as count from pgboss.job where name = 'units' group by state`,
  )
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

const unitIds = (jobs: readonly UnitJob[]): number[] => jobs.map(({ unitId }) => unitId)

const fetchOne = async (): Promise<UnitJob> => {
  const [one] = await queue.fetch(1)
  if (one === undefined) throw new Error('nothing to fetch')
  return one
}

const until = async (what: () => Promise<boolean>, withinMs: number): Promise<number> => {
  const started = Date.now()
  while (!(await what())) {
    if (Date.now() - started > withinMs) throw new Error(`not within ${withinMs} ms`)
    await sleep(50)
  }
  return Date.now() - started
}

describe('enqueue', () => {
  test('what a rolled back transaction queued is not there', async () => {
    await rolledBack((trx) => queue.enqueue(trx, [job(1), job(2)]))
    expect(await queue.fetch(8)).toEqual([])
    expect(await states()).toEqual({})
  })

  test('a unit is handed out once, the highest priority first', async () => {
    await enqueue(job(1, 7, 1), job(2, 7, 3), job(3, 7, 2))
    // Which are taken goes by priority; their order within one batch does not.
    expect(new Set(unitIds(await queue.fetch(2)))).toEqual(new Set([2, 3]))
    expect(await queue.fetch(8)).toMatchObject([{ unitId: 1, runId: 7 }])
    expect(await queue.fetch(8)).toEqual([])
  })

  test('a unit that is queued already is queued once, and the later run has it', async () => {
    await enqueue(job(1, 1))
    await enqueue(job(1, 2), job(1, 2))
    expect(await queue.fetch(8)).toMatchObject([{ unitId: 1, runId: 2 }])
    expect(await states()).toEqual({ active: 1 })
  })

  test('a unit at work is left as it is, and can be queued once it is finished', async () => {
    await enqueue(job(1, 1))
    const first = await fetchOne()
    await enqueue(job(1, 2))
    expect(await queue.fetch(8)).toEqual([])
    await queue.finish(db.database.kysely, first)
    await enqueue(job(1, 3))
    expect(await queue.fetch(8)).toMatchObject([{ unitId: 1, runId: 3 }])
  })

  test('nothing to queue is nothing done', async () => {
    await enqueue()
    expect(await states()).toEqual({})
  })
})

describe('settling', () => {
  test('a finish or an again that is rolled back leaves the job with its holder', async () => {
    await enqueue(job(1))
    const held = await fetchOne()
    await rolledBack((trx) => queue.finish(trx, held))
    await rolledBack((trx) => queue.again(trx, held, Date.now()))
    expect(await states()).toEqual({ active: 1 })
    await inTransaction((trx) => queue.finish(trx, held))
    expect(await states()).toEqual({})
  })

  test('again hands the unit out not before its time, and nobody can queue it beside', async () => {
    await enqueue(job(1))
    const held = await fetchOne()
    await inTransaction((trx) => queue.again(trx, held, Date.now() + 1_500))
    await enqueue(job(1))
    expect(await queue.fetch(8)).toEqual([])
    expect(await states()).toEqual({ retry: 1 })
    let came: UnitJob[] = []
    const waited = await until(async () => {
      came = await queue.fetch(8)
      return came.length > 0
    }, 5_000)
    expect(waited).toBeGreaterThan(1_000)
    expect(came).toMatchObject([{ unitId: 1, runId: 1 }])
    expect(came[0]?.attempt).toBeGreaterThan(held.attempt)
  })

  test('what is given back is handed out again at once, in its place; a stale holder gives nothing back', async () => {
    await enqueue(job(1, 1, 2), job(2, 1, 1))
    const [first, second] = await queue.fetch(2)
    if (first === undefined || second === undefined) throw new Error('nothing to fetch')
    await queue.giveBack([first])
    expect(await states()).toEqual({ retry: 1, active: 1 })
    expect(await queue.beat([first, second])).toEqual([first])
    const again = await fetchOne()
    expect(again.unitId).toBe(first.unitId)
    await queue.giveBack([first])
    expect(await states()).toEqual({ active: 2 })
  })

  test('a holder that missed its heartbeat still puts its unit off, and still finishes it', async () => {
    await enqueue(job(1), job(2))
    const [first, second] = await queue.fetch(2)
    if (first === undefined || second === undefined) throw new Error('two were queued')
    await silentFor(11)
    await until(async () => (await states())['retry'] === 2, 10_000)
    await inTransaction((trx) => queue.again(trx, first, Date.now() + 60_000))
    await inTransaction((trx) => queue.finish(trx, second))
    expect(await queue.fetch(8)).toEqual([])
    expect(await states()).toEqual({ retry: 1 })
  })

  test('cancelling a run takes what waits, not what is at work nor what is of another run', async () => {
    await enqueue(job(1, 1, 9), job(2, 1), job(3, 2))
    const held = await fetchOne()
    await queue.cancelRun(1)
    expect(unitIds(await queue.fetch(8))).toEqual([3])
    await queue.finish(db.database.kysely, held)
    expect(await states()).toEqual({ active: 1 })
  })

  test('cancelling a run leaves a job that is being taken in the same moment', async () => {
    await enqueue(job(1))
    const cancelled = await inTransaction(async (trx) => {
      await sql`update pgboss.job set state = 'active', heartbeat_on = now()`.execute(trx)
      const done = queue.cancelRun(1)
      await sleep(300)
      return { done }
    })
    await cancelled.done
    expect(await states()).toEqual({ active: 1 })
  })
})

/** As if the holders had been silent so long; they may be for 10 seconds. */
const silentFor = async (seconds: number): Promise<void> => {
  await db.database.pool.query(`update pgboss.job set heartbeat_on = now() - $1 * interval '1 second' where state = 'active'`, [
    seconds,
  ])
}

describe('a holder that falls silent', () => {
  test('loses its unit within seconds, again and again', async () => {
    await enqueue(job(1))
    for (let time = 0; time < 2; time += 1) {
      const held = await fetchOne()
      expect(held.unitId).toBe(1)
      await silentFor(11)
      await until(async () => (await states())['retry'] === 1, 5_000)
    }
  })

  test('keeps its unit while it beats', async () => {
    await enqueue(job(1))
    const held = await fetchOne()
    await silentFor(8)
    await queue.beat([held])
    await sleep(5_000)
    expect(await states()).toEqual({ active: 1 })
  })

  test('and comes back before anyone took its unit keeps it', async () => {
    await enqueue(job(1))
    const held = await fetchOne()
    await silentFor(11)
    await until(async () => (await states())['retry'] === 1, 5_000)
    expect(await queue.beat([held])).toEqual([])
    expect(await states()).toEqual({ active: 1 })
    expect(await queue.fetch(1)).toEqual([])
  })
})

describe('a stale holder, whose unit another one was handed since', () => {
  let stale: UnitJob
  let fresh: UnitJob
  const row = async (): Promise<unknown> =>
    (await db.database.pool.query('select state, retry_count, heartbeat_on, start_after from pgboss.job')).rows

  beforeEach(async () => {
    await enqueue(job(1))
    stale = await fetchOne()
    await db.database.pool.query(`update pgboss.job set state = 'retry'`)
    fresh = await fetchOne()
    expect(fresh).toMatchObject({ id: stale.id, unitId: 1 })
  })

  test.each([
    ['finish', (one: UnitJob) => inTransaction((trx) => queue.finish(trx, one))],
    ['put off', (one: UnitJob) => inTransaction((trx) => queue.again(trx, one, Date.now() + 60_000))],
    ['keep alive', async (one: UnitJob) => expect(await queue.beat([one])).toEqual([one])],
  ])("cannot %s the new holder's job", async (_, act) => {
    const before = await row()
    await act(stale)
    expect(await row()).toEqual(before)
    expect(await queue.beat([fresh])).toEqual([])
    await queue.finish(db.database.kysely, fresh)
    expect(await states()).toEqual({})
  })

  test('does not hold it, the new one does', async () => {
    const holds = async (one: UnitJob): Promise<boolean | undefined> =>
      (await sql<{ held: boolean }>`select ${queue.holds(one)} as held`.execute(db.database.kysely)).rows[0]?.held
    expect(await holds(stale)).toBe(false)
    expect(await holds(fresh)).toBe(true)
  })

  test('is told which of its jobs are lost', async () => {
    await enqueue(job(2))
    const other = await fetchOne()
    expect(await queue.beat([stale, other])).toEqual([stale])
  })
})

test('a job that was put off comes after fresh ones, and not after all of them', async () => {
  await enqueue(job(1, 1, 4), job(2, 1, 3), job(3, 1, 1))
  const held = await fetchOne()
  await inTransaction((trx) => queue.again(trx, held, Date.now() - 1))
  const order: number[] = []
  for (let next = await queue.fetch(1); next.length > 0; next = await queue.fetch(1)) order.push(...unitIds(next))
  expect(order).toEqual([2, 1, 3])
})

test('a job that was put off is not taken back by a heartbeat that was on its way', async () => {
  await enqueue(job(1))
  const held = await fetchOne()
  await inTransaction((trx) => queue.again(trx, held, Date.now() + 60_000))
  expect(await queue.beat([held])).toEqual([held])
  expect(await states()).toEqual({ retry: 1 })
})

/** The name of a process of this host that has ended. */
const deadOwner = (): string => `${hostname()}:${spawnSync('true').pid}`.slice(-50)
const elsewhere = 'some-other-host:4711'

const claimedBy = async (owner: string): Promise<number> => {
  const { rows } = await db.database.pool.query<{ unit_id: string }>(
    `insert into etl.units (unit_key, pipeline, version, window_from, window_to, slice, state, lease_owner)
      values ($1, 'traffic', 1, '2026-01-01', '2026-02-01', '{}', 'running', $2) returning unit_id`,
    [`unit of ${owner} ${Math.random()}`, owner],
  )
  return Number(rows[0]?.unit_id)
}

describe('start', () => {
  const startAgain = async (): Promise<void> => {
    const second = await startQueue(db.database, silentLog)
    opened.push({ close: () => second.stop() })
  }

  test('what a dead process of this host held comes back at once, and nothing that a living one holds', async () => {
    const applicationName = `millrace ${elsewhere}`
    opened.push(await openDatabase({ databaseUrl: secret('test database', db.url), home: '/nowhere', applicationName }))
    const ofDead = await claimedBy(deadOwner())
    const ofElsewhere = await claimedBy(elsewhere)
    const ofLiving = await claimedBy(`${hostname()}:${process.ppid}`.slice(-50))
    await enqueue(job(ofDead), job(ofElsewhere), job(ofLiving), job(999_999))
    expect(await queue.fetch(8)).toHaveLength(4)
    await startAgain()
    expect(unitIds(await queue.fetch(8))).toEqual([ofDead])
    expect(await states()).toEqual({ active: 4 })
  })

  test('what was fetched and not claimed comes back where no other process lives', async () => {
    await enqueue(job(1))
    await fetchOne()
    await startAgain()
    expect(unitIds(await queue.fetch(8))).toEqual([1])
  })

  test('is quick where the schema exists', async () => {
    const times: number[] = []
    for (let time = 0; time < 7; time += 1) {
      const started = performance.now()
      const one = await startQueue(db.database, silentLog)
      times.push(performance.now() - started)
      await one.stop()
    }
    const median = times.sort((a, b) => a - b)[3] ?? Number.NaN
    console.log(`start: median ${median.toFixed(1)} ms, slowest ${times.at(-1)?.toFixed(1)} ms`)
    expect(median).toBeLessThan(1_000)
  })

  /** Another database, dropped after the test. */
  const fresh = async (options: { empty?: boolean } = {}): Promise<TestDatabase> => {
    const made = await createTestDatabase(options)
    opened.push({ close: () => made.drop() })
    return made
  }

  test('that fails leaves nothing running behind it', async () => {
    const { database } = await fresh({ empty: true })
    await expect(startQueue(database, silentLog)).rejects.toThrow('etl.units')
    const lookedAt = async (): Promise<unknown> =>
      (await database.pool.query('select max(monitor_claim_on)::text as at from pgboss.queue')).rows
    const before = await lookedAt()
    await sleep(2_500)
    expect(await lookedAt()).toEqual(before)
  })

  test('two processes make the schema at the same time', async () => {
    const { database, url } = await fresh()
    const second = await openDatabase({ databaseUrl: secret('test database', url), home: '/nowhere' })
    const queues = await Promise.all([startQueue(database, silentLog), startQueue(second, silentLog)])
    await database.kysely.transaction().execute((trx) => queues[0].enqueue(trx, [job(1)]))
    expect(unitIds(await queues[1].fetch(8))).toEqual([1])
    for (const one of queues) await one.stop()
    await second.close()
  })
})

test('a thousand jobs are queued, handed out by eight and finished in a few milliseconds each', async () => {
  const jobs = Array.from({ length: 1_000 }, (_, index) => job(index + 1, 1, 1_000 - index))
  const started = performance.now()
  await enqueue(...jobs)
  const enqueued = performance.now() - started
  const seen = new Set<number>()
  for (let taken = await queue.fetch(8); taken.length > 0; taken = await queue.fetch(8)) {
    for (const one of taken) seen.add(one.unitId)
    await Promise.all(taken.map((one) => inTransaction((trx) => queue.finish(trx, one))))
  }
  const each = (performance.now() - started) / jobs.length
  console.log(`1,000 jobs: queued in ${enqueued.toFixed(0)} ms, ${each.toFixed(2)} ms a job in all`)
  expect(seen.size).toBe(1_000)
  // 1 ms on a machine with nothing else to do; a plan that reads the whole queue for each job is far above.
  expect(each).toBeLessThan(50)
})
