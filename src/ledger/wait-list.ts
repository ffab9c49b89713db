// The wait lists of runs, the only record of waiting: which run waits for which job, and the outcome. A run takes up orphans, and leaves jobs that would keep it from
// ending: put off for long, not claimable here, settled without it.
import { type RawBuilder, sql } from 'kysely'
import type { Db, RunJobsTable } from '../db/tables.ts'
import { countRows, queryOne } from '../db/typed-row.ts'
import type { OwnProcess } from './processes.ts'

/** How a job ended for a run that waited for it. `let go`: the run gave up waiting, after a cancel for example; `replaced`: other jobs ask for its units. */
export type RunOutcome = NonNullable<RunJobsTable['outcome']>

/**
 * A live run waits for the job. A run that is over or cancelled, or whose process died, waits for nothing, whatever its list says.
 * @param jobId column of the outer row, qualified
 */
export const isWaitedFor = (jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id
    where w.job_id = ${jobId} and w.outcome is null and r.state = 'running' and r.cancel_requested_at is null)`

/** A live run has left the job to a later run. When it ends, what it could not buy of a range counts as approved by the person who named it. @param jobId column of the outer row, qualified */
export const isDeferredByLiveRun = (jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id
    where w.job_id = ${jobId} and w.outcome in ('waiting', 'held') and r.state = 'running' and r.cancel_requested_at is null)`

