// What data points of a dataset are, as far as its answers have shown: narrowed by answers that agree, never widened.
import { sql } from 'kysely'
import type { DataPointReading } from '../core/data-points.ts'
import type { Db } from '../db/tables.ts'

/** Whose count is read. */
export interface CountedDataset {
  readonly account: string
  readonly dataset: string
}

/** Those that are not ruled out; null: no answer of the dataset has agreed with its count yet. */
export const knownReadings = async (
  db: Db,
  { account, dataset }: CountedDataset,
): Promise<readonly DataPointReading[] | null> => {
  const row = await db
    .selectFrom('etl.data_point_readings')
    .select('readings')
    .where('account', '=', account)
    .where('dataset', '=', dataset)
    .executeTakeFirst()
  return row?.readings ?? null
}

/**
 * The answer agrees by these readings and no other. False, with nothing written: another answer, judged meanwhile, has ruled all of them out.
 */
export const narrowReadings = async (
  db: Db,
  { account, dataset }: CountedDataset,
  readings: readonly DataPointReading[],
  answerId: number,
): Promise<boolean> => {
  const both = sql`array(select r from unnest(known.readings) r where r = any(excluded.readings))`
  const { rows } = await sql`
    insert into etl.data_point_readings as known (account, dataset, readings, answer_id)
    values (${account}, ${dataset}, ${[...readings]}::text[], ${answerId}::bigint)
    on conflict (account, dataset) do update set readings = ${both}, updated_at = clock_timestamp(),
      answer_id = case when known.readings <@ excluded.readings then known.answer_id else excluded.answer_id end
    where cardinality(${both}) > 0 returning 1`.execute(db)
  return rows.length > 0
}
