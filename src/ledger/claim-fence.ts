// A claimed job under its fence: the number it asks under, and how it settles: parked, given back, held, failed, done. Every write after a claim names the claim;
// the same statement settles the job for the runs that wait for it.
import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { Db, Tables } from '../db/tables.ts'
import { executePrepared, prepared, type Row } from '../db/typed-row.ts'
import { asDownloaded, openError } from './transitions.ts'
import { type RunOutcome, type Settled, settleWaiting } from './wait-list.ts'

/** Identifies a claim; every write that follows it names it. */
export interface Claim {
  readonly jobId: number | string
  readonly fence: string
  /** Number of the process that claimed it. */
  readonly holder: number | string
}

/**
 * The job is held under this claim and no other, and is not settled: the condition of every write after a claim. A job whose holder was declared dead has
 * no holder until another process takes it; until then it still counts as the old holder's.
 */
export const isClaimedBy = ({ jobId, fence, holder }: Claim): RawBuilder<boolean> =>
  sql<boolean>`job_id = ${jobId}::bigint and fence = ${fence}::bigint and coalesce(holder, ${holder}::integer) = ${holder}::integer
    and state = 'open'`

/** FENCED: another process has the job by now, and this one may write nothing more of it. */
export const fenced = ({ jobId }: Claim): EtlError =>
  new EtlError('FENCED', `Job ${jobId} was taken over by another process; nothing was written by this one.`)

/** Locks the job's row for the rest of the transaction; throws FENCED where another process has claimed it since, or it is settled. */
export const lockJob = async (db: Db, claim: Claim): Promise<void> => {
  const rows = await prepared(db)`select job_id from etl.jobs where ${isClaimedBy(claim)} for update`
  if (rows.length === 0) throw fenced(claim)
}

/** The job's row, with or without a holder. */
export const jobRow = (db: Db, { jobId }: Pick<Claim, 'jobId'>) => db.selectFrom('etl.jobs').where('job_id', '=', String(jobId))

/** Sets columns of the job; false: it is not held under this claim any more, and nothing was written. @param also what must be true besides */
export const setClaimed = async (
  db: Db,
  claim: Claim,
  values: UpdateObject<Tables, 'etl.jobs'>,
  also = sql<boolean>`true`,
): Promise<boolean> => {
  const rows = await db.updateTable('etl.jobs').set(values).where(isClaimedBy(claim)).where(also).returning('job_id').execute()
  return rows.length > 0
}

/** Adds landings with paid pages of a walk to those that its job names. */
export const withBegunLandings = (landings: readonly string[]) => ({
  begun_landing: sql<string>`(select string_agg(distinct x, ' ') from unnest(string_to_array(concat_ws(' ', begun_landing, ${landings.join(' ')}::text), ' ')) x)`,
})

/** The jobs that the process holds, as the ledger has it. */
export const jobsClaimedBy = async (db: Db, processId: number): Promise<Claim[]> => {
  const rows = await db
    .selectFrom('etl.jobs')
    .select(['job_id', 'fence'])
    .where((eb) => eb.and({ holder: processId, state: 'open' }))
    .execute()
  return rows.map((row) => ({ jobId: row.job_id, fence: row.fence, holder: processId }))
}

/** Claims as the table `m` of a statement. */
const claimList = (claims: readonly Claim[]): RawBuilder<unknown> => {
  const jobIds = claims.map(({ jobId }) => String(jobId))
  const fences = claims.map(({ fence }) => fence)
  return sql`unnest(${jobIds}::bigint[], ${fences}::bigint[]) as m(job_id, fence)`
}

/**
 * Returns those of `claims` that the caller has lost. A job that lost its holder because this process was declared dead, and that no process took since, is
 * the caller's again.
 */
export const lostJobs = async <One extends Claim>(db: Db, claims: readonly One[]): Promise<One[]> => {
  const [first] = claims
  if (first === undefined) return []
  const mine = sql`select j.job_id from etl.jobs j join ${claimList(claims)} on j.job_id = m.job_id and j.fence = m.fence where j.state = 'open'`
  const rows = await prepared<Row<'etl.jobs', 'job_id'>>(db)`
    with adrift as (${mine} and j.holder is null order by j.job_id for update of j), taken as (
      update etl.jobs set holder = ${first.holder}::integer where job_id in (select job_id from adrift) returning job_id
    )
    ${mine} and j.holder is not null union all select job_id from taken`
  const kept = new Set(rows.map(({ job_id }) => Number(job_id)))
  return claims.filter(({ jobId }) => !kept.has(Number(jobId)))
}

/** The number the job was asked for under. Throws INTERNAL where nothing was asked for yet. */
export const askNumberOf = async (db: Db, claim: Claim): Promise<string> => {
  const askNumber = (await jobRow(db, claim).select('ask_number').executeTakeFirst())?.ask_number ?? null
  if (askNumber !== null) return askNumber
  throw new EtlError('INTERNAL', `Job ${claim.jobId} has an answer, but was never requested; please report this defect.`)
}

/** Draws a new ask number for a walk that starts over, since its answer is newer than that of the reading before, and drops an unusable answer. Returns the number. Throws FENCED. */
export const restartWalk = async (db: Db, claim: Claim): Promise<string> => {
  const row = await db
    .updateTable('etl.jobs')
    .set({
      ask_number: sql<string>`nextval('etl.ask_numbers')`,
      asked_at: databaseNow,
      answer_id: null,
      updated_at: databaseNow,
    })
    .where(isClaimedBy(claim))
    .returning('ask_number')
    .executeTakeFirst()
  if (row === undefined || row.ask_number === null) throw fenced(claim)
  return row.ask_number
}

