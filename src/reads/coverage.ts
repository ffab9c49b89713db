// Coverage of one pipeline: what became of every slice, month by month.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** From best to worst, as a cell of several units shows its worst. */
export const coverageStates = ['loaded', 'restated', 'running', 'waiting', 'missing', 'failed', 'held'] as const
export type CoverageState = (typeof coverageStates)[number]

export interface CoverageUnit {
  readonly unit_id: number
  /** A value by dimension, as JSON text. */
  readonly slice: string
  readonly month: string
  readonly state: CoverageState
}

// Restated: the answer that the unit holds changed or ended rows that an earlier one had brought.
const cellState = sql<CoverageState>`case when u.state in ('held', 'failed', 'waiting') then u.state
  when u.state in ('running', 'landed') then 'running' when u.answer_id is null then 'missing'
  when exists (select 1 from etl.loads l where l.answer_id = u.answer_id and l.window_from = u.window_from and l.rows_updated + l.rows_ended > 0)
    then 'restated' else 'loaded' end`

export interface PipelineCoverage {
  /** By slice and window. */
  readonly units: readonly CoverageUnit[]
  /** Every slice is there; else as many as come to about the limit. */
  readonly whole: boolean
}

/** @param limit units at most, about: slices come whole */
export const pipelineCoverage = async (db: Db, pipeline: string, limit: number): Promise<PipelineCoverage> => {
  const windows = await db
    .selectFrom('etl.window_list as w')
    .select(['w.pipeline_id', 'w.window_from'])
    .where('w.pipeline', '=', pipeline)
    .execute()
  if (windows.length === 0) return { units: [], whole: true }
  const most = Math.ceil(limit / windows.length)
  const slices = await db
    .selectFrom('etl.slices')
    .select('slice_id')
    .where('pipeline_id', 'in', [...new Set(windows.map((row) => row.pipeline_id))])
    .orderBy('values')
    .limit(most + 1)
    .execute()
  const { rows } = await sql<CoverageUnit>`
    select u.unit_id::float8 as unit_id, u.slice::text as slice, to_char(u.window_from, 'YYYY-MM') as month, ${cellState} as state
    from unnest(${windows.map((row) => row.pipeline_id)}::integer[], ${windows.map((row) => row.window_from)}::date[]) as w (pipeline_id, window_from)
      cross join unnest(${slices.slice(0, most).map((row) => row.slice_id)}::integer[]) as s (slice_id)
      join etl.unit_list u on u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.slice_id = s.slice_id
    order by u.slice::text, u.window_from`.execute(db)
  return { units: rows, whole: slices.length <= most }
}
