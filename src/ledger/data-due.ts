// Whether a window that is expected by now is loaded, and if not, why it is not.
import { sql } from 'kysely'
import type { Definition, IsoDate } from '../core/types.ts'
import { query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { isSamePipeline } from './pipelines.ts'

/** Of one window; units that wait for a person's approval, or for their turn since they have it, are no part of it. */
export interface DueWindow {
  /** Units that ought to be loaded. */
  readonly units: number
  /** Of them those that are not. */
  readonly missing: number
  /** Of those: the service says that it has not published them; they failed or are held; they wait for a budget. */
  readonly notPublished: number
  readonly inTrouble: number
  readonly overBudget: number
  /** When a run last planned or loaded anything of the pipeline; null: never. */
  readonly lastRunAt: string | null
}

/** Windows in which a value that is new in a list is looked for: one that none of them has is not expected yet. */
const windowsBefore = 3

/** null: the pipeline was never planned, so that nothing of it is loaded. */
export const dueWindow = async (db: Db, definition: Definition, windowFrom: IsoDate): Promise<DueWindow | null> => {
  const ours = await db
    .selectFrom('etl.pipelines as p')
    .leftJoin('etl.windows as w', (join) =>
      join.onRef('w.pipeline_id', '=', 'p.pipeline_id').on('w.window_from', '=', windowFrom),
    )
    .select(['p.pipeline_id', sql<boolean>`coalesce(w.closed_generation >= p.generation, false)`.as('is_closed')])
    .where(isSamePipeline(definition))
    .executeTakeFirst()
  if (ours === undefined) return null
  if (ours.is_closed || (await isAtWork(db, definition.pipeline))) return whole
  const counted = await countMissing(db, ours.pipeline_id, windowFrom)
  return counted.missing === 0
    ? { ...counted, lastRunAt: null }
    : { ...counted, lastRunAt: await lastRunAt(db, ours.pipeline_id) }
}

/** A run is loading it; one whose process died is closed by a living process: it is not there yet, and no message is due. */
const isAtWork = async (db: Db, pipeline: string): Promise<boolean> => {
  const row = await db
    .selectFrom('etl.runs as r')
    .innerJoin('etl.processes as p', 'p.process_id', 'r.process_id')
    .select('r.run_id')
    .where('r.state', '=', 'running')
    .where('r.command', 'in', ['run', 'schedule', 'backfill'])
    .where('p.ended_at', 'is', null)
    .where(
      sql<boolean>`r.arguments ->> 'pipeline' = ${pipeline} or r.arguments -> 'pipelines' = '[]'::jsonb or r.arguments -> 'pipelines' ? ${pipeline}`,
    )
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

const whole: DueWindow = { units: 0, missing: 0, notPublished: 0, inTrouble: 0, overBudget: 0, lastRunAt: null }

const countMissing = async (db: Db, pipelineId: number, windowFrom: IsoDate): Promise<Omit<DueWindow, 'lastRunAt'>> => {
  const rows = await query<Omit<DueWindow, 'lastRunAt'>>(db)`
    with before as materialized (
      select u.slice_id from etl.units u where u.pipeline_id = ${pipelineId}
        and u.window_from >= (${windowFrom}::date - ${windowsBefore} * interval '1 month')::date and u.window_from < ${windowFrom}::date
        and u.answer_id is not null group by 1
    ), expected as (
      select s.slice_id, u.answer_id, j.state, j.error_code, j.guard, j.ask_number, j.approval_id
      from etl.slices s
        left join etl.units u on u.pipeline_id = s.pipeline_id and u.window_from = ${windowFrom}::date and u.slice_id = s.slice_id
        left join etl.jobs j on j.job_id = u.job_id
      where s.pipeline_id = ${pipelineId} and s.wanted_until is null
        and (s.wanted_since <= 1 or u.answer_id is not null or exists (select from before b where b.slice_id = s.slice_id))
    )
    select count(*)::float8 as units,
      count(*) filter (where answer_id is null)::float8 as missing,
      count(*) filter (where answer_id is null and error_code = 'NOT_PUBLISHED')::float8 as "notPublished",
      count(*) filter (where answer_id is null and state in ('held', 'failed'))::float8 as "inTrouble",
      count(*) filter (where answer_id is null and state = 'open' and error_code = 'QUOTA_EXHAUSTED')::float8 as "overBudget"
    from expected where answer_id is not null or ask_number is not null
      or not (guard is not distinct from 'needs approval' and state = 'held' or approval_id is not null)`
  return rows[0] ?? whole
}

const lastRunAt = async (db: Db, pipelineId: number): Promise<string | null> => {
  const row = await db
    .selectFrom('etl.runs as r')
    .select('r.started_at')
    .where('r.command', 'in', ['run', 'schedule', 'backfill'])
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('etl.run_jobs as w')
          .innerJoin('etl.jobs as j', 'j.job_id', 'w.job_id')
          .select('w.job_id')
          .whereRef('w.run_id', '=', 'r.run_id')
          .where('j.pipeline_id', '=', pipelineId),
      ),
    )
    .orderBy('r.run_id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.started_at ?? null
}
