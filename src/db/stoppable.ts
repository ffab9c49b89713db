// Watches the statement in flight on each connection of the pool: cancels one that waits for a lock when its work is to stop, and fails one
// that gets no answer, because TCP keeps a dead connection open for many minutes.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Socket } from 'node:net'
import { Readable, Writable } from 'node:stream'
import pg from 'pg'
import { reportWait } from '../core/waiting.ts'
import { sqlStateOf } from './database-error.ts'
import { withStatementName, type Flags, type Maybe, type Numbers, type Texts } from './typed-row.ts'

const stops = new AsyncLocalStorage<AbortSignal>()

/**
 * Once the signal has aborted, a statement of `work` that waits for a lock is cancelled and fails with SQLSTATE 57014. A statement that runs is left
 * alone.
 */
export const cancelOn = <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => stops.run(signal, work)

/** Statements of `work` are never cancelled at a stop: the server executes a waiting statement even after this process has ended. */
export const withoutCancel = <T>(work: () => Promise<T>): Promise<T> => stops.run(never, work)

const never = new AbortController().signal

/** Default for how long a statement may stay without an answer before the server is asked, over another connection, whether it still runs. */
export const defaultSilenceMs = 30_000
/** How long a statement may wait for a lock after a stop: most locks are held for milliseconds. */
const graceMs = 500
/** The same within `soonMs` of a cancel: a command that ends sends a dozen statements, which probably wait for the same lock. */
const nextGraceMs = 100
const soonMs = 2_000
const lookEveryMs = 200
const lineMs = 10_000
/** How often a statement without an answer is checked for a report to people. */
const slowMs = 5_000
/** A statement that runs is reported only after so long. */
const workMs = 15_000

/** A connection that knows its statement in flight. */
export class WatchedClient extends pg.Client {
  /** The server's own pid of the session; a pooler would report another. */
  pid = 0
  /** Since when a statement is in flight; null: none is. */
  busySince: number | null = null
  /** The stop signal of the statement in flight. */
  signal: AbortSignal = never
  /** The rows of the COPY in flight. */
  rows: Writable | Readable | null = null
  askedAt = 0
  lookAt = 0
  losses = 0
  /** The progress at the last check: bytes received, and bytes of a COPY that the server processed. */
  moved = ''

  // Untyped, since the driver's `query` has many overloads; arguments and result pass through.
  override query = ((...sent: readonly unknown[]): unknown => {
    this.signal = stops.getStore() ?? never
    this.rows = sent[0] instanceof Writable || sent[0] instanceof Readable ? sent[0] : null
    this.busySince = this.askedAt = performance.now()
    this.losses = 0
    return Reflect.apply(super.query, this, withStatementName(sent))
  }) as pg.Client['query']

  /** Whether the server waits for this process: received rows are not read yet, or all parsed rows are sent and more are being parsed. */
  get isOurTurn(): boolean {
    if (this.rows instanceof Readable) return this.rows.readableLength > 0
    return this.rows !== null && !this.rows.writableEnded && !this.rows.destroyed && this.rows.writableLength === 0
  }

  /** @param config `now`: address and login, read anew for each session */
  constructor(config?: string | (pg.ClientConfig & { readonly now?: () => pg.ClientConfig })) {
    super(typeof config === 'object' ? { ...config, ...config.now?.() } : config)
    // `drain`: the server has answered everything. After a failed statement the caller may send the next one before that.
    this.on('drain', () => {
      this.busySince = null
    })
  }
}

/** Watches the connections of a pool until they close. @param config of the connection for checks, opened when first needed. @param display the database as people know it */
export const watchStatements = (config: () => pg.ClientConfig, silenceMs: number, display: string) => {
  const clients = new Set<WatchedClient>()
  const line = openLine(config, Math.min(lineMs, silenceMs))
  /** Sessions given up, with the time. They are terminated: the server may not notice for hours, and keeps their locks until then. */
  const lost = new Map<number, number>()
  const count = (client: WatchedClient, loss: string | null, taken?: string | null): void => {
    if (countLoss(client, silenceMs, loss, taken)) lost.set(client.pid, performance.now())
  }
  let looking = false
  let cancelledAt = Number.NEGATIVE_INFINITY
  const look = async (): Promise<void> => {
    if (looking) return
    const found = whoWaits(clients, silenceMs)
    if (found.all.length === 0 && lost.size === 0) return
    looking = true
    try {
      const mayWaitMs = performance.now() - cancelledAt < soonMs ? nextGraceMs : graceMs
      for (const [pid, at] of lost) {
        await line.terminate(pid, performance.now() - at)
        lost.delete(pid)
      }
      const sessions = await line.ask(found, mayWaitMs)
      if ([...sessions.values()].some(({ cancelled }) => cancelled)) cancelledAt = performance.now()
      for (const client of found.silent) {
        const session = sessions.get(client.pid)
        count(client, lossOf(client, session), session?.taken)
      }
      for (const client of found.slow) tellSlow(client, display, whyOf(sessions.get(client.pid)))
    } catch (error) {
      // Too many connections, or no right to connect any more: the server is there.
      const isThere = /^(53|28)/.test(sqlStateOf(error))
      for (const client of found.silent) count(client, isThere ? null : 'a new connection is not answered either')
      for (const client of found.slow) tellSlow(client, display, 'a new connection is not answered either')
    } finally {
      looking = false
    }
  }
  const timer = setInterval(() => void look(), Math.min(lookEveryMs, silenceMs / 4)).unref()
  return {
    add: (client: WatchedClient): void => {
      clients.add(client)
      client.once('end', () => clients.delete(client))
    },
    end: async (): Promise<void> => {
      clearInterval(timer)
      await line.close()
    },
  }
}

