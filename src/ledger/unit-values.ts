// Units of a window by the values of their dimensions, for whoever tells rows apart before they reach the database.
import { sql } from 'kysely'
import type { Window } from '../core/types.ts'
import type { Flags, Lists, Row, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'

/** A unit and its values of the dimensions asked for, in their order. */
export interface UnitValues {
  readonly unitId: number
  readonly values: readonly string[]
}

/** The job's units in the window; null where the window has others too, or one of them is or was loaded. Locks nothing. */
export const unitsNeverLoaded = async (
  db: Db,
  { pipelineId, sliceIds }: Pick<ClaimedJob, 'pipelineId' | 'sliceIds'>,
  { from }: Window,
  dimensions: readonly string[],
): Promise<readonly UnitValues[] | null> => {
  const values = dimensions.map((name) => sql`s."values"[array_position(p.dimensions, ${name})]`)
  const { rows } = await sql<Row<'etl.units', 'unit_id'> & Lists<Texts<'values'>> & Flags<'fits'>>`
    select u.unit_id, array[${sql.join(values)}]::text[] as values,
      u.slice_id = any(${[...sliceIds]}::integer[]) and u.ask_number is null and u.answer_id is null as fits
    from etl.units u join etl.slices s on s.slice_id = u.slice_id join etl.pipelines p on p.pipeline_id = u.pipeline_id
    where u.pipeline_id = ${pipelineId} and u.window_from = ${from}::date limit ${sliceIds.length + 1}`.execute(db)
  if (rows.length !== sliceIds.length || rows.some(({ fits }) => !fits)) return null
  return rows.map((row) => ({ unitId: Number(row.unit_id), values: row.values }))
}
