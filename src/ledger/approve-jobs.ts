// A person's word: given for what waits, and taken back.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { query, type Row } from '../db/typed-row.ts'
import { countApproval, decide } from './approvals.ts'
import { isStanding } from './approved-jobs.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { dissolving, leavingUnits } from './register-jobs.ts'
import { isWaitedFor } from './wait-list.ts'

/** What a person's word allowed. */
export interface Approved {
  readonly approvalId: number
  readonly pipeline: string
  readonly version: number
  readonly units: number
  readonly reports: number
  readonly credits: number
}

/**
 * All that waits of the pipelines may be bought from here on, and is by the next run: the price that was seen is kept with who said so. Each pipeline is
 * a transaction of its own. @param pipelines names; empty: every one
 */
export const approve = async (db: Db, pipelines: readonly string[], by: string): Promise<Approved[]> => {
  const approved: Approved[] = []
  for (const { pipeline_id } of await waitingOf(db, pipelines)) {
    approved.push(...(await db.transaction().execute((trx) => approveIn(trx, pipeline_id, by))))
  }
  return approved
}

const waitingOf = (db: Db, pipelines: readonly string[]): Promise<{ pipeline_id: number }[]> =>
  db
    .selectFrom('etl.approvals as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .select('a.pipeline_id')
    .distinct()
    .where('a.state', '=', 'waiting')
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', [...pipelines]))
    .orderBy('a.pipeline_id')
    .execute()

/** The same within a transaction that has, or takes, the pipeline's lock. Of a night that is still planned only what is held by now is approved. */
export const approveIn = async (trx: Db, pipelineId: number, by: string): Promise<Approved[]> => {
  await lockPipeline(trx, pipelineId)
  await countApproval(trx, pipelineId)
  const rows = await trx
    .selectFrom('etl.approvals as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .select(['a.approval_id', 'a.units', 'a.reports', 'a.credits', 'p.pipeline', 'p.version'])
    .where('a.pipeline_id', '=', pipelineId)
    .where('a.state', '=', 'waiting')
    .orderBy('a.approval_id')
    .execute()
  const approved: Approved[] = []
  for (const { approval_id, pipeline, version, reports, ...row } of rows) {
    await query(trx)`
      with held as (
        select job_id from etl.jobs where approval_id = ${approval_id}::bigint and state = 'held' and guard = 'needs approval'
        order by job_id for update
      )
      update etl.jobs set state = 'open', guard = 'usual', wanted_by = 'approval', attempts = 0, not_before = null, error_code = null, error_message = null,
        updated_at = clock_timestamp() where job_id in (select job_id from held)`
    await decide(trx, approval_id, 'approved', by)
    const one = {
      approvalId: Number(approval_id),
      pipeline,
      version,
      reports,
      units: Number(row.units),
      credits: Number(row.credits),
    }
    const message = `${one.units} units (${one.reports === 0 ? '' : `${one.reports} reports, `}about ${one.credits} credits) of ${pipeline} were approved by a person (${by}).`
    await note(trx, { kind: 'approved', pipelineId, message })
    approved.push(one)
  }
  return approved
}

/**
 * Takes a word back: what a person allowed, named or forced and was not bought yet is dissolved, and so is what waits; what belongs to a night is held
 * anew by the next one. Returns how many jobs. @param pipelines names; empty: every one
 */
export const withdraw = async (db: Db, pipelines: readonly string[], by: string): Promise<number> => {
  const ours = await db
    .selectFrom('etl.pipelines')
    .select('pipeline_id')
    .$if(pipelines.length > 0, (query) => query.where('pipeline', 'in', [...pipelines]))
    .orderBy('pipeline_id')
    .execute()
  let dissolved = 0
  for (const { pipeline_id } of ours) dissolved += await takeBack(db, pipeline_id, sql`true`, by)
  return dissolved
}

/** The same of what one run asked for and that failed: no night tries it again. */
export const withdrawRun = async (db: Db, runId: number, by: string): Promise<number> => {
  const ofRun = sql`exists (select from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = j.job_id)`
  const rows = await query<Row<'etl.jobs', 'pipeline_id'>>(db)`
    select distinct j.pipeline_id from etl.jobs j where ${ofRun} and j.state = 'failed' and ${isPersons} order by 1`
  let dissolved = 0
  for (const { pipeline_id } of rows) dissolved += await takeBack(db, pipeline_id, sql`${ofRun} and j.state = 'failed'`, by)
  return dissolved
}

/** A night would try it again in that person's name. */
const isPersons = sql<boolean>`j.wanted_by in ('range', 'force', 'approval')`

/** Reports that ended and pages that were not all there cost no more: their units count on them no longer, as if they had not been asked for. */
const isOver = sql<boolean>`j.state = 'failed' and j.ask_number is not null and j.answer_id is null
  and coalesce(j.report_state in ('failed', 'rejected', 'expired'), true)`

const takeBack = (db: Db, pipelineId: number, which: RawBuilder<unknown>, by: string): Promise<number> =>
  db.transaction().execute(async (trx) => {
    await lockPipeline(trx, pipelineId)
    const ours = sql`j.pipeline_id = ${pipelineId} and ${which} and not ${isWaitedFor(sql`j.job_id`)}`
    const unsent = sql`j.state in ('open', 'failed') and j.ask_number is null and j.answer_id is null and j.holder is null and ${isPersons}`
    const rows = await query(trx)`
      with ${dissolving(sql`
        select j.job_id from etl.jobs j where ${ours} and (${unsent} or ${isStanding} or j.state = 'held' and j.guard = 'needs approval')
        order by j.job_id for update`)}`
    const over = await sql`
      with gone as materialized (select j.job_id from etl.jobs j where ${ours} and ${isOver} and ${isPersons} order by j.job_id for update),
      ${leavingUnits()}
      update etl.jobs set state = 'replaced', updated_at = clock_timestamp() where job_id in (select job_id from gone) returning job_id`.execute(
      trx,
    )
    await countApproval(trx, pipelineId)
    const count = rows.length + over.rows.length
    const message = `${count} purchases were withdrawn by a person (${by}).`
    if (count > 0) await note(trx, { kind: 'withdrawn', pipelineId, message })
    return count
  })
