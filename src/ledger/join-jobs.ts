// Existing jobs for units in scope: a run waits for them instead of asking again.
import { type RawBuilder, sql } from 'kysely'
import type { IsoDate, Window } from '../core/types.ts'
import { type Counts, countRows, type Flags, type Maybe, type Numbers, query, queryOne } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { type CellScope, isReplannedByNight } from './candidates.ts'
import { isCancelledWalk, jobDecision } from './job-decision.ts'
import { type JobFrame, priorityOf } from './register-jobs.ts'
import { openError } from './transitions.ts'
import { ended, isListed, live } from './wait-list.ts'

/** Which jobs a run may join instead of asking again. */
export interface JoinScope {
  readonly frame: JobFrame
  readonly scope: CellScope
  /** First days of the first and the last window in question. */
  readonly from: IsoDate
  readonly last: IsoDate
  /** First day of the newest published window; null: none is. */
  readonly published: IsoDate | null
}

/** `+ 0` hides the pipeline from its index: units are found by their jobs, of which there are few, and not by the pipeline, which may have millions. */
const isOf = (pipelineId: number): RawBuilder<boolean> => sql<boolean>`u.pipeline_id + 0 = ${pipelineId}`

const isNotListed = (runId: number, jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`not exists (select from etl.run_jobs r where r.run_id = ${runId} and r.job_id = ${jobId})`

/** The next step, of `most` units with jobs after `after`: its last job; `isNew`: the run does not wait for one of its jobs yet. null: there are no more. */
export const nextStep = async (db: Db, { pipelineId, runId }: JobFrame, after: string, most: number) => {
  const { last, is_new: isNew } = await queryOne<Maybe<Counts<'last'>> & Flags<'is_new'>>(db)`
    with asked as materialized (
      select u.job_id from etl.units u where u.job_id > ${after}::bigint and ${isOf(pipelineId)} order by u.job_id limit ${most}
    )
    select max(a.job_id) as last, bool_or(${isNotListed(runId, sql`a.job_id`)}) as is_new from (select distinct job_id from asked) a`
  return last === null ? null : { upTo: last, isNew }
}

/** CTEs `part`, a job's units in scope as the run wants them, and `joined`, the jobs of them to wait for. @param units condition that picks the units u */
const joinable = ({ frame, scope, from, last, published }: JoinScope, units: RawBuilder<unknown>): RawBuilder<unknown> => {
  const narrowed = [...scope.only].map(
    ([place, values]) => sql`and s."values"[${sql.lit(place + 1)}] = any(${[...values]}::text[])`,
  )
  const unpublished = published === null ? sql`true` : sql`p.last > ${published}::date`
  return sql`
    part as materialized (
      select u.job_id, count(*) as units, array_agg(distinct u.slice_id) as slice_ids, min(u.window_from) as first, max(u.window_from) as last,
        bool_or(u.answer_id is not null or u.held_answer_id is not null) as is_loaded
      from etl.units u join etl.slices s on s.slice_id = u.slice_id
      where ${units} and s.wanted_until is null and (u.window_from between ${from}::date and ${last}::date or ${isListed(frame.runId, 'u')}) ${sql.join(narrowed, sql` `)}
      group by u.job_id
    ), joined as materialized (
      select j.job_id, j.reason, j.window_from, j.window_to, j.cells, j.report_state, j.answer_id, j.served_by, j.approval_id is not null and j.ask_number is null as approved, p.units, p.slice_ids, p.first, p.last
      from part p join etl.jobs j using (job_id)
      where ${jobDecision(scope.policy)} = 'join' and not ${isCancelledWalk(scope.policy, sql`p.is_loaded`)} and not (j.state = 'failed' and j.report_state is null and ${unpublished})
        and not ${isReplannedByNight(scope, sql`p.is_loaded`)}
    )`
}

/**
 * Has the run wait for jobs after `after` up to `upTo` that ask for its units already: open ones as they are; failed ones, and holds that end by
 * themselves, are opened again. Returns how many.
 */
export const joinJobs = async (trx: Db, join: JoinScope, after: string, upTo: string): Promise<number> => {
  const { runId, pipelineId, order, force, every } = join.frame
  const inStep = sql`${isOf(pipelineId)} and u.job_id > ${after}::bigint and u.job_id <= ${upTo}::bigint
    and ${isNotListed(runId, sql`u.job_id`)}`
  // A process that settles a job sees only the waiting that is there by then: so jobs are locked first, and read again.
  await query(trx)`select j.job_id from etl.jobs j where j.job_id in (select u.job_id from etl.units u where ${inStep})
      and j.state in ('open', 'failed', 'held') order by j.job_id for update`
  return countRows(trx)`
    with ${joinable(join, inStep)}, reopened as (
      update etl.jobs j set state = 'open', attempts = 0, not_before = null, ${openError(sql`j`)}, updated_at = clock_timestamp()
      from joined x where j.job_id = x.job_id and j.state in ('failed', 'held')
    ), forced as (
      update etl.jobs j set forced = true from joined x where ${sql.lit(force)} and j.job_id = x.job_id and j.state = 'open' and not j.forced
    )
    insert into etl.run_jobs (run_id, job_id, priority, units, slice_ids, window_from, window_to)
    select ${runId}, x.job_id, ${priorityOf(order, sql`x.window_from`, sql`x.window_to`)}, x.units,
      case when x.units < x.cells then x.slice_ids end, case when x.units < x.cells then x.first end,
      case when x.units < x.cells then etl.window_end(x.last, ${every}) end
    from joined x order by x.job_id
    on conflict (run_id, job_id) do nothing returning job_id`
}

/** `isOver`: the service could not make its report; a run says so again and buys nothing. `isApproved`: by a person, and it was not asked for yet. */
interface JoinableJob extends Window, Numbers<'jobId' | 'units'>, Flags<'isBought' | 'isHere' | 'isOver' | 'isApproved'> {
  readonly sliceIds: readonly number[]
}

/** Jobs that a run would join. Reads only; for reports, whose jobs are few. */
export const joinableJobs = (db: Db, join: JoinScope): Promise<JoinableJob[]> =>
  query<JoinableJob>(db)`
    with ${joinable(join, sql`${isOf(join.frame.pipelineId)} and u.job_id is not null`)}
    select job_id::float8 as "jobId", units::float8 as units, window_from as "from", window_to as "to", slice_ids as "sliceIds",
      coalesce(answer_id, served_by) is not null or coalesce(report_state in ${live}, false) as "isBought",
      coalesce(answer_id, served_by) is not null or report_state is not distinct from 'downloaded' as "isHere",
      coalesce(answer_id, served_by) is null and coalesce(report_state in ${ended}, false) as "isOver", approved as "isApproved"
    from joined order by job_id`
