// DDL needs locks that readers may hold. It tries for them in short attempts, so that others queue behind it only briefly, and gives up with a clear error.
import { sql } from 'kysely'
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

/**
 * Locks the views of bi that read tables of data, the outermost first, as a reader does. Locked after its table, a view would deadlock with a reader that
 * has the view and waits for the table: PostgreSQL ends the reader's statement. `lock table` would lock every table of a view. @param words the tables, among others
 */
export const lockViewsOf = async (trx: Db, words: readonly string[]): Promise<void> => {
  const rows = await query<Texts<'statement'>>(trx)`
    with recursive readers (oid, depth) as (
      select oid, 0 from pg_class where relnamespace = to_regnamespace('data') and relname = any(${[...new Set(words)]}) union
      select r.ev_class, depth + 1 from readers join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = readers.oid
        join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and r.ev_class <> readers.oid)
    select format('alter view %s owner to %I', oid::regclass, pg_get_userbyid(relowner)) as statement
    from (select oid, max(depth) as depth from readers group by oid) r join pg_class using (oid)
    where relkind = 'v' and relnamespace = to_regnamespace('bi') and pg_has_role(relowner, 'usage') order by depth desc, relname`
  for (const { statement } of rows) await sql.raw(statement).execute(trx)
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
