// Runs: started, summed up from what the ledger holds, finished.
import { type RowCounts, zeroCounts } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, type Numbers, prepared, query, queryOne, queryValue, type Row, type Texts } from '../db/typed-row.ts'
import { databaseNow } from '../db/database-clock.ts'
import { type OwnProcess, reapDead } from './processes.ts'
import type { RunOutcome } from './wait-list.ts'

/** Of a run that found nothing to do. */
export const emptySummary = {
  units: { planned: 0, loaded: 0, unchanged: 0, waiting: 0, held: 0, failed: 0 },
  rows: zeroCounts(),
  ...{ requests: 0, reports_submitted: 0, quota_used: 0, bytes: 0 },
}

/** The summary of the contract, but for `seconds`. */
export type RunSummary = Readonly<typeof emptySummary>

/** `interrupted`: its process ended without closing it; its jobs are free for others. */
type RunState = 'running' | 'done' | 'failed' | 'cancelled' | 'interrupted'

/** Starts a run of this process; first frees what dead processes held. */
export const startRun = async (
  db: Db,
  own: OwnProcess,
  run: { command: string; arguments: Readonly<Record<string, unknown>> },
): Promise<number> => {
  await reapDead(db, own)
  const row = await db
    .insertInto('etl.runs')
    .values({ command: run.command, arguments: JSON.stringify(run.arguments), process_id: own.processId })
    .returning('run_id')
    .executeTakeFirstOrThrow()
  return Number(row.run_id)
}

/** From here on the run waits for nothing. A cancelled run stays cancelled; a run that was closed as interrupted gets its state. @param summary null keeps none */
export const finishRun = async (db: Db, runId: number, state: RunState, summary: unknown): Promise<void> => {
  await db
    .updateTable('etl.runs')
    .set({ state, finished_at: databaseNow, ...(summary === null ? {} : { summary: JSON.stringify(summary) }) })
    .where('run_id', '=', String(runId))
    .where('state', 'in', state === 'cancelled' ? ['running', 'cancelled'] : ['running', 'interrupted'])
    .execute()
}

/**
 * The newest forced backfill with these arguments, where it did not finish, with start and ask number of the first run that it resumes; null: it finished. Not finished:
 * stopped, cancelled, or with units that failed, that wait (except for publication), or that are held and not released, or with lists that were not obeyed. Runs of more
 * than a week ago count as finished: a unit that fails for good must not block buying again.
 */
export const unfinishedForce = async (db: Db, named: Readonly<Record<string, unknown>>) => {
  const { runId, startedAt, since } = await queryOne<Maybe<Numbers<'runId'> & Texts<'startedAt' | 'since'>>>(db)`
    with same as (
      select r.run_id, r.started_at, r.begun_at_ask, r.arguments ? 'resumes' as resumes,
        not exists (select from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id
          where w.run_id = r.run_id and w.outcome = 'waiting' and j.error_code is distinct from 'NOT_PUBLISHED')
        and (r.state = 'done' or (r.summary ->> 'held_alone')::boolean and not exists (
          select from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id join etl.units u on u.pipeline_id = j.pipeline_id
            and u.window_from >= j.window_from and u.window_from < j.window_to and u.slice_id = any(j.slice_ids)
          -- Finished for this unit: it was released, or requested again since, and has that answer or a later one.
          where w.run_id = r.run_id and (w.outcome = 'held' or w.held_units > 0)
            and coalesce(u.ask_number, 0) < coalesce(j.answer_id, j.ask_number, r.begun_at_ask))) as is_finished
      from etl.runs r where r.command = 'backfill' and r.arguments - 'resumes' = ${JSON.stringify(named)}::jsonb
        and r.started_at > clock_timestamp() - interval '7 days'
    )
    select max(run_id)::float8 as "runId", min(started_at) as "startedAt", min(begun_at_ask) as since from same
    where run_id >= coalesce((select max(run_id) from same where not resumes), 0)
      and (select is_finished from same order by run_id desc limit 1) is not true`
  return runId === null || startedAt === null || since === null ? null : { runId, startedAt, since }
}

/** The ask number at which the run began; null: there is no such run. */
export const begunAtAsk = async (db: Db, runId: number): Promise<string | null> =>
  (await runRow(db, runId).select('begun_at_ask').executeTakeFirst())?.begun_at_ask ?? null

export const runState = async (db: Db, runId: number): Promise<RunState | null> =>
  (await runRow(db, runId).select('state').executeTakeFirst())?.state ?? null

const runRow = (db: Db, runId: number) => db.selectFrom('etl.runs').where('run_id', '=', String(runId))

/** `count`: jobs that the run waits for, 1,000 at most. `interrupted`: its process was declared dead; the next renewal of its lease sets the run to `running` again. */
type OpenJobs = Numbers<'count'> & Row<'etl.runs', 'state'> & { readonly cancelled: boolean }

export const openJobs = async (db: Db, runId: number): Promise<OpenJobs> => {
  const [row] = await prepared<OpenJobs>(db)`
    select r.state, r.cancel_requested_at is not null as cancelled, (select count(*)::integer
        from (select from etl.run_jobs w where w.run_id = r.run_id and w.outcome is null limit 1000) waiting) as count
      from etl.runs r where r.run_id = ${runId}::bigint`
  return row ?? { count: 0, cancelled: false, state: 'interrupted' }
}

