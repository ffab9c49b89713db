// Whether the database is spread over several servers.
import { sql } from 'kysely'
import type { Database } from './connect.ts'

const clusters = new WeakMap<Database, boolean>()

/**
 * Tables that are spread over several servers are not written in one statement with those that are not. An answer is kept for the pool's life;
 * a question that failed is asked again.
 */
export const isCluster = async (database: Database): Promise<boolean> => {
  const known = clusters.get(database) ?? (await askCluster(database))
  clusters.set(database, known)
  return known
}

const askCluster = async ({ kysely }: Database): Promise<boolean> =>
  (await sql`select 1 from pg_extension where extname = 'citus'`.execute(kysely)).rows.length > 0
