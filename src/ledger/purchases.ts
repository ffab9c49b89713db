// Purchases that miss their id or their report: found in the service's own list, adopted, or given up by a person.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { givenUpBy, notFound } from '../core/report-shape.ts'
import type { WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { Flags, Numbers, Texts } from '../db/typed-row.ts'
import { attachUnits } from './adopt-work.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'
import { handOver } from './record-id.ts'
import { jobTransitions, openAgain, reportTransitions, setJob } from './transitions.ts'

/** A purchase whose id a person knows. `isFound`: the program found it in the service's own list. */
type Adoption = Numbers<'jobId'> & Texts<'reportId' | 'by'> & Partial<Flags<'isFound'>>

/** Records the id for a purchase that has none, or whose own leads nowhere, and opens its job again, which polls it. Returns the pipeline that has to load it, with its version. Throws USAGE where that cannot be. */
export const adoptReport = (db: Db, { jobId, reportId, by, isFound = false }: Adoption): Promise<string> =>
  db.transaction().execute(async (trx) => {
    const job = await lockPurchase(trx, jobId)
    if (job.answer_id !== null) throw refused(jobId, 'has its answer already')
    if (!mayTakeId(job)) throw refused(jobId, `has report ${job.report_id} already`)
    if (isWorkedOn(job)) throw refused(jobId, 'is still in progress; run its pipeline once, then try again')
    await freeId(trx, jobId, job.account, reportId)
    await setJob(trx, jobId, {
      ...openAgain,
      ...{ report_state: 'submitted', report_id: reportId, receipt_at: null, status_word: null, polls: 0, retries: 0 },
      ...{ next_poll_at: null, deadline_at: null, completed_at: null, fence: sql`fence + 1` },
      submitted_at: sql`coalesce(submitted_at, asked_at, clock_timestamp())`,
    })
    // A purchase that was given up has lost its units: a plan of them would buy them twice.
    const pipeline = { pipelineId: job.pipeline_id, windowEvery: job.window_every }
    if (job.ask_number !== null) await attachUnits(trx, pipeline, String(jobId), { askNumber: job.ask_number, isBilled: false })
    const former = job.report_id === null || job.report_id === reportId ? '' : ` in place of ${job.report_id}`
    const message = isFound
      ? `Report ${reportId} was found in the service's list of reports and recorded for job ${jobId} (${by}).`
      : `Report ${reportId} was recorded for job ${jobId}${former} by a person (${by}).`
    await note(trx, { kind: isFound ? 'found' : 'adopted', pipelineId: job.pipeline_id, jobId, message })
    return job.whose
  })

/** Takes the id from a job that was given up. Throws USAGE where any other job has it. */
const freeId = async (trx: Db, jobId: number, account: string, reportId: string): Promise<void> => {
  const other = await trx
    .selectFrom('etl.jobs')
    .select(['job_id', 'answer_id', 'state', 'report_state', 'error_message'])
    .where((eb) => eb.and({ account, report_id: reportId }))
    .where('job_id', '<>', String(jobId))
    .forUpdate()
    .executeTakeFirst()
  if (other === undefined) return
  const { job_id: otherId, answer_id, state, report_state, error_message } = other
  if (state !== 'replaced' || report_state !== 'expired') {
    const hint = answer_id === null ? `; if it is not its own: \`millrace reports give-up ${otherId} --sure\`` : ''
    throw refused(jobId, `cannot take report ${reportId}: job ${otherId} has it${hint}`)
  }
  const message = `${error_message ?? ''} Job ${jobId} has it now.`.trim()
  await handOver(trx, otherId, jobId, message)
}

/** An id may be replaced only where it leads nowhere: its report ended, or the service has never known it. */
const mayTakeId = ({ report_id, report_state, status_word }: Purchase): boolean =>
  report_id === null ||
  reportTransitions['asked about again'].from.some((state) => state === report_state) ||
  (report_state === 'submitted' && (status_word === null || status_word === notFound))

/** An open job is left to the process that holds it; without an id it is left to the next process, which finds out what became of the submission. */
const isWorkedOn = ({ state, holder, report_state }: Purchase): boolean =>
  !jobTransitions['late id'].from.some((from) => from === state) ||
  (state === 'open' && (holder !== null || report_state !== 'submitted'))

/**
 * Gives up a report because a person says that it will not come: the next run that wants its units may ask again. An id that turns up later can still be
 * adopted. Throws USAGE where nothing is awaited, while a submission is in flight, and, unless the person is sure, for a report with an id whose deadline has
 * not passed.
 */
export const giveUpReport = (
  db: Db,
  { jobId, by, sure = false }: Pick<Adoption, 'jobId' | 'by'> & { readonly sure?: boolean },
): Promise<void> =>
  db.transaction().execute(async (trx) => {
    const job = await lockPurchase(trx, jobId)
    refuseAwaited(jobId, job, sure)
    const message = `Report ${job.report_id ?? '(id not known)'} of job ${jobId} ${givenUpBy} (${by}).`
    const ended = { state: 'replaced', report_state: job.report_id === null ? 'failed' : 'expired' } as const
    await setJob(trx, jobId, {
      ...ended,
      ...{ holder: null, fence: sql`fence + 1`, not_before: null, error_message: message, updated_at: databaseNow },
    })
    await trx
      .updateTable('etl.run_jobs')
      .set({ outcome: 'failed', finished_at: databaseNow })
      .where((eb) => eb.and({ job_id: String(jobId), outcome: null }))
      .execute()
    await freeUnits(trx, jobId)
    await note(trx, { kind: 'given up', pipelineId: job.pipeline_id, jobId, message })
  })

const refuseAwaited = (jobId: number, job: Purchase, sure: boolean): void => {
  const { answer_id, report_id, report_state, is_held, is_due } = job
  if (answer_id !== null || !reportTransitions['given up'].from.some((state) => state === report_state))
    throw refused(jobId, `has nothing to give up: its report is ${report_state}`)
  if (report_state === 'intent' && is_held)
    throw refused(jobId, 'has a submission in flight, which may be bought this moment; try again in a minute')
  if ((report_state === 'submitted' || report_state === 'ready') && !is_due && !sure)
    throw refused(
      jobId,
      `has report ${report_id}, which is paid for and may still come: its deadline (limits.deadline) has not passed. To give it up all the same: \`millrace reports give-up ${jobId} --sure\``,
    )
}

const freeUnits = (trx: Db, jobId: number): Promise<unknown> => {
  const ours = trx.selectFrom('etl.units').select('unit_id').where('job_id', '=', String(jobId))
  return trx
    .with('locked', () => ours.orderBy('pipeline_id').orderBy('window_from').orderBy('slice_id').forUpdate())
    .updateTable('etl.units')
    .set({ job_id: null })
    .where('unit_id', 'in', (eb) => eb.selectFrom('locked').select('unit_id'))
    .execute()
}

/** `is_held`: a live process has the job. `is_due`: its deadline has passed. */
const purchases = (trx: Db, jobId: number) =>
  trx
    .selectFrom('etl.jobs')
    .select(['pipeline_id', 'account', 'report_id', 'report_state', 'status_word', 'answer_id', 'holder', 'state', 'ask_number'])
    .select([
      sql<boolean>`exists (select from etl.processes p where p.process_id = holder and p.ended_at is null
        and p.lease_until > clock_timestamp())`.as('is_held'),
      sql<boolean>`deadline_at is not null and deadline_at <= clock_timestamp()`.as('is_due'),
      sql<string>`(select concat(p.pipeline, ' version ', p.version) from etl.pipelines p where p.pipeline_id = etl.jobs.pipeline_id)`.as(
        'whose',
      ),
      sql<WindowSize>`(select p.window_every from etl.pipelines p where p.pipeline_id = etl.jobs.pipeline_id)`.as('window_every'),
    ])
    .where('job_id', '=', String(jobId))
    .where('report_state', 'is not', null)

type Purchase = Awaited<ReturnType<ReturnType<typeof purchases>['executeTakeFirstOrThrow']>>

/** Locked in the order of all locks: pipeline, job. */
const lockPurchase = async (trx: Db, jobId: number): Promise<Purchase> => {
  const before = await purchases(trx, jobId).executeTakeFirst()
  if (before !== undefined) await lockPipeline(trx, before.pipeline_id)
  const job = await purchases(trx, jobId).forUpdate().executeTakeFirst()
  if (job === undefined) throw refused(jobId, 'has bought no report')
  return job
}

const refused = (jobId: number, why: string): EtlError =>
  new EtlError('USAGE', `Job ${jobId} ${why}. \`millrace reports list\` names the purchases.`)

/** Submissions by any version of the pipeline whose response was lost and that were not sent again since, oldest first; those older than 30 days are left to a person. */
export const lostPurchases = (db: Db, pipeline: string) =>
  db
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .select(['j.request', 'j.account', sql<number>`j.job_id::float8`.as('jobId')])
    .select(sql<number>`extract(epoch from clock_timestamp() - j.asked_at)::float8 * 1000`.as('askedMsAgo'))
    .where('j.state', 'in', ['held', 'failed'])
    .where((eb) => eb.and({ 'p.pipeline': pipeline, 'j.report_state': 'uncertain', 'j.report_id': null }))
    .where('j.asked_at', '>', sql<string>`clock_timestamp() - interval '30 days'`)
    .orderBy('j.job_id')
    .execute()

/** Those of the ids that no job of the account has. */
export const unknownReports = async (db: Db, account: string, reportIds: readonly string[]): Promise<string[]> => {
  const rows = await db
    .selectFrom('etl.jobs')
    .select('report_id')
    .where('account', '=', account)
    .where((eb) => eb('report_id', '=', eb.fn.any(eb.val([...reportIds]))))
    .execute()
  const known = new Set(rows.map((row) => row.report_id))
  return reportIds.filter((id) => !known.has(id))
}
