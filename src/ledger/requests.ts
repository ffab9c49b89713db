// HTTP requests: one row each, written together when the work on a job ends. Prices are learned from their bills, and their cost is booked.
import { type RawBuilder, sql } from 'kysely'
import { creditsFor } from '../core/learned-price.ts'
import type { SentRequest } from '../core/sent-request.ts'
import { executePrepared, type Numbers, query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { countCredits } from './request-credits.ts'
import { learnPrice, priceKnown, type PriceSubject } from './prices.ts'

/** One request and its answer, without secrets. */
export interface RequestRecord extends SentRequest {
  /** null: made by planning, for no job. */
  readonly jobId: number | null
  readonly runId: number
  /** null: a free request about the account. */
  readonly pipelineId: number | null
  /** null: the job had none when it was claimed; then the one it has at the time of writing counts. */
  readonly askNumber: string | null
  /** What its price applies to; null: it is free. */
  readonly subject: PriceSubject | null
}

const insertRequests = (records: string): RawBuilder<unknown> => sql`
    insert into etl.requests (run_id, job_id, ask_number, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, credits, unpriced, started_at, milliseconds)
    select "runId", "jobId", coalesce("askNumber", (select j.ask_number from etl.jobs j where j.job_id = "jobId")), account, method,
      endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256, credits, "paidFor" is not null and credits is null, "startedAt", milliseconds
    from jsonb_to_recordset(${records}::jsonb) as x("runId" bigint, "jobId" bigint, "askNumber" bigint, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, credits numeric, "paidFor" jsonb, "startedAt" timestamptz, milliseconds float8)`

/** Records that were sent to the ledger before: the response to that commit may have been lost. */
const sentBefore = new WeakSet<RequestRecord>()

const notOnRecord = async (db: Db, given: readonly RequestRecord[], isAll: boolean): Promise<readonly RequestRecord[]> => {
  const doubtful = given.filter((record) => isAll || sentBefore.has(record))
  for (const record of given) sentBefore.add(record)
  if (doubtful.length === 0) return given
  const rows = await query<Numbers<'place'>>(db)`
    select x.place::float8 - 1 as place from rows from (jsonb_to_recordset(${JSON.stringify(doubtful)}::jsonb)
        as ("jobId" bigint, endpoint text, part integer, attempt integer, "startedAt" timestamptz)) with ordinality
        as x (job_id, endpoint, part, attempt, started_at, place)
    where exists (select from etl.requests q where q.job_id is not distinct from x.job_id and q.started_at = x.started_at and q.endpoint = x.endpoint
      and q.attempt = x.attempt and q.part is not distinct from x.part)`
  const known = new Set(rows.map(({ place }) => doubtful[place]))
  return given.filter((record) => !known.has(record))
}

/**
 * Idempotent: writes all records at once, each only once however often it is given, and adds their cost to the day's sums. @param known `doubtful`: another process
 * may have recorded them
 */
export const recordRequests = async (
  db: Db,
  given: readonly RequestRecord[],
  known: 'own' | 'doubtful' = 'own',
): Promise<void> => {
  const records = await notOnRecord(db, given, known === 'doubtful')
  if (records.length === 0) return
  const priced = await withPrices(db, records)
  const inserted = insertRequests(JSON.stringify(priced.map(({ subject: _, ...record }) => record)))
  const paid = priced.filter(({ credits, paidFor }) => (credits === null ? paidFor !== null : credits > 0))
  await executePrepared(db, paid.length === 0 ? inserted : sql`with paid as (${countCredits(JSON.stringify(paid))}) ${inserted}`)
}

/** Learns prices from bills, in their order. A request without a bill counts with the most that it can cost by then, so that budgets hold; unknown where no price is. */
const withPrices = async (db: Db, records: readonly RequestRecord[]): Promise<RequestRecord[]> => {
  const subject = records.find((record) => record.paidFor !== null && record.subject !== null)?.subject ?? null
  if (subject === null) return [...records]
  let known = await priceKnown(db, subject)
  const priced: RequestRecord[] = []
  for (const record of records) {
    const { paidFor: size, credits, saidIn, jobId } = record
    if (size === null) {
      priced.push(record)
    } else if (credits === null || saidIn === null) {
      const range = creditsFor(known, size)
      priced.push({ ...record, credits: range === null || range.likely === null ? null : range.high })
    } else {
      // A response whose rows cannot be counted has no known size: its bill teaches nothing.
      if (size.rows !== null) known = await learnPrice(db, subject, known, { size, credits, saidIn, jobId })
      priced.push(record)
    }
  }
  return priced
}
