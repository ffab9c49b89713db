// The only record of waiting: which run waits for which job and what became of it; the orphans that a run takes up; and what keeps a run's list such that it
// ends: what was put off for long, what cannot be taken here, what was settled without it.
import { type RawBuilder, sql } from 'kysely'
import type { Db, RunJobsTable } from '../db/tables.ts'
import { countRows, queryOne } from '../db/typed-row.ts'
import type { OwnProcess } from './processes.ts'

/** How a job ended for a run that waited for it. `let go`: by a cancel; `replaced`: other jobs ask for its units. */
export type RunOutcome = NonNullable<RunJobsTable['outcome']>

/**
 * Some living run waits for the job. A run that is over, cancelled or whose process died waits for nothing, whatever stands in its list.
 * @param jobId of the row at hand, qualified
 */
export const isWaitedFor = (jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id
    where w.job_id = ${jobId} and w.outcome is null and r.state = 'running' and r.cancel_requested_at is null)`

/** A living run has left the job for a later one. Once it is over, what it could not get of a range has the word of who named that. @param jobId of the row at hand, qualified */
export const isLeftAlive = (jobId: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w join etl.runs r on r.run_id = w.run_id
    where w.job_id = ${jobId} and w.outcome in ('waiting', 'held') and r.state = 'running' and r.cancel_requested_at is null)`

