// Jobs that buy nothing because another one's answer serves them: what may still serve, what waits for it, and what will not be served after all.
import { sql } from 'kysely'
import { asksOther } from '../core/asks.ts'
import type { Db } from '../db/tables.ts'
import { ended, hasFailedLive, isWaitedFor, leaveJobs, listJobs } from './wait-list.ts'

/**
 * Of job `y`, whose answer is to serve others: it has none, and may get one. What was bought is polled again; a purchase whose answer was lost may have been
 * taken. Neither is bought again without a person's word; what failed at the service brings nothing.
 */
export const mayYetServe = sql<boolean>`(y.answer_id is null and coalesce(y.report_state, '') not in ${ended}
  and (y.state = 'open' or y.state in ('held', 'failed') and y.report_state is not null))`

/** Of job `j` that is to be served by `y`: the answer of that one, or the loaded one where it found nothing changed; null: there is none that holds what `j` asks for, as that of a walk does, which holds all fields. */
export const servingAnswer = sql`(select a.answer_id from etl.answers a join etl.pipelines p on p.pipeline_id = j.pipeline_id
  where a.answer_id = coalesce(y.answer_id, (select u.answer_id from etl.units u where y.state = 'done' and y.cells = 1
      and u.pipeline_id = y.pipeline_id and u.window_from = y.window_from and u.slice_id = y.slice_ids[1]))
    and a.asks <> ${asksOther} and (j.kind = 'walk' or a.metrics @> array(select jsonb_array_elements_text(coalesce(p.definition -> 'metrics', '[]')))))`

/**
 * Job `j` is to be served, and there is nothing yet to serve it with. It was planned as one that buys nothing: where nothing will come it is planned anew, and
 * judged by budget and guard.
 */
export const isUnserved = sql<boolean>`(j.served_by is not null and j.answer_id is null
  and not exists (select from etl.jobs y where y.job_id = j.served_by and not ${mayYetServe} and ${servingAnswer} is not null))`

/** Job `y` was asked for, or some of its pages are paid for. */
export const isBegun = sql<boolean>`(y.ask_number is not null or y.begun_landing is not null)`

/**
 * The run waits for the jobs whose answers serve its own, once they are begun: a former version may have left them where no process works on them. What is
 * not begun is for the run that planned it, whose person may take it back. Once all of the run is planned: what is not listed by then is for others' units,
 * of which the run counts none. Returns how many.
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
 * Jobs that are to be served by another one's answer, where none will come, or no living run waits for it any more: a later run goes on, and plans them anew. What they
 * wait for stands in their message. Returns how many.
 */
export const leaveUnserved = (db: Db, runId: number): Promise<number> => {
  const message = sql`coalesce('It waits for the answer that ' || p.pipeline || ' version ' || p.version || ' has requested. That request is ' || y.state
    || coalesce(': ' || y.error_message, '.'), 'The request whose answer it waited for was taken back.') || ' The next run looks again.'`
  const beside = sql`left join etl.jobs y on y.job_id = j.served_by left join etl.pipelines p on p.pipeline_id = y.pipeline_id
    where ${isUnserved} and not (coalesce(${mayYetServe}, false) and ${isWaitedFor(sql`y.job_id`)})`
  return leaveJobs(db, runId, sql`'REPORT_PENDING', ${message}`, beside)
}
