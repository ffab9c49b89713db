// The units of slices month by month, each read by its key: coverage of one pipeline, and search results.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { type Flags, query, type Row } from '../../db/typed-row.ts'

/** From best to worst, as a cell of several units shows its worst. */
export const coverageStates = ['loaded', 'restated', 'running', 'waiting', 'missing', 'failed', 'held'] as const
export type CoverageState = (typeof coverageStates)[number]

export interface CoverageUnit {
  readonly unit_id: number
  /** `2026-01` */
  readonly month: string
  readonly state: CoverageState
}

/** One slice, or the same of several versions, with its units by window. */
interface CoverageSlice extends Row<'etl.slices', 'values'> {
  readonly units: readonly CoverageUnit[]
}

// Restated: the unit's present answer changed or ended rows of an earlier answer.
const restated = sql`exists (select from etl.loads l
  where l.answer_id = u.answer_id and l.window_from = u.window_from and l.rows_updated + l.rows_ended > 0)`
const asked = sql`etl.unit_state(u, j)`
const cellState = sql<CoverageState>`case
  when u.job_id is null and u.held_answer_id is null then case when u.answer_id is null then 'missing' when ${restated} then 'restated' else 'loaded' end
  when ${asked} in ('held', 'failed', 'waiting') then ${asked}
  when ${asked} in ('running', 'landed') then 'running'
  when u.answer_id is null then 'missing' when ${restated} then 'restated' else 'loaded' end`

/**
 * The units of the slice `s` in the windows of the CTE `windows`, as JSON by window. Each is read by its whole key: without the limit PostgreSQL
 * may read all windows of a slice, or all slices of a window, where it expects few.
 */
const unitsOf = sql<readonly CoverageUnit[]>`(
  select coalesce(json_agg(c.cell order by w.window_from), '[]') from windows w cross join lateral (
    select json_build_object('unit_id', u.unit_id, 'month', to_char(u.window_from, 'YYYY-MM'), 'state', ${cellState}) as cell
    from etl.units u left join etl.jobs j on j.job_id = u.job_id
    where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.slice_id = s.slice_id limit 1) c
  where w.pipeline_id = s.pipeline_id)`

/** Slices of a pipeline, sorted by values; `more`: further slices follow. @param most slices of a page @param offset slices before the page */
export const pipelineCoverage = async (
  db: Db,
  pipeline: string,
  { most, offset = 0 }: { readonly most: number; readonly offset?: number },
) => {
  const rows = await query<CoverageSlice>(db)`
    with windows as materialized (
      select w.pipeline_id, w.window_from from etl.window_list w where w.pipeline = ${pipeline}
    )
    select s."values", ${unitsOf} as units from (
      select s.pipeline_id, s.slice_id, s."values" from etl.slices s
      where s.pipeline_id in (select p.pipeline_id from etl.pipelines p where p.pipeline = ${pipeline})
      order by s."values", s.slice_id limit ${most + 1} offset ${offset}) s
    order by s."values", s.slice_id`
  const byValues = Map.groupBy(rows.slice(0, most), ({ values }) => JSON.stringify(values))
  const slices = [...byValues.values()].map((versions) => ({
    values: versions[0]?.values ?? [],
    units: versions.flatMap(({ units }) => units),
  }))
  return { slices, more: rows.length > most }
}

/** `wanted`: the slice is still in the lists. */
type FoundSlice = Row<'etl.pipelines', 'pipeline'> & CoverageSlice & Flags<'wanted'>

/** Most slices read in the index's order: the collation may sort other values between those with the same beginning. */
const mostPassed = 500

/**
 * Slices whose first value begins with one of the texts, by pipeline and value; reads an index, so it is fast with any number of slices.
 * @param texts at least one character each @param fromMonth the first window that is shown, `YYYY-MM-DD`
 * @param most slices of one pipeline and of all
 */
export const searchSlices = (
  db: Db,
  texts: readonly string[],
  fromMonth: string,
  most: { readonly ofOne: number; readonly ofAll: number },
): Promise<readonly FoundSlice[]> =>
  query<FoundSlice>(db)`
    with windows as materialized (
      select w.pipeline_id, w.window_from from etl.window_list w where w.window_from >= ${fromMonth}::date
    )
    select s.pipeline, s."values", s.wanted, ${unitsOf} as units from (
      select p.pipeline, p.version, p.pipeline_id, s.slice_id, s."values", s.wanted_until is null as wanted
      from etl.pipelines p cross join lateral (
        select distinct x.slice_id, x."values", x.wanted_until
        from unnest(${[...texts]}::text[]) as t (text) cross join lateral (
          select y.slice_id, y."values", y.wanted_until from etl.slices y
          where y.pipeline_id = p.pipeline_id and y."values" >= array[t.text] order by y."values" limit ${mostPassed}) x
        where starts_with(x."values"[1], t.text) order by x."values"
        limit greatest(1, least(${most.ofOne}::bigint, ${most.ofAll}::bigint / (select count(*) from etl.pipelines)))) s) s
    order by s.pipeline, s.version, s."values"`
