// What a person decides about failed units and about runs, each with its event in the same transaction; held units are in release.ts.
import { type Selectable, sql } from 'kysely'
import type { Db, JobsTable, UnitsTable } from '../db/tables.ts'
import { dissolveJobs } from './cancel-request.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { mayBegin, openAgain, reportTransitions } from './transitions.ts'

/** A failed unit's job is worked on again with all its attempts; a report it bought stays its own. False: it had not failed. */
export const retryByPerson = (db: Db, unitId: number, by: string): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const found = await lockUnit(trx, unitId)
    if (found === null || found.job?.state !== 'failed') return false
    const jobId = await reopen(trx, found.job.job_id, {})
    const message = `Unit ${unitId} was opened again by a person (${by}).`
    await note(trx, { kind: 'retried', pipelineId: found.unit.pipeline_id, unitId, jobId, message })
    return true
  })

/** @param by who asked for it, for the event */
export const noteCancel = (db: Db, runId: number, by: string): Promise<void> =>
  note(db, { kind: 'cancelled', runId, message: `Run ${runId} was cancelled by a person (${by}).` })

/** As much of a unit as a decision about it needs. */
export type UnitRow = Pick<Selectable<UnitsTable>, 'pipeline_id' | 'window_from' | 'slice_id' | 'job_id' | 'held_answer_id'>
type JobRow = Pick<Selectable<JobsTable>, 'job_id' | 'state' | 'guard' | 'released'>

/** The unit and the newest job that asks for it, locked in the order of all locks: pipeline, job, unit. */
export const lockUnit = async (trx: Db, unitId: number): Promise<{ unit: UnitRow; job: JobRow | null } | null> => {
  const units = trx
    .selectFrom('etl.units')
    .select(['pipeline_id', 'window_from', 'slice_id', 'job_id', 'held_answer_id'])
    .where('unit_id', '=', String(unitId))
  const before = await units.executeTakeFirst()
  if (before === undefined) return null
  await lockPipeline(trx, before.pipeline_id)
  const job =
    before.job_id === null
      ? undefined
      : await trx
          .selectFrom('etl.jobs')
          .select(['job_id', 'state', 'guard', 'released'])
          .where('job_id', '=', before.job_id)
          .forUpdate()
          .executeTakeFirst()
  const unit = await units.forUpdate().executeTakeFirst()
  if (unit === undefined) return null
  return { unit, job: job !== undefined && job.job_id === unit.job_id ? job : null }
}

/** A report that ended without an answer is polled again: what the service says of it now decides, not what it once said. */
export const reopen = async (trx: Db, jobId: string, set: { readonly released?: boolean }): Promise<number> => {
  await trx
    .updateTable('etl.jobs')
    .set({ ...openAgain, guard: 'usual', next_poll_at: null, deadline_at: null, ...set })
    .where('job_id', '=', jobId)
    .execute()
  await trx
    .updateTable('etl.jobs')
    .set({ report_state: 'submitted', completed_at: null })
    .where('job_id', '=', jobId)
    .where('report_id', 'is not', null)
    .where('answer_id', 'is', null)
    .where(mayBegin('report_state', reportTransitions['asked about again']))
    .execute()
  return Number(jobId)
}

/** Plans of a cancelled run that some process still held when the run let go of them and no run waits for: dissolved like the others. */
export const dissolveLeft = (db: Db, runId: number): Promise<number> =>
  db.transaction().execute(async (trx) => {
    const left = await trx
      .selectFrom('etl.run_jobs as w')
      .innerJoin('etl.jobs as j', 'j.job_id', 'w.job_id')
      .select(['j.job_id', 'j.pipeline_id'])
      .where('w.run_id', '=', String(runId))
      .where('w.outcome', '=', 'let go')
      .where('j.state', '=', 'open')
      .where('j.holder', 'is', null)
      .execute()
    for (const pipelineId of [...new Set(left.map((job) => job.pipeline_id))].sort((a, b) => a - b))
      await lockPipeline(trx, pipelineId)
    return left.length === 0
      ? 0
      : dissolveJobs(
          trx,
          left.map((job) => job.job_id),
        )
  })

/** Units a cancelled run had asked for and does not wait for any more. */
export const unitsLetGo = async (db: Db, runId: number): Promise<number> => {
  const row = await db
    .selectFrom('etl.run_jobs')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<string>('units'), sql<string>`0`).as('units'))
    .where('run_id', '=', String(runId))
    .where('outcome', '=', 'let go')
    .executeTakeFirstOrThrow()
  return Number(row.units)
}
