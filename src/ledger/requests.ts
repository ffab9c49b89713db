// HTTP requests made for jobs: one row each, written together when the work on a job ends.
import { type RawBuilder, sql } from 'kysely'
import { executePrepared } from '../db/prepared.ts'
import type { Db } from '../db/tables.ts'

/** One request and its answer, without secrets. */
export interface RequestRecord {
  /** null: made by planning, for no job. */
  readonly jobId: number | null
  readonly runId: number
  /** null: the job had none when it was claimed; the one it has by the time of writing is taken. */
  readonly askNumber: string | null
  readonly account: string
  readonly method: string
  readonly endpoint: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly part: number | null
  readonly attempt: number
  readonly status: number | null
  readonly errorCode: string | null
  readonly bytes: number
  readonly sha256: string | null
  /** ISO time at which it was sent. */
  readonly startedAt: string
  readonly milliseconds: number
}

/** @param records JSON of a list of them, or a slot for it. @param when nothing is written where it does not hold */
export const insertRequests = (records: string, when: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    insert into etl.requests (run_id, job_id, ask_number, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, started_at, milliseconds)
    select "runId", "jobId", coalesce("askNumber", (select j.ask_number from etl.jobs j where j.job_id = "jobId")), account, method,
      endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256, "startedAt", milliseconds
    from jsonb_to_recordset(${records}::jsonb) as x("runId" bigint, "jobId" bigint, "askNumber" bigint, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, "startedAt" timestamptz, milliseconds float8) where ${when}`

/** All in one statement, whatever their number. */
export const recordRequests = async (db: Db, records: readonly RequestRecord[]): Promise<void> => {
  if (records.length > 0) await executePrepared(db, insertRequests(JSON.stringify(records), sql`true`))
}
