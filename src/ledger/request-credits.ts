// What requests cost, added up by day: from what was sent, found after a restore, or lost with a killed process.
import { type RawBuilder, sql } from 'kysely'
import type { PaidBefore } from '../core/completeness.ts'
import { sum } from '../core/counted.ts'
import { exact } from '../core/learned-price.ts'
import { databaseNowText } from '../db/database-clock.ts'
import { executePrepared, type Maybe, type Numbers, query, queryOne, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** Rows of one day that backends add to, each to its own: two that write at the same time do not wait for each other. */
const slots = 1024

/** The new row is added to the one there is. */
const addedUp = sql`on conflict (day, account, pipeline_id, tag_set_id, is_night, slot) do update
      set requests = c.requests + excluded.requests, credits = c.credits + excluded.credits, uncertain = c.uncertain + excluded.uncertain,
        unpriced = c.unpriced + excluded.unpriced, lost = c.lost + excluded.lost`

/** In one order, in which the sums are locked. @param paid JSON of a list of records that cost something */
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

/** `paid`: by the walk itself, and by those that it went on from. */
type FoundPages = Texts<'askedAt' | 'account' | 'askNumber'> & Numbers<'pipelineId'> & { readonly paid: readonly PaidBefore[] }

/**
 * Pages that a ledger now restored had paid for, but for those that it has on record already: its backup was made while they were asked for. @param askedAt when, as
 * ISO text
 */
export const bookFound = async (db: Db, { askedAt, account, pipelineId, askNumber, paid }: FoundPages): Promise<void> => {
  const others = paid.map((one) => one.askNumber).filter((one) => one !== askNumber)
  const known = await onRecordAmid(db, pipelineId, askNumber, others)
  const pages = Math.max(0, sum(paid, 'pages') - known.pages)
  const credits = Math.max(0, exact(sum(paid, 'credits') - known.credits))
  const page = { startedAt: askedAt, account, pipelineId, runId: null, jobId: null, isUncertain: false }
  const records = Array.from({ length: pages }, (_, at) => ({ ...page, credits: at === 0 ? credits : 0 }))
  if (pages > 0) await executePrepared(db, countCredits(JSON.stringify(records)))
}

/** Of the walk that landed them, as the backup has it: pages that were booked. What it had set aside for others is part of what they cost. */
const onRecordAmid = (
  db: Db,
  pipelineId: number,
  askNumber: string,
  others: readonly string[],
): Promise<Numbers<'pages' | 'credits'>> => {
  // By another number the job is the walk of the same unit.
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

/** What a walk had set aside: `reserved` 0: for a page of unknown price; null: nothing. */
export type SetAside = Numbers<'jobId' | 'pipelineId'> & Maybe<Texts<'account'> & Numbers<'reserved'>>

/** Pages that were on their way when their process was killed: their answers were not seen, and they count as paid. */
export const countLost = async (db: Db, walks: readonly SetAside[]): Promise<void> => {
  const lost = walks.filter(({ account, reserved }) => account !== null && reserved !== null)
  if (lost.length === 0) return
  const about = { startedAt: await databaseNowText(db), runId: null, isUncertain: true, isLost: true }
  const records = lost.map(({ reserved, ...of }) => ({ ...of, ...about, credits: reserved === 0 ? null : reserved }))
  await executePrepared(db, countCredits(JSON.stringify(records)))
}

/** Sets credits aside for what a run's planning asks, as spent: a killed process leaves them so. 0: they are given back. */
export const setAside = async (
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

/** Of row `c`: set aside by a run that is at it, whose questions may be asked on a later day. What a killed process leaves is of the day it was set aside on. */
export const isSetAside = sql<boolean>`(c.slot < -1 and exists (select from etl.runs r where r.run_id = -1 - c.slot::bigint and r.state = 'running'))`

/** Adds the rows of days that are over up to one each. Two at once do nothing twice. */
export const addUpCredits = async (db: Db): Promise<void> => {
  await query(db)`
    with gone as (
      delete from etl.request_credits where slot >= 0 and day < (clock_timestamp() at time zone 'UTC')::date - 1 returning *
    )
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced, lost)
    select day, account, pipeline_id, tag_set_id, is_night, -1, sum(requests), sum(credits), sum(uncertain), sum(unpriced), sum(lost) from gone group by 1, 2, 3, 4, 5
    ${addedUp}`
}
