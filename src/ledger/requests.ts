// HTTP requests made for jobs: one row each, written together when the work on a job ends.
import { type RawBuilder, sql } from 'kysely'
import type { SentRequest } from '../core/sent-request.ts'
import { executePrepared } from '../db/prepared.ts'
import type { Db } from '../db/tables.ts'
import { chargesOf, countCredits } from './request-credits.ts'

/** One request and its answer, without secrets. */
export interface RequestRecord extends SentRequest {
  /** null: made by planning, for no job. */
  readonly jobId: number | null
  readonly runId: number
  readonly pipelineId: number
  /** null: the job had none when it was claimed; the one it has by the time of writing is taken. */
  readonly askNumber: string | null
}

/** @param records JSON of a list of them, or a slot for it. @param when nothing is written where it does not hold */
export const insertRequests = (records: string, when: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    insert into etl.requests (run_id, job_id, ask_number, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, credits, started_at, milliseconds)
    select "runId", "jobId", coalesce("askNumber", (select j.ask_number from etl.jobs j where j.job_id = "jobId")), account, method,
      endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256, credits, "startedAt", milliseconds
    from jsonb_to_recordset(${records}::jsonb) as x("runId" bigint, "jobId" bigint, "askNumber" bigint, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, credits smallint, "startedAt" timestamptz, milliseconds float8) where ${when}`

/** All at once, whatever their number; what they cost is added to the day's sums. */
export const recordRequests = async (db: Db, records: readonly RequestRecord[]): Promise<void> => {
  if (records.length === 0) return
  await executePrepared(db, insertRequests(JSON.stringify(records), sql`true`))
  const charges = chargesOf(records)
  if (charges.length > 0) await executePrepared(db, countCredits(JSON.stringify(charges), sql`true`))
}
