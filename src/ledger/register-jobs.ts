// Jobs made, joined and dissolved by planning. Every statement here runs under the pipeline's lock and keeps the order pipeline, job, wait list, units.
import { isLeaseOver } from './lease-over.ts'
import { type RawBuilder, sql } from 'kysely'
import type { IsoDate, JobKind, WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { countRows, type Counts, type Lists, type Maybe, type Numbers, query, queryOne } from '../db/typed-row.ts'
import { type CellScope, cellsToAsk, type NeededCells, type WindowQuery } from './candidates.ts'
import type { WantedBy } from './guard-usual.ts'
import { isDeferredByLiveRun, isWaitedFor } from './wait-list.ts'

/** What every job of a plan has in common. */
export interface JobFrame {
  readonly runId: number
  readonly pipelineId: number
  readonly kind: JobKind
  readonly account: string
  readonly every: WindowSize
  readonly force: boolean
  /** Whether nights record from which window on they ask for a value, so that the guard can tell a gap from an older month. */
  readonly isGuarded: boolean
  readonly order: 'newest-first' | 'oldest-first'
}

/** Lowest first: by the day on which the newest window ends, or the oldest begins; comparable over all pipelines. */
export const priorityOf = (order: JobFrame['order'], from: RawBuilder<unknown>, to: RawBuilder<unknown>): RawBuilder<number> =>
  order === 'oldest-first' ? sql<number>`${from} - date '1970-01-01'` : sql<number>`date '1970-01-01' - ${to}`

/** Whether an entry of a run's list is in oldest-first order. @param entry name of its row */
export const isOldestFirst = (entry: string): RawBuilder<boolean> => sql<boolean>`(${sql.ref(entry)}.priority > 0)`

/**
 * Part of a statement over `gone`: units leave these jobs for the job that was asked for in their place before, where it is not over. Units that were only planned are
 * deleted. @param which of their units u
 */
export const detachingUnits = (which: RawBuilder<unknown> = sql`true`): RawBuilder<unknown> => sql`left_units as (
      select u.pipeline_id, u.window_from, u.slice_id, b.job_id as back_to,
        u.answer_id is null and u.ask_number is null and u.held_answer_id is null and b.job_id is null as is_new
      from etl.units u join gone on gone.job_id = u.job_id join etl.jobs g on g.job_id = gone.job_id left join lateral (
        with recursive before as (
          select f.job_id, f.state, f.former_job_id from etl.jobs f where f.job_id = g.former_job_id
          union all select f.job_id, f.state, f.former_job_id from etl.jobs f join before c on f.job_id = c.former_job_id where c.state = 'replaced'
        ) select job_id from before where state in ('open', 'held', 'failed')) b on true
      where ${which} order by u.pipeline_id, u.window_from, u.slice_id for update of u
    ), forgotten as (
      delete from etl.units u using left_units f
      where f.is_new and u.pipeline_id = f.pipeline_id and u.window_from = f.window_from and u.slice_id = f.slice_id
    ), freed as (
      update etl.units u set job_id = f.back_to from left_units f
      where not f.is_new and u.pipeline_id = f.pipeline_id and u.window_from = f.window_from and u.slice_id = f.slice_id
    )`

const lettingGo = (from: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  update etl.run_jobs set outcome = 'let go', finished_at = clock_timestamp() where job_id in (select job_id from ${from}) and outcome is null`

/** Job `j`, which has no answer, has bought nothing. Pages that came of a walk are kept beside it. */
export const isUnbought = sql<boolean>`(j.ask_number is null or j.kind = ${sql.lit('walk')})`

/** A person ordered job `j`: a night would retry it in that person's name. */
export const isOrderedByPerson: RawBuilder<boolean> = sql<boolean>`j.wanted_by in ('range', 'force', 'approval')`

/** No process has job `j`, or only a dead one. */
export const isUnclaimed = sql<boolean>`(j.holder is null or exists (select from etl.processes h
  where h.process_id = j.holder and (h.ended_at is not null or ${isLeaseOver})))`

/**
 * Deletes the jobs, with units that were only planned. Walks with paid pages stay, failed and without a person's order: the next run that asks for the unit continues from
 * them. Returns how many were deleted or kept. @param picked job_id of jobs to lock and delete; they may not have been asked for yet
 */
export const dissolve =
  (trx: Db) =>
  (...picked: Parameters<typeof sql>): Promise<number> =>
    countRows(trx)`
    with picked as materialized (${sql(...picked)}),
    gone as materialized (select p.job_id from picked p join etl.jobs b using (job_id) where b.begun_landing is null),
    let_go as (${lettingGo(sql`picked`)}), ${detachingUnits()}, kept as (
      update etl.jobs set state = 'failed', error_code = 'CANCELLED', error_message = ${takenBack}, not_before = null, holder = null, ask_number = null, asked_at = null, approval_id = null, updated_at = clock_timestamp(),
        wanted_by = case when wanted_by in ('range', 'force', 'approval') then 'beyond' else wanted_by end
      where job_id in (select job_id from picked) and begun_landing is not null returning job_id
    ), deleted as (delete from etl.jobs where job_id in (select job_id from gone) returning job_id)
    select job_id from deleted union all select job_id from kept`

const takenBack = 'It was cancelled while its pages were read. The paid pages are kept: a run for its month buys only the rest.'

/**
 * Dissolves jobs that are not asked for yet and that no live run waits for, at most a step's worth; returns how many. Reports are packed again, also those held as too dear for
 * a budget. Walks go only where their values have left the lists, or where another job's answer was to serve them. Approved jobs stay; reports of --force that their run
 * reported as failed or waiting stay as failed.
 */
export const dissolveUnsent = async (trx: Db, { pipelineId, kind }: Pick<JobFrame, 'pipelineId' | 'kind'>): Promise<number> => {
  const most = kind === 'walk' ? 50_000 : 1_000
  const useless =
    kind === 'report'
      ? sql`true`
      : sql`(j.served_by is not null or exists (select from etl.slices s where s.slice_id = j.slice_ids[1] and s.wanted_until is not null))`
  const unsent = (state: RawBuilder<unknown>): RawBuilder<unknown> =>
    sql`select job_id from etl.jobs j where j.pipeline_id = ${pipelineId} and ${state}
      and ${isUnbought} and j.answer_id is null and j.approval_id is null and ${useless}`
  const tooDear =
    kind === 'report' ? sql`j.state = 'held' and j.error_code = 'QUOTA_EXHAUSTED' and j.report_state is null` : sql`false`
  const picked = sql`
      select j.job_id from etl.jobs j
      where j.job_id in (${unsent(sql`j.state = 'open' and j.holder is null and j.not_before is null`)}
          union all ${unsent(sql`j.state = 'open' and j.holder is null and j.not_before is not null`)} union all ${unsent(tooDear)})
        and j.state in ('open', 'held') and j.holder is null and ${isUnbought} and j.answer_id is null
        and j.approval_id is null
        and not ${isWaitedFor(sql`j.job_id`)} and not (${isOrderedByPerson} and ${isDeferredByLiveRun(sql`j.job_id`)})`
  const locked = sql`order by j.job_id limit ${most} for update skip locked`
  const failed = kind === 'report' ? await failForced(trx, sql`${picked} and ${isOwedByForce} ${locked}`) : 0
  const kept = kind === 'report' ? sql`and not ${isOwedByForce}` : sql``
  return failed + (await dissolve(trx)`${picked} ${kept} ${locked}`)
}

/** Its run reported that it failed or waits, and that a later run retries it. A forced job that was not tried ends with the stopped command. */
const isOwedByForce = sql<boolean>`(j.forced and j.error_code is not null)`

/** Without the job its loaded units would look finished. As failed, it is packed again by the next run that wants them. */
const failForced = (trx: Db, picked: RawBuilder<unknown>): Promise<number> =>
  countRows(trx)`with gone as materialized (${picked}), let_go as (${lettingGo(sql`gone`)})
    update etl.jobs set state = 'failed', not_before = null, updated_at = clock_timestamp() where job_id in (select job_id from gone) returning job_id`

/** A job to be made: every combination of its slices, over its windows. */
export interface BoxToMake extends Omit<NeededCells, 'leftJobIds'> {
  readonly from: IsoDate
  readonly to: IsoDate
  readonly cells: number
  /** Estimated credits; null: not asked. */
  readonly credits?: number | null
  /** The approval that holds it until a person approves; null: it is not held. */
  readonly approvalId?: string | null
}

/** Message of a job that waits for approval; the approval has the figures. */
const needsApproval = (
  pipelineId: number,
): RawBuilder<string> => sql<string>`'It would cost more than this pipeline''s nights usually do, and needs approval: \`millrace plan '
  || p.pipeline || '\` shows it, \`millrace approve ' || p.pipeline || '\` approves it.' from etl.pipelines p where p.pipeline_id = ${pipelineId}`

/** Part of a statement over `asked`: opens the windows of units that are asked for. */
export const openingWindows = (pipelineId: number): RawBuilder<unknown> => sql`opened as (
    -- Reads the rows of asked, so that it runs after them: PostgreSQL begins with the last of the statements that nothing reads, and a load locks its units first.
    insert into etl.windows (pipeline_id, window_from) select distinct ${pipelineId}::integer, window_from from asked
    on conflict (pipeline_id, window_from) do update set closed_generation = null, closed_at = null, closed_units = null, closed_rows = null
      where windows.closed_generation is not null
  )`

/** Landings with paid pages of a cancelled walk: the walk in its place continues from them. */
const begunBefore = sql`(select t.begun_landing from etl.jobs t where t.job_id = b.left_job_id and t.state = 'failed' and t.error_code = 'CANCELLED')`

/** Part of a statement over `box`: makes the jobs, points their units at them, has the run wait for them, and opens the windows. */
const made = ({ runId, pipelineId, kind, account, every, force, isGuarded, order }: JobFrame): RawBuilder<unknown> => sql`
  made as (
    insert into etl.jobs (pipeline_id, kind, reason, wanted_by, window_from, window_to, slice_ids, cells, forced, run_id, former_job_id, account,
      answer_id, served_by, ask_number, asked_at, begun_landing, estimated_quota, approval_id, guard, state, error_code, error_message)
    select ${pipelineId}, ${kind}, b.reason, b.wanted_by, b.window_from, b.window_to, b.slice_ids, b.cells, ${force} or b.reason = 'forced', ${runId}, b.former_job_id, ${account},
      b.answer_id, b.served_by, a.ask_number, a.asked_at, ${begunBefore}, b.credits, b.approval_id, case when b.approval_id is null then 'usual' else 'needs approval' end,
      case when b.approval_id is null then 'open' else 'held' end, case when b.approval_id is not null then 'NEEDS_APPROVAL' end,
      case when b.approval_id is not null then (select ${needsApproval(pipelineId)}) end
    from box b left join etl.answers a on a.answer_id = b.answer_id order by b.n
    returning job_id, wanted_by, window_from, window_to, slice_ids, cells, state
  ), waiting as (
    insert into etl.run_jobs (run_id, job_id, priority, units, outcome, finished_at)
    select ${runId}, job_id, ${priorityOf(order, sql`window_from`, sql`window_to`)}, cells,
      case when state = 'held' then 'held' end, case when state = 'held' then clock_timestamp() end from made
  ), cell as (
    select m.job_id, w.at::date as window_from, s.slice_id
    from made m cross join lateral generate_series(m.window_from, m.window_to - 1, ${sql.lit(`1 ${every}`)}::interval) as w (at)
      cross join unnest(m.slice_ids) as s (slice_id)
  ), asked as (
    insert into etl.units (pipeline_id, window_from, slice_id, job_id)
    select ${pipelineId}, window_from, slice_id, job_id from cell order by window_from, slice_id
    on conflict (pipeline_id, window_from, slice_id) do update set job_id = excluded.job_id
    returning window_from
  ), nights as (
    update etl.slices s set night_from = f.first from (
      select c.slice_id, min(m.window_from) as first from made m cross join unnest(m.slice_ids) as c (slice_id)
      where ${sql.lit(isGuarded)} and m.wanted_by = 'night' and m.state = 'open' group by 1) f
    where s.slice_id = f.slice_id and (s.night_from is null or s.night_from > f.first)
  ), ${openingWindows(pipelineId)}`

/** Makes the jobs, points their units to them and has the run wait for them; how many. */
export const insertBoxes = async (trx: Db, frame: JobFrame, boxes: readonly BoxToMake[]): Promise<number> => {
  if (boxes.length === 0) return 0
  const { jobs } = await queryOne<Counts<'jobs'>>(trx)`
    with box as (
      select row_number() over () as n, x.reason, x."wantedBy" as wanted_by, x."formerJobId" as former_job_id, x."answerId" as answer_id, x."servedBy" as served_by, null::bigint as left_job_id, x."sliceIds" as slice_ids,
        x."from" as window_from, x."to" as window_to, x.cells, x.credits, x."approvalId" as approval_id
      from jsonb_to_recordset(${JSON.stringify(boxes)}::jsonb) as x (reason text, "wantedBy" text, "formerJobId" bigint, "answerId" bigint, "servedBy" bigint,
        "sliceIds" integer[], "from" date, "to" date, cells integer, credits numeric, "approvalId" bigint)
    ), ${made(frame)}
    select count(*) as jobs from made`
  return Number(jobs)
}

/** The guard's decision about jobs that are to be made. */
export interface Ruling {
  /** Jobs that these askers want are held. */
  readonly held: readonly WantedBy[]
  /** The approval that held jobs wait for; null: none is held. */
  readonly approvalId: string | null
  /** Jobs that these askers want: a person has just approved them. */
  readonly allowed: readonly WantedBy[]
  /** Credits of a unit; null: not known. */
  readonly credits: number | null
}

/** A walk for each cell of the window that needs one, `most` of them at a time, in one statement. Returns the last slice that was read; null: there are no more. @param leaves whether cells may leave a job they have */
export const insertWalks = async (
  trx: Db,
  frame: JobFrame,
  scope: CellScope,
  window: WindowQuery & { readonly to: IsoDate },
  how: { readonly after: number; readonly most: number; readonly leaves: boolean; readonly ruling: Ruling },
): Promise<number | null> => {
  const { after, most, leaves, ruling } = how
  if (leaves) await lockLeft(trx, cellsToAsk(scope, window, after, most))
  const { jobs, last, left } = await queryOne<Counts<'jobs'> & Maybe<Numbers<'last'> & Lists<Counts<'left'>>>>(trx)`
    with needed as materialized (${cellsToAsk(scope, window, after, most)}),
    box as (
      select slice_id as n, reason, case when wanted_by = any(${[...ruling.allowed]}::text[]) then 'approval' else wanted_by end as wanted_by, former_job_id, answer_id, served_by, left_job_id, array[slice_id] as slice_ids, ${window.from}::date as window_from,
        ${window.to}::date as window_to, 1 as cells,
        case when coalesce(answer_id, served_by) is null then round(${ruling.credits}::numeric, 2) else 0 end as credits,
        case when coalesce(answer_id, served_by) is null and wanted_by = any(${[...ruling.held]}::text[]) then ${ruling.approvalId}::bigint end as approval_id from needed
    ), ${made(frame)}
    select count(*) as jobs, max(slice_id) as last, array_agg(left_job_id) filter (where left_job_id is not null) as left from needed`
  if (left !== null) await retireJobs(trx, left)
  return Number(jobs) < most ? null : last
}

/** Locks the jobs that cells about to be asked for have now, in order. */
const lockLeft = async (trx: Db, cells: RawBuilder<unknown>): Promise<void> => {
  await query(trx)`
    select j.job_id from etl.jobs j where j.job_id in (select c.left_job_id from (${cells}) c where c.left_job_id is not null)
    order by j.job_id for update`
}

/** The same for jobs that are known. */
export const lockJobs = async (trx: Db, jobIds: readonly string[]): Promise<void> => {
  if (jobIds.length === 0) return
  await trx
    .selectFrom('etl.jobs')
    .select('job_id')
    .where((eb) => eb('job_id', '=', eb.fn.any(eb.val([...jobIds]))))
    .orderBy('job_id')
    .forUpdate()
    .execute()
}

/** Ends held or failed jobs whose every unit another job asks for now; a late report id of theirs is still recorded. */
export const retireJobs = async (trx: Db, jobIds: readonly string[]): Promise<void> => {
  if (jobIds.length === 0) return
  await query(trx)`update etl.jobs j set state = 'replaced', updated_at = clock_timestamp()
    where j.job_id = any(${[...jobIds]}::bigint[]) and j.state in ('held', 'failed')
      and not exists (select from etl.units u where u.job_id = j.job_id)`
}

/** What the run waits for. */
export const waitedFor = async (db: Db, runId: number): Promise<{ readonly jobs: number; readonly units: number }> => {
  const row = await db
    .selectFrom('etl.run_jobs')
    .select((eb) => [eb.fn.countAll<string>().as('jobs'), eb.fn.sum<string | null>('units').as('units')])
    .where('run_id', '=', String(runId))
    // A run does not wait for jobs that wait for approval.
    .where((eb) => eb.or([eb('outcome', 'is', null), eb('outcome', '<>', 'held')]))
    .executeTakeFirstOrThrow()
  return { jobs: Number(row.jobs), units: Number(row.units ?? 0) }
}
