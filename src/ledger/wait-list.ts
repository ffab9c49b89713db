// The only record of waiting: which run waits for which job, what became of it, and the orphans that a run takes up.
import { type RawBuilder, sql } from 'kysely'
import type { Db, RunJobsTable } from '../db/tables.ts'
import { query, type Row } from '../db/typed-row.ts'

/** How a job ended for a run that waited for it. `let go`: by a cancel; `replaced`: other jobs ask for its units. */
export type RunOutcome = NonNullable<RunJobsTable['outcome']>

/**
 * Some living run waits for the job. A run that is over, cancelled or whose process died waits for nothing, whatever stands in its list.
 * @param jobId of the row at hand, qualified
 */
export const isWaitedFor = (jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id
    where w.job_id = ${jobId} and w.outcome is null and r.state = 'running' and r.cancel_requested_at is null)`

/** An open job that was asked for and that no living run waits for. @param job name of its row */
const isOrphan = (job: string): RawBuilder<boolean> => {
  const column = (name: string): RawBuilder<unknown> => sql.ref(`${job}.${name}`)
  return sql<boolean>`${column('state')} = 'open' and ${column('ask_number')} is not null and not ${isWaitedFor(column('job_id'))}`
}

/**
 * Part of a larger statement: ends the waiting for every row of `settled`, which has `job_id`, `pipeline_id`, `answer_id`, `slice_ids`, `window_from`
 * and `window_to` of the jobs that were settled in it. Held are those of the units a run asked of the job that hold its answer back for a person.
 * @param mayPass units may hold an answer that was asked for later, and were passed over: these are counted, too
 */
export const settleWaiting = (
  settled: string,
  outcome: RunOutcome,
  { mayPass }: { readonly mayPass: boolean },
): RawBuilder<unknown> => sql`
  update etl.run_jobs w set outcome = ${outcome}, finished_at = clock_timestamp(), held_units = (
      -- By the index of held units, of which there are few: a job may have tens of thousands.
      select count(*) from etl.units u where u.pipeline_id = s.pipeline_id and u.held_answer_id = s.answer_id
        and u.slice_id + 0 = any(coalesce(w.slice_ids, s.slice_ids))
        and u.window_from + 0 >= coalesce(w.window_from, s.window_from) and u.window_from + 0 < coalesce(w.window_to, s.window_to))
      ${mayPass ? sql`, passed_units = ${passedUnits('s')}` : sql``}
    from ${sql.ref(settled)} s where w.job_id = s.job_id and w.outcome is null returning w.run_id`

/** Bought and not ended: it can still be polled, or downloaded for free. */
const liveStates = ['submitted', 'ready', 'downloaded']

/**
 * The run waits for every orphan of the pipeline, whatever its version; one that failed with a live purchase is opened again. One whose row is locked
 * is being worked on, and need not be taken up. Returns how many. In the planner's transaction.
 */
export const joinOrphans = async (trx: Db, runId: number, pipeline: string, priority: number): Promise<number> => {
  const rows = await query<Row<'etl.jobs', 'job_id'>>(trx)`
    with ours as (
      select pipeline_id from etl.pipelines where pipeline = ${pipeline}
    ), locked as (
      select j.job_id, j.state, j.cells from etl.jobs j
      where j.pipeline_id in (select pipeline_id from ours) and (${isOrphan('j')}
        or j.state = 'failed' and j.report_state = any(${liveStates}::text[]) and not ${isWaitedFor(sql`j.job_id`)})
      order by j.job_id for update skip locked
    ), reopened as (
      update etl.jobs set state = 'open', attempts = 0, not_before = null, updated_at = clock_timestamp()
      where job_id in (select job_id from locked where state = 'failed') returning job_id
    )
    insert into etl.run_jobs (run_id, job_id, priority, units)
    select ${runId}::bigint, job_id, ${priority}::integer, cells from locked
    on conflict (run_id, job_id) do nothing returning job_id`
  return rows.length
}

/**
 * How many of the units that the run `w` asked of a settled job hold an answer that was asked for later than the job's. Cell by cell: a range of windows
 * holds all slices, a job a few of them.
 * @param settled the job's row, with the columns named above
 */
export const passedUnits = (settled: string): RawBuilder<unknown> => {
  const job = sql.ref(settled)
  return sql`(
    select count(*) from etl.pipelines p
      cross join lateral generate_series(coalesce(w.window_from, ${job}.window_from)::timestamp, coalesce(w.window_to, ${job}.window_to)::timestamp
        - interval '1 day', case p.window_every when 'day' then interval '1 day' when 'week' then interval '7 days' else interval '1 month' end) as x (day)
      cross join lateral unnest(coalesce(w.slice_ids, ${job}.slice_ids)) as y (slice_id)
      cross join lateral (select u.ask_number, u.answer_id, u.held_answer_id from etl.units u
        where u.pipeline_id = ${job}.pipeline_id and u.window_from = x.day::date and u.slice_id = y.slice_id limit 1) u
    where p.pipeline_id = ${job}.pipeline_id and u.ask_number > ${job}.answer_id and u.answer_id <> ${job}.answer_id
      and u.held_answer_id is distinct from ${job}.answer_id)`
}
