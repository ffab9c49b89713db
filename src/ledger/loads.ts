// Load records: one for each answer and window, written in the transaction that changes the rows; or alone where nothing had changed.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Fingerprint, RowCounts, Window } from '../core/types.ts'
import { executePrepared } from '../db/prepared.ts'
import type { Row } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'
import { fenced, lockJob } from './hold.ts'
import { finishJob } from './settle-job.ts'
import { pointUnits, type WindowShare } from './units.ts'

type Value = string | number | null | RawBuilder<unknown>

/** The columns of a load, as values, slots or expressions. */
export type LoadValues = Readonly<
  Record<
    | keyof RowCounts
    | 'answerId'
    | 'pipelineId'
    | 'windowFrom'
    | 'jobId'
    | 'runId'
    | 'units'
    | 'withoutRows'
    | 'drift'
    | 'rowsProof'
    | 'loadedAt'
    | 'milliseconds',
    Value
  >
>

/** Part of a larger statement. @param when nothing is written where it does not hold */
export const insertLoad = (values: LoadValues, when: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  insert into etl.loads (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated,
    rows_ended, rows_unchanged, rows_quarantined, rows_duplicates, slices_without_rows, drift, proof, loaded_at, milliseconds)
  select ${values.answerId}::bigint, ${values.pipelineId}::integer, ${values.windowFrom}::date, ${values.jobId}::bigint,
    ${values.runId}::bigint, 'loaded', ${values.units}::integer, ${values.read}::bigint, ${values.inserted}::bigint,
    ${values.updated}::bigint, ${values.ended}::bigint, ${values.unchanged}::bigint, ${values.quarantined}::bigint,
    ${values.duplicates}::bigint, ${values.withoutRows}, ${values.drift}::jsonb,
    ${values.rowsProof}::jsonb, coalesce(${values.loadedAt}::timestamptz, transaction_timestamp()),
    ${values.milliseconds}::float8
  where ${when}`

/** A window of an answer that was loaded, as it is recorded. */
export interface WindowLoad extends WindowShare {
  readonly claim: WindowShare['claim'] & Pick<ClaimedJob, 'runId'>
  /** Numbers of the units that took the answer, as an array, and how many they are. */
  readonly accepted: RawBuilder<unknown>
  readonly units: number
  /** Slices of those of them that the answer has no row for, as an array. */
  readonly withoutRows: RawBuilder<unknown>
  readonly counts: RowCounts
  readonly drift: unknown
  /** By what the rows are known again (see load/rows-proof.ts); null: it is not noted. */
  readonly rowsProof: unknown
  /** The moment the rows written bear; null: none was written. */
  readonly loadedAt: string | null
  readonly milliseconds: number
}

/** Call inside the data transaction: the record of the window's load, its units' pointers, and that the answer was found good. */
export const recordLoad = async (db: Db, load: WindowLoad): Promise<void> => {
  const { claim, counts, drift } = load
  const record = insertLoad(
    {
      ...counts,
      answerId: load.answerId,
      pipelineId: claim.pipelineId,
      windowFrom: load.window.from,
      jobId: claim.jobId,
      runId: claim.runId,
      units: load.units,
      withoutRows: load.withoutRows,
      drift: drift === null ? null : JSON.stringify(drift),
      rowsProof: load.rowsProof === null ? null : JSON.stringify(load.rowsProof),
      loadedAt: load.loadedAt,
      milliseconds: load.milliseconds,
    },
    sql`true`,
  )
  await executePrepared(
    db,
    sql`
    with load as (${record}), judged as (
      update etl.answers set verdict = 'good' where answer_id = ${load.answerId}::bigint and verdict is distinct from 'good'
    ), counted as (
      -- A replay into a closed window changes how many rows it has, and nothing else of it.
      update etl.windows set closed_rows = closed_rows + ${counts.inserted - counts.ended}::bigint
      where pipeline_id = ${claim.pipelineId} and window_from = ${load.window.from}::date and closed_generation is not null
        and ${counts.inserted - counts.ended}::bigint <> 0
    )
    ${pointUnits(load, load.accepted)}`,
  )
}

/** @param units their numbers */
export const slicesOf = (units: readonly number[]): RawBuilder<unknown> =>
  units.length === 0
    ? sql`'{}'::integer[]`
    : sql`array(select w.slice_id from etl.units w where w.unit_id = any(${units.map(String)}::bigint[]) order by w.slice_id)`

/** When rows of the window were written last, as an expression; a later load's moment must follow it, so that a row's moment names its load. */
export const lastLoadOf = ({ claim, window }: WindowShare): RawBuilder<unknown> =>
  sql`(select max(loaded_at) from etl.loads where pipeline_id = ${claim.pipelineId} and window_from = ${window.from}::date)`

/** First days of the windows that this job has loaded from the answer already: a successor goes on behind them. */
export const windowsLoaded = async (db: Db, claim: Pick<ClaimedJob, 'jobId'>, answerId: number): Promise<ReadonlySet<string>> => {
  const rows = await db
    .selectFrom('etl.loads')
    .select('window_from')
    .where('answer_id', '=', String(answerId))
    .where('job_id', '=', String(claim.jobId))
    .where('outcome', '=', 'loaded')
    .execute()
  return new Set(rows.map((row) => row.window_from))
}

/** A load of a whole answer that left the means to know its rows again. */
export interface ProvenLoad extends Row<'etl.loads', 'units' | 'slices_without_rows' | 'proof'> {
  readonly landing: string
  readonly dataPoints: number | null
  readonly count: number | null
}

/** The newest load of the answer where it was loaded as a whole, for these windows and so many slices; null: there is none, or it left no proof. */
export const provenLoad = async (db: Db, answerId: number, window: Window, slices: number): Promise<ProvenLoad | null> => {
  const row = await db
    .selectFrom('etl.loads as l')
    .innerJoin('etl.answers as a', 'a.answer_id', 'l.answer_id')
    .select(['l.units', 'l.slices_without_rows', 'l.proof', 'a.landing', 'a.data_points_count', 'a.source_count'])
    .where('l.answer_id', '=', String(answerId))
    .where('l.outcome', '=', 'loaded')
    .where('a.window_from', '=', window.from)
    .where('a.window_to', '=', window.to)
    .where((eb) => eb(eb.fn<number>('cardinality', ['a.slice_ids']), '=', slices))
    .orderBy('l.load_id', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (row === undefined || row.proof === null) return null
  const { data_points_count, source_count, ...load } = row
  return { ...load, dataPoints: numberOrNull(data_points_count), count: numberOrNull(source_count) }
}

const numberOrNull = (text: string | null): number | null => (text === null ? null : Number(text))

/**
 * The service's answer is what is loaded already: no row is touched, and the job is done. Call inside a transaction; throws FENCED.
 * @param fingerprint what the service says of it now
 */
export const markUnchanged = async (db: Db, claim: ClaimedJob, fingerprint: Fingerprint): Promise<void> => {
  const { loaded } = claim
  if (loaded === null)
    throw new EtlError('INTERNAL', `${claim.box.key}: nothing is loaded that could be unchanged; please report this defect.`)
  await lockJob(db, claim)
  const { from, to } = claim.box.window
  const these = sql`u.pipeline_id = ${claim.pipelineId} and u.window_from >= ${from}::date and u.window_from < ${to}::date
    and u.slice_id = any(${[...claim.sliceIds]}::integer[])`
  if (claim.cells > 1) await sql`select from etl.units u where ${these} order by u.window_from, u.slice_id for update`.execute(db)
  const rows = await executePrepared(
    db,
    sql`
    with stood as (
      update etl.answers set stood_at = clock_timestamp(), source_last_updated = ${fingerprint.lastUpdated},
        source_count = ${fingerprint.count}::bigint where answer_id = ${loaded.answerId}::bigint returning answer_id
    ), load as (
      insert into etl.loads (answer_id, pipeline_id, window_from, job_id, run_id, outcome)
      select answer_id, ${claim.pipelineId}::integer, w.at::date, ${claim.jobId}::bigint, ${claim.runId}::bigint, 'unchanged'
      from stood cross join generate_series(${from}::date, ${to}::date - 1, ${`1 ${claim.windowEvery}`}::interval) as w (at) returning load_id
    ), settled as (
      -- Confirmed by a later question: an answer asked for in between must not replace it.
      update etl.units u set job_id = nullif(u.job_id, ${claim.jobId}::bigint),
        ask_number = case when u.answer_id = ${loaded.answerId}::bigint then greatest(u.ask_number, ${claim.askNumber}::bigint) else u.ask_number end
      where ${these}
    )
    select load_id from load`,
  )
  if (rows.length === 0) throw fenced(claim)
  await finishJob(db, claim, 'unchanged')
}
