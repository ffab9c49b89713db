// A service that refuses whatever is asked of it, told from one that refuses a value: cutting a report finds the value, and nothing where there is none.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import type { Numbers } from '../db/typed-row.ts'
import type { ClaimedJob } from './claim.ts'

/** Halving comes to a single value after so many refusals, to two of them after twice as many. */
const mostRefusals = (cells: number): number => 2 * Math.ceil(Math.log2(Math.max(cells, 2)))

/**
 * How often parts of what was planned as one report were refused in these words, with none of them taken meanwhile; the job's own refusal is counted. null:
 * not so often that cutting it further is useless.
 */
export const refusedInARow = async (db: Db, claim: ClaimedJob, words: string): Promise<number | null> => {
  const { rows } = await sql<Numbers<'refused' | 'cells'>>`
    with recursive whole as (
      select job_id, former_job_id, cells from etl.jobs where job_id = ${claim.jobId}::bigint
      union all select j.job_id, j.former_job_id, j.cells from etl.jobs j join whole w on j.job_id = w.former_job_id where j.error_code is not null
    ), asked as (
      select j.job_id, j.former_job_id, j.error_message, j.updated_at, j.submitted_at from etl.run_jobs w join etl.jobs j using (job_id)
      where w.run_id = ${claim.runId}::bigint and w.job_id >= (select min(job_id) from whole) and j.pipeline_id = ${claim.pipelineId}
    ), parts as (
      select * from asked where job_id = (select min(job_id) from whole)
      union all select a.* from asked a join parts p on a.former_job_id = p.job_id
    )
    select count(*)::float8 + 1 as refused, (select max(cells) from whole)::float8 as cells from parts
    where error_message = ${words} and updated_at > coalesce((select max(submitted_at) from parts), '-infinity'::timestamptz)`.execute(
    db,
  )
  const { refused = 0, cells = 0 } = rows[0] ?? {}
  return refused > mostRefusals(cells) ? refused : null
}
