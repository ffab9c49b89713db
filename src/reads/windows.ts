// Units and rows by window: what totals are added up from, and the coverage of one pipeline month by month.
import { sql } from 'kysely'
import type { UnitState } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { wholeAs } from './row.ts'

/** Units of one window in one state. */
export interface WindowState {
  readonly pipeline_id: number
  readonly pipeline: string
  readonly window_from: string
  readonly state: UnitState
  /** They have an answer, whatever is asked for beside it. */
  readonly loaded: boolean
  /** Asked for or held. */
  readonly open: boolean
  readonly units: number
}

export interface WindowLoads {
  readonly pipeline: string
  readonly window_from: string
  readonly rows: number
  readonly last_loaded_at: string | null
  /** When the service was last asked whether anything changed. */
  readonly last_checked_at: string | null
}

export interface Windows {
  readonly states: readonly WindowState[]
  readonly loads: readonly WindowLoads[]
}

/** @param pipelines only these; empty: all. Reads units and loads of windows that are open, of closed ones what was counted. */
export const readWindows = async (db: Db, pipelines: readonly string[] = []): Promise<Windows> => {
  const [states, loads] = await Promise.all([windowStates(db, pipelines), windowLoads(db, pipelines)])
  return { states, loads }
}

export const windowStates = (db: Db, pipelines: readonly string[] = []): Promise<WindowState[]> =>
  db
    .selectFrom('etl.window_states as s')
    .select(['s.pipeline_id', 's.pipeline', 's.window_from', 's.state', 's.loaded', 's.open', wholeAs('s', 'units')])
    .$if(pipelines.length > 0, (query) => query.where('s.pipeline', 'in', pipelines))
    .orderBy('s.pipeline')
    .orderBy('s.window_from')
    .execute()

const windowLoads = (db: Db, pipelines: readonly string[]): Promise<WindowLoads[]> =>
  db
    .selectFrom('etl.window_loads as l')
    .select(['l.pipeline', 'l.window_from', wholeAs('l', 'rows'), 'l.last_loaded_at', 'l.last_checked_at'])
    .$if(pipelines.length > 0, (query) => query.where('l.pipeline', 'in', pipelines))
    .execute()

/** One pipeline, all its versions together. */
export interface PipelineCounts {
  readonly pipeline: string
  readonly units: Readonly<Partial<Record<UnitState, number>>>
  readonly rows: number
  readonly newest_window: string | null
  readonly oldest_window: string | null
  readonly last_loaded_at: string | null
}

/** By name; pipelines that have no unit yet are left out. */
export const pipelineCounts = ({ states, loads }: Windows): PipelineCounts[] =>
  [...Map.groupBy(states, ({ pipeline }) => pipeline)].sort(byName).map(([pipeline, own]) => {
    const ownLoads = loads.filter((row) => row.pipeline === pipeline)
    const loaded = own
      .filter((row) => row.loaded)
      .map((row) => row.window_from)
      .sort()
    return {
      pipeline,
      units: Object.fromEntries(
        [...Map.groupBy(own, ({ state }) => state)].map(([state, rows]) => [state, unitsIn(rows)] as const),
      ),
      rows: ownLoads.reduce((all, { rows }) => all + rows, 0),
      newest_window: loaded.at(-1) ?? null,
      oldest_window: loaded[0] ?? null,
      last_loaded_at: latest(ownLoads),
    }
  })

export const unitsIn = (states: readonly WindowState[]): number => states.reduce((all, { units }) => all + units, 0)

/** A month of one pipeline. */
export interface CoverageMonth {
  readonly pipeline: string
  /** `2026-01` */
  readonly month: string
  /** Units that have rows, whatever is asked for beside them. */
  readonly loaded: number
  readonly total: number
  readonly held: number
  readonly failed: number
  /** Neither loaded nor held or failed. */
  readonly open: number
}

/** By pipeline and month. */
export const coverageMonths = (states: readonly WindowState[]): CoverageMonth[] =>
  [...Map.groupBy(states, ({ pipeline, window_from }) => `${pipeline}/${window_from.slice(0, 7)}`)]
    .sort(byName)
    .map(([key, own]) => {
      const inTrouble = ({ state }: WindowState): boolean => state === 'held' || state === 'failed'
      return {
        pipeline: own[0]?.pipeline ?? '',
        month: key.slice(-7),
        loaded: unitsIn(own.filter((row) => row.loaded)),
        total: unitsIn(own),
        held: unitsIn(own.filter(({ state }) => state === 'held')),
        failed: unitsIn(own.filter(({ state }) => state === 'failed')),
        open: unitsIn(own.filter((row) => !row.loaded && !inTrouble(row))),
      }
    })

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : a > b ? 1 : 0)

const latest = (loads: readonly WindowLoads[]): string | null =>
  loads
    .map((row) => row.last_loaded_at)
    .filter((at) => at !== null)
    .sort()
    .at(-1) ?? null

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

interface PipelineCoverage {
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
  const units = await coverageOf(
    db,
    windows,
    slices.slice(0, most).map((row) => row.slice_id),
  )
  return { units, whole: slices.length <= most }
}

/** The units of these slices in these windows, each found by its key. By slice and window. */
export const coverageOf = async (
  db: Db,
  windows: readonly { readonly pipeline_id: number; readonly window_from: string }[],
  sliceIds: readonly number[],
): Promise<readonly CoverageUnit[]> => {
  const { rows } = await sql<CoverageUnit>`
    select u.unit_id::float8 as unit_id, u.slice::text as slice, to_char(u.window_from, 'YYYY-MM') as month, ${cellState} as state
    from unnest(${windows.map((row) => row.pipeline_id)}::integer[], ${windows.map((row) => row.window_from)}::date[]) as w (pipeline_id, window_from)
      cross join unnest(${[...sliceIds]}::integer[]) as s (slice_id)
      join etl.unit_list u on u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.slice_id = s.slice_id
    order by u.slice::text, u.window_from`.execute(db)
  return rows
}
