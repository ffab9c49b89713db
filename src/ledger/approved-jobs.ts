// Approved jobs that are not asked for yet: every run of the pipeline joins them, a budget's new day or month does not end them, values that leave the lists are cut.
import { type RawBuilder, sql } from 'kysely'
import { requestedBy, approvalDigestPrefix } from '../core/request-digest.ts'
import type { Definition, IsoDate, JobKind, Window, WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import {
  countRows,
  type Flags,
  type Lists,
  type Maybe,
  type Numbers,
  query,
  queryColumn,
  queryOne,
  queryValue,
  type Row,
} from '../db/typed-row.ts'
import { transientCodes } from './job-decision.ts'
import { isSamePipeline, lockPipeline } from './pipelines.ts'
import {
  dissolve,
  isUnclaimed,
  isOldestFirst,
  isOrderedByPerson,
  isUnbought,
  type JobFrame,
  detachingUnits,
  priorityOf,
} from './register-jobs.ts'
import { inFlightSisterJob, reusable, type ReuseScope } from './reuse-answers.ts'
import { mayYetServe } from './serving.ts'
import { isListed, isWaitedFor } from './wait-list.ts'

/** Job `j` is approved, and not loaded, bought, withdrawn or changed since. It is open, or held where a budget or the service refused it for certain. */
export const isApprovedUnsent = sql<boolean>`j.approval_id is not null and j.guard = 'usual' and j.state in ('open', 'held')
  and j.ask_number is null and j.holder is null`

/** Approved and not refused. */
const isStanding = sql<boolean>`${isApprovedUnsent} and j.state = 'open'`

/** Units that a process is buying now by a person's order; `run_id` null: no live run waits for them, and a worker buys them. */
type StillBought = Row<'etl.pipelines', 'pipeline'> & Numbers<'units'> & Maybe<Numbers<'run_id'>>

/** Jobs that a person approved, named or forced and that a process holds: another process cannot withdraw them. @param pipelines names; empty: all */
export const stillBought = (db: Db, pipelines: readonly string[]): Promise<readonly StillBought[]> =>
  query<StillBought>(db)`
    select p.pipeline, r.run_id::float8 as run_id, sum(j.cells)::float8 as units
    from etl.jobs j join etl.pipelines p using (pipeline_id)
      left join (etl.run_jobs w join etl.runs r on r.run_id = w.run_id and r.state = 'running') on w.job_id = j.job_id and w.outcome is null
    where j.state = 'open' and not ${isUnclaimed} and ${isUnbought} and j.answer_id is null and (${isOrderedByPerson} or j.approval_id is not null)
      and (${pipelines.length === 0} or p.pipeline = any(${[...pipelines]}::text[]))
    group by 1, 2 order by 1, 2`

/** Has the run wait for all approved jobs of the pipeline, also those that lacked credits; oldest first where a run listed them so. Returns how many. In the planner's transaction. */
export const joinApproved = (trx: Db, runId: number, pipelineId: number): Promise<number> =>
  countRows(trx)`
    with locked as (
      select j.job_id, j.cells, j.window_from, j.window_to from etl.jobs j
      where j.pipeline_id = ${pipelineId} and ${isApprovedUnsent} and (j.state = 'open' or j.error_code in ${transientCodes})
      order by j.job_id for update skip locked
    ), reopened as (
      update etl.jobs set state = 'open', attempts = 0, not_before = null, error_code = null, error_message = null, updated_at = clock_timestamp()
      where job_id in (select job_id from locked) and state = 'held'
    )
    insert into etl.run_jobs (run_id, job_id, priority, units)
    select ${runId}::bigint, job_id, case when exists (select from etl.run_jobs o where o.job_id = locked.job_id and ${isOldestFirst('o')})
      then ${priorityOf('oldest-first', sql`window_from`, sql`window_to`)} else ${priorityOf('newest-first', sql`window_from`, sql`window_to`)} end, cells from locked
    on conflict (run_id, job_id) do nothing returning job_id`

/** Pipelines as the definitions have them now: jobs of a former version, or of former key parameters, buy nothing. */
const definedBy = (definitions: readonly Definition[]): RawBuilder<unknown> =>
  sql`(select pipeline_id from etl.pipelines where ${sql.join([sql`false`, ...definitions.map(isSamePipeline)], sql` or `)})`

/** Whether anything that nights want waits for approval. */
export const nightNeedsApproval = (db: Db, definitions: readonly Definition[]): Promise<boolean> =>
  queryValue<Flags<'waits'>>(db)`
    select exists (select from etl.approvals where kind = 'night' and state = 'waiting' and units > 0 and pipeline_id in ${definedBy(definitions)}) as waits`

/** Names of the pipelines with an approved job that can be bought now and that no live run waits for. */
export const approvedReady = (db: Db, definitions: readonly Definition[]): Promise<string[]> =>
  queryColumn<Row<'etl.pipelines', 'pipeline'>>(db)`
    select distinct p.pipeline from etl.jobs j join etl.pipelines p using (pipeline_id)
    where ${isStanding} and j.pipeline_id in ${definedBy(definitions)} and coalesce(j.not_before <= clock_timestamp(), true)
      and not ${isWaitedFor(sql`j.job_id`)}
      and not exists (select from etl.jobs y where y.job_id = j.served_by and (y.state = 'open' or ${mayYetServe})) order by 1`

/**
 * Cuts values that left the lists from approved jobs; a job without any other value is dissolved. What is left is every combination of its values again, since
 * lists lose whole values. Call under the pipeline's lock.
 */
export const trimApproved = async (trx: Db, pipelineId: number): Promise<void> => {
  const rows = await query<Row<'etl.jobs', 'job_id'> & Maybe<Lists<Numbers<'keeps'>>>>(trx)`
    select j.job_id, (select array_agg(s.slice_id order by s.slice_id) from etl.slices s
        where s.slice_id = any(j.slice_ids) and s.wanted_until is null) as keeps
    from etl.jobs j where j.pipeline_id = ${pipelineId} and ${isApprovedUnsent} and not ${isWaitedFor(sql`j.job_id`)}
      and exists (select from etl.slices s where s.slice_id = any(j.slice_ids) and s.wanted_until is not null)
    order by j.job_id for update of j`
  const empty = rows.filter(({ keeps }) => keeps === null).map(({ job_id }) => job_id)
  if (empty.length > 0) await dissolve(trx)`select job_id from etl.jobs where job_id = any(${empty}::bigint[])`
  for (const { job_id, keeps } of rows) {
    if (keeps === null) continue
    await query(trx)`
      with gone as (select ${job_id}::bigint as job_id), trimmed as (
        update etl.jobs set cells = cells / cardinality(slice_ids) * ${keeps.length}, slice_ids = ${keeps}::integer[],
          estimated_quota = estimated_quota * ${keeps.length} / cardinality(slice_ids), updated_at = clock_timestamp()
        where job_id = ${job_id}::bigint
      ), ${detachingUnits(sql`not (u.slice_id = any(${keeps}::integer[]))`)} select`
  }
}

/** A cell of job `j` costs nothing: another version or pipeline has bought its answer, or is about to. False for a walk with paid pages, which continues. */
const isPartlyServed = (
  every: WindowSize,
  reuse: ReuseScope,
  mayBuyAgain: boolean,
): RawBuilder<boolean> => sql<boolean>`(j.begun_landing is null and exists (
  select from generate_series(j.window_from, j.window_to - 1, ${sql.lit(`1 ${every}`)}::interval) as w (at) cross join unnest(j.slice_ids) as c (slice_id)
    join etl.slices s on s.slice_id = c.slice_id
    left join lateral (select u.answer_id from etl.units u where u.pipeline_id = j.pipeline_id and u.window_from = w.at::date and u.slice_id = s.slice_id limit 1) u on true
  where u.answer_id is null and exists (${reusable(reuse, sql`w.at`)})
    or exists (select from (${inFlightSisterJob(reuse, sql`w.at`, mayBuyAgain)}) o where o.job_id is not null and (u.answer_id is null or o.asked_at is null))))`

/** Dissolves jobs of the windows that wait for approval and are served in part, where no unit has rows: they are planned again. Returns how many. Call under the pipeline's lock. */
export const dissolveServed = (
  trx: Db,
  { pipelineId, every }: Pick<JobFrame, 'pipelineId' | 'every'>,
  reuse: ReuseScope,
  { from, to }: Window,
): Promise<number> =>
  dissolve(trx)`
    select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and j.window_from >= ${from}::date and j.window_to <= ${to}::date
      and j.state = 'held' and j.guard = 'needs approval' and j.ask_number is null and ${isPartlyServed(every, reuse, false)}
      and not exists (select from etl.units u where u.job_id = j.job_id and u.answer_id is not null)
    order by j.job_id for update of j`

/** An approved job, taken out of the queue to be planned again. */
export interface ReopenedJob extends Lists<Numbers<'slice_ids'>>, Numbers<'job_id'>, Maybe<Numbers<'credits'>> {
  readonly window_from: IsoDate
  readonly window_to: IsoDate
}

/**
 * Sets the next approved jobs that are served, or may be in part, to failed: the planner plans their units again and keeps the approval (`keepApproval`). One report,
 * or up to a thousand walks. @param reuse null: nothing can serve them @param span the windows they touch; null: any
 */
export const reopenServed = (
  trx: Db,
  { pipelineId, runId, every, kind }: JobFrame,
  reuse: ReuseScope | null,
  span: Window | null,
  mayBuyAgain: boolean,
): Promise<readonly ReopenedJob[]> =>
  query<ReopenedJob>(trx)`
    with picked as materialized (
      select j.job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and ${isApprovedUnsent} and not ${isWaitedFor(sql`j.job_id`)}
        and not ${isListed(runId, 'j')} and (${span === null} or j.window_from < ${span?.to ?? null}::date and j.window_to > ${span?.from ?? null}::date)
        and (j.served_by is not null ${reuse === null ? sql`` : sql`or ${isPartlyServed(every, reuse, mayBuyAgain)}`})
      order by j.job_id limit ${kind === 'walk' ? 1_000 : 1} for update of j
    )
    update etl.jobs set state = 'failed', updated_at = clock_timestamp() where job_id in (select job_id from picked)
    returning job_id::float8 as job_id, window_from, window_to, slice_ids, case when served_by is null then estimated_quota::float8 / cells end as credits`

/** New jobs of a former one that was planned again keep its approval where they have no answer yet: they are still to be bought, or wait for another purchase. */
export const keepApproval = async (trx: Db, { pipelineId, runId }: JobFrame, formerJobIds: readonly number[]): Promise<void> => {
  await query(trx)`
    update etl.jobs j set approval_id = f.approval_id, reason = f.reason, former_job_id = coalesce(j.former_job_id, f.former_job_id)
    from etl.jobs f where f.job_id = any(${[...formerJobIds]}::bigint[]) and j.pipeline_id = ${pipelineId} and j.run_id = ${runId}::bigint
      and j.window_from >= f.window_from and j.window_to <= f.window_to and j.slice_ids <@ f.slice_ids and j.job_id > f.job_id
      and j.created_at >= transaction_timestamp() and j.state = 'open' and j.approval_id is null and j.answer_id is null`
}

/** The part of a plan that says what is asked for. */
interface PlannedWith {
  readonly definition: Definition
  readonly source: { readonly kind: JobKind }
}

/**
 * Records a person's approval for what the run could not buy for lack of budget or credits, or because the service was down, of a named range or of what was approved at
 * the terminal: every night continues with it. Returns the pipelines. @param by the person @param planned what the run asked for
 */
export const approveSpread = async (db: Db, runId: number, by: string, planned: readonly PlannedWith[]): Promise<string[]> => {
  const rows = await query<Row<'etl.pipelines', 'pipeline_id' | 'pipeline' | 'version'>>(db)`
    select distinct p.pipeline_id, p.pipeline, p.version from ${spreadJobs(runId)} join etl.pipelines p on p.pipeline_id = j.pipeline_id order by 1`
  const digestOf = (pipeline: string, version: number): string | null => {
    const found = planned.find(({ definition }) => definition.pipeline === pipeline && definition.version === version)
    return found === undefined ? null : approvalDigestPrefix(requestedBy(found.definition, found.source.kind))
  }
  for (const { pipeline_id, pipeline, version } of rows)
    await db.transaction().execute(async (trx) => {
      await lockPipeline(trx, pipeline_id)
      await query(trx)`
        with spread as (
          select j.job_id, j.kind, j.reason, j.cells, j.window_from, j.window_to, coalesce(j.estimated_quota, j.cells) as credits
          from ${spreadJobs(runId)} where j.pipeline_id = ${pipeline_id} order by j.job_id for update of j
        ), word as (
          insert into etl.approvals (pipeline_id, kind, digest, state, run_id, reasons, window_from, window_to, units, reports, credits, decided_at, decided_by)
          select ${pipeline_id}, 'backfill', ${digestOf(pipeline, version)}, 'approved', ${runId}, (select jsonb_object_agg(reason, units) from (
              select reason, sum(cells) as units from spread group by 1) x), min(window_from), max(window_to), sum(cells), count(*) filter (where kind = 'report'),
            sum(credits),
            clock_timestamp(), ${by} from spread having count(*) > 0 returning approval_id
        )
        update etl.jobs j set approval_id = w.approval_id from spread p, word w where j.job_id = p.job_id`
    })
  return [...new Set(rows.map((row) => row.pipeline))]
}

const spreadJobs = (runId: number) => sql`etl.jobs j join etl.run_jobs w on w.job_id = j.job_id and w.run_id = ${runId}::bigint
    and j.holder is null and j.ask_number is null and j.answer_id is null and j.approval_id is null and (j.state = 'held' and j.error_code in ${transientCodes}
      or w.outcome = 'waiting' and j.state = 'open' and j.error_code is distinct from 'NOT_PUBLISHED')`

/** Approved, published and not bought yet. `credits`: of jobs that have a price; `unpriced`: units of jobs without one. */
type Backlog = Numbers<'reports' | 'units' | 'credits' | 'unpriced'>

/** Sums up what of the pipeline is approved and not bought yet. */
export const backlogOf = (db: Db, definition: Definition): Promise<Backlog> =>
  queryOne<Backlog>(db)`
    select (count(*) filter (where j.kind = 'report'))::integer as reports, coalesce(sum(j.cells), 0)::float8 as units,
      coalesce(sum(j.estimated_quota), 0)::float8 as credits, coalesce(sum(j.cells) filter (where j.estimated_quota is null), 0)::float8 as unpriced
    from etl.jobs j where j.pipeline_id in ${definedBy([definition])} and ${isStanding} and j.served_by is null and j.error_code is distinct from 'NOT_PUBLISHED'`

/** Records when the last approved job can be bought. @param doneOn null: not known */
export const recordLastPurchaseDay = async (db: Db, definition: Definition, doneOn: IsoDate | null): Promise<void> => {
  await query(db)`update etl.approvals a set done_on = ${doneOn}::date
    where a.pipeline_id in ${definedBy([definition])} and a.state = 'approved' and a.done_on is distinct from ${doneOn}::date
      and exists (select from etl.jobs j where j.approval_id = a.approval_id and ${isStanding})`
}
