// What an answer of many units holds, before any of it is loaded: rows by period, and whether all of them were asked for.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Box, Definition, IsoDate } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { unitColumns } from './merge-scope.ts'
import type { Staging } from './staging.ts'
import { periodColumn, stagedColumns } from './table-columns.ts'
import type { Counts, Maybe, Texts } from '../db/row.ts'

/** Rows by period; null stands for the period of an answer whose rows do not name it. Throws WRONG_ECHO where rows lie outside of what was asked for. */
export const surveyRows = async (
  session: Session,
  definition: Definition,
  staging: Staging,
  box: Box,
): Promise<ReadonlyMap<IsoDate | null, number>> => {
  const period = stagedPeriod(definition)
  const { rows } = await sql<Maybe<Texts<'period'>> & Counts<'n' | 'outside'>>`
    select ${period === null ? sql`null` : sql.ref(period)} as period, count(*) as n, count(*) filter (where (${isAsked(definition, box)}) is not true) as outside
    from ${sql.raw(staging.table)} group by 1`.execute(session.kysely)
  const outside = rows.reduce((sum, row) => sum + (isInside(row.period, box) ? Number(row.outside) : Number(row.n)), 0)
  if (outside > 0) throw rowsOutside(box.key, outside)
  return new Map(rows.map((row) => [row.period, Number(row.n)]))
}

/** WRONG_ECHO. @param asked name of the units */
export const rowsOutside = (asked: string, rows: number | string): EtlError =>
  new EtlError(
    'WRONG_ECHO',
    `${asked}: ${rows} rows of the answer lie outside the windows or the values asked for. Nothing was loaded; check its landing and correct the definition.`,
  )

/** The column of the answer that names the period; null where the window does. */
export const stagedPeriod = (definition: Definition): string | null => {
  const name = periodColumn(definition)
  return stagedColumns(definition).some((column) => column.name === name) ? name : null
}

const isInside = (period: IsoDate | null, { window }: Box): boolean =>
  period === null || (period >= window.from && period < window.to)

const isAsked = (definition: Definition, { slice }: Box): RawBuilder<unknown> => {
  const conditions = unitColumns(definition).map(({ name, type }) => {
    const values = [slice[name] ?? []].flat()
    return sql`${sql.ref(name)} = any(${values}::${sql.raw(type)}[])`
  })
  return conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `)
}
