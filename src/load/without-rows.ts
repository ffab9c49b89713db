// Which units take an answer that has no row for them, where merging all of them at once has not told.
import { sql } from 'kysely'
import type { MergeContext, MergeRequest, MergeResult } from './merge-context.ts'
import { sameUnit } from './merge-scope.ts'
import { bareStagedRows } from './table-columns.ts'

/** Reads the staged rows of the window once more; units are few beside them. */
export const unitsWithoutRows = async (
  context: MergeRequest & Pick<MergeContext, 'session'> & Partial<Pick<MergeContext, 'withoutRows'>>,
): Promise<MergeResult['withoutRows']> => {
  const { session, definition, scope, staging, withoutRows = 'unknown' } = context
  if (withoutRows !== 'unknown') return withoutRows
  if (scope.kind === 'one') return []
  const { accepted } = scope
  const columns = accepted.columns.map(({ name }) => sql.ref(`came.${name}`))
  const came = sql`select distinct ${columns.length === 0 ? sql`1` : sql.join(columns)} from ${bareStagedRows(definition, scope, staging.table)} came`
  const { rows } = await sql<{ unit_id: string }>`
    select taken._unit_id as unit_id from ${accepted.name} taken left join (${came}) had on ${sameUnit(accepted, 'taken', 'had')}
    where taken._outcome = 'accepted' and had is null`.execute(session.kysely)
  return rows.map((row) => Number(row.unit_id))
}
