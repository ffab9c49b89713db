// Whether the answer holds the very rows that are loaded, told by a number for each row: half the work of a join with them.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { MergeRequest } from './merge-context.ts'
import { dataTable, scopeOf, stagedColumns } from './table-columns.ts'

/**
 * Rows of the scope where they are those that are staged, none more, none less; null where they differ. Each row of both is read, and
 * hashed with all its columns by the server, so that values it takes for equal are. Sums of 64 bits and more agree by chance once in 10^19.
 */
export const countIfSame = async (session: Session, { definition, scope, staging }: MergeRequest): Promise<number | null> => {
  const loaded = await digest(session, definition, sql`${dataTable(definition)} t where ${scopeOf(definition, scope, 't')}`)
  if (loaded.rows !== staging.rows()) return null
  const staged = await digest(session, definition, sql`${sql.raw(staging.table)} t`)
  return loaded.sum === staged.sum && loaded.rows === staged.rows ? loaded.rows : null
}

const digest = async (
  session: Session,
  definition: Definition,
  from: RawBuilder<unknown>,
): Promise<{ rows: number; sum: string | null }> => {
  // The hash of a row is a linear sum of its columns' hashes, and so would be a sum over rows: a value that wanders from one row to another
  // would go unseen. Hashed once more it is none; as a number, since the hash of an integer has half of the bits.
  const columns = sql.join(stagedColumns(definition).map((column) => sql.ref(`t.${column.name}`)))
  const { rows } = await sql<{ n: string; sum: string | null }>`
    select count(*) as n, sum(hash_numeric_extended(hash_record_extended(row(${columns}), 0)::numeric, 0))::text as sum from ${from}`.execute(
    session.kysely,
  )
  return { rows: Number(rows[0]?.n ?? 0), sum: rows[0]?.sum ?? null }
}
