// Load records, one for each answer and window, and what tests found of its units: written in the transaction that changes the rows; or alone where nothing had changed.
import type { TestFinding } from '../core/data-test.ts'
import { EtlError } from '../core/errors.ts'
import type { Fingerprint, IsoDate, RowCounts } from '../core/types.ts'
import { prepared, query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'
import { fenced, finishJob, lockJob } from './claim-fence.ts'
import { isUnitOf, pointUnits, type UnitsOfJob } from './job-units.ts'
import { closeQuarantine } from './quarantine.ts'

/** A window of an answer that was loaded. */
export interface WindowLoad {
  readonly windowFrom: IsoDate
  /** How many of its units took the answer, and slices of those without a row in it. */
  readonly units: number
  readonly withoutRows: readonly number[]
  readonly counts: RowCounts
  /** How much its figures changed, as JSON; null: none did. */
  readonly changes: unknown
}

/** What is recorded of a load. */
export interface LoadRecord {
  readonly claim: Pick<ClaimedJob, 'jobId' | 'pipelineId' | 'runId'>
  readonly answerId: number
  readonly windows: readonly WindowLoad[]
  /** Numbers of the units that took the answer. */
  readonly units: readonly number[]
  readonly drift: unknown
  /** `missing`: columns whose field no record has; `partly`: columns whose field some records lack. null: there were no records. */
  readonly fields: { readonly missing: readonly string[]; readonly partly: readonly string[] } | null
  /** `_loaded_at` of the rows; null: when the transaction began. */
  readonly loadedAt: string | null
  readonly milliseconds: number
}

/**
 * Call inside the load's transaction. Writes a record for each window, points the units at the answer, closes their quarantine and records that the answer is good.
 * Call it before writing to quarantine: records that are still wrong come after it.
 */
export const recordLoad = async (
  db: Db,
  { claim, answerId, windows, units, drift, fields, loadedAt, milliseconds }: LoadRecord,
): Promise<void> => {
  const records = windows.map(({ counts, ...window }) => ({ ...window, ...counts }))
  await prepared(db)`
    with loaded as materialized (
      select x.*, ${claim.runId}::bigint as run_id, ${drift === null ? null : JSON.stringify(drift)}::jsonb as drift,
        coalesce(${loadedAt}::timestamptz, transaction_timestamp()) as loaded_at, ${milliseconds}::real as milliseconds
      from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as x ("windowFrom" date, units integer, "withoutRows" integer[], read bigint,
        inserted bigint, updated bigint, ended bigint, unchanged bigint, quarantined bigint, duplicates bigint, changes jsonb)
    ), beside as materialized (
      -- The first load of an answer for one unit is recorded in the answer's own row.
      select l.* from loaded l join etl.answer_rows a on a.answer_id = ${answerId}::bigint and a.loaded_at is null
        and a.job_id = ${claim.jobId}::bigint and a.pipeline_id = ${claim.pipelineId}::integer and a.window_from = l."windowFrom"
      where a.slice_id is not null and (select count(*) from loaded) = 1
        and l."withoutRows" = case when l.inserted + l.updated + l.unchanged = 0 then array[a.slice_id] else '{}' end
    ), load as (
      insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated,
        rows_ended, rows_unchanged, rows_quarantined, rows_duplicates, slices_without_rows, drift, loaded_at, milliseconds, changes)
      select ${answerId}::bigint, ${claim.pipelineId}::integer, "windowFrom", ${claim.jobId}::bigint, run_id, 'loaded', units, read,
        inserted, updated, ended, unchanged, quarantined, duplicates, "withoutRows", drift, loaded_at, milliseconds, changes
      from loaded where not exists (select from beside) order by "windowFrom"
    ), read as materialized (
      -- Fields are recorded for the version that requested the answer only, since its next answers are compared with them; another version may lack columns.
      select a.answer_id, case when ${fields === null}::boolean or a.pipeline_id <> ${claim.pipelineId}::integer then a.shape_id else etl.shape_of(h.asks, h.metrics,
        h.top_rows, h.dialect, h.source_order, h.data_version, ${[...(fields?.missing ?? [])]}::text[], ${[...(fields?.partly ?? [])]}::text[]) end as shape_id
      from etl.answer_rows a join etl.answer_shapes h on h.shape_id = a.shape_id where a.answer_id = ${answerId}::bigint
    ), judged as (
      update etl.answer_rows a set verdict = 'good', verdict_message = case when a.verdict = 'good' then a.verdict_message end, shape_id = r.shape_id,
        loaded_at = coalesce(a.loaded_at, b.loaded_at), run_id = coalesce(a.run_id, b.run_id), milliseconds = coalesce(a.milliseconds, b.milliseconds),
        rows_inserted = coalesce(a.rows_inserted, nullif(b.inserted, 0)), rows_updated = coalesce(a.rows_updated, nullif(b.updated, 0)),
        rows_ended = coalesce(a.rows_ended, nullif(b.ended, 0)), rows_unchanged = coalesce(a.rows_unchanged, nullif(b.unchanged, 0)),
        rows_quarantined = coalesce(a.rows_quarantined, nullif(b.quarantined, 0)),
        rows_duplicates = coalesce(a.rows_duplicates, nullif(b.duplicates, 0)), drift = coalesce(a.drift, b.drift), changes = coalesce(a.changes, b.changes)
      from read r left join beside b on true
      where a.answer_id = ${answerId}::bigint
        and (b.loaded_at is not null or a.verdict is distinct from 'good' or a.shape_id <> r.shape_id)
    ), counted as (
      -- A replay into a closed window changes its number of rows and nothing else.
      update etl.windows w set closed_rows = w.closed_rows + l.inserted - l.ended from loaded l
      where w.pipeline_id = ${claim.pipelineId} and w.window_from = l."windowFrom" and w.closed_generation is not null and l.inserted <> l.ended
    ), answered as (${closeQuarantine(units)})
    ${pointUnits(claim, answerId, units)}`
}

/**
 * Settles the job as unchanged: the service's answer is what is loaded already, so no row is touched. Call inside a transaction; throws FENCED.
 * @param fingerprint what the service says of it now
 */
export const markUnchanged = async (db: Db, claim: ClaimedJob, fingerprint: Fingerprint): Promise<void> => {
  const { loaded } = claim
  if (loaded === null)
    throw new EtlError('INTERNAL', `${claim.box.key}: no loaded answer could be unchanged; please report this defect.`)
  await lockJob(db, claim)
  const { from, to } = claim.box.window
  const these = isUnitOf(claim)
  if (claim.cells > 1) await query(db)`select from etl.units u where ${these} order by u.window_from, u.slice_id for update`
  const rows = await prepared(db)`
    with stood as (
      update etl.answer_rows set stood_at = clock_timestamp(), source_last_updated = ${fingerprint.lastUpdated},
        source_count = ${fingerprint.count}::bigint where answer_id = ${loaded.answerId}::bigint returning answer_id
    ), load as (
      insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome)
      select answer_id, ${claim.pipelineId}::integer, w.at::date, ${claim.jobId}::bigint, ${claim.runId}::bigint, 'unchanged'
      from stood cross join generate_series(${from}::date, ${to}::date - 1, ${`1 ${claim.windowEvery}`}::interval) as w (at) returning load_id
    ), settled as (
      -- Confirmed by a later check: an answer requested in between must not replace it.
      update etl.units u set job_id = nullif(u.job_id, ${claim.jobId}::bigint),
        ask_number = case when u.answer_id = ${loaded.answerId}::bigint then greatest(u.ask_number, ${claim.askNumber}::bigint) else u.ask_number end
      where ${these}
    )
    select load_id from load`
  if (rows.length === 0) throw fenced(claim)
  await finishJob(db, claim, 'unchanged')
}

/** Units of each pipeline whose answer was cut at its limit, loaded or held. */
export const cappedUnits = (db: Db) =>
  db
    .selectFrom('etl.capped_units as c')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'c.pipeline_id')
    .select((eb) => ['p.pipeline', eb.fn.countAll<string>().as('units')])
    .groupBy('p.pipeline')
    .execute()

