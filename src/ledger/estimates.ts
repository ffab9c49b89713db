// What earlier loads tell of a unit's size and price.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../db/tables.ts'

export interface PastUnit {
  readonly rows: number
  /** Credits; null where the pipeline buys no reports. */
  readonly quota: number | null
}

export interface LoadedHistory {
  /** The newest load of each slice, by its JSON text. */
  readonly bySlice: ReadonlyMap<string, PastUnit>
  /** Over every slice; null where nothing was loaded yet. */
  readonly average: PastUnit | null
}

export const loadedHistory = async (db: Kysely<Tables>, pipeline: string): Promise<LoadedHistory> => {
  const { rows } = await sql<{ slice: unknown; rows: number; quota: number | null }>`
    select distinct on (u.slice) u.slice, l.rows_read::float8 as rows, r.used_quota::float8 as quota
    from etl.units u join etl.loads l on l.unit_id = u.unit_id and l.outcome = 'loaded'
      left join etl.reports r on r.report_key = l.report_key
    where u.pipeline = ${pipeline} order by u.slice, l.load_id desc`.execute(db)
  const bySlice = new Map(rows.map((row) => [JSON.stringify(row.slice), { rows: row.rows, quota: row.quota }]))
  return { bySlice, average: averageOf(rows) }
}

const averageOf = (rows: readonly PastUnit[]): PastUnit | null => {
  if (rows.length === 0) return null
  const priced = rows.flatMap((row) => (row.quota === null ? [] : [row.quota]))
  const mean = (values: readonly number[]): number => Math.round(values.reduce((sum, value) => sum + value, 0) / values.length)
  return { rows: mean(rows.map((row) => row.rows)), quota: priced.length === 0 ? null : mean(priced) }
}
