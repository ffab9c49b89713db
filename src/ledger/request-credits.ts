// What requests cost, added up by day: from what was sent, found after a restore, or lost with a killed process.
import { type RawBuilder, sql } from 'kysely'
import type { PaidBefore } from '../core/completeness.ts'
import { sum } from '../core/counted.ts'
import { rounded } from '../core/learned-price.ts'
import { databaseNowText } from '../db/database-clock.ts'
import { executePrepared, type Maybe, type Numbers, query, queryOne, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** Rows of one day's sum: each backend of PostgreSQL adds to its own, so that two that write at the same time do not wait for each other. */
const slots = 1024

/** Adds the new row to the existing one. */
const addedUp = sql`on conflict (day, account, pipeline_id, tag_set_id, is_night, slot) do update
      set requests = c.requests + excluded.requests, credits = c.credits + excluded.credits, uncertain = c.uncertain + excluded.uncertain,
        unpriced = c.unpriced + excluded.unpriced, lost = c.lost + excluded.lost`

/** Part of a statement: adds to the day's sums, in a fixed order, in which they are locked. @param paid JSON of a list of records that cost something */
export const countCredits = (paid: string): RawBuilder<unknown> => sql`
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced, lost)
    select left(x."startedAt", 10)::date, x.account, x."pipelineId", p.tag_set_id,
      coalesce((select j.wanted_by = 'night' from etl.jobs j where j.job_id = x."jobId"),
        (select r.command in ('run', 'schedule') from etl.runs r where r.run_id = x."runId"), false), pg_backend_pid() % ${sql.lit(slots)},
      count(*), coalesce(sum(x.credits), 0), coalesce(sum(x.credits) filter (where x."isUncertain"), 0), count(*) filter (where x.credits is null),
      count(*) filter (where x.credits is null and x."isLost")
    from jsonb_to_recordset(${paid}::jsonb) as x("startedAt" text, account text, "pipelineId" integer, "runId" bigint, "jobId" bigint, credits numeric,
        "isUncertain" boolean, "isLost" boolean) join etl.pipelines p on p.pipeline_id = x."pipelineId"
    group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    ${addedUp}`

/** `paid`: pages that the walk itself paid for, and those of the walks that it continued from. */
type FoundPages = Texts<'askedAt' | 'account' | 'askNumber'> & Numbers<'pipelineId'> & { readonly paid: readonly PaidBefore[] }

/**
 * Books pages that the ledger had paid for before it was restored, except those that its backup has booked: it may have been made while they were asked for.
 * @param askedAt when, as ISO text
 */
export const countRestored = async (db: Db, { askedAt, account, pipelineId, askNumber, paid }: FoundPages): Promise<void> => {
  const others = paid.map((one) => one.askNumber).filter((one) => one !== askNumber)
  const known = await onRecordAmid(db, pipelineId, askNumber, others)
  const pages = Math.max(0, sum(paid, 'pages') - known.pages)
  const credits = Math.max(0, rounded(sum(paid, 'credits') - known.credits))
  const page = { startedAt: askedAt, account, pipelineId, runId: null, jobId: null, isUncertain: false }
  const records = Array.from({ length: pages }, (_, at) => ({ ...page, credits: at === 0 ? credits : 0 }))
  if (pages > 0) await executePrepared(db, countCredits(JSON.stringify(records)))
}

/** The pages of that walk that the backup has booked. Ends what the walk had reserved: it is part of what the pages cost. */
const onRecordAmid = (
  db: Db,
  pipelineId: number,
  askNumber: string,
  others: readonly string[],
): Promise<Numbers<'pages' | 'credits'>> => {
  // Under another number the job is the walk of the same unit.
  const ofUnit = sql`(window_from, slice_ids) in (select f.window_from, f.slice_ids from etl.jobs f
    where f.pipeline_id = ${pipelineId} and f.ask_number = ${askNumber}::bigint and f.answer_id is not null)`
  return queryOne<Numbers<'pages' | 'credits'>>(db)`
    with walk as (
      update etl.jobs set reserved_credits = null, reserves_all = false
      where pipeline_id = ${pipelineId} and kind = 'walk' and answer_id is null
        and (ask_number = ${askNumber}::bigint ${others.length === 0 ? sql`` : sql`or ${ofUnit}`}) returning job_id
    )
    select count(*)::float8 as pages, coalesce(sum(q.credits), 0)::float8 as credits from walk join etl.requests q using (job_id)
    where q.ask_number = any(${[askNumber, ...others]}::bigint[]) and q.status = 200 and q.error_code is null and (q.credits > 0 or q.unpriced)`
}

/** Credits that a walk had reserved. `reserved` 0: for a page of unknown price; null: none. */
export type LostReservation = Numbers<'jobId' | 'pipelineId'> & Maybe<Texts<'account'> & Numbers<'reserved'>>

/** Books pages that were in flight when their process was killed as paid: their responses were not seen. */
export const countLost = async (db: Db, walks: readonly LostReservation[]): Promise<void> => {
  const lost = walks.filter(({ account, reserved }) => account !== null && reserved !== null)
  if (lost.length === 0) return
  const about = { startedAt: await databaseNowText(db), runId: null, isUncertain: true, isLost: true }
  const records = lost.map(({ reserved, ...of }) => ({ ...of, ...about, credits: reserved === 0 ? null : reserved }))
  await executePrepared(db, countCredits(JSON.stringify(records)))
}

/** Reserves credits for requests of a run's planning, booked as spent: they stay so where the process is killed. 0: they are given back. */
export const setPlanningReserve = async (
  db: Db,
  { runId, pipelineId, account }: { readonly runId: number; readonly pipelineId: number; readonly account: string },
  credits: number,
): Promise<void> => {
  const slot = sql`${-1 - runId}::integer`
  if (credits === 0)
    await query(db)`delete from etl.request_credits where account = ${account} and pipeline_id = ${pipelineId} and slot = ${slot}`
  else
    await query(db)`
      insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
      select (clock_timestamp() at time zone 'UTC')::date, ${account}, p.pipeline_id, p.tag_set_id, true, ${slot}, 0, ${credits}::numeric, ${credits}::numeric, 0
      from etl.pipelines p where p.pipeline_id = ${pipelineId}
      ${addedUp}`
}

/** Row `c` is reserved by a run at work, whose requests may be sent on a later day. What a killed process leaves counts for the day of its reservation. */
export const isPlanningReserve = sql<boolean>`(c.slot < -1 and exists (select from etl.runs r where r.run_id = -1 - c.slot::bigint and r.state = 'running'))`

/** Merges the rows of each past day into one. Two processes may do so at once. */
export const mergePastDays = async (db: Db): Promise<void> => {
  await query(db)`
    with gone as (
      delete from etl.request_credits where slot >= 0 and day < (clock_timestamp() at time zone 'UTC')::date - 1 returning *
    )
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced, lost)
    select day, account, pipeline_id, tag_set_id, is_night, -1, sum(requests), sum(credits), sum(uncertain), sum(unpriced), sum(lost) from gone group by 1, 2, 3, 4, 5
    ${addedUp}`
}
