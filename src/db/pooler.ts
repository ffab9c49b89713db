// Whether a pooler stands between us and PostgreSQL, and whether a session stays ours: loads need one for longer than a transaction.
import pg from 'pg'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'

const answerMs = 10_000
/** Others may take the very session we expect between two of our statements. */
const rounds = 3

const pidRow = z.object({ pid: z.number() })

const pidOf = async (client: pg.ClientBase): Promise<number> => {
  const { rows } = await client.query('select pg_backend_pid() as pid')
  return pidRow.parse(rows[0]).pid
}

/** A pooler makes up the number that it tells at the start; PostgreSQL tells its own. @param pid the server's own number of the client's session */
export const isPooled = (client: pg.ClientBase, pid: number): boolean =>
  'processID' in client && typeof client.processID === 'number' && client.processID !== pid

/**
 * Throws CONFIGURATION where statements of one client reach different sessions (transaction or statement pooling): prepared statements, settings and
 * staging tables would be another's. While a second client is inside a transaction, the first must still be where it was, and be there alone.
 * @param display the database as people know it
 */
export const assertOwnSession = async (client: pg.ClientBase, config: pg.ClientConfig, display: string): Promise<void> => {
  const other = new pg.Client({
    ...config,
    application_name: 'millrace pooler check',
    connectionTimeoutMillis: answerMs,
    query_timeout: answerMs,
  })
  other.on('error', () => undefined)
  try {
    await other.connect()
    for (let round = 0; round < rounds; round += 1) {
      const before = await pidOf(client)
      await other.query('begin')
      const isShared = (await pidOf(other)) === before || (await pidOf(client)) !== before
      await other.query('rollback')
      if (isShared) throw transactionPooling(display)
    }
  } catch (error) {
    throw /statement pooling/i.test(messageOf(error)) ? transactionPooling(display) : error
  } finally {
    other.end().catch(() => undefined)
  }
}

const transactionPooling = (display: string): EtlError =>
  new EtlError(
    'CONFIGURATION',
    `The warehouse ${display} is behind a pooler that gives each transaction another session (transaction or statement pooling, such as PgBouncer with ` +
      'pool_mode = transaction). Millrace needs sessions of its own: set pool_mode = session for this database in the pooler, or let DATABASE_URL name ' +
      'PostgreSQL itself. Readers of bi may use either.',
  )
