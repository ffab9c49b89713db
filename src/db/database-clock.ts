// The database's clock in the program: read now and then, advanced by a monotonic clock in between. The machine's own clock does not matter.
import { sql } from 'kysely'
import { systemClock } from '../core/clock.ts'
import type { Db } from './tables.ts'
import { type Numbers, query } from './typed-row.ts'

/** A larger difference is reported to people. */
const mostSkewMs = 60_000

/** The one clock for times that are compared, because several machines write to one warehouse. Reads it once; throws the database's errors. */
export const openDatabaseClock = async (db: Db) => {
  let [aheadMs, skewMs] = [0, 0]
  const sync = async (from: Db): Promise<void> => {
    const before = performance.now()
    const [row] = await query<Numbers<'ms'>>(from)`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`
    const after = performance.now()
    if (row === undefined) return
    // The database read its clock at some moment between the two.
    aheadMs = row.ms - (before + after) / 2
    skewMs = Date.now() - after - aheadMs
  }
  await sync(db)
  return {
    now: () => Math.round(performance.now() + aheadMs),
    sleep: systemClock.sleep,
    random: systemClock.random,
    /** How far the machine's clock is ahead of the database's, milliseconds; negative: behind. */
    get skewMs() {
      return skewMs
    },
    /** Asks again: a machine that slept, or a database that moved to another one, is followed. */
    sync,
  }
}

/** For people; null: the two agree well enough. */
export const skewWarning = ({ skewMs }: { readonly skewMs: number }): string | null => {
  if (Math.abs(skewMs) <= mostSkewMs) return null
  const minutes = Math.round(Math.abs(skewMs) / 60_000)
  const span = minutes < 120 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : `${Math.round(minutes / 60)} hours`
  return `The clock of this machine is ${span} ${skewMs > 0 ? 'ahead of' : 'behind'} the database's. Millrace uses the time of the database; set the machine's clock (NTP) so that its logs agree.`
}

/** The time of the statement, also in a transaction that began earlier. */
export const databaseNow = sql<string>`clock_timestamp()`

/** So many milliseconds from now. */
export const msFromNow = (ms: number) => sql<string>`clock_timestamp() + ${Math.round(ms)}::float8 * interval '1 millisecond'`

/** The same as ISO text. */
export const databaseNowText = async (db: Db): Promise<string> =>
  (await db.selectNoFrom(databaseNow.as('now')).executeTakeFirstOrThrow()).now

/** The same as milliseconds since 1970, for arithmetic with calendars. */
export const databaseMs = async (db: Db): Promise<number> => Date.parse(await databaseNowText(db))
