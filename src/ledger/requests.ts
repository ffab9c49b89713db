// Requests made for units: one row each, written together when a unit's work ends.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { executePrepared } from '../db/prepared.ts'
import type { Tables } from '../db/tables.ts'

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

/** @param records JSON of a list of them, or a slot for it. @param when nothing is written where it does not hold */
export const insertRequests = (records: string, when: RawBuilder<unknown>): RawBuilder<unknown> => sql`
    insert into etl.requests (run_id, unit_id, edition, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, started_at, milliseconds)
    select "runId", "unitId", edition, account, method, endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256,
      "startedAt", milliseconds
    from jsonb_to_recordset(${records}::jsonb) as x("runId" bigint, "unitId" bigint, edition integer, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, "startedAt" timestamptz, milliseconds float8) where ${when}`

/** All in one statement, whatever their number. */
export const recordRequests = async (db: Kysely<Tables>, records: readonly RequestRecord[]): Promise<void> => {
  if (records.length > 0) await executePrepared(db, insertRequests(JSON.stringify(records), sql`true`))
}
