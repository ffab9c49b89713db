// Slices whose first value begins with what somebody looks for, by the index of their values: no other is read, however many there are.
import { sql } from 'kysely'
import type { Row } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import { type CoverageUnit, coverageOf } from './windows.ts'

/** A slice with its units of the last months. */
export interface FoundSlice extends Row<'etl.pipelines', 'pipeline'>, Row<'etl.slices', 'values'> {
  readonly slice_id: number
  /** Whether the lists still hold it. */
  readonly wanted: boolean
  readonly units: readonly CoverageUnit[]
}

type SliceRow = Row<'etl.pipelines', 'pipeline' | 'pipeline_id'> &
  Row<'etl.slices', 'values' | 'slice_id'> & { readonly wanted: boolean }

/**
 * By pipeline, the value itself before those that begin with it.
 * @param text what the first value of a slice is or begins with, at least one character
 * @param fromMonth the first window that is shown, `YYYY-MM-DD` @param most slices of one pipeline at most
 */
export const searchSlices = async (db: Db, text: string, fromMonth: string, most: number): Promise<FoundSlice[]> => {
  const { rows } = await sql<SliceRow>`
    select p.pipeline, p.pipeline_id, s.slice_id, s."values", s.wanted_until is null as wanted
    from etl.pipelines p cross join lateral (
      select x.slice_id, x."values", x.wanted_until from etl.slices x
      where x.pipeline_id = p.pipeline_id and x."values" >= array[${text}]::text[] order by x."values" limit ${most}) s
    where starts_with(s."values"[1], ${text}) order by p.pipeline, p.version, s."values"`.execute(db)
  const windows = await db
    .selectFrom('etl.window_list as w')
    .select(['w.pipeline_id', 'w.window_from'])
    .where('w.window_from', '>=', fromMonth)
    .execute()
  return Promise.all(
    rows.map(async ({ pipeline_id, ...slice }) => ({
      ...slice,
      units: await coverageOf(
        db,
        windows.filter((window) => window.pipeline_id === pipeline_id),
        [slice.slice_id],
      ),
    })),
  )
}
