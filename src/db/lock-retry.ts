// DDL needs locks that readers may hold. It tries for them in short attempts, so that others queue behind it only briefly, and gives up with a clear error.
import { setTimeout } from 'node:timers/promises'
import { EtlError } from '../core/errors.ts'
import type { Database } from './connect.ts'
import { isLockedOut } from './database-error.ts'
import { type Maybe, type Numbers, query, type Texts } from './typed-row.ts'
import type { Db } from './tables.ts'

/** How DDL waits for the sessions that use a table or view, without making others queue behind it. */
export interface LockWait {
  /** How long one change may wait for others in all. Default 60 s. */
  readonly waitMs?: number
  /** Called when a wait begins, and when other sessions become the blockers. */
  readonly onWait?: (message: string) => void
}

const defaultWaitMs = 60_000
/** Short, because later readers and loads queue behind a waiting attempt. */
const tryMs = 1_000
/** Between two attempts the queued sessions get their turn. */
const pauseMs = 500
const lookEveryMs = 250

/**
 * Runs `work` in a transaction. Where another session holds a lock, the transaction is rolled back and tried again, for `waitMs` at most; then throws
 * DATABASE with the blocking sessions. @param what as in "Waiting to …"
 */
export const inRetriedTransaction = async <T>(
  database: Database,
  what: string,
  { waitMs = defaultWaitMs, onWait }: LockWait,
  work: (trx: Db) => Promise<T>,
): Promise<T> => {
  const until = performance.now() + waitMs
  let blockers = ''
  const noteBlockers = (found: string): void => {
    if (found === '' || found === blockers) return
    blockers = found
    onWait?.(`Waiting to ${what}: locked by ${found}.`)
  }
  for (;;) {
    try {
      return await tryOnce(database, Math.min(tryMs, Math.max(waitMs, 1)), noteBlockers, work)
    } catch (error) {
      if (!isLockedOut(error)) throw error
      if (performance.now() + pauseMs >= until)
        throw new EtlError(
          'DATABASE',
          `Could not ${what} within ${Math.round(waitMs / 1000)} seconds: locked by ${blockers || 'another session'}. Nothing was changed. ` +
            'Wait until that transaction ends, or end its session with `select pg_terminate_backend(pid)`; then run the same command again.',
          { cause: error },
        )
      await setTimeout(pauseMs)
    }
  }
}

const tryOnce = async <T>(
  { kysely }: Database,
  lockMs: number,
  noteBlockers: (found: string) => void,
  work: (trx: Db) => Promise<T>,
): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  try {
    return await kysely.transaction().execute(async (trx) => {
      const rows = await query<Numbers<'pid'>>(trx)`
        select pg_backend_pid() as pid, set_config('lock_timeout', ${`${Math.round(lockMs)}ms`}, true)`
      const look = (): Promise<void> => blockersOf(kysely, rows[0]?.pid ?? 0).then(noteBlockers, () => undefined)
      timer = setInterval(() => void look(), lookEveryMs)
      return work(trx)
    })
  } finally {
    clearInterval(timer)
  }
}

/** The sessions that block this one: login, application, start of the transaction; empty where none blocks it. */
const blockersOf = async (db: Db, pid: number): Promise<string> => {
  const rows = await query<Numbers<'pid'> & Maybe<Texts<'login' | 'application' | 'since'>>>(db)`
    select a.pid, a.usename as login, a.application_name as application, to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS TZ') as since
    from unnest(pg_blocking_pids(${pid}::integer)) as b (pid) join pg_stat_activity a on a.pid = b.pid order by a.pid`
  return rows
    .map(({ pid: one, login, application, since }) => {
      const named = application === null || application === '' ? '' : `, application ${application}`
      return `${login ?? 'a background process'} (pid ${one}${named}, in a transaction since ${since ?? 'a time it does not show'})`
    })
    .join(' and ')
}
