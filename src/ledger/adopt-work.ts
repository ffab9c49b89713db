// Restores purchases and answers that this ledger does not know but receipts and landings prove. Each gets its job back, as in the ledger that was lost,
// with the answers that landed for it and the units that wait for it.
import { type RawBuilder, sql } from 'kysely'
import type { JobKind, Slice, Window } from '../core/types.ts'
import { countRows, type Counts, type Lists, type Maybe, query, queryColumn, queryValue, type Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { insertingAnswer, isLandingKnown, type NewAnswer } from './answers.ts'
import { cutPlans } from './cut-plans.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { insertPipeline, type PipelineRow } from './pipelines.ts'
import { openingWindows, retireJobs } from './register-jobs.ts'
import { countLost, type LostReservation } from './request-credits.ts'
import { combinationsOf } from './slices.ts'
import { mayBegin, openAgain, reportTransitions, setJob } from './transitions.ts'

/** A pipeline as the receipt names it. */
interface PipelineWords extends Omit<PipelineRow, 'version'> {
  readonly pipeline_version: number
}

/** A landing that is whole. */
export interface FoundAnswer extends NewAnswer {
  /** Of a report: what it cost; null: the landing does not say. */
  readonly usedQuota: number | null
}

/** What a receipt or a landing proves of a job that the ledger lost, named as in a receipt. `report_id` null: a walk, or a submission whose answer was not noted. */
interface LostWork extends Readonly<Record<'report_id' | 'endpoint' | 'request_hash' | 'estimated_quota', string | null>> {
  readonly kind: JobKind
  readonly ask_number: string
  readonly asked_at: string
  readonly account: string
  readonly window: Window
  readonly slice: Slice
  readonly request: unknown
  /** null: nothing has landed yet. */
  readonly answer: FoundAnswer | null
}

/** `known`: the ledger has it. `other shape`: its pipeline has other dimensions or windows here. */
export type Adopted = 'taken up' | 'known' | 'other shape'

/** Locks the pipeline's row until the transaction ends, as its planner does. null: the ledger has no such pipeline. */
export const knownPipeline = async (
  trx: Db,
  { pipeline, pipeline_version: version, parameters }: Pick<PipelineWords, 'pipeline' | 'pipeline_version' | 'parameters'>,
) =>
  (await trx
    .selectFrom('etl.pipelines')
    .select(['pipeline_id as pipelineId', 'window_every as windowEvery', 'dimensions', 'generation'])
    .where((eb) => eb.and({ pipeline, version }))
    .where(sql<boolean>`parameters = ${JSON.stringify(parameters)}::jsonb`)
    .forNoKeyUpdate()
    .executeTakeFirst()) ?? null

type KnownPipeline = NonNullable<Awaited<ReturnType<typeof knownPipeline>>>

/** Inserts the pipeline as the receipt names it where the ledger has none. The next plan of the pipeline reads its lists. */
export const pipelineOf = async (trx: Db, words: PipelineWords): Promise<KnownPipeline> => {
  const known = await knownPipeline(trx, words)
  if (known !== null) return known
  await insertPipeline(trx, { ...words, version: words.pipeline_version })
  return pipelineOf(trx, words)
}

/** Call in a transaction that has locked the pipeline. */
export const adoptWork = async (
  trx: Db,
  pipeline: KnownPipeline,
  windowEvery: PipelineWords['window_every'],
  work: LostWork,
): Promise<Adopted> => {
  const names = Object.keys(work.slice).sort().join()
  if (pipeline.windowEvery !== windowEvery || [...pipeline.dimensions].sort().join() !== names) return 'other shape'
  if (await isOnRecord(trx, pipeline, work)) return 'known'
  const sliceIds = await slicesOf(trx, pipeline, work.slice)
  const waiting = work.report_id === null ? null : await idOfKnownJob(trx, pipeline, sliceIds, work, work.report_id)
  if (waiting !== null) {
    // Its units may have been planned again meanwhile; that plan would buy them twice.
    await attachUnits(trx, pipeline, waiting, { askNumber: work.ask_number, isBilled: false })
    return 'taken up'
  }
  const askNumber = await freeAskNumber(trx, work.ask_number)
  const isNew = askNumber !== work.ask_number
  const numbered = { ...work, ask_number: askNumber }
  const jobId = await insertFoundJob(trx, pipeline, sliceIds, numbered, isNew ? 'renumbered' : 'restored')
  if (isNew && (await holdsAnswers(trx, jobId)))
    // The job is recorded only: its units have answers, and which is newer is unknown. A person may adopt its report.
    await setJob(trx, jobId, { state: 'replaced' })
  else await attachUnits(trx, pipeline, jobId, { askNumber, isBilled: work.answer !== null && work.answer.usedQuota !== null })
  const what = work.report_id === null ? (work.answer === null ? 'A submission' : 'An answer') : `Report ${work.report_id}`
  const message = `${what} of ${work.asked_at} was missing in this ledger and was restored as job ${jobId}, from the receipts beside the landings.`
  await note(trx, { kind: 'taken up', pipelineId: pipeline.pipelineId, jobId: Number(jobId), message })
  return 'taken up'
}

/** The ledger has the answer or the report id; where neither is known, an intent with the ask number. */
const isOnRecord = async (
  trx: Db,
  { pipelineId }: KnownPipeline,
  { account, report_id: reportId, ask_number: askNumber, answer }: LostWork,
): Promise<boolean> => {
  if (answer !== null && (await isLandingKnown(trx, { locator: answer.locator, askNumber }))) return true
  if (reportId === null && answer !== null) return false
  const jobs = trx.selectFrom('etl.jobs').select('job_id').limit(1)
  const its =
    reportId === null
      ? jobs.where((eb) => eb.and({ pipeline_id: pipelineId, ask_number: askNumber })).where('report_state', 'is not', null)
      : jobs.where((eb) => eb.and({ account, report_id: reportId }))
  return (await its.execute()).length > 0
}

/** Records the id where the backup was taken between the intent and the id, so that the job is there without its id. null: there is no such job. */
const idOfKnownJob = async (
  trx: Db,
  { pipelineId }: KnownPipeline,
  sliceIds: readonly number[],
  { ask_number: askNumber, window }: LostWork,
  reportId: string,
): Promise<string | null> => {
  const row = await trx
    .updateTable('etl.jobs')
    .set({
      ...openAgain,
      ...{ report_state: 'submitted', report_id: reportId, holder: null, next_poll_at: null, deadline_at: null },
      ...{ submitted_at: sql<string>`coalesce(submitted_at, asked_at)`, fence: sql<string>`fence + 1` },
    })
    .where((eb) => eb.and({ pipeline_id: pipelineId, ask_number: askNumber, report_id: null }))
    .where((eb) => eb.and({ window_from: window.from, window_to: window.to }))
    .where(sql<boolean>`slice_ids @> ${[...sliceIds]}::integer[] and slice_ids <@ ${[...sliceIds]}::integer[]`)
    .where(mayBegin(reportTransitions['id adopted']))
    .returning('job_id')
    .executeTakeFirst()
  return row?.job_id ?? null
}

/** Ids of its slices. A slice that the ledger lacks is inserted as not wanted: only lists decide what is wanted. */
const slicesOf = async (trx: Db, { pipelineId, dimensions, generation }: KnownPipeline, slice: Slice): Promise<number[]> => {
  const wanted = combinationsOf(dimensions.map((name) => ({ name, values: [slice[name] ?? ''].flat() })))
  return queryColumn<Row<'etl.slices', 'slice_id'>>(trx)`
    with wanted as (${wanted}), made as (
      insert into etl.slices (pipeline_id, "values", wanted_since, wanted_until)
      select ${pipelineId}::integer, "values", ${generation}::integer, ${generation}::integer from wanted
      on conflict (pipeline_id, "values") do nothing returning slice_id
    )
    select slice_id from made union all
    select s.slice_id from etl.slices s join wanted on s."values" = wanted."values" where s.pipeline_id = ${pipelineId}::integer order by 1`
}

/** Two clones draw the same numbers. Where this ledger has used the number, a new one is drawn, which says nothing of the answer's age. */
const freeAskNumber = (trx: Db, askNumber: string): Promise<string> =>
  queryValue<Counts<'ask'>>(trx)`
    select case when exists (select from etl.answers where ask_number = ${askNumber}::bigint)
      or exists (select from etl.jobs where ask_number = ${askNumber}::bigint and report_state is not null)
      then nextval('etl.ask_numbers') else ${askNumber}::bigint end as ask`

/** Units of its box have answers, and whether they are newer is unknown. */
const holdsAnswers = async (trx: Db, jobId: string): Promise<boolean> =>
  (await countRows(trx)`
    select u.unit_id from etl.jobs j join etl.units u on u.pipeline_id = j.pipeline_id and u.window_from >= j.window_from
      and u.window_from < j.window_to and u.slice_id = any(j.slice_ids) and u.ask_number is not null
    where j.job_id = ${jobId}::bigint limit 1`) > 0

const insertFoundJob = async (
  trx: Db,
  { pipelineId, windowEvery }: KnownPipeline,
  sliceIds: readonly number[],
  work: LostWork,
  reason: 'restored' | 'renumbered',
): Promise<string> => {
  const { answer } = work
  const isLost = work.kind === 'report' && work.report_id === null
  const row = await trx
    .insertInto('etl.jobs')
    .values({
      pipeline_id: pipelineId,
      kind: work.kind,
      reason,
      window_from: work.window.from,
      window_to: work.window.to,
      slice_ids: [...sliceIds],
      cells: sql<number>`${sliceIds.length} * (select count(*) from generate_series(${work.window.from}::date,
        ${work.window.to}::date - 1, ${`1 ${windowEvery}`}::interval))`,
      state: isLost ? 'held' : 'open',
      error_code: isLost ? 'REPORT_UNCERTAIN' : null,
      error_message: isLost ? uncertain : null,
      ask_number: work.ask_number,
      asked_at: work.asked_at,
      account: work.account,
      endpoint: work.endpoint,
      request: work.request === null || work.request === undefined ? null : JSON.stringify(work.request),
      request_hash: work.request_hash,
      estimated_quota: work.estimated_quota,
      report_state: work.kind === 'walk' ? null : isLost ? 'uncertain' : answer === null ? 'submitted' : 'downloaded',
      report_id: work.report_id,
      submitted_at: work.report_id === null ? null : work.asked_at,
      receipt_at: work.report_id === null ? null : databaseNow,
    })
    .returning('job_id')
    .executeTakeFirstOrThrow()
  if (answer !== null)
    await query(trx)`
      with job as materialized (
        select * from etl.jobs where job_id = ${row.job_id}::bigint
      ), answer as (${insertingAnswer(answer)} returning answer_id)
      update etl.jobs set answer_id = (select answer_id from answer), data_points_count = ${answer.dataPoints}::bigint,
        used_quota = ${answer.usedQuota}::numeric
      where job_id = ${row.job_id}::bigint`
  return row.job_id
}

const uncertain =
  'A report was submitted before this ledger was restored, and no receipt names its id; the service may or may not have taken it. Check its own list of ' +
  'reports: `millrace reports adopt` records the id; to send it again (it may be bought twice) run with --resubmit-uncertain.'

/**
 * Points the job's units at it, except units with an answer or a purchase as new. It replaces plans, failed and held jobs without a live purchase, and walks in flight.
 * An older report is still finished, but its units wait for this job: else the next plan would buy the newer purchase again once the older report is loaded.
 */
export const attachUnits = async (
  trx: Db,
  { pipelineId, windowEvery }: Pick<KnownPipeline, 'pipelineId' | 'windowEvery'>,
  jobId: string,
  { askNumber, isBilled }: { readonly askNumber: string; readonly isBilled: boolean },
): Promise<void> => {
  // Lock order: jobs before units. A process that holds one of these jobs may be about to cut it.
  await query(trx)`
    select j.job_id from etl.jobs j where (j.ask_number is null and j.answer_id is null or ${isOlderWalk(askNumber)}) and j.job_id in (
      select u.job_id from etl.jobs w join etl.units u on u.pipeline_id = w.pipeline_id and u.window_from >= w.window_from
        and u.window_from < w.window_to and u.slice_id = any(w.slice_ids) where w.job_id = ${jobId}::bigint)
    order by j.job_id for update`
  const found = await queryValue<Maybe<Lists<Counts<'left'>>>>(trx)`
    with cell as (
      select w.at::date as window_from, s.slice_id from etl.jobs j
        cross join lateral generate_series(j.window_from, j.window_to - 1, ${`1 ${windowEvery}`}::interval) as w (at)
        cross join unnest(j.slice_ids) as s (slice_id)
      where j.job_id = ${jobId}::bigint
    ), had as (
      select u.window_from, u.slice_id, case when not o.is_older then u.job_id end as job_id, coalesce(u.ask_number, 0) >= ${askNumber}::bigint
          or not o.is_older and (coalesce(j.state = 'open' and j.ask_number is not null and not ${isOlderWalk(askNumber)}, false)
          or coalesce(j.state in ('held', 'failed') and (j.answer_id is not null
            or j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain')), false)) as stays
      from cell join etl.units u on u.pipeline_id = ${pipelineId}::integer and u.window_from = cell.window_from and u.slice_id = cell.slice_id
        left join etl.jobs j on j.job_id = u.job_id
        cross join lateral (select coalesce(j.state in ('open', 'failed') and j.report_state in ('submitted', 'ready', 'downloaded')
          and j.ask_number < ${askNumber}::bigint, false) as is_older) o
    ), asked as (
      insert into etl.units (pipeline_id, window_from, slice_id, job_id)
      select ${pipelineId}::integer, window_from, slice_id, ${jobId}::bigint from cell
      where not exists (select from had where stays and (had.window_from, had.slice_id) = (cell.window_from, cell.slice_id))
      order by window_from, slice_id
      on conflict (pipeline_id, window_from, slice_id) do update set job_id = excluded.job_id
      returning window_from
    ), ${openingWindows(pipelineId)}
    select array_agg(distinct job_id) as left from had where not stays and job_id is not null`
  const left = found ?? []
  await waitInstead(trx, jobId, left)
  await cutPlans(trx, { pipelineId, windowEvery }, left)
  await retireWalks(trx, left, askNumber, isBilled)
  await retireJobs(trx, left)
}

/** Runs that wait for the plans now wait for the open job that has their units: else they would end without counting these units. */
const waitInstead = async (trx: Db, jobId: string, plans: readonly string[]): Promise<void> => {
  await query(trx)`
    insert into etl.run_jobs (run_id, job_id, priority, units, slice_ids, window_from, window_to)
    select w.run_id, j.job_id, min(w.priority), count(distinct u.unit_id), array_agg(distinct u.slice_id), min(u.window_from), etl.window_end(max(u.window_from), p.window_every)
    from etl.jobs j join etl.pipelines p using (pipeline_id)
      join etl.jobs f on f.job_id = any(${[...plans]}::bigint[]) and f.ask_number is null and f.answer_id is null
      join etl.run_jobs w on w.job_id = f.job_id and w.outcome is null
      join etl.units u on u.pipeline_id = j.pipeline_id and u.job_id = j.job_id and u.slice_id = any(j.slice_ids) and u.slice_id = any(coalesce(w.slice_ids, f.slice_ids))
        and u.window_from >= greatest(j.window_from, w.window_from, f.window_from) and u.window_from < least(j.window_to, w.window_to, f.window_to)
    where j.job_id = ${jobId}::bigint and j.state = 'open' group by w.run_id, j.job_id, p.window_every
    on conflict (run_id, job_id) do update set (units, slice_ids, window_from, window_to, outcome, finished_at)
      = (excluded.units, excluded.slice_ids, excluded.window_from, excluded.window_to, null, null) where run_jobs.outcome is not null`
}

/** Job `j` is a walk in flight, and a complete answer with the same or a later ask number is here. */
const isOlderWalk = (askNumber: string): RawBuilder<boolean> =>
  sql<boolean>`(j.kind = ${sql.lit('walk')} and j.state = 'open' and j.answer_id is null and j.ask_number <= ${askNumber}::bigint)`

/**
 * Replaces walks that would buy the same pages again; a process that holds one loses it. Credits that such a walk had reserved count as paid, unless the answer is
 * its own and has a bill.
 */
const retireWalks = async (trx: Db, jobIds: readonly string[], askNumber: string, isBilled: boolean): Promise<void> => {
  const retired = await query<LostReservation>(trx)`
    with older as (
      select j.job_id, case when j.ask_number < ${askNumber}::bigint or not ${isBilled} then j.reserved_credits end as lost from etl.jobs j
      where j.job_id = any(${[...jobIds]}::bigint[]) and ${isOlderWalk(askNumber)} order by j.job_id for update
    )
    update etl.jobs j set state = 'replaced', holder = null, fence = fence + 1, not_before = null, begun_landing = null, updated_at = clock_timestamp(),
      reserved_credits = case when w.lost is null then j.reserved_credits end, reserves_all = j.reserves_all and w.lost is null
    from older w where j.job_id = w.job_id
    returning j.job_id::float8 as "jobId", j.pipeline_id as "pipelineId", j.account, w.lost::float8 as reserved`
  await countLost(trx, retired)
}