/** Counts a run in which the pages kept changing while they were read. Returns how many such runs the job has had, this one included. Throws FENCED. */
export const countUnstableRun = async (db: Db, claim: Claim): Promise<number> => {
  const row = await db
    .updateTable('etl.jobs')
    .set({ retries: sql<number>`retries + 1` })
    .where(isClaimedBy(claim))
    .returning('retries')
    .executeTakeFirst()
  if (row === undefined) throw fenced(claim)
  return row.retries
}

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
  /** A later run continues the job; the runs that wait for it now stop waiting. */
  readonly final: boolean
}

/**
 * Ends the claim: the fence grows, so that the old claim can write nothing more. A walk without an answer is a plan again, without an ask number; a report
 * stays asked for.
 */
const unclaimed = sql`holder = null, fence = fence + 1, updated_at = clock_timestamp(),
  ask_number = case when kind = 'walk' and answer_id is null then null else ask_number end,
  asked_at = case when kind = 'walk' and answer_id is null then null else asked_at end`

const attemptBack = sql`attempts = greatest(0, attempts - 1)`

interface SettleOptions extends Partial<Pick<Settled, 'doneFor' | 'mayPass'>> {
  /** The caller's transaction has locked the job already. */
  readonly isLocked?: boolean
}

/**
 * Call inside a transaction. A planner holds the job's lock while it has a run wait for the job. A statement that waits for that lock would not see the
 * run's new row: so a statement of its own takes the lock first.
 * @param outcome null: the runs keep waiting
 */
const settle = async (
  db: Db,
  claim: Claim,
  set: RawBuilder<unknown>,
  outcome: RunOutcome | null,
  { doneFor = null, mayPass = outcome === 'loaded', isLocked = false }: SettleOptions = {},
): Promise<void> => {
  if (outcome !== null && !isLocked) await lockJob(db, claim)
  const settled = sql`update etl.jobs set ${set} where ${isClaimedBy(claim)} returning job_id, pipeline_id, answer_id, slice_ids, window_from, window_to`
  const statement =
    outcome === null
      ? settled
      : sql`with settled as (${settled}), waiting as (${settleWaiting('settled', outcome, { jobId: claim.jobId, doneFor, mayPass })}) select job_id from settled`
  const rows = await executePrepared(db, statement)
  if (rows.length === 0) throw fenced(claim)
}

/** Not yet: the job is due again after `notBeforeMs`. */
export const parkJob = (db: Db, claim: Claim, options: ParkOptions): Promise<void> => {
  const { notBeforeMs, countsAttempt, final, code, message } = options
  const attempts = countsAttempt ? sql`attempts = attempts` : attemptBack
  const set = sql`${unclaimed}, ${attempts}, error_code = ${code}, error_message = ${message},
    not_before = clock_timestamp() + ${Math.round(notBeforeMs)}::float8 * interval '1 millisecond'`
  return settle(db, claim, set, final ? 'waiting' : null)
}

/** Gives the job back as if it had not been claimed. */
export const returnJob = (db: Db, claim: Claim): Promise<void> =>
  settle(db, claim, sql`${unclaimed}, ${attemptBack}, not_before = null, ${openError(sql`jobs`)}`, null)

/**
 * Whether the id of a submission whose response seemed lost is recorded by now, because its sender came back. Locks the job: a later id waits, and finds
 * the job settled.
 */
export const isIdKnown = async (db: Db, claim: Claim): Promise<boolean> => {
  await lockJob(db, claim)
  const rows = await prepared(db)`
    select job_id from etl.jobs where ${isClaimedBy(claim)} and report_id is not null and report_state = 'submitted'`
  return rows.length > 0
}

const stopJob =
  (state: 'held' | 'failed') =>
  (db: Db, claim: Claim, { code, message }: Reason): Promise<void> =>
    settle(
      db,
      claim,
      sql`${unclaimed}, state = ${state}, report_state = ${asDownloaded}, not_before = null, error_code = ${code}, error_message = ${message}`,
      state,
    )

/** Waits for a person. */
export const holdJob = stopJob('held')

/** The next run tries again. */
export const failJob = stopJob('failed')

const finished = sql`state = 'done', holder = null, fence = fence + 1, not_before = null, error_code = null, error_message = null,
  updated_at = clock_timestamp()`

/** All its units are loaded, held with the answer, or skipped for newer answers. Held units are counted as they are before this statement. */
export const finishJob = (
  db: Db,
  claim: Claim & { readonly runId: number },
  outcome: 'loaded' | 'unchanged',
  options: Omit<SettleOptions, 'doneFor'> = {},
): Promise<void> => settle(db, claim, finished, outcome, { ...options, doneFor: claim.runId })

/** Gives back jobs that were claimed and not begun; any process may take them at once. Jobs that another process has by now are left alone. */
export const giveBackJobs = async (db: Db, claims: readonly Claim[]): Promise<void> => {
  if (claims.length === 0) return
  await prepared(db)`
    with mine as (
      select j.job_id from etl.jobs j join ${claimList(claims)} on j.job_id = m.job_id and j.fence = m.fence
      where j.state = 'open' order by j.job_id for update of j
    )
    update etl.jobs set ${unclaimed}, ${attemptBack}, not_before = null where job_id in (select job_id from mine)`
}
