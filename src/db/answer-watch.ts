// Notices a connection whose other end is gone without a word: TCP keeps such a one open for many minutes, and a statement on it waits as long.
import { Socket } from 'node:net'
import pg from 'pg'
import { z } from 'zod'
import { sqlStateOf } from './database-error.ts'

/** Default time a statement may bring no byte before the server is asked, over another connection, whether it still works on it. */
export const defaultSilenceMs = 30_000
/** A COPY may wait for a slow download; the server hears nothing meanwhile. */
const copySilenceFactor = 20

/** How the server is asked whether a silent statement still runs. */
export interface AnswerWatch {
  readonly config: pg.ClientConfig
  readonly silenceMs: number
}

/** What pg_stat_activity says of a session; none: there is no such session. */
interface Activity {
  readonly waitsForUs: boolean
  readonly copies: boolean
}

const activityRow = z.object({ waits: z.boolean(), copies: z.boolean() })

/**
 * Watches one connection until it closes; `pid` is the server's own number of its session. A long statement is left alone as long as the server works on it or waits for a lock; a
 * connection that nobody serves any more is ended, which fails its statement as DATABASE_UNREACHABLE.
 */
export const watchAnswers = (client: pg.Client, watch: AnswerWatch, pid: number): void => {
  let settledBytes = bytesOf(client).written
  client.connection.on('readyForQuery', () => {
    settledBytes = bytesOf(client).written
  })
  let last = { ...bytesOf(client), at: performance.now() }
  let asking = false
  let losses = 0
  const look = async (): Promise<void> => {
    const { read, written } = bytesOf(client)
    if (read !== last.read || written !== last.written || written <= settledBytes) {
      last = { read, written, at: performance.now() }
      losses = 0
      return
    }
    const silence = performance.now() - last.at
    if (asking || silence < watch.silenceMs) return
    asking = true
    const reason = await lossOf(pid, watch, silence)
    asking = false
    losses = reason === null ? 0 : losses + 1
    // Seen twice: an answer may have been on its way while we asked.
    if (reason !== null && losses > 1) endOf(client, reason, silence)
  }
  const timer = setInterval(() => void look(), watch.silenceMs / 4).unref()
  client.once('end', () => clearInterval(timer))
}

/** The first answer over a new connection; the connection is ended where it does not come. */
export const answeredInTime = async <T>(client: pg.Client, { silenceMs }: AnswerWatch, ask: () => Promise<T>): Promise<T> => {
  const tooLate = setTimeout(() => endOf(client, 'the connection was new', silenceMs), silenceMs)
  try {
    return await ask()
  } finally {
    clearTimeout(tooLate)
  }
}

const bytesOf = ({ connection: { stream } }: pg.Client): { read: number; written: number } =>
  stream instanceof Socket ? { read: stream.bytesRead, written: stream.bytesWritten ?? 0 } : { read: 0, written: 0 }

const endOf = (client: pg.Client, reason: string, silence: number): void => {
  const message = `no answer for ${Math.round(silence / 1000)} seconds (MILLRACE_DATABASE_SILENCE), and ${reason}`
  client.connection.stream.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT' }))
}

/** Why nobody will answer; null where somebody may. */
const lossOf = async (pid: number, watch: AnswerWatch, silence: number): Promise<string | null> => {
  try {
    const activity = await askActivity(pid, watch)
    if (activity === null) return 'its session is gone'
    const patience = activity.copies ? watch.silenceMs * copySilenceFactor : watch.silenceMs
    return activity.waitsForUs && silence >= patience ? 'the server waits for us: what was sent has been lost' : null
  } catch (error) {
    // Too many connections, or no right to connect any more: the server is there.
    const state = sqlStateOf(error)
    return state.startsWith('53') || state.startsWith('28') ? null : 'a new connection is not answered either'
  }
}

const askActivity = async (pid: number, { config, silenceMs }: AnswerWatch): Promise<Activity | null> => {
  const limit = Math.min(10_000, silenceMs)
  const other = new pg.Client({ ...config, connectionTimeoutMillis: limit, query_timeout: limit })
  other.on('error', () => undefined)
  try {
    await other.connect()
    const { rows } = await other.query(
      `select state is distinct from 'active' or coalesce(wait_event = 'ClientRead', false) as waits,
         coalesce(query ilike 'copy %', false) as copies
       from pg_stat_activity where pid = $1`,
      [pid],
    )
    if (rows[0] === undefined) return null
    const { waits, copies } = activityRow.parse(rows[0])
    return { waitsForUs: waits, copies }
  } finally {
    // Not waited for: over a dead line the farewell takes as long as the question.
    other.end().catch(() => undefined)
  }
}
