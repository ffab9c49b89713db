// One row an account for all machines: several processes, clocks that disagree, refusals that all heed; and a service in trouble is on record.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { createRateBudget } from '../../src/extract/rate.ts'
import { createAccountPace, endTrouble, noteTrouble } from '../../src/ledger/account-pace.ts'
import { accountStates } from '../../src/web/reads/read-pace.ts'
import type { Tables } from '../../src/db/tables.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase({ each: true })
const never = new AbortController().signal
const refusal = { leftMsAgo: 5, succeededMsAgo: 1, perSecond: null, configured: 200 }
const k = () => db.database.kysely
const row = (account = 'api/default') => createAccountPace(k(), account)

interface Given {
  readonly requestsPerSecond: number
  readonly count: number
  readonly clockAheadMs: number
}

const script = join(import.meta.dirname, '..', 'support', 'departures-process.ts')

const departuresOf = (given: Given): Promise<number[]> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, '--given', JSON.stringify({ ...given, url: db.url })], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdout.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
    })
    child.on('close', (code) => (code === 0 ? resolve(JSON.parse(printed)) : reject(new Error(`exit code ${code}`))))
  })

const busiestSecond = (times: readonly number[]): number =>
  Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 1_000).length))

/** A departure is noted a moment after it was granted: that much a second may seem too full. */
const noted = 1

describe('a budget that processes share', () => {
  test.each([
    { requestsPerSecond: 20, count: 14 },
    { requestsPerSecond: 200, count: 120 },
  ])('lets no sliding second see more than $requestsPerSecond, however far their clocks disagree', async (given) => {
    const clocks = [0, 3_600_000, -3_600_000, 700]
    const all = await Promise.all(clocks.map((clockAheadMs) => departuresOf({ ...given, clockAheadMs })))
    const times = all.flat().sort((left, right) => left - right)
    expect(times).toHaveLength(given.count * clocks.length)
    expect(busiestSecond(times)).toBeLessThanOrEqual(given.requestsPerSecond + noted)
    // Nobody is starved by a neighbour whose clock is ahead.
    const last = all.map((own) => own.at(-1) ?? 0)
    expect(Math.max(...last) - (times[0] ?? 0)).toBeLessThan(30_000)
  })

  test('is paused for all by what one was told, and a shorter pause changes nothing', async () => {
    const [told, other] = [1, 2].map(() => createRateBudget({ requestsPerSecond: 20, clock: systemClock, account: row() }))
    await told?.take(never, 'run')
    await other?.take(never, 'run')
    const until = Date.now() + 1_200
    await row().refused(refusal, 1_200)
    await row().refused(refusal, 100)
    await other?.take(never, 'run')
    expect(Date.now()).toBeGreaterThanOrEqual(until - 20)
  })

  test('keeps two processes to half of what they had, though only one was refused', async () => {
    const budget = () => createRateBudget({ requestsPerSecond: 40, clock: systemClock, account: row() })
    const [one, two] = [budget(), budget()]
    for (let request = 0; request < 10; request += 1) (await one.take(never, 'run'))(request === 9 ? 1_000 : null)
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    const began = performance.now()
    for (let request = 0; request < 20; request += 1) (await two.take(never, 'run'))(null)
    expect(performance.now() - began).toBeGreaterThan(700)
  })

  test('is counted in the time of the server, whatever the clock of a process says', async () => {
    const truth = Date.now
    for (const aheadMs of [0, 3_600_000, -3_600_000]) {
      const clock = vi.spyOn(Date, 'now').mockImplementation(() => truth() + aheadMs)
      try {
        expect(Math.abs((await row(`ahead by ${aheadMs}`).reserve(30_000)).waitMs)).toBeLessThan(11)
      } finally {
        clock.mockRestore()
      }
    }
    const rows = await db.query<{ left: number }>(
      'select extract(epoch from next_at - clock_timestamp())::float8 as left from etl.pace',
    )
    expect(rows.map(({ left }) => Math.ceil(left / 15))).toEqual([2, 2, 2])
  })

  test('a clock of the database that was ahead and is right again keeps nobody waiting: moments keep their distance', async () => {
    await row().reserve(200_000)
    // As if it had been written an hour ahead.
    await db.database.pool.query(`update etl.pace set next_at = next_at + interval '1 h', noted_at = noted_at + interval '1 h'`)
    const { waitMs } = await row().reserve(1)
    expect(waitMs).toBeGreaterThan(190_000)
    expect(waitMs).toBeLessThanOrEqual(200_000)
  })

  test('accounts do not wait for each other', async () => {
    await row().reserve(60_000)
    expect((await row().reserve(100)).waitMs).toBeGreaterThan(50_000)
    expect((await row('api/second').reserve(100)).waitMs).toBeLessThanOrEqual(0)
  })
})

