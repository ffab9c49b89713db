// Statements that wait for somebody's lock when their work is asked to stop are cancelled, over a connection of its own.
import { AsyncLocalStorage } from 'node:async_hooks'
import pg from 'pg'

const stops = new AsyncLocalStorage<AbortSignal>()

/**
 * What `work` sends to the database is cancelled once the signal has aborted, if it waits for a lock then. A statement that works is left alone. One that
 * was cancelled fails with SQLSTATE 57014.
 */
export const stopsWith = <T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> => stops.run(signal, work)

/** What `work` sends is left alone whoever asks to stop: a statement that waits is carried out by the server even where this process has ended by then. */
export const unstopped = <T>(work: () => Promise<T>): Promise<T> => stops.run(never, work)

const never = new AbortController().signal

/** So long a statement may wait although its work is to stop: most locks are held for milliseconds. */
const graceMs = 500
/** So long right after one was cancelled: a command that ends sends a dozen, one after the other, and the lock is probably the same. */
const nextGraceMs = 100
const soonMs = 2_000
const lookEveryMs = 200
const connectMs = 2_000

interface Followed {
  readonly pid: number
  /** Of the statement under way; null: none, or one that nobody stops. */
  signal: AbortSignal | null
  sentAt: number
}

/** Ends statements whose caller has stopped waiting; the server would finish them all the same. */
export interface Stopper {
  /** Watches the statements of this connection until it ends. @param pid the server's own number of it */
  follow(client: pg.Client, pid: number): void
  end(): Promise<void>
}

/** One for a pool. @param config of the connection over which statements are cancelled; made when first needed. */
export const createStopper = (config: pg.ClientConfig): Stopper => {
  const followed = new Set<Followed>()
  let line: pg.Client | null = null
  let looking = false
  let cancelledAt = Number.NEGATIVE_INFINITY
  const late = (): number[] => {
    const now = performance.now()
    const mayWaitMs = now - cancelledAt < soonMs ? nextGraceMs : graceMs
    return [...followed]
      .filter(({ signal, sentAt }) => signal?.aborted === true && now - sentAt >= mayWaitMs)
      .map(({ pid }) => pid)
  }
  const look = async (): Promise<void> => {
    const pids = late()
    if (pids.length === 0 || looking) return
    looking = true
    try {
      line ??= await openLine(config)
      const { rowCount } = await line.query(
        `select pg_cancel_backend(pid) from pg_stat_activity where pid = any($1::integer[]) and state = 'active' and wait_event_type = 'Lock'`,
        [pids],
      )
      if ((rowCount ?? 0) > 0) cancelledAt = performance.now()
    } catch {
      // The next look tries a new one.
      line?.end().catch(() => undefined)
      line = null
    } finally {
      looking = false
    }
  }
  const timer = setInterval(() => void look(), lookEveryMs).unref()
  return {
    follow: (client, pid) => {
      const one: Followed = { pid, signal: null, sentAt: 0 }
      followed.add(one)
      noteStatements(client, one)
      client.once('end', () => followed.delete(one))
    },
    end: async () => {
      clearInterval(timer)
      await line?.end().catch(() => undefined)
    },
  }
}

const openLine = async (config: pg.ClientConfig): Promise<pg.Client> => {
  const client = new pg.Client({
    ...config,
    application_name: 'millrace stop',
    connectionTimeoutMillis: connectMs,
    query_timeout: connectMs,
  })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

/**
 * Whose signal stops a statement is known when it is sent; the server says when it is ready for the next. One that fails lets its caller send the next
 * before that word of the server has come.
 */
const noteStatements = (client: pg.Client, one: Followed): void => {
  const send = client.query
  let unanswered = 0
  const noted = (...sent: readonly unknown[]): unknown => {
    one.signal = stops.getStore() ?? null
    one.sentAt = performance.now()
    unanswered += 1
    return Reflect.apply(send, client, sent)
  }
  Object.assign(client, { query: noted })
  client.connection.on('readyForQuery', () => {
    unanswered = Math.max(0, unanswered - 1)
    if (unanswered === 0) one.signal = null
  })
}