/** How many runs of other commands than `command` are recorded, replays aside. */
export const foreignRuns = async (db: Db, command: string): Promise<number> => {
  const { count } = await db
    .selectFrom('etl.runs')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('command', 'not in', [command, 'replay', 'quarantine retry'])
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** What the run asked for and what became of it; and what was done in its name: rows, requests, reports. A job that was cut is counted by its parts. */
export const runSummary = (db: Db, runId: number): Promise<RunSummary> =>
  queryValue<{ summary: RunSummary }>(db)`
    select json_build_object(
      'units', (select json_build_object(
          'planned', coalesce(sum(units), 0), 'loaded', coalesce(sum(units - held_units - passed_units) filter (where outcome = 'loaded'), 0),
          'unchanged', coalesce(sum(case outcome when 'unchanged' then units - held_units when 'loaded' then passed_units end), 0),
          'waiting', coalesce(sum(units) filter (where outcome = 'waiting'), 0),
          'held', coalesce(sum(case outcome when 'held' then units else held_units end), 0),
          'failed', coalesce(sum(units) filter (where outcome = 'failed'), 0))
        from etl.run_jobs where run_id = ${runId}::bigint and outcome is distinct from 'replaced'),
      'rows', (select json_build_object(
          'read', coalesce(sum(rows_read), 0) + h.records, 'inserted', coalesce(sum(rows_inserted), 0),
          'updated', coalesce(sum(rows_updated), 0), 'ended', coalesce(sum(rows_ended), 0),
          'unchanged', coalesce(sum(rows_unchanged), 0), 'quarantined', coalesce(sum(rows_quarantined), 0) + h.records,
          'duplicates', coalesce(sum(rows_duplicates), 0))
        from etl.loads where run_id = ${runId}::bigint),
      'requests', q.requests, 'bytes', q.bytes, 'reports_submitted', j.submitted, 'quota_used', ceil(j.quota + q.credits)
    ) as summary
    from (select count(*) as requests, coalesce(sum(bytes), 0) as bytes, coalesce(sum(credits), 0) as credits from etl.requests where run_id = ${runId}::bigint) q
      cross join (select count(*) filter (where j.submitted_at is not null) as submitted, coalesce(sum(j.used_quota), 0) as quota
        from etl.run_jobs w join etl.jobs j on j.job_id = w.job_id
        where w.run_id = ${runId}::bigint and j.run_id = w.run_id and j.report_state is not null) j
      -- Rejected records of units that are held with the answer: no load counts them.
      cross join (select count(*) as records from etl.run_jobs w join etl.jobs x on x.job_id = w.job_id
        join etl.quarantine r on r.answer_id = x.answer_id and r.run_id = w.run_id
        join etl.units u on u.unit_id = r.unit_id and u.held_answer_id = r.answer_id where w.run_id = ${runId}::bigint) h`

/** What a run did to the rows of one pipeline; months, `2026-01`, in which rows of an earlier load changed or ended. */
interface PipelineRows extends Pick<RowCounts, 'inserted' | 'updated' | 'ended' | 'quarantined'> {
  readonly restated: readonly string[]
}

/** By pipeline; kept with the summary, so that the loads of many nights need not be added up. */
export const rowsByPipeline = async (db: Db, runId: number): Promise<Readonly<Record<string, PipelineRows>>> => {
  const rows = await query<PipelineRows & Row<'etl.pipelines', 'pipeline'>>(db)`
    select p.pipeline, sum(w.inserted)::float8 as inserted, sum(w.updated)::float8 as updated, sum(w.ended)::float8 as ended,
      sum(w.quarantined)::float8 as quarantined,
      coalesce(array_agg(distinct to_char(w.window_from, 'YYYY-MM')) filter (where w.updated + w.ended > 0), '{}') as restated
    from (select pipeline_id, window_from, sum(rows_inserted) as inserted, sum(rows_updated) as updated, sum(rows_ended) as ended,
        sum(rows_quarantined) as quarantined from etl.loads where run_id = ${runId}::bigint group by 1, 2) w
      join etl.pipelines p using (pipeline_id) group by 1 order by 1`
  return Object.fromEntries(rows.map(({ pipeline, ...counts }) => [pipeline, counts]))
}

/** Requests saved because one free check showed that the loaded answer is unchanged: the requests that the answer once took, less the check. */
export const requestsSaved = (db: Db, runId: number): Promise<number> =>
  queryValue<Numbers<'spared'>>(db)`
    select coalesce(sum(greatest(0, once.n - now.n)), 0)::int as spared
    from etl.loads l join etl.answers a on a.answer_id = l.answer_id
      cross join lateral (select count(*) as n from etl.requests q
        where q.job_id = a.job_id and q.ask_number = a.ask_number and q.attempt = 1) once
      cross join lateral (select count(*) as n from etl.requests q where q.job_id = l.job_id and q.attempt = 1) now
    where l.run_id = ${runId}::bigint and l.outcome = 'unchanged'`

/** Units that were skipped: they had a newer answer than the one that came for them. */
export const unitsSkipped = (db: Db, runId: number): Promise<number> =>
  queryValue<Numbers<'units'>>(db)`
    select coalesce(sum(passed_units), 0)::float8 as units from etl.run_jobs where run_id = ${runId}::bigint and outcome = 'loaded'`

/** Units of the run's jobs with this outcome. @param codes error codes of the jobs; default: all */
export const unitsOf = (db: Db, runId: number, outcome: RunOutcome, codes?: readonly string[]): Promise<number> =>
  queryValue<Numbers<'units'>>(db)`
    select coalesce(sum(w.units), 0)::float8 as units from etl.run_jobs w left join etl.jobs j using (job_id)
    where w.run_id = ${runId}::bigint and w.outcome = ${outcome} and (${codes === undefined} or j.error_code = any(${[...(codes ?? [])]}::text[]))`
