// One clock for the program, the service and the database: real time plus a distance that only grows. Timers run in real time.
import pg from 'pg'
import { type Clock, systemClock } from '../../src/core/clock.ts'

export interface SimulatedClock extends Clock {
  /** The database as the program has to be told of it: an address may say where names are looked for, a database may not. */
  readonly url: string
  /** Moves all three ahead. Throws where that would be back in time. */
  moveTo(ms: number): Promise<void>
  close(): Promise<void>
}

/**
 * Makes `databaseUrl`, an empty database, tell simulated time: functions of the same names that come first on its search path, in what the
 * program asks as in the defaults of tables made afterwards.
 */
export const createSimulatedClock = async (databaseUrl: string, startMs: number): Promise<SimulatedClock> => {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(`create schema simulated;
    create table simulated.clock (ahead interval not null);
    insert into simulated.clock values (interval '0');
    create function simulated.now() returns timestamptz language sql stable as 'select pg_catalog.now() + ahead from simulated.clock';
    create function simulated.transaction_timestamp() returns timestamptz language sql stable as 'select simulated.now()';
    create function simulated.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + ahead from simulated.clock';
    do $$ begin execute format('alter database %I set search_path = simulated, pg_catalog, public', current_database()); end $$`)
  const url = new URL(databaseUrl)
  url.searchParams.set('options', '-c search_path=simulated,pg_catalog,public')
  let aheadMs = 0
  const now = (): number => Date.now() + aheadMs
  const jump = async (byMs: number): Promise<void> => {
    aheadMs += byMs
    await client.query(`update simulated.clock set ahead = $1 * interval '1 millisecond'`, [aheadMs])
  }
  const moveTo = async (ms: number): Promise<void> => {
    if (ms < now()) throw new Error(`The simulated clock is at ${new Date(now()).toISOString()} already.`)
    await jump(ms - now())
  }
  await jump(startMs - now())
  return { now, moveTo, sleep: systemClock.sleep, random: systemClock.random, url: url.href, close: () => client.end() }
}
