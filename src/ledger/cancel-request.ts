// Cancels a run: from then on nothing is submitted for it, its plans are dissolved, and jobs that were asked for stay for others.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { type Numbers, prepared, query, queryColumn, queryValue, type Row } from '../db/typed-row.ts'
import type { ClaimedJob } from './claim.ts'
import { databaseNow } from '../db/database-clock.ts'
import { dissolve, isUnclaimed } from './register-jobs.ts'
import { isWaitedFor } from './wait-list.ts'

/** From here on nothing is claimed or submitted for the run: an intent reads this mark in its own transaction. */
export const requestCancel = async (db: Db, runId: number): Promise<void> => {
  await db.updateTable('etl.runs').set({ cancel_requested_at: databaseNow }).where('run_id', '=', String(runId)).execute()
}

/** Whether a cancel was requested; the run may still be at work. */
export const isCancelled = async (db: Db, runId: number): Promise<boolean> => {
  const rows = await prepared(db)`select run_id from etl.runs where run_id = ${runId}::bigint and cancel_requested_at is not null`
  return rows.length > 0
}

/** Those of the claims whose run was cancelled and that no other run waits for. */
export const cancelledJobs = async (db: Db, claims: readonly ClaimedJob[]): Promise<ClaimedJob[]> => {
  const mine = claims.filter(({ orphan }) => !orphan)
  if (mine.length === 0) return []
  const rows = await prepared<Row<'etl.jobs', 'job_id'>>(db)`
    select m.job_id from unnest(${mine.map(({ jobId }) => String(jobId))}::bigint[], ${mine.map(({ runId }) => String(runId))}::bigint[])
      as m(job_id, run_id) join etl.runs c on c.run_id = m.run_id
    where c.cancel_requested_at is not null and not ${isWaitedFor(sql`m.job_id`)}`
  const cancelled = new Set(rows.map((row) => Number(row.job_id)))
  return mine.filter(({ jobId }) => cancelled.has(jobId))
}

/** How many jobs in a cancelled run's list a process still holds while no live run waits for them. */
export const jobsInFlight = (db: Db, runId: number): Promise<number> =>
  queryValue<Numbers<'count'>>(db)`
    select count(*)::integer as count from etl.jobs j
    where j.holder is not null and not ${isWaitedFor(sql`j.job_id`)}
      and exists (select from etl.run_jobs l where l.run_id = ${runId}::bigint and l.job_id = j.job_id)`

/** Jobs in one transaction: planners wait for it no longer than for a step of planning. */
const stepSize = 10_000

/**
 * For a cancelled run: dissolves its plans that no other run waits for, also those that a process still held at an earlier call, and ends its waiting for all
 * its other jobs. In steps, each a transaction. Returns how many jobs were dissolved.
 */
export const leaveRun = async (db: Db, runId: number): Promise<number> => {
  let dissolved = await dissolveUnwanted(db, await leftBefore(db, runId))
  for (;;) {
    const jobIds = await leaveSome(db, runId)
    if (jobIds.length === 0) return dissolved
    dissolved += await dissolveUnwanted(db, jobIds)
  }
}

const leftBefore = (db: Db, runId: number): Promise<string[]> =>
  queryColumn<Row<'etl.jobs', 'job_id'>>(db)`
    select j.job_id from etl.run_jobs w join etl.jobs j using (job_id)
    where w.run_id = ${runId}::bigint and w.outcome = 'let go' and j.state = 'open' and j.holder is null`

/** Skips locked rows: a process is settling them at this moment. */
const leaveSome = (db: Db, runId: number): Promise<string[]> =>
  queryColumn<Row<'etl.jobs', 'job_id'>>(db)`
    with open as (
      select run_id, job_id from etl.run_jobs where run_id = ${runId}::bigint and outcome is null
      order by job_id limit ${stepSize} for update skip locked
    )
    update etl.run_jobs w set outcome = 'let go', finished_at = clock_timestamp() from open o
    where w.run_id = o.run_id and w.job_id = o.job_id returning w.job_id`

const dissolveUnwanted = (db: Db, jobIds: readonly string[]): Promise<number> =>
  db.transaction().execute(async (trx) => {
    // A planner that is about to make a run wait for one of them has this lock.
    await query(trx)`
      select pipeline_id from etl.pipelines where pipeline_id in (select pipeline_id from etl.jobs where job_id = any(${[...jobIds]}::bigint[]))
      order by pipeline_id for update`
    return dissolveJobs(trx, jobIds)
  })

/**
 * Deletes those of the jobs that are only plans, that no process holds and no live run waits for, and units that were only planned. Returns how many. The caller
 * holds the lock of their pipelines. A job that a process is just claiming is left alone.
 */
export const dissolveJobs = async (trx: Db, jobIds: readonly string[]): Promise<number> => {
  const locked = await queryColumn<Row<'etl.jobs', 'job_id'>>(trx)`
    select j.job_id from etl.jobs j where j.job_id = any(${[...jobIds]}::bigint[]) and ${isPlan}
    order by j.job_id for update skip locked`
  // Checks again, now under the lock, whether a run waits.
  return dissolve(trx)`
    select j.job_id from etl.jobs j where j.job_id = any(${locked}::bigint[]) and ${isPlan} and not ${isWaitedFor(sql`j.job_id`)}`
}

/**
 * Job `j` is a plan: it was not asked for, or it is a walk that no process reads, or it loads another job's answer again, unless that answer is of its own pipeline
 * and a unit waits for it: then it is paid for. A job that a person released or approved is no plan.
 */
const isPlan = sql<boolean>`j.state = 'open' and ${isUnclaimed} and not j.released and j.approval_id is null and (j.ask_number is null
  or j.kind = 'walk' and j.answer_id is null
  or j.report_state is null and j.answer_id is not null and not exists (select from etl.answers a where a.answer_id = j.answer_id
    and (a.job_id = j.job_id or a.pipeline_id = j.pipeline_id and exists (select from etl.units u where u.job_id = j.job_id))))`
