// Replaces a job that is asked again, or split: new jobs ask for its units, and the runs that waited for it wait for them.
import { type Selectable, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { IsoDate, Window, WindowSize } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import type { Db, JobsTable } from '../db/tables.ts'
import { countRows, type Lists, type Numbers, query, queryOne, type Row } from '../db/typed-row.ts'
import type { ClaimedJob } from './claim.ts'
import { databaseNow } from '../db/database-clock.ts'
import { type Claim, fenced, isClaimedBy, type ParkOptions, parkJob, type Reason } from './claim-fence.ts'
import { valuesIn } from './slices.ts'

/** What one of the new jobs asks for: every combination of its slices and windows. */
export interface JobPart {
  readonly sliceIds: readonly number[]
  readonly window: Window
  /** The job of another version or pipeline whose answer serves it. Default: none. */
  readonly servedBy?: number | undefined
  /** Its answer is here: it is made also where no unit points at the former job, as with the job of a replay. Default: false. */
  readonly isHere?: boolean
}

/**
 * Replaces the job by planned jobs that name it as the former, and returns them; leaves out parts without units that still point at the job. Moves the runs that wait for it to its
 * parts, and splits jobs that it was to serve. A late id can still be recorded. Throws INTERNAL where the parts leave a unit out. @param reason why it was refused; null: it was not
 */
export const replaceJob = async (
  trx: Db,
  claim: Claim,
  parts: readonly JobPart[],
  reason: Reason | null = null,
): Promise<number[]> => {
  const former = await endFormer(trx, claim, reason)
  const { window_every: every } = await trx
    .selectFrom('etl.pipelines')
    .select('window_every')
    .where('pipeline_id', '=', former.pipeline_id)
    .executeTakeFirstOrThrow()
  const made: number[] = []
  const serving: JobPart[] = []
  for (const part of parts) {
    const jobId = await makeJob(trx, former, part, every)
    const isMade = (await moveUnits(trx, former, part, jobId)) || part.isHere === true
    serving.push({ ...part, servedBy: isMade ? jobId : Number(former.job_id) })
    if (isMade) made.push(jobId)
    else await trx.deleteFrom('etl.jobs').where('job_id', '=', String(jobId)).execute()
  }
  const forgotten = await trx.selectFrom('etl.units').select('unit_id').where('job_id', '=', former.job_id).execute()
  if (forgotten.length > 0) {
    const message = `Job ${former.job_id} was split into parts that leave out ${forgotten.length} of its units; please report this defect.`
    throw new EtlError('INTERNAL', message)
  }
  await moveWaiting(trx, former, every, made)
  await moveServed(trx, former, serving)
  return made
}

type Wait = Pick<ParkOptions, 'code' | 'message' | 'notBeforeMs'>

/** A new job loads the job's answer into the windows before that day; another, not asked for yet, waits for the later ones. False: no later unit pointed at the job. */
export const keepUpTo = async (trx: Db, claim: ClaimedJob, day: IsoDate, why: Wait): Promise<boolean> => {
  const { sliceIds, box } = claim
  const parts = [
    { sliceIds, window: { from: box.window.from, to: day }, isHere: true },
    { sliceIds, window: { from: day, to: box.window.to } },
  ]
  const made = await replaceJob(trx, claim, parts)
  // A replay counts only units that exist.
  await query(trx)`
    with here as (
      update etl.jobs j set answer_id = f.answer_id, ask_number = f.ask_number, asked_at = f.asked_at, estimated_quota = 0,
        cells = (select count(*) from etl.units u where u.pipeline_id = j.pipeline_id and u.window_from >= j.window_from
          and u.window_from < j.window_to and u.slice_id = any(j.slice_ids))
      from etl.jobs f where f.job_id = ${claim.jobId}::bigint and j.job_id = any(${made.map(String)}::bigint[])
        and j.window_from < ${day}::date returning j.job_id, j.cells
    )
    update etl.run_jobs w set units = least(w.units, h.cells) from here h where w.job_id = h.job_id`
  return (await parkMade(trx, made, day, why)) > 0
}

/** Parks the new jobs for windows from that day on: a later run continues them. Returns how many. */
export const parkMade = async (trx: Db, made: readonly number[], from: IsoDate, why: Wait): Promise<number> => {
  const later = await trx
    .selectFrom('etl.jobs')
    .select(['job_id as jobId', 'fence'])
    .where('job_id', '=', sql<string>`any(${made.map(String)}::bigint[])`)
    .where('window_from', '>=', from)
    .execute()
  for (const job of later) await parkJob(trx, { ...job, holder: 0 }, { ...why, countsAttempt: false, final: true })
  return later.length
}

type JobRow = Selectable<JobsTable>

const endFormer = async (trx: Db, claim: Claim, reason: Reason | null): Promise<JobRow> => {
  const row = await trx
    .updateTable('etl.jobs')
    .set({
      ...{ state: 'replaced', holder: null, fence: sql<string>`fence + 1`, not_before: null, updated_at: databaseNow },
      ...{ error_code: reason?.code ?? null, error_message: reason?.message ?? null },
    })
    .where(isClaimedBy(claim))
    .returningAll()
    .executeTakeFirst()
  if (row === undefined) throw fenced(claim)
  return row
}

const makeJob = async (trx: Db, former: JobRow, { sliceIds, window, servedBy }: JobPart, every: WindowSize): Promise<number> => {
  const cells = sliceIds.length * windowsBetween(window.from, window.to, every).length
  const { pipeline_id, kind, reason, guard, wanted_by, forced, run_id, approval_id, account } = former
  const row = await trx
    .insertInto('etl.jobs')
    .values({
      ...{ pipeline_id, kind, reason, guard, wanted_by, forced, run_id, approval_id, account, former_job_id: former.job_id },
      ...{ window_from: window.from, window_to: window.to, slice_ids: [...sliceIds], cells },
      served_by: servedBy === undefined ? null : String(servedBy),
      estimated_quota: shareOf(former, cells),
    })
    .returning('job_id')
    .executeTakeFirstOrThrow()
  return Number(row.job_id)
}

/** The part's share of the former job's estimated credits. */
const shareOf = ({ estimated_quota, cells }: JobRow, part: number): number | null =>
  estimated_quota === null ? null : Math.ceil((Number(estimated_quota) * part) / cells)

/** False: no unit of the part points at the former job any more. */
const moveUnits = async (trx: Db, former: JobRow, { sliceIds, window }: JobPart, jobId: number): Promise<boolean> =>
  (await countRows(trx)`
    with locked as (
      select pipeline_id, window_from, slice_id from etl.units
      where pipeline_id = ${former.pipeline_id} and window_from >= ${window.from}::date and window_from < ${window.to}::date
        and slice_id = any(${[...sliceIds]}::integer[]) and job_id = ${former.job_id}::bigint
      order by pipeline_id, window_from, slice_id for update
    )
    update etl.units u set job_id = ${jobId}::bigint from locked l
    where u.pipeline_id = l.pipeline_id and u.window_from = l.window_from and u.slice_id = l.slice_id returning u.unit_id`) > 0

/** A job that was to be served. `names`: its slices, as the serving job's pipeline numbers them; 0: that pipeline does not have the slice. */
type ServedRow = Row<'etl.jobs', 'job_id' | 'fence' | 'slice_ids' | 'window_from' | 'window_to'> & Lists<Numbers<'names'>>

/** Jobs that waited for the former job's answer wait for those of its parts. Units that no part asks for are planned again by a later run. */
const moveServed = async (trx: Db, former: JobRow, parts: readonly JobPart[]): Promise<void> => {
  const rows = await query<ServedRow>(trx)`
    select j.job_id, j.fence, j.slice_ids, j.window_from, j.window_to, array(
      select coalesce(s.slice_id, 0) from unnest(j.slice_ids) with ordinality x (slice_id, place) join etl.slices o on o.slice_id = x.slice_id
        left join etl.slices s on s.pipeline_id = f.pipeline_id and s."values" = ${valuesIn('o', 'p', 'f')}
      order by x.place) as names
    from etl.jobs j join etl.pipelines p on p.pipeline_id = j.pipeline_id join etl.pipelines f on f.pipeline_id = ${former.pipeline_id}
    where p.source = f.source and j.state = 'open' and j.holder is null and j.not_before is null and j.answer_id is null
      and j.served_by = ${former.job_id}::bigint
    order by j.job_id for update of j`
  for (const { job_id: jobId, fence, slice_ids, window_from, window_to, names } of rows) {
    const cut = parts.flatMap((part) => {
      const sliceIds = slice_ids.filter((_, at) => names[at] === 0 || part.sliceIds.includes(names[at] ?? 0))
      const from = part.window.from > window_from ? part.window.from : window_from
      const to = part.window.to < window_to ? part.window.to : window_to
      return sliceIds.length === 0 || from >= to ? [] : [{ sliceIds, window: { from, to }, servedBy: part.servedBy }]
    })
    await replaceJob(trx, { jobId, fence, holder: 0 }, cut)
  }
}

/** The runs that waited for the former job wait for their share of each new job. */
const moveWaiting = async (trx: Db, former: JobRow, every: WindowSize, made: readonly number[]): Promise<void> => {
  await query(trx)`
    with ended as (
      update etl.run_jobs set outcome = 'replaced', finished_at = clock_timestamp()
      where job_id = ${former.job_id}::bigint and outcome is null returning *
    ), wanted as (
      select e.run_id, j.job_id, e.priority, j.cells, x.*,
        cardinality(x.ids) * (select count(*) from generate_series(x.first, x.after - 1, ${`1 ${every}`}::interval)) as units
      from ended e join etl.jobs j on j.job_id = any(${made.map(String)}::bigint[])
        cross join lateral (select greatest(j.window_from, e.window_from) as first, least(j.window_to, e.window_to) as after,
          array(select i.id from unnest(j.slice_ids) with ordinality i (id, place) where e.slice_ids is null or i.id = any(e.slice_ids) order by i.place) as ids) x
    )
    -- Parts come before the jobs planned beside the whole, and parts of parts first: a few refusals then lead to a part that the service takes, or to none.
    insert into etl.run_jobs (run_id, job_id, priority, units, slice_ids, window_from, window_to)
    select run_id, job_id, priority - 1, units, case when units < cells then ids end, case when units < cells then first end, case when units < cells then after end
    from wanted where units > 0`
}

/** Halving reaches one single item after log2 refusals, and two of them after twice as many. */
const mostRefusals = (count: number): number => 2 * Math.ceil(Math.log2(Math.max(count, 2)))

/** Several single cells must be refused: parts are split side by side, so refusals of large parts do not show that every cell is refused. */
const singlesRefused = 3

/**
 * How often parts of one planned report were refused with this message, this job's refusal included, while none of them was accepted; null: too seldom to give up
 * splitting it. Several single cells must be among them and, for a job of several values, several values refused by themselves: the windows of a few bad
 * values are refused in a row, too, which says nothing about the good values beside them.
 */
export const refusedInARow = async (db: Db, claim: ClaimedJob, { code, message }: Reason): Promise<number | null> => {
  const { refused, singles, cells, alone, values } = await queryOne<
    Numbers<'refused' | 'singles' | 'cells' | 'alone' | 'values'>
  >(db)`
    with recursive whole as (
      select job_id, former_job_id, cells, slice_ids from etl.jobs where job_id = ${claim.jobId}::bigint
      union all
      select j.job_id, j.former_job_id, j.cells, j.slice_ids from etl.jobs j join whole w on j.job_id = w.former_job_id where j.error_code is not null
    ), asked as (
      select j.job_id, j.former_job_id, j.cells, j.slice_ids, j.error_code, j.error_message, j.updated_at, j.submitted_at, j.report_state
      from etl.run_jobs w join etl.jobs j using (job_id)
      where w.run_id = ${claim.runId}::bigint and w.job_id >= (select min(job_id) from whole) and j.pipeline_id = ${claim.pipelineId}
    ), parts as (
      select * from asked where job_id = (select min(job_id) from whole)
      union all select a.* from asked a join parts p on a.former_job_id = p.job_id
    )
    select count(*) filter (where error_message = ${message})::float8 + 1 as refused,
      count(*) filter (where cells = 1 and error_code = ${code})::float8 as singles, (select max(cells) from whole)::float8 as cells,
      count(distinct slice_ids) filter (where cardinality(slice_ids) = 1 and error_code = ${code})::float8 as alone,
      (select max(cardinality(slice_ids)) from whole)::float8 as values
    from parts where updated_at > coalesce((select max(submitted_at) from parts where ${code} <> 'REPORT_REJECTED' or report_state in ('ready', 'downloaded')),
      '-infinity'::timestamptz)`
  if (refused <= mostRefusals(cells) || singles < singlesRefused) return null
  return claim.sliceIds.length > 1 && alone < mostRefusals(values) ? null : refused
}