type Look = ReturnType<typeof whoWaits>

/** Connections to check. `stopping`: their work is to stop; `silent`: no answer for too long; `slow`: people are told why they wait. */
const whoWaits = (clients: ReadonlySet<WatchedClient>, silenceMs: number) => {
  const now = performance.now()
  const busy = [...clients].filter(({ busySince }) => busySince !== null)
  const stopping = busy.filter(({ signal, busySince }) => signal.aborted && now - (busySince ?? now) >= nextGraceMs)
  const silent = busy.filter(({ askedAt, losses }) => now - askedAt >= (losses === 0 ? silenceMs : silenceMs / 4))
  const slow = busy.filter(({ busySince, lookAt }) => now >= Math.max(lookAt, (busySince ?? now) + slowMs))
  for (const client of slow) client.lookAt = now + slowMs
  return { all: [...new Set([...stopping, ...silent, ...slow])], stopping, silent, slow }
}

type SessionRow = Numbers<'pid'> & Flags<'works' | 'locked' | 'ours' | 'cancelled'> & Maybe<Texts<'taken'>>

/** Why no answer can come any more; null: one may. */
const lossOf = ({ isOurTurn }: WatchedClient, session: SessionRow | undefined): string | null => {
  if (session === undefined) return 'its session is gone'
  return session.works || isOurTurn ? null : 'the server waits for Millrace: what was sent has been lost'
}

/** Why the statement is slow, for people; null: the server waits for Millrace, as in a COPY. */
const whyOf = (session: SessionRow | undefined): string | null => {
  if (session === undefined) return 'its session is gone'
  if (session.locked) return 'it waits for a lock that another session holds'
  return session.ours ? null : works
}

const works = 'it is working on one statement'

const tellSlow = ({ busySince }: WatchedClient, display: string, why: string | null): void => {
  if (busySince === null || why === null) return
  const ms = performance.now() - busySince
  if (why === works && ms < workMs) return
  reportWait(`database ${display}`, `The database ${display} has not answered for ${Math.round(ms / 1_000)} s: ${why}.`)
}

/**
 * Ends the connection after two losses in a row without progress: at the first an answer may have been in flight, and on a slow network both sides wait for
 * bytes in flight. Returns whether it ended it.
 */
const countLoss = (client: WatchedClient, silenceMs: number, loss: string | null, taken: string | null = null): boolean => {
  client.askedAt = performance.now()
  const { stream } = client.connection
  const moved = `${stream instanceof Socket ? stream.bytesRead : 0} ${taken}`
  client.losses = loss === null || (client.losses > 0 && moved !== client.moved) ? 0 : client.losses + 1
  client.moved = moved
  if (client.losses < 2 || client.busySince === null) return false
  const seconds = Math.round(Math.max(silenceMs, performance.now() - client.busySince) / 1000)
  const message = `no answer for ${seconds} seconds (MILLRACE_DATABASE_SILENCE), and ${loss}`
  client.connection.stream.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT' }))
  return true
}

/** A COPY without progress counters, as on Citus, counts as working. */
const askSessions = `select pid, state = 'active' and wait_event is distinct from 'ClientRead' or query ilike 'copy %' and state = 'active' and bytes_processed is null as works,
    bytes_processed::text as taken,
    coalesce(wait_event_type = 'Lock', false) as locked, coalesce(wait_event = 'ClientRead', false) as ours,
    case when pid = any($2::integer[]) and state = 'active' and wait_event_type = 'Lock' and clock_timestamp() - query_start > $3 * interval '1 ms'
      then pg_cancel_backend(pid) else false end as cancelled
  from pg_stat_activity left join pg_stat_progress_copy using (pid) where pid = any($1::integer[])`

const terminateSession = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid = $1 and backend_start < clock_timestamp() - $2 * interval '1 ms'`

/** A pool of one connection: the next check replaces a failed one, and an idle one is closed. */
const openLine = (now: () => pg.ClientConfig, limitMs: number) => {
  const times = { connectionTimeoutMillis: limitMs, query_timeout: limitMs }
  const pool = new pg.Pool({ ...{ Client: WatchedClient, now }, ...times, max: 1, application_name: 'millrace stop' })
  pool.on('error', () => undefined)
  return {
    ask: async ({ all, stopping }: Look, mayWaitMs: number): Promise<ReadonlyMap<number, SessionRow>> => {
      const asked = [all.map(({ pid }) => pid), stopping.map(({ pid }) => pid), mayWaitMs]
      const { rows } = await pool.query<SessionRow>(askSessions, asked)
      return new Map(rows.map((row) => [row.pid, row]))
    },
    /** @param lostMs how long ago the session was given up: a session with this pid that began later belongs to another process */
    terminate: (pid: number, lostMs: number) => pool.query(terminateSession, [pid, lostMs]),
    close: () => pool.end().catch(() => undefined),
  }
}
