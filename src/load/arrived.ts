// What a report brought, counted in its staging: values, and which cells of what was asked for have a row. Read before anything is loaded.
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { repeatedTable } from './duplicates.ts'
import { unitColumns } from './merge-scope.ts'
import type { Staging } from './staging.ts'
import { stagedPeriod } from './survey.ts'
import { measureColumns, names } from './table-columns.ts'
import type { Counts } from '../db/row.ts'

/** Measures with a value in the staged rows; identical rows count once, of rows that conflict `least` counts one. */
export const countFilled = async (
  session: Session,
  definition: Definition,
  staging: Staging,
  repeated: boolean,
): Promise<{ least: number; most: number }> => {
  const measures = measureColumns(definition).filter((column) => column.origin === 'response')
  if (measures.length === 0) return { least: 0, most: 0 }
  const values = measures.map(({ name, type }) =>
    type === 'text' ? sql`nullif(${sql.ref(`s.${name}`)}, '')` : sql.ref(`s.${name}`),
  )
  const filled = sql`num_nonnulls(${sql.join(values)})`
  const rows = sql.raw(staging.table)
  const { rows: found } = await (repeated
    ? sql<Counts<'least' | 'most'>>`
        select coalesce(sum(${filled}) filter (where r._n is null or r._place = 1), 0) as least,
          coalesce(sum(${filled}) filter (where r._n is null or r._place = 1 or r._conflicts), 0) as most
        from ${rows} s left join ${repeatedTable} r on r._n = s._n`
    : sql<Counts<'least' | 'most'>>`
        select coalesce(sum(${filled}), 0) as least, coalesce(sum(${filled}), 0) as most from ${rows} s`
  ).execute(session.kysely)
  return { least: Number(found[0]?.least ?? 0), most: Number(found[0]?.most ?? 0) }
}

/** Windows times slices that have at least one row. */
export const countUnitsWithRows = async (session: Session, definition: Definition, staging: Staging): Promise<number> => {
  const period = stagedPeriod(definition)
  const window = period === null ? [] : [sql`date_trunc(${definition.window.every}, ${sql.ref(period)})`]
  const units = unitColumns(definition)
  const columns = [...window, ...(units.length === 0 ? [] : [names(units)])]
  const { rows } = await sql<Counts<'n'>>`
    select count(*) as n from (select distinct ${columns.length === 0 ? sql`1` : sql.join(columns)} from ${sql.raw(staging.table)}) x`.execute(
    session.kysely,
  )
  return Number(rows[0]?.n ?? 0)
}
