// Whether the staged rows are those that are loaded, without a comparison row by row: for answers whose bytes were loaded before.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Counts, Lists, Maybe, Texts } from '../db/row.ts'
import type { Session } from '../db/session.ts'
import type { MergeRequest, MergeResult } from './merge-context.ts'
import type { ManyUnits } from './merge-scope.ts'
import { bareStagedRows, dataTable, scopeOf, stagedColumns } from './table-columns.ts'
import { unitsWithoutRows } from './without-rows.ts'

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
  const isUnsurveyed = request.isUnsurveyed === true
  const loaded =
    isUnsurveyed && scope.kind === 'many'
      ? await digestByUnit(session, definition, scope)
      : {
          ...(await digest(session, definition, sql`${dataTable(definition)} t where ${scopeOf(definition, scope, 't')}`)),
          withoutRows: null,
        }
  if (loaded.rows !== rows) return null
  // Rows that nobody asked for would be more than those that are loaded.
  const among = isUnsurveyed ? sql.raw(staging.table) : bareStagedRows(definition, scope, staging.table)
  const staged = await digest(session, definition, sql`${among} t`)
  if (loaded.sum !== staged.sum || loaded.rows !== staged.rows) return null
  return { rows, withoutRows: loaded.withoutRows ?? (await unitsWithoutRows({ ...request, session })) }
}

/**
 * Of a row `t`. The hash of a row is a linear sum of its columns' hashes, and so would be a sum over rows: a value that wanders from one row to another
 * would go unseen. Hashed once more it is none; as a number, since the hash of an integer has half of the bits.
 */
const rowHash = (definition: Definition): RawBuilder<unknown> => {
  const columns = sql.join(stagedColumns(definition).map((column) => sql.ref(`t.${column.name}`)))
  return sql`hash_numeric_extended(hash_record_extended(row(${columns}), 0)::numeric, 0)`
}

interface Digest {
  readonly rows: number
  /** Of the hashes of all rows; null: there are none. */
  readonly sum: string | null
}

/** Of what is loaded, and the units that have none of it: where the staged rows are the same ones, they have no row there either. */
const digestByUnit = async (
  session: Session,
  definition: Definition,
  scope: ManyUnits,
): Promise<Digest & { readonly withoutRows: readonly number[] }> => {
  // Units are in a temporary table, which only one process can read: rows are counted by several before they meet it.
  const { rows } = await sql<Counts<'n'> & Maybe<Counts<'sum'>> & Lists<Texts<'without'>>>`
    with found as materialized (
      select t._unit_id, count(*) as n, sum(${rowHash(definition)}) as hashes from ${dataTable(definition)} t
      where ${scopeOf(definition, scope, 't')} group by 1
    )
    select (select coalesce(sum(n), 0) from found) as n, (select sum(hashes)::text from found) as sum,
      array(select taken._unit_id from ${scope.accepted.name} taken left join found on found._unit_id = taken._unit_id
        where taken._outcome = 'accepted' and found is null) as without`.execute(session.kysely)
  const [row] = rows
  return { rows: Number(row?.n ?? 0), sum: row?.sum ?? null, withoutRows: (row?.without ?? []).map(Number) }
}

const digest = async (session: Session, definition: Definition, from: RawBuilder<unknown>): Promise<Digest> => {
  const { rows } = await sql<Counts<'n'> & Maybe<Counts<'sum'>>>`
    select count(*) as n, sum(${rowHash(definition)})::text as sum from ${from}`.execute(session.kysely)
  return { rows: Number(rows[0]?.n ?? 0), sum: rows[0]?.sum ?? null }
}
