// Whether the staged rows are those that are loaded, without a comparison row by row: for answers whose bytes were loaded before.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Counts, Maybe } from '../db/row.ts'
import type { Session } from '../db/session.ts'
import type { MergeRequest, MergeResult } from './merge-context.ts'
import { bareStagedRows, dataTable, scopeOf, stagedColumns } from './table-columns.ts'
import { surveyUnits, unitsWithoutRows } from './without-rows.ts'

export interface SameRows {
  readonly rows: number
  readonly withoutRows: MergeResult['withoutRows']
}

/**
 * The rows of the scope where they are those that are staged, none more, none less; null where they differ. Each row of both is read, and
 * hashed with all its columns by the server, so that values it takes for equal are. Sums of 64 bits and more agree by chance once in 10^19.
 */
export const sameRows = async (session: Session, request: MergeRequest): Promise<SameRows | null> => {
  const { definition, scope, staging, rows } = request
  const loaded = await digest(session, definition, sql`${dataTable(definition)} t where ${scopeOf(definition, scope, 't')}`)
  if (loaded.rows !== rows) return null
  if (request.isUnsurveyed === true && scope.kind === 'many') {
    // One look at the staged rows for both.
    const surveyed = await surveyUnits({ ...request, session }, scope, rowHash(definition))
    return surveyed.sum === loaded.sum && surveyed.rows === rows ? { rows, withoutRows: surveyed.withoutRows } : null
  }
  const staged = await digest(session, definition, sql`${bareStagedRows(definition, scope, staging.table)} t`)
  if (loaded.sum !== staged.sum || loaded.rows !== staged.rows) return null
  return { rows, withoutRows: await unitsWithoutRows({ ...request, session }) }
}

/**
 * Of a row `t`. The hash of a row is a linear sum of its columns' hashes, and so would be a sum over rows: a value that wanders from one row to another
 * would go unseen. Hashed once more it is none; as a number, since the hash of an integer has half of the bits.
 */
const rowHash = (definition: Definition): RawBuilder<unknown> => {
  const columns = sql.join(stagedColumns(definition).map((column) => sql.ref(`t.${column.name}`)))
  return sql`hash_numeric_extended(hash_record_extended(row(${columns}), 0)::numeric, 0)`
}

const digest = async (
  session: Session,
  definition: Definition,
  from: RawBuilder<unknown>,
): Promise<{ rows: number; sum: string | null }> => {
  const { rows } = await sql<Counts<'n'> & Maybe<Counts<'sum'>>>`
    select count(*) as n, sum(${rowHash(definition)})::text as sum from ${from}`.execute(session.kysely)
  return { rows: Number(rows[0]?.n ?? 0), sum: rows[0]?.sum ?? null }
}
