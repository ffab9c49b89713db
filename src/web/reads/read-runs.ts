// Runs with the outcome of their units and of the jobs they waited for.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { type Numbers, queryColumn, type Row } from '../../db/typed-row.ts'
import { boxColumns, asNumbers } from './shared-columns.ts'
import { linesOf, type UnitLine } from './unit-lines.ts'

const runLines = (db: Db) =>
  db
    .selectFrom('etl.run_list as r')
    .select([...asNumbers('r', 'run_id'), 'r.command', 'r.arguments', 'r.state', 'r.process', 'r.started_at', 'r.finished_at'])
    .select(asNumbers('r', 'planned', 'loaded', 'unchanged', 'waiting', 'held', 'failed'))

export type RunLine = Awaited<ReturnType<ReturnType<typeof runLines>['execute']>>[number]

/** A run without failed units, but with units that wait for a person or the service, also has exit code 1; the page shows why. */
export const shownState = ({ state, ...units }: Pick<RunLine, 'state' | 'failed' | 'held' | 'waiting'>): string => {
  if (state !== 'failed' || units.failed > 0) return state
  return units.held > 0 ? 'held' : units.waiting > 0 ? 'waiting' : state
}

/** The newest first. @param beforeRunId null: from the newest on */
export const lastRuns = (db: Db, limit: number, beforeRunId: number | null = null): Promise<RunLine[]> =>
  runLines(db)
    .$if(beforeRunId !== null, (query) => query.where('r.run_id', '<', String(beforeRunId)))
    .orderBy('r.run_id', 'desc')
    .limit(limit)
    .execute()

export const oneRun = async (db: Db, runId: number): Promise<RunLine | null> =>
  (await runLines(db).where('r.run_id', '=', String(runId)).executeTakeFirst()) ?? null

// The part of the job `j` that the run asked for, as its line `w` says; default: the whole job.
const part = sql`coalesce(w.slice_ids, j.slice_ids) as slice_ids, coalesce(w.window_from, j.window_from) as window_from,
  coalesce(w.window_to, j.window_to) as window_to`
const needsPersonFirst = sql`array_position(array['held', 'failed', 'waiting', 'loaded', 'unchanged'], w.outcome)`

/** Jobs that the run waited for: held, failed and waiting ones first, then those in progress, then the others. Jobs deleted since are left out. */
export const runJobs = (db: Db, runId: number, limit: number) =>
  db
    .selectFrom(
      sql<RunJobRow>`(select w.job_id, w.units, w.outcome, w.held_units, j.pipeline_id, j.state, j.report_state, j.error_code,
        row_number() over (order by coalesce(${needsPersonFirst}, case when w.outcome is null then 3 else 6 end), w.job_id) as place, ${part}
        from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id where w.run_id = ${String(runId)}::bigint order by place limit ${limit})`.as(
        'b',
      ),
    )
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select([...asNumbers('b', 'job_id'), 'b.state', 'b.report_state', 'b.units', 'b.outcome', 'b.held_units', 'b.error_code'])
    .orderBy('b.place')
    .execute()

export type RunJobLine = Awaited<ReturnType<typeof runJobs>>[number]

type RunJobRow = Row<
  'etl.jobs',
  'job_id' | 'pipeline_id' | 'window_from' | 'window_to' | 'state' | 'report_state' | 'error_code'
> &
  Row<'etl.run_jobs', 'units' | 'outcome' | 'held_units'> &
  Numbers<'place'>

/** Units in the order of the given jobs, up to about `limit`: further jobs are left out. */
export const runUnits = async (db: Db, runId: number, jobs: readonly RunJobLine[], limit: number): Promise<UnitLine[]> => {
  let units = 0
  const first = jobs.filter((job) => {
    const wanted = units < limit
    units += job.units
    return wanted
  })
  const unitIds = await queryColumn<Numbers<'unit_id'>>(db)`
    select u.unit_id::float8 as unit_id from unnest(${first.map(({ job_id }) => job_id)}::bigint[]) with ordinality as f (job_id, place)
      join etl.run_jobs w on w.run_id = ${String(runId)}::bigint and w.job_id = f.job_id join etl.jobs j on j.job_id = f.job_id
      join etl.pipelines p on p.pipeline_id = j.pipeline_id
      cross join lateral (select ${part}) b
      cross join lateral generate_series(b.window_from::timestamp, b.window_to - interval '1 day',
        case p.window_every when 'day' then interval '1 day' when 'week' then interval '7 days' else interval '1 month' end) as t (at)
      cross join lateral unnest(b.slice_ids) as s (slice_id)
      join etl.units u on u.pipeline_id = j.pipeline_id and u.window_from = t.at::date and u.slice_id = s.slice_id
    order by f.place, u.window_from, u.slice_id limit ${limit}`
  return linesOf(db, unitIds)
}

export const lastEvents = (db: Db, limit: number) =>
  db.selectFrom('etl.events as e').select(['e.at', 'e.kind', 'e.message']).orderBy('e.event_id', 'desc').limit(limit).execute()
