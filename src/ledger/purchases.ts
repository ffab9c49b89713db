// What a person knows of a purchase and the ledger does not: the id it was bought under, or that its report will never come.
import { type Selectable, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import { databaseNow } from './database-now.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { jobTransitions } from './transitions.ts'

export interface Adoption {
  readonly jobId: number
  /** As the service names the report. */
  readonly reportId: string
  /** Who did it, for the event. */
  readonly by: string
}

/** Records the id for a purchase that has none and opens its job again, which polls it. Throws USAGE where that cannot be. */
export const adoptReport = (db: Db, { jobId, reportId, by }: Adoption): Promise<void> =>
  db.transaction().execute(async (trx) => {
    const job = await lockPurchase(trx, jobId)
    if (job.report_id !== null) throw refused(jobId, `has report ${job.report_id} already`)
    if (job.answer_id !== null) throw refused(jobId, 'has its answer already')
    if (!jobTransitions['late id'].from.some((state) => state === job.state))
      throw refused(jobId, 'is still worked on; run its pipeline once, then try again')
    const other = await trx
      .selectFrom('etl.jobs')
      .select('job_id')
      .where('account', '=', job.account)
      .where('report_id', '=', reportId)
      .executeTakeFirst()
    if (other !== undefined) throw refused(jobId, `cannot take report ${reportId}: job ${other.job_id} has it`)
    await trx
      .updateTable('etl.jobs')
      .set({
        state: 'open',
        report_state: 'submitted',
        report_id: reportId,
        submitted_at: sql<string>`coalesce(submitted_at, asked_at, clock_timestamp())`,
        next_poll_at: null,
        deadline_at: null,
        attempts: 0,
        not_before: null,
        error_code: null,
        error_message: null,
        fence: sql<string>`fence + 1`,
        updated_at: databaseNow,
      })
      .where('job_id', '=', String(jobId))
      .execute()
    const message = `Report ${reportId} was recorded for job ${jobId} by a person (${by}).`
    await note(trx, { kind: 'adopted', pipelineId: job.pipeline_id, jobId, message })
  })

const givenUp = ['intent', 'submitted', 'ready', 'uncertain'] as const

/**
 * Takes a person's word that the report will not come: its units are free to be asked for again, by the next run that wants them. An id
 * that turns up later can still be adopted. Throws USAGE where nothing is awaited.
 */
export const giveUpReport = (db: Db, { jobId, by }: Omit<Adoption, 'reportId'>): Promise<void> =>
  db.transaction().execute(async (trx) => {
    const job = await lockPurchase(trx, jobId)
    if (job.answer_id !== null || !givenUp.some((state) => state === job.report_state))
      throw refused(jobId, `awaits nothing: its report is ${job.report_state}`)
    const message = `Report ${job.report_id ?? '(id not known)'} of job ${jobId} was given up by a person (${by}).`
    await trx
      .updateTable('etl.jobs')
      .set({
        state: 'replaced',
        report_state: job.report_id === null ? 'failed' : 'expired',
        holder: null,
        fence: sql<string>`fence + 1`,
        not_before: null,
        error_message: message,
        updated_at: databaseNow,
      })
      .where('job_id', '=', String(jobId))
      .execute()
    await trx
      .updateTable('etl.run_jobs')
      .set({ outcome: 'failed', finished_at: databaseNow })
      .where('job_id', '=', String(jobId))
      .where('outcome', 'is', null)
      .execute()
    await freeUnits(trx, jobId)
    await note(trx, { kind: 'given up', pipelineId: job.pipeline_id, jobId, message })
  })

const freeUnits = (trx: Db, jobId: number): Promise<unknown> =>
  trx
    .with('locked', (cte) =>
      cte
        .selectFrom('etl.units')
        .select('unit_id')
        .where('job_id', '=', String(jobId))
        .orderBy('pipeline_id')
        .orderBy('window_from')
        .orderBy('slice_id')
        .forUpdate(),
    )
    .updateTable('etl.units')
    .set({ job_id: null })
    .where('unit_id', 'in', (eb) => eb.selectFrom('locked').select('unit_id'))
    .execute()

type Purchase = Pick<
  Selectable<JobsTable>,
  'pipeline_id' | 'account' | 'report_id' | 'report_state' | 'answer_id' | 'holder' | 'state'
>

/** Locked in the order of all locks: pipeline, job. */
const lockPurchase = async (trx: Db, jobId: number): Promise<Purchase> => {
  const jobs = trx
    .selectFrom('etl.jobs')
    .select(['pipeline_id', 'account', 'report_id', 'report_state', 'answer_id', 'holder', 'state'])
    .where('job_id', '=', String(jobId))
    .where('report_state', 'is not', null)
  const before = await jobs.executeTakeFirst()
  if (before !== undefined) await lockPipeline(trx, before.pipeline_id)
  const job = await jobs.forUpdate().executeTakeFirst()
  if (job === undefined) throw refused(jobId, 'has bought no report')
  return job
}

const refused = (jobId: number, why: string): EtlError =>
  new EtlError('USAGE', `Job ${jobId} ${why}. \`millrace reports list\` names the purchases.`)
