// Jobs that were asked for and that nobody waits for: what was bought is finished by whoever comes next.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { isOrphan, isWaitedFor } from './run-jobs.ts'

/** Bought and not ended: it can still be polled, or downloaded for free. */
const liveStates = ['submitted', 'ready', 'downloaded']

/**
 * The run waits for every orphan of the pipeline, whatever its version; one that failed with a live purchase is opened again. One whose row is locked
 * is being worked on, and needs nobody to take it up. Returns how many. In the planner's transaction.
 */
export const takeUpOrphans = async (trx: Db, runId: number, pipeline: string, priority: number): Promise<number> => {
  const { rows } = await sql<{ job_id: string }>`
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
    on conflict (run_id, job_id) do nothing returning job_id`.execute(trx)
  return rows.length
}
