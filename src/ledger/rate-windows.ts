// The windows in which every machine that loads into this warehouse counts its requests with the same key.
import type { RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible'
import { systemClock } from '../core/clock.ts'
import type { DatabasePool } from '../db/connect.ts'
import { databaseError } from '../db/database-error.ts'

/** One account's count of departures in the warehouse; see SharedWindows in src/extract/rate.ts. */
export interface RateWindows {
  take(points: number, pointsOfWindow: number, windowMs: number): Promise<{ readonly granted: boolean; readonly nextMs: number }>
  pause(ms: number): Promise<void>
  extend(ms: number): Promise<void>
}

const keyPrefix = 'requests'

/** Clocks are compared again after so long: one may have been set meanwhile. */
const clockAgeMs = 60_000

/** Whether the warehouse is set up as far as that. */
export const hasRateWindows = async (pool: DatabasePool): Promise<boolean> => {
  const { rows } = await pool.query<{ found: boolean }>(`select to_regclass('etl.rate_windows') is not null as found`)
  return rows[0]?.found === true
}

/** Windows are much shorter: one that ends later was begun while the database's clock was ahead, and is nobody's. */
const longestWindowMs = 60_000

/** The server's time, in the unit of the table. */
const now = '(extract(epoch from clock_timestamp()) * 1000)::bigint'

/** Windows of one account of one API. Throw what the database throws as an EtlError: whoever asks has sent nothing. @param account its name, unlike that of any other API's */
export const createRateWindows = (pool: DatabasePool, account: string): RateWindows => {
  const storeClient = onServerTime(pool)
  const limiters = new Map<number, Promise<RateLimiterPostgres>>()
  const limiterOf = (points: number): Promise<RateLimiterPostgres> => {
    const limiter = limiters.get(points) ?? createLimiter(storeClient, points)
    limiters.set(points, limiter)
    return limiter
  }
  const own: AccountRows = { pool, window: `${keyPrefix}:${account}`, pause: `pause:${account}` }
  return {
    take: async (points, pointsOfWindow, windowMs) => {
      try {
        const pausedMs = await pauseLeft(own)
        if (pausedMs > 0) return { granted: false, nextMs: pausedMs }
        const limiter = await limiterOf(pointsOfWindow)
        const { remainingPoints, msBeforeNext } = await limiter.consume(account, points, { customDuration: windowMs / 1000 })
        return { granted: true, nextMs: remainingPoints >= points ? 0 : msBeforeNext }
      } catch (refused) {
        if (!isRefusal(refused)) throw databaseError(refused, cannotCount)
        const longest = Math.max(longestWindowMs, 2 * windowMs)
        if (refused.msBeforeNext > longest) await inOurWords(forgetWindow(own, longest))
        return { granted: false, nextMs: Math.max(1, Math.min(refused.msBeforeNext, windowMs)) }
      }
    },
    // What the other machines could not be told is thrown to whoever asks next.
    pause: (ms) => inOurWords(pauseFor(own, ms)),
    extend: (ms) => inOurWords(extendBy(own, ms)),
  }
}

interface AccountRows {
  readonly pool: DatabasePool
  /** Its rows in the table. */
  readonly window: string
  readonly pause: string
}

const cannotCount = 'cannot count requests'

const inOurWords = (told: Promise<void>): Promise<void> =>
  told.catch((error: unknown) => {
    throw databaseError(error, cannotCount)
  })

/** A pause has its own length beside its end: one that would have begun later than now was noted by a clock that was ahead, and is over. */
const isPause = `rate_windows.expire - rate_windows.points <= ${now}`

const pauseLeft = async ({ pool, pause }: AccountRows): Promise<number> => {
  const { rows } = await pool.query<{ left: number }>(
    `select (expire - ${now})::float8 as left from etl.rate_windows where key = $1 and ${isPause}`,
    [pause],
  )
  return rows[0]?.left ?? 0
}

const forgetWindow = async ({ pool, window }: AccountRows, longestMs: number): Promise<void> => {
  await pool.query(`delete from etl.rate_windows where key = $1 and expire > ${now} + $2::bigint`, [window, Math.ceil(longestMs)])
}

/** Never makes an earlier pause shorter. */
const pauseFor = async ({ pool, pause }: AccountRows, ms: number): Promise<void> => {
  await pool.query(
    `insert into etl.rate_windows (key, points, expire) values ($1, $2::integer, ${now} + $2::integer)
     on conflict (key) do update set points = excluded.points, expire = excluded.expire
       where excluded.expire > rate_windows.expire or not (${isPause})`,
    [pause, Math.ceil(ms)],
  )
}

/** In one statement: between reading and pausing somebody else may begin a window, which must not become shorter. */
const extendBy = async ({ pool, window, pause }: AccountRows, ms: number): Promise<void> => {
  await pool.query(
    `with at_hand as (
       select greatest(${now}, (select max(expire) from etl.rate_windows
         where key = $1 and expire <= ${now} + ${longestWindowMs} or key = $2 and ${isPause})) + $3::integer as ends
     )
     insert into etl.rate_windows (key, points, expire) select $2, ends - ${now}, ends from at_hand
     on conflict (key) do update set points = excluded.points, expire = excluded.expire`,
    [window, pause, Math.ceil(ms)],
  )
}

/** Commands that ask the service nothing do not wait for it to be read. */
const createLimiter = async (storeClient: StoreClient, points: number): Promise<RateLimiterPostgres> => {
  const { default: Limiter } = await import('rate-limiter-flexible/lib/RateLimiterPostgres.js')
  return new Limiter({
    storeClient,
    storeType: 'pool',
    schemaName: 'etl',
    tableName: 'rate_windows',
    tableCreated: true,
    clearExpiredByTimeout: false,
    keyPrefix,
    points,
    duration: 1,
  })
}

/** The limiter rejects with its result where there is nothing left, with an error where something broke. */
const isRefusal = (reason: unknown): reason is RateLimiterRes =>
  !(reason instanceof Error) && typeof reason === 'object' && reason !== null && 'msBeforeNext' in reason

interface Statement {
  readonly text: string
  readonly values: readonly (string | number)[]
}

interface StoreClient {
  query(statement: Statement): Promise<{ rowCount: number; rows: readonly { points: number; expire: number | null }[] }>
}

/**
 * The limiter counts in this machine's time, and machines do not agree on it: a clock that is ahead would keep all others waiting. So times
 * on their way to the table become the server's, and this machine's on their way back.
 */
const onServerTime = (pool: DatabasePool): StoreClient => {
  let ahead = Promise.resolve(0)
  let comparedAt = Number.NEGATIVE_INFINITY
  const serverAhead = (): Promise<number> => {
    if (performance.now() - comparedAt < clockAgeMs) return ahead
    comparedAt = performance.now()
    ahead = compareClocks(pool)
    // The error goes to whoever waits for it; the next one compares anew.
    ahead.catch(() => {
      comparedAt = Number.NEGATIVE_INFINITY
    })
    return ahead
  }
  return {
    query: async ({ text, values }: Statement) => {
      const shift = await serverAhead()
      const isTime = (value: string | number): value is number => typeof value === 'number' && value > 1e12
      const shifted = values.map((value) => (isTime(value) ? Math.round(value + shift) : value))
      const { rows } = await pool.query<{ points: number; expire: string | null }>(text, shifted)
      return {
        rowCount: rows.length,
        rows: rows.map((row) => ({ ...row, expire: row.expire === null ? null : Number(row.expire) - shift })),
      }
    },
  }
}

/** How far the server's clock is ahead of ours, ms; the quickest of three answers is the least wrong. */
const compareClocks = async (pool: DatabasePool): Promise<number> => {
  const answers: { tookMs: number; aheadMs: number }[] = []
  for (let look = 0; look < 3; look += 1) {
    // Of this machine's clock, as the limiter reads it; how long it took is of one that nobody sets.
    const [askedAt, from] = [systemClock.now(), performance.now()]
    const { rows } = await pool.query<{ now: string }>(`select (extract(epoch from clock_timestamp()) * 1000)::text as now`)
    const tookMs = performance.now() - from
    answers.push({ tookMs, aheadMs: Number(rows[0]?.now ?? askedAt) - (askedAt + tookMs / 2) })
  }
  return answers.toSorted((left, right) => left.tookMs - right.tookMs)[0]?.aheadMs ?? 0
}
