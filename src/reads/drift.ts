// Schema drift: what the newest load of each pipeline saw that its definition does not say.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export interface DriftLine {
  readonly pipeline: string
  readonly unit_id: number
  readonly unit_key: string
  readonly loaded_at: string
  readonly drift: unknown
}

/** One line a pipeline, its last load that saw drift within the window of days. */
export const lastDrifts = (db: Db, fromDay: string): Promise<readonly DriftLine[]> =>
  rowsOf(
    db,
    sql<DriftLine>`select distinct on (u.pipeline) u.pipeline, u.unit_id::float8 as unit_id, u.unit_key, l.loaded_at, l.drift
      from etl.loads l join etl.units u on u.unit_id = l.unit_id
      where l.drift is not null and l.loaded_at >= ${fromDay}::date order by u.pipeline, l.load_id desc`,
  )
