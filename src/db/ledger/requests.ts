// Requests made for units: one row each, written together when a unit's work ends.
import { type Kysely, sql } from 'kysely'
import type { Tables } from '../tables.ts'

/** One request and its answer, without secrets. */
export interface RequestRecord {
  readonly unitId: number
  readonly runId: number
  readonly edition: number
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

/** All in one statement, whatever their number. */
export const recordRequests = async (db: Kysely<Tables>, records: readonly RequestRecord[]): Promise<void> => {
  if (records.length === 0) return
  await sql`
    insert into etl.requests (run_id, unit_id, edition, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, started_at, milliseconds)
    select "runId", "unitId", edition, account, method, endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256,
      "startedAt", milliseconds
    from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as x("runId" bigint, "unitId" bigint, edition integer, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, "startedAt" timestamptz, milliseconds float8)`.execute(db)
}
