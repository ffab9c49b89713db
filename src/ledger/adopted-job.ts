// The job that stands for work another ledger had begun, with the answer that landed of it, and the units that wait for it.
import { sql } from 'kysely'
import type { JobKind, Slice, Window } from '../core/types.ts'
import { type Counts, type Lists, type Maybe, query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { insertingAnswer, type NewAnswer } from './answers.ts'
import { countApproval } from './approvals.ts'
import { databaseNow } from '../db/database-clock.ts'
import { dissolving, openingWindows, retireJobs } from './register-jobs.ts'

/** A pipeline as the receipt names it. */
export interface PipelineWords {
  readonly pipeline: string
  readonly pipeline_version: number
  readonly parameters: unknown
  readonly source: string
  readonly account: string
  readonly window_every: 'day' | 'week' | 'month'
  readonly dimensions: readonly string[]
  /** What fetching needs of the definition. */
  readonly definition: unknown
}

/** A landing that is whole. */
export interface FoundAnswer extends NewAnswer {
  /** Of a report: what it cost; null: the landing does not say. */
  readonly usedQuota: number | null
}

/** What a receipt or a landing proves of a job that the ledger lost, named as in a receipt. */
export interface LostWork {
  readonly kind: JobKind
  readonly ask_number: string
  readonly asked_at: string
  readonly account: string
  readonly window: Window
  readonly slice: Slice
  /** null: a walk, or a submission whose answer was not noted. */
  readonly report_id: string | null
  readonly endpoint: string | null
  readonly request: unknown
  readonly request_hash: string | null
  readonly estimated_quota: string | null
  /** null: nothing has landed yet. */
  readonly answer: FoundAnswer | null
}

/** The pipeline as it is registered here. */
export interface KnownPipeline {
  readonly pipelineId: number
  readonly windowEvery: 'day' | 'week' | 'month'
  readonly dimensions: readonly string[]
  readonly generation: number
}

/** Its number. */
export const insertFoundJob = async (
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
  if (answer !== null) await insertFound(trx, row.job_id, answer)
  return row.job_id
}

const uncertain =
  'A report was submitted before this ledger was restored, and no receipt names its id; the service may or may not have taken it. Check its own list of ' +
  'reports: `millrace reports adopt` records the id; to send it again (it may be bought twice) run with --resubmit-uncertain.'

const insertFound = async (trx: Db, jobId: string, answer: FoundAnswer): Promise<void> => {
  await query(trx)`
    with job as materialized (
      select * from etl.jobs where job_id = ${jobId}::bigint
    ), answer as (${insertingAnswer(answer)} returning answer_id)
    update etl.jobs set answer_id = (select answer_id from answer), data_points_count = ${answer.dataPoints}::bigint,
      used_quota = ${answer.usedQuota}::numeric
    where job_id = ${jobId}::bigint`
}

/** Units wait for the job unless they have something as new. A plan gives way, and so does what failed or is held without a purchase that lives. */
export const pointUnits = async (
  trx: Db,
  { pipelineId, windowEvery }: KnownPipeline,
  jobId: string,
  askNumber: string,
): Promise<void> => {
  const rows = await query<Maybe<Lists<Counts<'left'>>>>(trx)`
    with cell as (
      select w.at::date as window_from, s.slice_id from etl.jobs j
        cross join lateral generate_series(j.window_from, j.window_to - 1, ${`1 ${windowEvery}`}::interval) as w (at)
        cross join unnest(j.slice_ids) as s (slice_id)
      where j.job_id = ${jobId}::bigint
    ), had as (
      select u.window_from, u.slice_id, u.job_id, coalesce(u.ask_number, 0) >= ${askNumber}::bigint
          or coalesce(j.state = 'open' and j.ask_number is not null, false)
          or coalesce(j.state in ('held', 'failed') and (j.answer_id is not null
            or j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain')), false) as stays
      from cell join etl.units u on u.pipeline_id = ${pipelineId}::integer and u.window_from = cell.window_from and u.slice_id = cell.slice_id
        left join etl.jobs j on j.job_id = u.job_id
    ), asked as (
      insert into etl.units (pipeline_id, window_from, slice_id, job_id)
      select ${pipelineId}::integer, window_from, slice_id, ${jobId}::bigint from cell
      where not exists (select from had where stays and (had.window_from, had.slice_id) = (cell.window_from, cell.slice_id))
      order by window_from, slice_id
      on conflict (pipeline_id, window_from, slice_id) do update set job_id = excluded.job_id
      returning window_from
    ), ${openingWindows(pipelineId)}
    select array_agg(distinct job_id) as left from had where not stays and job_id is not null`
  const left = rows[0]?.left ?? []
  await dissolvePlans(trx, pipelineId, left)
  await retireJobs(trx, left)
}

/** Reports that were only planned, approved or not, would buy the units they lost once more: the rest is planned anew, and held anew where it was. */
const dissolvePlans = async (trx: Db, pipelineId: number, jobIds: readonly string[]): Promise<void> => {
  const rows = await query(trx)`
    with ${dissolving(sql`
      select j.job_id from etl.jobs j where j.job_id = any(${[...jobIds]}::bigint[]) and j.state in ('open', 'held') and j.holder is null
        and j.ask_number is null and j.answer_id is null order by j.job_id for update`)}`
  if (rows.length > 0) await countApproval(trx, pipelineId)
}
