// One budget for all machines: several processes, clocks that disagree, pauses that all keep.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { createRateWindows } from '../../src/ledger/rate-windows.ts'
import { createRateBudget } from '../../src/extract/rate.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
})
afterEach(() => db.drop())

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
    const windows = [1, 2].map(() => createRateWindows(db.database.pool, 'default'))
    const [told, other] = windows.map((shared) => createRateBudget({ requestsPerSecond: 20, clock: systemClock, shared }))
    const never = new AbortController().signal
    await told?.take(never, 'run')
    const until = Date.now() + 1_200
    await windows[0]?.pause(1_200)
    await windows[0]?.pause(100)
    await other?.take(never, 'run')
    expect(Date.now()).toBeGreaterThanOrEqual(until - 20)
  })

  test('stands still for all by as long as one owes, also when its window is over', async () => {
    const [told, other] = [1, 2].map(() => createRateWindows(db.database.pool, 'default'))
    expect(await told?.take(1, 1, 10_000)).toMatchObject({ granted: true })
    await told?.extend(50_000)
    const { granted, nextMs = 0 } = (await other?.take(1, 1, 100)) ?? {}
    expect(granted).toBe(false)
    expect(nextMs).toBeGreaterThan(20_000)
    await db.database.pool.query('update etl.rate_windows set expire = 0')
    await other?.extend(60_000)
    expect((await told?.take(1, 1, 100))?.granted).toBe(false)
  })

  test('has its windows end in the time of the server, however long ago a process began and whatever its clock says', async () => {
    const truth = Date.now
    for (const aheadMs of [0, 3_600_000, -3_600_000]) {
      const clock = vi.spyOn(Date, 'now').mockImplementation(() => truth() + aheadMs)
      try {
        const windows = createRateWindows(db.database.pool, `ahead by ${aheadMs}`)
        expect(await windows.take(1, 1, 30_000)).toMatchObject({ granted: true })
      } finally {
        clock.mockRestore()
      }
    }
    const { rows } = await db.database.pool.query<{ left: number }>(
      'select (expire - extract(epoch from clock_timestamp()) * 1000)::float8 as left from etl.rate_windows',
    )
    const ends = rows.map(({ left }) => left)
    expect(ends).toHaveLength(3)
    expect(Math.max(...ends)).toBeLessThanOrEqual(31_000)
    expect(Math.min(...ends)).toBeGreaterThan(15_000)
  })

  test('a clock of the database that was ahead and is right again keeps nobody waiting: windows and pauses have their own length', async () => {
    const windows = createRateWindows(db.database.pool, 'default')
    const { pool } = db.database
    // As if they had been written an hour ahead.
    const ahead = () => pool.query('update etl.rate_windows set expire = expire + 3600000')
    const granted = async (): Promise<boolean> => {
      for (let asked = 0; asked < 3; asked += 1) if ((await windows.take(1, 1, 100)).granted) return true
      return false
    }
    expect(await granted()).toBe(true)
    await ahead()
    expect(await granted()).toBe(true)
    await windows.pause(200_000)
    expect(await granted()).toBe(false)
    await ahead()
    expect(await granted()).toBe(true)
    // A pause that is shorter than the one of the wrong time is one all the same.
    await windows.pause(100_000)
    expect(await granted()).toBe(false)
    await ahead()
    await windows.extend(50_000)
    expect((await windows.take(1, 1, 100)).nextMs).toBeLessThanOrEqual(60_000)
  })

  test('a database that is away is said in words of ours, so that the sender knows it for what it is', async () => {
    const windows = createRateWindows(db.database.pool, 'default')
    await db.database.pool.query('alter table etl.rate_windows rename to elsewhere')
    await expect(windows.take(1, 1, 100)).rejects.toMatchObject({
      code: 'DATABASE',
      message: expect.stringMatching(/^The warehouse cannot count requests: .*rate_windows/),
    })
  })

  test('accounts do not wait for each other', async () => {
    const [one, two] = ['default', 'second'].map((account) => createRateWindows(db.database.pool, account))
    await one?.pause(60_000)
    expect(await one?.take(1, 1, 100)).toMatchObject({ granted: false })
    expect(await two?.take(1, 1, 100)).toMatchObject({ granted: true })
  })
})
