// HTTP requests made for jobs: one row each, written together when the work on a job ends; what they cost is learned from and booked.
import { type RawBuilder, sql } from 'kysely'
import { creditsFor } from '../core/learned-price.ts'
import type { SentRequest } from '../core/sent-request.ts'
import { databaseNowText } from '../db/database-clock.ts'
import { executePrepared, query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { learnPrice, priceKnown, type PriceSubject } from './prices.ts'

/** One request and its answer, without secrets. */
export interface RequestRecord extends SentRequest {
  /** null: made by planning, for no job. */
  readonly jobId: number | null
  readonly runId: number
  /** null: a free question about the account. */
  readonly pipelineId: number | null
  /** null: the job had none when it was claimed; the one it has by the time of writing is taken. */
  readonly askNumber: string | null
  /** Whose price it is paid by; null: it is free. */
  readonly subject: PriceSubject | null
}

/** @param records JSON of a list of them */
const insertRequests = (records: string): RawBuilder<unknown> => sql`
    insert into etl.requests (run_id, job_id, ask_number, account, method, endpoint, parameters, part, attempt, status, error_code,
      bytes, sha256, credits, unpriced, started_at, milliseconds)
    select "runId", "jobId", coalesce("askNumber", (select j.ask_number from etl.jobs j where j.job_id = "jobId")), account, method,
      endpoint, parameters, part, attempt, status, "errorCode", bytes, sha256, credits, "paidFor" is not null and credits is null, "startedAt", milliseconds
    from jsonb_to_recordset(${records}::jsonb) as x("runId" bigint, "jobId" bigint, "askNumber" bigint, account text,
      method text, endpoint text, parameters jsonb, part integer, attempt integer, status integer, "errorCode" text, bytes bigint,
      sha256 text, credits numeric, "paidFor" jsonb, "startedAt" timestamptz, milliseconds float8)`

/** All at once, whatever their number; what they cost is added to the day's sums. */
export const recordRequests = async (db: Db, records: readonly RequestRecord[]): Promise<void> => {
  if (records.length === 0) return
  const priced = await withPrices(db, records)
  await executePrepared(db, insertRequests(JSON.stringify(priced.map(({ subject: _, ...record }) => record))))
  const paid = priced.filter(({ credits, paidFor }) => (credits === null ? paidFor !== null : credits > 0))
  if (paid.length > 0) await executePrepared(db, countCredits(JSON.stringify(paid)))
}

/** Bills teach the price, in their order; what came without one costs what is known by then, and stays unknown where nothing is. */
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
      priced.push({ ...record, credits: creditsFor(known, size)?.likely ?? null })
    } else {
      // What came is no purchase of known size where its rows cannot be counted.
      if (size.rows !== null) known = await learnPrice(db, subject, known, { size, credits, saidIn, jobId })
      priced.push(record)
    }
  }
  return priced
}

/** Rows of one day that backends add to, each to its own: two that write at the same time do not wait for each other. */
const slots = 1024

/** The new row is added to the one there is. */
const addedUp = sql`on conflict (day, account, pipeline_id, tag_set_id, is_night, slot) do update
      set requests = c.requests + excluded.requests, credits = c.credits + excluded.credits, uncertain = c.uncertain + excluded.uncertain,
        unpriced = c.unpriced + excluded.unpriced`

/** In one order, in which the sums are locked. @param paid JSON of a list of records that cost something */
const countCredits = (paid: string): RawBuilder<unknown> => sql`
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
    select left(x."startedAt", 10)::date, x.account, x."pipelineId", p.tag_set_id,
      coalesce((select j.wanted_by = 'night' from etl.jobs j where j.job_id = x."jobId"),
        (select r.command in ('run', 'schedule') from etl.runs r where r.run_id = x."runId"), false), pg_backend_pid() % ${sql.lit(slots)},
      count(*), coalesce(sum(x.credits), 0), coalesce(sum(x.credits) filter (where x."isUncertain"), 0), count(*) filter (where x.credits is null)
    from jsonb_to_recordset(${paid}::jsonb) as x("startedAt" text, account text, "pipelineId" integer, "runId" bigint, "jobId" bigint, credits numeric,
        "isUncertain" boolean) join etl.pipelines p on p.pipeline_id = x."pipelineId"
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    ${addedUp}`

/** Pages that a ledger now restored had paid for. @param askedAt when, as ISO text */
export const bookFound = async (
  db: Db,
  found: {
    readonly askedAt: string
    readonly account: string
    readonly pipelineId: number
    readonly pages: number
    readonly credits: number
  },
): Promise<void> => {
  const { askedAt, account, pipelineId, pages, credits } = found
  const page = { startedAt: askedAt, account, pipelineId, runId: null, jobId: null, isUncertain: false }
  const records = Array.from({ length: pages }, (_, at) => ({ ...page, credits: at === 0 ? credits : 0 }))
  await executePrepared(db, countCredits(JSON.stringify(records)))
}

/** Pages that were on their way when their process was killed. @param lost `credits`: null where no price was known */
export const countLost = async (
  db: Db,
  lost: { readonly account: string; readonly pipelineId: number; readonly jobId: number; readonly credits: number | null },
): Promise<void> => {
  const startedAt = await databaseNowText(db)
  await executePrepared(db, countCredits(JSON.stringify([{ ...lost, startedAt, runId: null, isUncertain: true }])))
}

/** Adds the rows of days that are over up to one each. Two at once do nothing twice. */
export const addUpCredits = async (db: Db): Promise<void> => {
  await query(db)`
    with gone as (
      delete from etl.request_credits where slot >= 0 and day < (clock_timestamp() at time zone 'UTC')::date - 1 returning *
    )
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
    select day, account, pipeline_id, tag_set_id, is_night, -1, sum(requests), sum(credits), sum(uncertain), sum(unpriced) from gone group by 1, 2, 3, 4, 5
    ${addedUp}`
}
