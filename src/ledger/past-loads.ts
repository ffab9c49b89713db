// How long the work took so far: what the time of the work to come is guessed by.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

export interface PastTimes {
  /** Mean time of one answered request; null where none was made. */
  readonly requestMs: number | null
  /** Mean time from a report's submission to its end; null where none ended. */
  readonly reportMs: number | null
}

/** Over the newest requests and reports of the pipeline. */
export const pastTimes = async (db: Db, pipeline: string): Promise<PastTimes> => {
  const { rows } = await sql<PastTimes>`
    with ours as (
      select pipeline_id from etl.pipelines where pipeline = ${pipeline}
    )
    select (select avg(q.milliseconds)::float8 from (
        select job_id, milliseconds from etl.requests where status < 400 order by request_id desc limit 5000) q
        join etl.jobs j on j.job_id = q.job_id where j.pipeline_id in (select pipeline_id from ours)) as "requestMs",
      (select avg(extract(epoch from x.completed_at - x.submitted_at) * 1000)::float8 from (
        select j.completed_at, j.submitted_at from etl.jobs j where j.pipeline_id in (select pipeline_id from ours)
          and j.report_state is not null and j.completed_at is not null and j.submitted_at is not null
        order by j.created_at desc limit 1000) x) as "reportMs"`.execute(db)
  return rows[0] ?? { requestMs: null, reportMs: null }
}