/** A test that a unit fails. */
export interface FailedTest extends TestFinding {
  readonly unitId: number
  readonly windowFrom: IsoDate
  readonly words: string
  readonly becomes: 'held' | 'released' | 'warned'
}

/** Those of the units whose answer a person released before, although its tests hold it: it need not be released again. */
export const releasedBefore = async (db: Db, answerId: number, unitIds: readonly number[]): Promise<ReadonlySet<number>> => {
  const rows = await db
    .selectFrom('etl.test_failures')
    .select('unit_id')
    .distinct()
    .where((eb) => eb.and({ answer_id: String(answerId), released: true }))
    .where((eb) => eb('unit_id', '=', eb.fn.any(eb.val(unitIds.map(String)))))
    .execute()
  return new Set(rows.map(({ unit_id }) => Number(unit_id)))
}

/** Call in the load's transaction, after units were pointed at the answer or held. Deletes findings about answers that the units neither have nor hold any more. */
export const recordTests = async (
  db: Db,
  claim: UnitsOfJob & Pick<ClaimedJob, 'runId'>,
  answerId: number,
  failures: readonly FailedTest[],
): Promise<void> => {
  await query(db)`
    delete from etl.test_failures f using etl.units u
    where ${isUnitOf(claim)} and f.unit_id = u.unit_id and (f.answer_id = ${answerId}::bigint
        or f.answer_id is distinct from u.answer_id and f.answer_id is distinct from u.held_answer_id)`
  if (failures.length === 0) return
  await query(db)`
    insert into etl.test_failures (unit_id, answer_id, test, pipeline_id, window_from, run_id, kind, on_failure, released, rows_tested,
      rows_failing, found, expected, message)
    select x."unitId", ${answerId}::bigint, x.test ->> 'name', ${claim.pipelineId}::integer, x."windowFrom", ${claim.runId}::bigint, x.test ->> 'kind',
      x.test ->> 'onFailure', x.becomes = 'released', x.rows, x.failing, x.found, x.expected, x.words
    from jsonb_to_recordset(${JSON.stringify(failures)}::jsonb) as x ("unitId" bigint, "windowFrom" date, test jsonb, becomes text,
      rows bigint, failing bigint, found text, expected text, words text)
    order by 1, 3`
}