describe('the pace of an account', () => {
  const learnt = async (account?: string) => (await row(account).reserve(0)).learnt

  test('is as configured until it is refused, and halved for everybody from then on', async () => {
    expect(await learnt()).toBeNull()
    expect(await row().refused(refusal, 0)).toMatchObject({ base: 100, ceiling: null })
    expect(await learnt()).toMatchObject({ base: 100, ceiling: null })
    expect(await learnt('api/other')).toBeNull()
  })

  test('is halved once by answers to requests that left together, whichever process got them', async () => {
    await row().reserve(0)
    await Promise.all(Array.from({ length: 6 }, () => row().refused({ ...refusal, leftMsAgo: 5_000 }, 0)))
    expect(await learnt()).toMatchObject({ base: 100 })
    await db.database.pool.query(
      `update etl.pace set changed_at = changed_at - interval '20 s', refused_at = refused_at - interval '20 s'`,
    )
    // The second within two minutes says where the limit lies.
    expect((await row().refused(refusal, 0)).base).toBeCloseTo(100, 0)
    expect((await learnt())?.ceiling).toBeCloseTo(170, 0)
  })
})

test('a database that is away or wrong says so before anything leaves: a submission that was promised is known as not sent', async () => {
  const away = new pg.Pool({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: away }) })
  try {
    const account = createAccountPace(kysely, 'api/default')
    const unreachable = { code: 'DATABASE_UNREACHABLE' }
    const counted = createRateBudget({ requestsPerSecond: 40, clock: systemClock, account })
    await expect(counted.take(never, 'run')).rejects.toMatchObject(unreachable)
    // Nobody waits for what the other machines are told; that it failed is thrown to the next that asks.
    await expect(account.refused(refusal, 100)).rejects.toMatchObject(unreachable)
  } finally {
    await kysely.destroy()
  }
  await db.database.pool.query('alter table etl.pace rename to elsewhere')
  await expect(row().reserve(1)).rejects.toMatchObject({
    code: 'DATABASE',
    message: expect.stringMatching(/^The warehouse cannot read the shared request rate: .*pace/),
  })
})

describe('a trouble', () => {
  const trouble = { place: 'the account', code: 'RATE_LIMITED', message: 'It answers 429.', sinceMsAgo: 4_000 }

  test('is on record while it is tried, and gone when it is over or nobody tries any more', async () => {
    await noteTrouble(k(), 'api/default', trouble)
    const [state] = await accountStates(k())
    expect(state).toMatchObject({ account: 'api/default', requestsPerSecond: null, trouble: { code: 'RATE_LIMITED' } })
    expect(Date.now() - Date.parse(state?.trouble?.since ?? '')).toBeGreaterThan(3_000)
    await endTrouble(k(), 'api/default', '/another/path')
    expect((await accountStates(k()))[0]?.trouble).not.toBeNull()
    await db.database.pool.query(`update etl.pace set trouble_seen_at = trouble_seen_at - interval '3 minutes'`)
    expect((await accountStates(k()))[0]?.trouble).toBeNull()
    await noteTrouble(k(), 'api/default', trouble)
    await endTrouble(k(), 'api/default', 'the account')
    // An account that was never refused and is well has nothing to say.
    expect(await accountStates(k())).toEqual([])
  })
})
