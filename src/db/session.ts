// One database connection held for a while: COPY, temporary tables and Kysely statements on the same session and transaction.
import { Kysely, type PostgresPoolClient } from 'kysely'
import type { Pool, PoolClient } from 'pg'
import { postgresDialect } from './dialect.ts'
import type { Db, Tables } from './tables.ts'

/** One connection for several statements that belong together: temporary tables, staging, a transaction. */
export interface Session {
  readonly client: PoolClient
  /** Speaks over `client`; a transaction of it is the client's transaction. */
  readonly kysely: Db
}

/** Runs `work` on a connection of its own. A session that ended in an error is thrown away, not reused. */
export const withSession = async <T>(pool: Pool, work: (session: Session) => Promise<T>): Promise<T> => {
  const client = await pool.connect()
  // A connection cut while nobody queries it raises an event that would end the process.
  const onError = (): void => undefined
  client.on('error', onError)
  let broken = true
  try {
    const result = await work(sessionOf(client))
    broken = false
    return result
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

const kyselyByClient = new WeakMap<PoolClient, Db>()

const sessionOf = (client: PoolClient): Session => {
  const existing = kyselyByClient.get(client)
  if (existing !== undefined) return { client, kysely: existing }
  // Kysely releases after every statement; the client stays ours until withSession gives it back.
  const borrowed: PostgresPoolClient = { query: client.query.bind(client), release: () => undefined }
  const pool = { connect: async () => borrowed, end: async () => undefined, options: {} }
  const kysely = new Kysely<Tables>({ dialect: postgresDialect(pool) })
  kyselyByClient.set(client, kysely)
  return { client, kysely }
}