/** The run itself waits for the job, also where the run is only previewed. @param job name of the job's row */
export const isListed = (runId: number, job: string): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = ${sql.ref(`${job}.job_id`)} and w.outcome is null)`

/** How a job was settled, for the runs that wait for it. */
export interface Settled {
  readonly jobId: number | string
  /** The run it was done for, which gets the outcome also where a cancel has let go of the job; null: it was not done. */
  readonly doneFor: number | null
  /** Whether units may have been skipped, since they have a newer answer: these are counted, too. */
  readonly mayPass: boolean
}

/**
 * Part of a larger statement: settles the waiting for the job in `settled`, a row with its `job_id`, `pipeline_id`, `answer_id`, `slice_ids`, `window_from`
 * and `window_to`. `held_units` counts the units that the run asked of the job and that hold its answer back for a person.
 */
export const settleWaiting = (
  settled: string,
  outcome: RunOutcome,
  { jobId, doneFor, mayPass }: Settled,
): RawBuilder<unknown> => sql`
  update etl.run_jobs w set outcome = ${outcome}, finished_at = clock_timestamp(), held_units = (
      -- Uses the index of held units, of which there are few; a job may have tens of thousands of units.
      select count(*) from etl.units u where u.pipeline_id = s.pipeline_id and u.held_answer_id = s.answer_id
        and u.slice_id + 0 = any(coalesce(w.slice_ids, s.slice_ids))
        and u.window_from + 0 >= coalesce(w.window_from, s.window_from) and u.window_from + 0 < coalesce(w.window_to, s.window_to))
      ${mayPass ? sql`, passed_units = ${passedUnits('s')}` : sql``}
    from ${sql.ref(settled)} s where w.job_id = ${jobId}::bigint
      and (w.outcome is null or w.run_id = ${doneFor}::bigint and w.outcome = 'let go') returning w.run_id`

interface NamedPipeline {
  readonly pipelineId: number
  readonly pipeline: string
  /** The run is for a range: it finishes orphans outside the range without counting them, and leaves refused answers to a run of everything. Default: a run of everything. */
  readonly isPart?: boolean | undefined
}

/** Ahead of all planned jobs: paid purchases come first. */
export const firstPriority = -1_000_000

/** States of a report that was bought and has not ended: it can still be polled, or downloaded for free. */
export const live = sql`('submitted', 'ready', 'downloaded')`
/** States of a report that is never bought by the same job again. */
export const ended = sql`('failed', 'rejected', 'expired')`
/** States of a report that is, or may be, paid for: it counts at its estimate until its bill is known. An expired report was made; a failed one costs nothing. */
export const maybePaid = sql`('intent', 'submitted', 'ready', 'downloaded', 'uncertain', 'expired')`
export const hasFailedLive = (job: string): RawBuilder<boolean> =>
  sql<boolean>`(${sql.ref(job)}.state = 'failed' and ${sql.ref(job)}.report_state in ${live})`

/**
 * Has the run wait for every orphan of the pipeline, also for reports of other versions or key parameters until they are downloaded: a process that has their definition loads them.
 * Walks are bought page by page: only those that ask the same as this pipeline continue. Opens jobs again that failed with a live purchase. Leaves out a job whose row is
 * locked: a process works on it. Returns how many. Call in the planner's transaction.
 */
export const joinOrphans = (trx: Db, runId: number, { pipelineId, pipeline, isPart = false }: NamedPipeline): Promise<number> => {
  const failed = isPart ? sql`${hasFailedLive('j')} and j.answer_id is null` : hasFailedLive('j')
  const jobs = sql`
    with ours as materialized (
      select o.pipeline_id, (o.source, o.window_every, o.definition -> 'params') = (x.source, x.window_every, x.definition -> 'params') as asks_the_same
      from etl.pipelines o join etl.pipelines x on x.pipeline_id = ${pipelineId} where o.pipeline = ${pipeline}
    )
    select j.job_id, j.state, j.cells from etl.jobs j
    where j.pipeline_id in (select pipeline_id from ours) and (j.pipeline_id = ${pipelineId} or j.answer_id is null
        and (j.kind = 'report' or j.pipeline_id in (select pipeline_id from ours where asks_the_same)))
      and (j.state = 'open' and j.ask_number is not null or ${failed}) and not ${isWaitedFor(sql`j.job_id`)}
    order by j.job_id for update skip locked`
  return listJobs(trx, runId, jobs, isPart)
}

/** Has the run wait for the jobs. @param jobs their job_id, state and cells, locked; failed ones are opened again @param isBeside the run does not count their units */
export const listJobs = (trx: Db, runId: number, jobs: RawBuilder<unknown>, isBeside = false): Promise<number> =>
  countRows(trx)`
    with locked as (${jobs}), reopened as (
      update etl.jobs set state = 'open', attempts = 0, not_before = null, updated_at = clock_timestamp()
      where job_id in (select job_id from locked where state = 'failed') returning job_id
    )
    insert into etl.run_jobs (run_id, job_id, priority, units, slice_ids)
    select ${runId}::bigint, job_id, ${firstPriority}::integer, ${isBeside ? sql`0, '{}'::integer[]` : sql`cells, null::integer[]`} from locked
    on conflict (run_id, job_id) do nothing returning job_id`

/**
 * How many of the units that run `w` counts of a settled job have a newer answer than the job's. The job's span also has units that were newer when the run planned, and
 * that it does not count: these are subtracted. Cell by cell: a range of windows has all slices, a job only a few.
 * @param settled the job's row, with the columns named above
 */
const passedUnits = (settled: string): RawBuilder<unknown> => {
  const job = sql.ref(settled)
  return sql`(
    select greatest(0, count(*) filter (where u.ask_number > ${job}.answer_id and u.answer_id <> ${job}.answer_id
        and u.held_answer_id is distinct from ${job}.answer_id) - greatest(0, count(*) - w.units)) from etl.pipelines p
      cross join lateral generate_series(coalesce(w.window_from, ${job}.window_from)::timestamp, coalesce(w.window_to, ${job}.window_to)::timestamp
        - interval '1 day', case p.window_every when 'day' then interval '1 day' when 'week' then interval '7 days' else interval '1 month' end) as x (day)
      cross join lateral unnest(coalesce(w.slice_ids, ${job}.slice_ids)) as y (slice_id)
      cross join lateral (select u.ask_number, u.answer_id, u.held_answer_id from etl.units u
        where u.pipeline_id = ${job}.pipeline_id and u.window_from = x.day::date and u.slice_id = y.slice_id limit 1) u
    where p.pipeline_id = ${job}.pipeline_id)`
}

/** Which jobs a process may claim. */
export interface Claimable {
  /** Pipelines whose definition the process has. */
  readonly load: readonly number[]
  /** Pipelines whose source the process has: of these, reports that were asked for and have no answer yet. */
  readonly fetch: readonly number[]
  /** Pipelines that ask the same as a definition of the process: of these, every job without an answer, since it may serve. No walk of others: walks are paid page by page. */
  readonly same: readonly number[]
}

/** The process may claim job `j`; without the definition only up to its answer. @param isOwn whether the run is this process's: a job that serves another's run is left to that process */
export const mayTake = ({ load, fetch, same }: Claimable, isOwn: RawBuilder<unknown> = sql`true`): RawBuilder<boolean> =>
  sql<boolean>`(j.pipeline_id = any(${[...load]}::integer[]) or j.answer_id is null
    and (j.pipeline_id = any(${[...same]}::integer[]) and (j.ask_number is not null or ${isOwn})
    or j.pipeline_id = any(${[...fetch]}::integer[]) and j.kind = 'report' and j.ask_number is not null))`

/**
 * Call once, when the run has its list. Jobs that an earlier run put off, for hours perhaps, are due at once, with all their attempts; a deadline that has passed begins
 * again. A job keeps its time where another live run waits for it and may have put it off: that run had begun by then, and before this one. Returns
 * how many.
 */
export const makeJobsDue = (db: Db, runId: number): Promise<number> =>
  countRows(db)`
    with late as (
      select j.job_id from etl.jobs j
      where j.state = 'open' and j.holder is null and (j.not_before is not null or j.deadline_at <= clock_timestamp())
        and (select true from etl.run_jobs l where l.run_id = ${runId}::bigint and l.job_id = j.job_id and l.outcome is null)
        and not exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id join etl.runs own on own.run_id = ${runId}::bigint
          where w.job_id = j.job_id and w.run_id <> ${runId}::bigint and w.outcome is null and r.state = 'running'
            and r.cancel_requested_at is null and r.started_at < j.updated_at
            and not (own.started_at < j.updated_at and own.run_id < r.run_id))
      order by j.job_id for update of j skip locked
    )
    update etl.jobs set not_before = case when not_before is null then null else clock_timestamp() end, attempts = 0,
      deadline_at = case when deadline_at <= clock_timestamp() then null else deadline_at end, updated_at = clock_timestamp()
    where job_id in (select job_id from late) returning job_id`

/** What the open jobs of a run wait for. */
export interface RunWaits {
  readonly reports: { readonly count: number; readonly nextInSeconds: number }
  /** Jobs that are retried later; `message`: why the next of them was put off. */
  readonly putOff: { readonly count: number; readonly nextInSeconds: number; readonly message: string }
  readonly others: number
}

/** The service is making the report of job `j`. A job without a purchase has the same code while it waits for another purchase's bill. */
const isMade = sql<boolean>`(j.error_code is not distinct from 'REPORT_PENDING' and j.report_state is not null)`

export const runWaits = (db: Db, runId: number, { processId }: OwnProcess): Promise<RunWaits> =>
  queryOne<RunWaits>(db)`
    select json_build_object('count', count(*) filter (where is_made), 'nextInSeconds', coalesce(min(wait) filter (where is_made), 0)) as reports,
      json_build_object('count', count(*) filter (where is_off), 'nextInSeconds', coalesce(min(wait) filter (where is_off), 0),
        'message', coalesce((array_agg(error_message order by wait) filter (where is_off))[1], '')) as "putOff",
      count(*) filter (where holder <> ${processId})::float8 as others
    from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id and j.state = 'open'
      cross join lateral (select extract(epoch from j.not_before - clock_timestamp())::float8 as wait,
        j.not_before is not null and ${isMade} as is_made, j.not_before is not null and not ${isMade} as is_off) x
    where w.run_id = ${runId}::bigint and w.outcome is null`

/**
 * Leaves jobs of the run that this process may not claim, and no process holds, to a process that has their definition; a landed answer waits for that. Returns
 * how many.
 */
export const leaveUntakeable = (db: Db, runId: number, claimable: Claimable): Promise<number> => {
  const message = sql`'No definition here matches ' || p.pipeline || ' version ' || p.version
    || ' with the parameters of this request. Put that definition back under pipelines/ and run again; without it the job stays.'`
  const beside = sql`join etl.pipelines p on p.pipeline_id = j.pipeline_id where not ${mayTake(claimable)}`
  return leaveJobs(db, runId, sql`'NO_DEFINITION', ${message}`, beside)
}

/** Leaves jobs of the run to a later run. @param reason code and message of their errors @param beside joins of job `j`, and which of the run's jobs are meant */
export const leaveJobs = (db: Db, runId: number, reason: RawBuilder<unknown>, beside: RawBuilder<unknown>): Promise<number> =>
  countRows(db)`
    with left_over (job_id, code, message) as materialized (
      select j.job_id, ${reason} from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id ${beside}
        and w.run_id = ${runId}::bigint and w.outcome is null and j.state = 'open' and j.holder is null
      order by j.job_id for update of j skip locked
    ), named as (
      update etl.jobs j set error_code = l.code, error_message = l.message, updated_at = clock_timestamp()
      from left_over l where j.job_id = l.job_id returning j.job_id
    )
    update etl.run_jobs w set outcome = 'waiting', finished_at = clock_timestamp() from named n
    where w.run_id = ${runId}::bigint and w.job_id = n.job_id and w.outcome is null returning w.job_id`

/**
 * Leaves jobs outside the run's own (`listJobs`) that are not finished yet to the next run, once its own are settled: a small range must not wait for hours for a
 * report of other months. Returns how many.
 */
export const deferOutsideJobs = (db: Db, runId: number): Promise<number> =>
  countRows(db)`
    update etl.run_jobs w set outcome = 'let go', finished_at = clock_timestamp() from etl.jobs j
    where w.run_id = ${runId}::bigint and w.outcome is null and w.slice_ids = '{}' and j.job_id = w.job_id and j.state = 'open' and j.holder is null
      and j.not_before > clock_timestamp()
      and not exists (select from etl.run_jobs o where o.run_id = w.run_id and o.outcome is null and o.slice_ids is distinct from '{}')
    returning w.job_id`

/**
 * Ends the run's waiting for jobs that are settled or deleted. A process that settles a job sees only the waiting that is there when its statement begins; a run that
 * joins at that moment finds out here. `held_units`: its units that the job left held. Returns how many.
 */
export const endMissedWaits = (db: Db, runId: number): Promise<number> =>
  countRows(db)`
    with forgotten as (
      select w.job_id, j.state, j.pipeline_id, j.answer_id, j.slice_ids, j.window_from, j.window_to from etl.run_jobs w left join etl.jobs j on j.job_id = w.job_id
      where w.run_id = ${runId}::bigint and w.outcome is null and j.state is distinct from 'open'
      order by w.job_id for update of w skip locked
    )
    update etl.run_jobs w set finished_at = clock_timestamp(),
      outcome = case f.state when 'done' then 'loaded' when 'held' then 'held' when 'failed' then 'failed'
        else 'let go' end,
      held_units = case f.state when 'done' then (select count(*) from etl.units u where u.pipeline_id = f.pipeline_id
        and u.held_answer_id = f.answer_id and u.slice_id = any(coalesce(w.slice_ids, f.slice_ids))
        and u.window_from >= coalesce(w.window_from, f.window_from) and u.window_from < coalesce(w.window_to, f.window_to)) else 0 end,
      passed_units = case f.state when 'done' then ${passedUnits('f')} else 0 end
    from forgotten f where w.run_id = ${runId}::bigint and w.job_id = f.job_id and w.outcome is null returning w.job_id`
