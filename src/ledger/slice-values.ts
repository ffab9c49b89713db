// What slices stand for.
import type { Db } from '../db/tables.ts'

/** One value of each dimension, in the order of the pipeline's dimensions, by the slice's number. */
export const sliceValues = async (db: Db, sliceIds: readonly number[]): Promise<ReadonlyMap<number, readonly string[]>> => {
  const rows = await db
    .selectFrom('etl.slices')
    .select(['slice_id', 'values'])
    .where((eb) => eb('slice_id', '=', eb.fn.any(eb.val([...sliceIds]))))
    .execute()
  return new Map(rows.map((row) => [row.slice_id, row.values]))
}
