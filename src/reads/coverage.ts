// Coverage: what became of every pipeline and slice, month by month.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

/** From best to worst, as a cell of several units shows its worst. */
export const coverageStates = ['loaded', 'restated', 'running', 'waiting', 'missing', 'failed', 'held'] as const
export type CoverageState = (typeof coverageStates)[number]

export interface CoverageUnit {
  readonly unit_id: number
  readonly slice: string
  readonly month: string
  readonly state: CoverageState
}

const cellState = sql`case when u.state = 'held' then 'held' when u.state = 'failed' then 'failed'
  when u.state in ('running', 'landed') then 'running' when u.state = 'waiting' then 'waiting'
  when u.loaded_at is null then 'missing'
  when exists (select 1 from etl.loads l where l.unit_id = u.unit_id and l.rows_updated + l.rows_ended > 0) then 'restated'
  else 'loaded' end`

/** One row a unit of the pipeline's version, by slice and window. */
export const coverageUnits = (db: Db, pipeline: string, limit: number): Promise<readonly CoverageUnit[]> =>
  rowsOf(
    db,
    sql<CoverageUnit>`select u.unit_id::float8 as unit_id, u.slice::text as slice, to_char(u.window_from, 'YYYY-MM') as month,
      ${cellState} as state from etl.units u where u.pipeline = ${pipeline}
      order by u.slice::text, u.window_from limit ${limit}`,
  )

export interface CoverageMonth {
  readonly pipeline: string
  readonly month: string
  readonly loaded: number
  readonly held: number
  readonly failed: number
  readonly open: number
}

export const coverageMonths = (db: Db): Promise<readonly CoverageMonth[]> =>
  rowsOf(
    db,
    sql<CoverageMonth>`select pipeline, to_char(window_from, 'YYYY-MM') as month,
      (count(*) filter (where loaded_at is not null and state not in ('held', 'failed')))::float8 as loaded,
      (count(*) filter (where state = 'held'))::float8 as held, (count(*) filter (where state = 'failed'))::float8 as failed,
      (count(*) filter (where loaded_at is null and state not in ('held', 'failed')))::float8 as open
      from etl.units group by 1, 2 order by 1, 2`,
  )
