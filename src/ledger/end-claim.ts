// What becomes of a claimed job: put off, given back, held, failed, done. Under its fence, and with the runs that wait for it in the same statement.
import { type RawBuilder, sql } from 'kysely'
import { executePrepared, prepared } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { fenced, type Claim, claimList, isClaimedBy, lockJob } from './claim-fence.ts'
import { type RunOutcome, settleWaiting } from './wait-list.ts'

/** Why a job stopped, as it is kept with the job. */
export interface Reason {
  readonly code: string
  readonly message: string
}

/** When it is tried again, and whether the try counts. */
export interface ParkOptions extends Reason {
  /** Milliseconds from now, by the database's clock. */
  readonly notBeforeMs: number
  readonly countsAttempt: boolean
  /** The job is left to a later run; the runs that wait for it need not. */
  readonly final: boolean
}

/**
 * No process holds it any more: the fence grows, so that nothing of the old claim can be written. A walk without an answer was asked for in vain and is
 * a plan again; a report stays asked for.
 */
const unclaimed = sql`holder = null, fence = fence + 1, updated_at = clock_timestamp(),
  ask_number = case when kind = 'walk' and answer_id is null then null else ask_number end,
  asked_at = case when kind = 'walk' and answer_id is null then null else asked_at end`

const attemptBack = sql`attempts = greatest(0, attempts - 1)`

/**
 * Call inside a transaction. A planner holds the job's lock while it has a run wait for it, and a statement that was waiting for that lock would not see
 * the new row of the list: so the lock comes first, in a statement of its own.
 * @param outcome null: the runs go on waiting
 */
const settle = async (
  db: Db,
  claim: Claim,
  set: RawBuilder<unknown>,
  outcome: RunOutcome | null,
  { mayPass = outcome === 'loaded', isLocked = false }: { readonly mayPass?: boolean; readonly isLocked?: boolean } = {},
): Promise<void> => {
  if (outcome !== null && !isLocked) await lockJob(db, claim)
  const settled = sql`update etl.jobs set ${set} where ${isClaimedBy(claim)} returning job_id, pipeline_id, answer_id, slice_ids, window_from, window_to`
  const statement =
    outcome === null
      ? settled
      : sql`with settled as (${settled}), waiting as (${settleWaiting('settled', outcome, { mayPass })}) select job_id from settled`
  const rows = await executePrepared(db, statement)
  if (rows.length === 0) throw fenced(claim)
}

/** Not yet: again when its time has come. */
export const parkJob = (db: Db, claim: Claim, options: ParkOptions): Promise<void> => {
  const { notBeforeMs, countsAttempt, final, code, message } = options
  const attempts = countsAttempt ? sql`attempts = attempts` : attemptBack
  const set = sql`${unclaimed}, ${attempts}, error_code = ${code}, error_message = ${message},
    not_before = clock_timestamp() + ${Math.round(notBeforeMs)}::float8 * interval '1 millisecond'`
  return settle(db, claim, set, final ? 'waiting' : null)
}

/** Given back as if it had not been claimed. */
export const returnJob = (db: Db, claim: Claim): Promise<void> =>
  settle(db, claim, sql`${unclaimed}, ${attemptBack}, not_before = null, error_code = null, error_message = null`, null)

/**
 * Whether the id of a submission whose answer was thought lost is on record by now: its sender came back. The job is locked from here on: an id that
 * comes later waits, and finds the job as it was settled.
 */
export const isIdKnown = async (db: Db, claim: Claim): Promise<boolean> => {
  await lockJob(db, claim)
  const rows = await prepared(
    db,
  )`select job_id from etl.jobs where ${isClaimedBy(claim)} and report_id is not null and report_state = 'submitted'`
  return rows.length > 0
}

const stopJob =
  (state: 'held' | 'failed') =>
  (db: Db, claim: Claim, { code, message }: Reason): Promise<void> =>
    settle(
      db,
      claim,
      sql`${unclaimed}, state = ${state}, not_before = null, error_code = ${code}, error_message = ${message}`,
      state,
    )

/** Waits for a person. */
export const holdJob = stopJob('held')

/** The next run tries again. */
export const failJob = stopJob('failed')

const finished = sql`state = 'done', holder = null, fence = fence + 1, not_before = null, error_code = null, error_message = null,
  updated_at = clock_timestamp()`

/** All its units are loaded, or held with the answer, or were skipped for newer ones. Units that are held are counted as they stand before this statement. @param mayPass see `settleWaiting` @param isLocked the caller's transaction has locked the job already */
export const finishJob = (
  db: Db,
  claim: Claim,
  outcome: 'loaded' | 'unchanged',
  { mayPass = outcome === 'loaded', isLocked = false }: { readonly mayPass?: boolean; readonly isLocked?: boolean } = {},
): Promise<void> => settle(db, claim, finished, outcome, { mayPass, isLocked })

/** Fetched and not begun: for others to take at once. Those that are somebody else's by now are left alone. */
export const giveBackJobs = async (db: Db, claims: readonly Claim[]): Promise<void> => {
  if (claims.length === 0) return
  await prepared(db)`
    with mine as (
      select j.job_id from etl.jobs j join ${claimList(claims)} on j.job_id = m.job_id and j.fence = m.fence
      where j.state = 'open' order by j.job_id for update of j
    )
    update etl.jobs set ${unclaimed}, ${attemptBack}, not_before = null where job_id in (select job_id from mine)`
}
