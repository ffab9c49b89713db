// Slices in an order in which neighbours fit into one request.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** Slices of one block: at most so many values of each dimension. */
export type SliceBlock = readonly number[]

/** The slices cut into blocks of `most[i]` values of dimension i, counted among these slices alone. */
export const sliceBlocks = async (db: Db, sliceIds: readonly number[], most: readonly number[]): Promise<SliceBlock[]> => {
  if (most.length === 0 || sliceIds.length <= 1) return [sliceIds]
  const ranks = most.map((values, place) => {
    const value = sql`"values"[${sql.lit(place + 1)}] collate "C"`
    return sql`(dense_rank() over (order by ${value}) - 1) / ${sql.lit(values)} as ${sql.ref(`b${place}`)}`
  })
  const order = sql.join(most.map((_, place) => sql.ref(`b${place}`)))
  const { rows } = await sql<{ slice_ids: number[] }>`
    select array_agg(slice_id order by slice_id) as slice_ids from (
      select slice_id, ${sql.join(ranks)} from etl.slices where slice_id = any(${[...sliceIds]}::integer[])) x
    group by ${order} order by ${order}`.execute(db)
  return rows.map((row) => row.slice_ids)
}