/** The run itself waits for it, also where it is only previewed. @param job name of its row */
export const isListed = (runId: number, job: string): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = ${sql.ref(`${job}.job_id`)} and w.outcome is null)`

/** What the runs that wait for a job are told of it. */
export interface Settled {
  readonly jobId: number | string
  /** The run it was done for, which is told also where a cancel let go of the job meanwhile; null: it was not done. */
  readonly doneFor: number | null
  /** Units may hold an answer that was asked for later, and were passed over: these are counted, too. */
  readonly mayPass: boolean
}

/**
 * Part of a larger statement: ends the waiting for the row of `settled`, which has `job_id`, `pipeline_id`, `answer_id`, `slice_ids`, `window_from`
 * and `window_to` of the job that was settled in it. Held are those of the units a run asked of the job that hold its answer back for a person.
 */
export const settleWaiting = (
  settled: string,
  outcome: RunOutcome,
  { jobId, doneFor, mayPass }: Settled,
): RawBuilder<unknown> => sql`
  update etl.run_jobs w set outcome = ${outcome}, finished_at = clock_timestamp(), held_units = (
      -- By the index of held units, of which there are few: a job may have tens of thousands.
      select count(*) from etl.units u where u.pipeline_id = s.pipeline_id and u.held_answer_id = s.answer_id
        and u.slice_id + 0 = any(coalesce(w.slice_ids, s.slice_ids))
        and u.window_from + 0 >= coalesce(w.window_from, s.window_from) and u.window_from + 0 < coalesce(w.window_to, s.window_to))
      ${mayPass ? sql`, passed_units = ${passedUnits('s')}` : sql``}
    from ${sql.ref(settled)} s where w.job_id = ${jobId}::bigint
      and (w.outcome is null or w.run_id = ${doneFor}::bigint and w.outcome = 'let go') returning w.run_id`

interface NamedPipeline {
  readonly pipelineId: number
  readonly pipeline: string
  /** The run is for a range: it finishes what was bought beside its own, counts none of it, and leaves answers that were refused to a run of all. Default: of all. */
  readonly isPart?: boolean | undefined
}

/** Before all that is planned: what was paid for comes first. */
export const firstPriority = -1_000_000

/** States of a report that was bought and has not ended: it can still be polled, or downloaded for free. */
export const live = sql`('submitted', 'ready', 'downloaded')`
/** States of a report that is never bought by the same job again. */
export const ended = sql`('failed', 'rejected', 'expired')`
/** States of a report that is paid for, or may be, at what it was estimated to cost until its bill is seen. One that expired was made; one that failed costs nothing. */
export const maybePaid = sql`('intent', 'submitted', 'ready', 'downloaded', 'uncertain', 'expired')`
export const hasFailedLive = (job: string): RawBuilder<boolean> =>
  sql<boolean>`(${sql.ref(job)}.state = 'failed' and ${sql.ref(job)}.report_state in ${live})`

/**
 * The run waits for every orphan of the pipeline, also for reports of other versions or key parameters while there is something to download for them: to load
 * them is for who has their definition. Walks are bought page by page: only those that ask what this pipeline asks go on. A job that failed with a live purchase is
 * opened again. One whose row is locked is being worked on, and need not be taken up. Returns how many. In the planner's transaction.
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

/** The run waits for them. @param jobs their job_id, state and cells, locked; those that failed are opened again @param isBeside their units are none of the run's */
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
 * How many of the units that the run `w` counts of a settled job hold an answer that was asked for later than the job's. Those that did when it planned
 * are in the job's span, and it does not count them: so many less. Cell by cell: a range of windows holds all slices, a job a few of them.
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

/** What a process may take. */
export interface Claimable {
  /** Numbers of the pipelines whose definition is here. */
  readonly load: readonly number[]
  /** Numbers of those whose source is here: of them, reports that were asked for and have no answer yet. */
  readonly fetch: readonly number[]
  /** Numbers of those that ask what a definition here asks: of them all that has no answer yet, since it may serve; of others no walk, which is paid page by page. */
  readonly same: readonly number[]
}

/** Without a definition a job is taken as far as its answer. For rows of etl.jobs named `j`. @param isOwn whether the run is this process's: what serves another's is for that one to ask for */
export const mayTake = ({ load, fetch, same }: Claimable, isOwn: RawBuilder<unknown> = sql`true`): RawBuilder<boolean> =>
  sql<boolean>`(j.pipeline_id = any(${[...load]}::integer[]) or j.answer_id is null
    and (j.pipeline_id = any(${[...same]}::integer[]) and (j.ask_number is not null or ${isOwn})
    or j.pipeline_id = any(${[...fetch]}::integer[]) and j.kind = 'report' and j.ask_number is not null))`

/**
 * Once, when a run has its list: what an earlier run put off, for hours perhaps, is tried at once, with all its attempts; and what it waited for until
 * the deadline is waited for anew. What another living run waits for has its time from that one, where that one may have put it off: it had begun by
 * then, and before this one. Returns how many.
 */
export const bringForward = (db: Db, runId: number): Promise<number> =>
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
  /** Tried again later; why the next of them is. */
  readonly putOff: { readonly count: number; readonly nextInSeconds: number; readonly message: string }
  readonly others: number
}

/** Of job `j`. One without an order waits for another's bill under the same code. */
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
 * Jobs of the run that this process cannot take and no process holds are left to a process that has their definition: an answer that is landed waits for it. Returns
 * how many.
 */
export const leaveUntakeable = (db: Db, runId: number, claimable: Claimable): Promise<number> => {
  const message = sql`'It waits for the definition of ' || p.pipeline || ' version ' || p.version
    || ' as it was when this was asked for. Put it back under pipelines/ and run again, or leave it.'`
  const beside = sql`join etl.pipelines p on p.pipeline_id = j.pipeline_id where not ${mayTake(claimable)}`
  return leaveJobs(db, runId, sql`'NO_DEFINITION', ${message}`, beside)
}

/** @param reason code and message of their errors @param beside what job `j` is joined with, and which of the run's are meant */
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
 * What the run found beside its own (`listJobs`) and could not end yet is left to the next run once its own is settled: a small range must not wait for hours
 * for a report of other months. Returns how many.
 */
export const leaveBeside = (db: Db, runId: number): Promise<number> =>
  countRows(db)`
    update etl.run_jobs w set outcome = 'let go', finished_at = clock_timestamp() from etl.jobs j
    where w.run_id = ${runId}::bigint and w.outcome is null and w.slice_ids = '{}' and j.job_id = w.job_id and j.state = 'open' and j.holder is null
      and j.not_before > clock_timestamp()
      and not exists (select from etl.run_jobs o where o.run_id = w.run_id and o.outcome is null and o.slice_ids is distinct from '{}')
    returning w.job_id`

/**
 * Ends the run's waiting for jobs that are settled, or gone. The process that settles a job ends the waiting that stands when its statement begins; a run that
 * joins at that very moment is not seen by it and finds out here. Held are its units that the job left held. Returns how many.
 */
export const endForgotten = (db: Db, runId: number): Promise<number> =>
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
