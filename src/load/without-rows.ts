// Which units take an answer that has no row for them, where merging all of them at once has not shown it; and rows that are no unit's.
import { type RawBuilder, sql } from 'kysely'
import type { MergeContext, MergeRequest, MergeResult } from './merge-context.ts'
import { type ManyUnits, sameUnit } from './merge-scope.ts'
import { rowsOutside, stagedPeriod } from './survey.ts'
import { bareStagedRows, inWindow } from './table-columns.ts'
import type { Counts, Lists, Row, Texts } from '../db/row.ts'

/** Reads the staged rows of the window once more; units are few beside them. Throws WRONG_ECHO where nobody has surveyed them and some were not asked for. */
export const unitsWithoutRows = async (
  context: MergeRequest & Pick<MergeContext, 'session'> & Partial<Pick<MergeContext, 'withoutRows'>>,
): Promise<MergeResult['withoutRows']> => {
  const { session, definition, scope, staging, withoutRows = 'unknown' } = context
  if (scope.kind === 'one') return withoutRows === 'unknown' ? [] : withoutRows
  if (context.isUnsurveyed === true) {
    const surveyed = await surveyUnits(context, scope)
    return withoutRows === 'unknown' ? surveyed : withoutRows
  }
  if (withoutRows !== 'unknown') return withoutRows
  const { accepted } = scope
  const columns = accepted.columns.map(({ name }) => sql.ref(`came.${name}`))
  const came = sql`select distinct ${columns.length === 0 ? sql`1` : sql.join(columns)} from ${bareStagedRows(definition, scope, staging.table)} came`
  const { rows } = await sql<Row<'etl.units', 'unit_id'>>`
    select taken._unit_id as unit_id from ${accepted.name} taken left join (${came}) had on ${sameUnit(accepted, 'taken', 'had')}
    where taken._outcome = 'accepted' and had is null`.execute(session.kysely)
  return rows.map((row) => Number(row.unit_id))
}

/**
 * Units that take the answer and have no row in it. Reads every staged row: all of them must be the window's and some unit's of the scope, whether it takes
 * the answer or not. Throws WRONG_ECHO.
 */
const surveyUnits = async (
  { session, definition, staging }: MergeRequest & Pick<MergeContext, 'session'>,
  { accepted, window, name }: ManyUnits,
): Promise<readonly number[]> => {
  const period = stagedPeriod(definition)
  const isStray: RawBuilder<unknown> = period === null ? sql`false` : sql`(${inWindow(definition, window, period)}) is not true`
  const columns = accepted.columns.map(({ name: column }) => sql.ref(column))
  const sums = [sql`count(*) as _rows`, sql`count(*) filter (where ${isStray}) as _strays`]
  const { rows } = await sql<Counts<'outside'> & Lists<Texts<'without'>>>`
    with came as materialized (
      select ${sql.join([...columns, ...sums])}
      from ${sql.raw(staging.table)} t ${columns.length === 0 ? sql`having count(*) > 0` : sql`group by ${sql.join(columns)}`}
    )
    select (select coalesce(sum(case when taken is null then came._rows else came._strays end), 0)
        from came left join ${accepted.name} taken on ${sameUnit(accepted, 'taken', 'came')}) as outside,
      array(select taken._unit_id from ${accepted.name} taken left join came on ${sameUnit(accepted, 'taken', 'came')}
        where taken._outcome = 'accepted' and came is null) as without`.execute(session.kysely)
  const [row] = rows
  if (row !== undefined && Number(row.outside) > 0) throw rowsOutside(name, row.outside)
  return (row?.without ?? []).map(Number)
}
