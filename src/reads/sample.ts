// A few rows of a published view, and how many there are.
import { type Kysely, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'

export interface Sample {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly total: number
}

/** Key columns that differ and the measures, newest period first. @param limit rows at most. */
export const sampleRows = async (kysely: Kysely<Tables>, definition: Definition, limit: number): Promise<Sample> => {
  const columns = definition.columns
    .filter((column) => column.origin !== 'param')
    .map((column) => column.name)
    .slice(0, 8)
  const view = sql.table(`bi.${definition.pipeline}`)
  const period = sql.ref(definition.key[0] ?? '_loaded_at')
  const { rows } = await sql<Record<string, unknown>>`
    select ${sql.join(columns.map((column) => sql.ref(column)))} from ${view} order by ${period} desc limit ${limit}`.execute(
    kysely,
  )
  const count = await sql<{ total: number }>`select count(*)::float8 as total from ${view}`.execute(kysely)
  return { columns, rows, total: count.rows[0]?.total ?? 0 }
}
