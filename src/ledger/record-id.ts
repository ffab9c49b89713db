// The id of a report that was paid for, recorded by the process that knows it; and an id that the service gave before, because it knows the request: an
// idempotent submission is answered with the report it has, which another job of the account has already.
import assert from 'node:assert/strict'
import { type Selectable, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { GivenBefore } from '../core/report-shape.ts'
import type { ReportState } from '../core/types.ts'
import { sqlStateOf } from '../db/database-error.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'
import { isClaimedBy, jobRow } from './claim-fence.ts'
import { databaseNow } from '../db/database-clock.ts'
import { type Numbers, query, queryValue } from '../db/typed-row.ts'
import { awaitJob } from './adopt-work.ts'
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
 * One statement first: once it was sent the server carries it out, whatever becomes of this process. What it returns says that another job has the
 * report, and how this one goes on; null: it is this one's.
 */
export const recordId = async (db: Db, claim: ClaimedJob, given: GivenId): Promise<GivenBefore | null> => {
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

/** Of a job that this process had lost, and that is open again: its units may count on another one by now, which would buy them once more. */
const takeBackUnits = async (db: Db, claim: ClaimedJob): Promise<void> => {
  const { jobId, pipelineId, windowEvery } = claim
  const reopened = jobRow(db, claim).select('ask_number as askNumber').where('state', '=', 'open')
  const { askNumber = null } = (await reopened.where(sql<boolean>`not (${isClaimedBy(claim)})`).executeTakeFirst()) ?? {}
  if (askNumber === null) return
  await db.transaction().execute(async (trx) => {
    await lockPipeline(trx, pipelineId)
    // Who settles it meanwhile would not see who waits for it now.
    await lockJobs(trx, [String(jobId)])
    await awaitJob(trx, { pipelineId, windowEvery }, String(jobId), { askNumber, isBilled: false })
  })
}

/**
 * Outside the fence: what was paid for is known from here on, also where another process has the job by now. A job that had been given up over the lost answer, by a
 * process or by a person, is open again, for the next one that takes up orphans. An id that is on record stays: another one would be another report.
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
    // One that failed under its id is over; one that failed without any was given up before its id was known.
    .where((eb) => eb.or([eb('report_state', '<>', 'failed'), eb('report_id', 'is', null)]))
    .returning('job_id')
    .execute()
  if (rows.length > 0) return
  const found = await jobRow(db, claim).select(['report_id', 'report_state']).executeTakeFirst()
  // A successor may have polled it since: then it is on record.
  if (found?.report_id === reportId) return
  throw new EtlError(
    'INTERNAL',
    `${claim.box.key}: report ${found?.report_id ?? '(id not known)'} is ${found?.report_state ?? 'not on record'}; report ${reportId} cannot be put on ` +
      'record in its place. Keep this id and report this defect.',
  )
}

/** A report that another job waits for is asked about again after so long. */
const otherWaitsMs = 30_000

type Other = Pick<Selectable<JobsTable>, 'job_id' | 'state' | 'answer_id' | 'ask_number' | 'asked_at' | 'request_hash'>

/**
 * Takes the report up instead of fighting for it: its answer where that has landed, the report itself where its job is over. Where its job still waits
 * for it this one waits too. The number stays the former one, since the answer is a former one. What it returns says how the job goes on; null: no other
 * job has the report, or had it, so that it is this one's to record.
 */
const adoptKnown = (db: Db, claim: ClaimedJob, { reportId, letGo }: GivenId): Promise<GivenBefore | null> =>
  db.transaction().execute(async (trx) => {
    const { own, other } = await lockBoth(trx, claim, reportId)
    if (other === null) return null
    // What is not on record (a restored ledger) contradicts nothing.
    if (own.request_hash !== null && other.request_hash !== null && own.request_hash !== other.request_hash)
      return { message: `the service gave report ${reportId}, which job ${other.job_id} has for another request`, waitMs: null }
    await letGo?.()
    if (other.answer_id !== null) {
      await takeAnswer(trx, claim, other.answer_id)
      const isLoaded = (await noteStanding(trx, claim, other.answer_id)) >= claim.cells
      const what = isLoaded ? 'that is loaded already, or a newer one is' : 'its answer is loaded as it was downloaded then'
      return goesOn(`the service gave report ${reportId} of job ${other.job_id} again; ${what}`, 0)
    }
    if (other.state === 'open') {
      await setJob(trx, claim.jobId, { ...nothingAsked, updated_at: databaseNow })
      return goesOn(`the service gave report ${reportId} again, which job ${other.job_id} waits for`, otherWaitsMs)
    }
    await moveReport(trx, claim, other, reportId)
    return null
  })

const goesOn = (message: string, waitMs: number): GivenBefore => ({ message: `${message}. It is not bought again.`, waitMs })

/** In the order of their numbers, as everybody locks jobs. */
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

/** Units whose answer is this one or was asked for later have been looked at: the service had nothing newer. Returns how many. */
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
  const message = `Report ${reportId} of job ${other.job_id} was given again by the service, for job ${jobId}, which has it from here on.`
  await handOver(trx, other.job_id, jobId, message)
  await setJob(trx, jobId, { ask_number: other.ask_number, asked_at: other.asked_at, updated_at: databaseNow })
  await note(trx, { kind: 'report taken up', pipelineId, jobId, message })
}

/** The report of a job is another one's from here on, and what it costs is counted with that: without it the job has no purchase under way, which budgets would count and a run take up. */
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
