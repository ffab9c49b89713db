// Records the id of a paid report, in the process that knows it. A service that recognises a repeated (idempotent) submission answers with a former report,
// which another job of the account may already have.
import assert from 'node:assert/strict'
import { type Selectable, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { RepeatedReportId } from '../core/report-shape.ts'
import type { ReportState } from '../core/types.ts'
import { sqlStateOf } from '../db/database-error.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'
import { isClaimedBy, jobRow } from './claim-fence.ts'
import { databaseNow } from '../db/database-clock.ts'
import { type Numbers, query, queryValue } from '../db/typed-row.ts'
import { attachUnits } from './adopt-work.ts'
import { note } from './events.ts'
import { isUnitOf } from './job-units.ts'
import { lockPipeline } from './pipelines.ts'
import { lockJobs } from './register-jobs.ts'
import { mayBegin, nothingAsked, reportTransitions, setJob } from './transitions.ts'
import { maybePaid } from './wait-list.ts'

/** An id that the service gave for a submission. */
interface GivenId {
  readonly reportId: string
  readonly statusWord: string | null
  readonly letGo?: () => Promise<void>
}

const uniqueViolation = '23505'

/**
 * Records the id by one statement first: once sent, PostgreSQL carries it out, whatever becomes of this process. null: the report is this job's. Else
 * another job has it, and the result says how this job continues.
 */
export const recordId = async (db: Db, claim: ClaimedJob, given: GivenId): Promise<RepeatedReportId | null> => {
  try {
    await keepId(db, claim, given)
  } catch (error) {
    if (sqlStateOf(error) !== uniqueViolation) throw error
    const before = await adoptKnown(db, claim, given)
    if (before !== null) return before
    await keepId(db, claim, given)
  }
  await takeBackUnits(db, claim)
  return null
}

/** For a job that this process had lost and that is open again: its units may be in another job by now, which would buy them again. */
const takeBackUnits = async (db: Db, claim: ClaimedJob): Promise<void> => {
  const { jobId, pipelineId, windowEvery } = claim
  const reopened = jobRow(db, claim).select('ask_number as askNumber').where('state', '=', 'open')
  const { askNumber = null } = (await reopened.where(sql<boolean>`not (${isClaimedBy(claim)})`).executeTakeFirst()) ?? {}
  if (askNumber === null) return
  await db.transaction().execute(async (trx) => {
    await lockPipeline(trx, pipelineId)
    // A process that settles the job meanwhile would not see the runs that wait for it now.
    await lockJobs(trx, [String(jobId)])
    await attachUnits(trx, { pipelineId, windowEvery }, String(jobId), { askNumber, isBilled: false })
  })
}

/**
 * Works outside the fence: the id of a paid report is recorded also where another process has the job by now. Reopens a job that a process or a person had given
 * up over the lost response, for the next run that takes up orphans. A recorded id stays: another id would be another report.
 */
const keepId = async (db: Db, claim: ClaimedJob, { reportId, statusWord }: GivenId): Promise<void> => {
  const reopened = sql<boolean>`state in ('held', 'failed', 'replaced') and report_state <> 'submitted'`
  const rows = await db
    .updateTable('etl.jobs')
    .set({
      state: sql`case when ${reopened} then 'open' else state end`,
      error_code: sql<string | null>`case when ${reopened} then null else error_code end`,
      error_message: null,
      report_state: 'submitted',
      report_id: reportId,
      status_word: statusWord,
      submitted_at: sql<string>`coalesce(submitted_at, clock_timestamp())`,
      updated_at: databaseNow,
    })
    .where('job_id', '=', String(claim.jobId))
    .where(mayBegin(reportTransitions['id known']))
    .where(sql<boolean>`coalesce(report_id, ${reportId}) = ${reportId}`)
    // A report that failed under its id is over; a job that failed without an id was given up before the id was known.
    .where((eb) => eb.or([eb('report_state', '<>', 'failed'), eb('report_id', 'is', null)]))
    .returning('job_id')
    .execute()
  if (rows.length > 0) return
  const found = await jobRow(db, claim).select(['report_id', 'report_state']).executeTakeFirst()
  // The next process of the job may have polled the report since: then its id is recorded.
  if (found?.report_id === reportId) return
  throw new EtlError(
    'INTERNAL',
    `${claim.box.key}: report ${found?.report_id ?? '(id not known)'} is ${found?.report_state ?? 'not recorded'}; report ${reportId} cannot be ` +
      'recorded in its place. Keep this id and report this defect.',
  )
}

/** How long a job waits before it checks again on a report that another job waits for. */
const otherWaitsMs = 30_000

type Other = Pick<Selectable<JobsTable>, 'job_id' | 'state' | 'answer_id' | 'ask_number' | 'asked_at' | 'request_hash'>

/**
 * Uses the report of the other job: its answer where that has landed, the report itself where that job is over. Where that job still waits for it, this job
 * waits too. The ask number stays the former one, since the answer is a former one. The result says how this job continues; null: no other job has the report
 * any more, and this job records it.
 */
const adoptKnown = (db: Db, claim: ClaimedJob, { reportId, letGo }: GivenId): Promise<RepeatedReportId | null> =>
  db.transaction().execute(async (trx) => {
    const { own, other } = await lockBoth(trx, claim, reportId)
    if (other === null) return null
    // A request that is not recorded (restored ledger) contradicts nothing.
    if (own.request_hash !== null && other.request_hash !== null && own.request_hash !== other.request_hash)
      return {
        message: `the service returned report ${reportId}, which job ${other.job_id} has for another request`,
        waitMs: null,
      }
    await letGo?.()
    if (other.answer_id !== null) {
      await takeAnswer(trx, claim, other.answer_id)
      const isLoaded = (await noteStanding(trx, claim, other.answer_id)) >= claim.cells
      const what = isLoaded ? 'it, or a newer one, is loaded already' : 'its answer is loaded as it was downloaded then'
      return goesOn(`the service returned report ${reportId} of job ${other.job_id} again; ${what}`, 0)
    }
    if (other.state === 'open') {
      await setJob(trx, claim.jobId, { ...nothingAsked, updated_at: databaseNow })
      return goesOn(`the service returned report ${reportId} again, which job ${other.job_id} waits for`, otherWaitsMs)
    }
    await moveReport(trx, claim, other, reportId)
    return null
  })

const goesOn = (message: string, waitMs: number): RepeatedReportId => ({ message: `${message}. It is not bought again.`, waitMs })

/** Locks both in the order of their numbers, in which every process locks jobs. */
const lockBoth = async (trx: Db, claim: ClaimedJob, reportId: string): Promise<{ own: Other; other: Other | null }> => {
  const rows = await trx
    .selectFrom('etl.jobs')
    .select(['job_id', 'state', 'answer_id', 'ask_number', 'asked_at', 'request_hash'])
    .where((eb) =>
      eb.or([
        eb('job_id', '=', String(claim.jobId)),
        eb.and([eb('account', '=', claim.account), eb('report_id', '=', reportId)]),
      ]),
    )
    .orderBy('job_id')
    .forUpdate()
    .execute()
  const own = rows.find((row) => Number(row.job_id) === claim.jobId)
  assert.ok(own !== undefined, `job ${claim.jobId} is on record`)
  return { own, other: rows.find((row) => row !== own) ?? null }
}

const takeAnswer = async (trx: Db, { jobId }: ClaimedJob, answerId: string): Promise<void> => {
  const answer = await trx
    .selectFrom('etl.answers')
    .select(['ask_number', 'asked_at'])
    .where('answer_id', '=', answerId)
    .executeTakeFirstOrThrow()
  // No person has seen that answer.
  await setJob(trx, jobId, { ...nothingAsked, ...answer, answer_id: answerId, released: false, updated_at: databaseNow })
}

/** Records that units with this answer, or one asked for later, were checked: the service had nothing newer. Returns how many. */
const noteStanding = (trx: Db, claim: ClaimedJob, answerId: string): Promise<number> =>
  queryValue<Numbers<'units'>>(trx)`
    with standing as materialized (
      select u.answer_id from etl.units u where ${isUnitOf(claim)} and u.answer_id >= ${answerId}::bigint
    ), locked as (
      select answer_id from etl.answer_rows where answer_id in (select answer_id from standing) order by answer_id for update
    ), stood as (
      update etl.answer_rows set stood_at = clock_timestamp() where answer_id in (select answer_id from locked)
    )
    select count(*)::float8 as units from standing`

const moveReport = async (trx: Db, { jobId, pipelineId }: ClaimedJob, other: Other, reportId: string): Promise<void> => {
  const message = `The service answered job ${jobId} with report ${reportId} of job ${other.job_id}; job ${jobId} has the report now.`
  await handOver(trx, other.job_id, jobId, message)
  await setJob(trx, jobId, { ask_number: other.ask_number, asked_at: other.asked_at, updated_at: databaseNow })
  await note(trx, { kind: 'report taken up', pipelineId, jobId, message })
}

/** Moves the report of a job, and its cost, to another job. The former job is left without a live purchase, which budgets would count and a run would take up. */
export const handOver = async (trx: Db, from: string, to: number, message: string): Promise<void> => {
  await query(trx)`
    with bill as (select used_quota from etl.jobs where job_id = ${from}::bigint and report_state in ${maybePaid})
    update etl.jobs set used_quota = bill.used_quota from bill where job_id = ${to}::bigint`
  const isBought = sql`report_state in ${maybePaid}`
  await setJob(trx, from, {
    ...{ report_id: null, error_message: message, updated_at: databaseNow },
    report_state: sql<ReportState>`case when ${isBought} then 'failed' else report_state end`,
    used_quota: sql<string | null>`case when not ${isBought} then used_quota end`,
  })
}
