// Jobs that buy nothing because another job's answer serves them: which job may still serve, which jobs wait for it, and which will not be served.
import { sql } from 'kysely'
import { noReuseDigest } from '../core/request-digest.ts'
import type { Db } from '../db/tables.ts'
import { ended, hasFailedLive, isWaitedFor, leaveJobs, listJobs } from './wait-list.ts'

/**
 * Job `y`, which is to serve others, has no answer and may get one. A bought report is polled again; a purchase whose response was lost may have been taken.
 * Neither is bought again without a person. A report that failed at the service brings nothing.
 */
export const mayYetServe = sql<boolean>`(y.answer_id is null and coalesce(y.report_state, '') not in ${ended}
  and (y.state = 'open' or y.state in ('held', 'failed') and y.report_state is not null))`

/** The answer that serves job `j`: that of `y`, or the loaded one where `y` found nothing changed; null: none has all that `j` asks for. A walk's answer always does: it has all fields. */
export const servingAnswer = sql`(select a.answer_id from etl.answers a join etl.pipelines p on p.pipeline_id = j.pipeline_id
  where a.answer_id = coalesce(y.answer_id, (select u.answer_id from etl.units u where y.state = 'done' and y.cells = 1
      and u.pipeline_id = y.pipeline_id and u.window_from = y.window_from and u.slice_id = y.slice_ids[1]))
    and a.asks <> ${noReuseDigest} and (j.kind = 'walk' or a.metrics @> array(select jsonb_array_elements_text(coalesce(p.definition -> 'metrics', '[]')))))`

/**
 * Job `j` is to be served, and no answer can serve it yet. It was planned as a job that buys nothing: where no answer will come it is planned again, under
 * budget and guard.
 */
export const isUnserved = sql<boolean>`(j.served_by is not null and j.answer_id is null
  and not exists (select from etl.jobs y where y.job_id = j.served_by and not ${mayYetServe} and ${servingAnswer} is not null))`

/** Job `y` was asked for, or some of its pages are paid for. */
export const isBegun = sql<boolean>`(y.ask_number is not null or y.begun_landing is not null)`

/**
 * Has the run wait for the begun jobs whose answers serve its own: a former version may have left them where no process works on them. A job that is not begun
 * is left to the run that planned it, whose person may withdraw it. Call once all of the run is planned: jobs not in its list by then are for units of others,
 * which the run does not count. Returns how many.
 */
export const joinServing = (trx: Db, runId: number): Promise<number> =>
  listJobs(
    trx,
    runId,
    sql`
    with serving as materialized (
      select distinct j.served_by from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id
      where w.run_id = ${runId}::bigint and w.outcome is null and j.served_by is not null and j.state = 'open' and j.answer_id is null
    )
    select y.job_id, y.state, y.cells from serving cross join lateral (
      select y.job_id, y.state, y.cells from etl.jobs y where y.job_id = serving.served_by
        and y.answer_id is null and (y.state = 'open' and ${isBegun} or ${hasFailedLive('y')}) for update skip locked) y
    order by y.job_id`,
    true,
  )

/**
 * Leaves jobs that another job's answer was to serve to a later run, which plans them again: where no answer will come, or no live run waits for it any more. Their message says
 * what they wait for. Returns how many.
 */
export const leaveUnserved = (db: Db, runId: number): Promise<number> => {
  const message = sql`coalesce('It waits for the answer that ' || p.pipeline || ' version ' || p.version || ' has requested. That request is ' || y.state
    || coalesce(': ' || y.error_message, '.'), 'The request whose answer it waited for was withdrawn.') || ' The next run checks again.'`
  const beside = sql`left join etl.jobs y on y.job_id = j.served_by left join etl.pipelines p on p.pipeline_id = y.pipeline_id
    where ${isUnserved} and not (coalesce(${mayYetServe}, false) and ${isWaitedFor(sql`y.job_id`)})`
  return leaveJobs(db, runId, sql`'REPORT_PENDING', ${message}`, beside)
}
