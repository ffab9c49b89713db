// Recorded answers: the immutable bytes that came for a job, and the verdict on them as a whole. An answer's id is its ask number.
import assert from 'node:assert/strict'
import { type RawBuilder, sql } from 'kysely'
import type { Box, Fingerprint } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import { countRows, prepared, query, type Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { fenced, type Claim, isClaimedBy } from './claim-fence.ts'
import { mayBegin, reportTransitions } from './transitions.ts'

/** An answer that is whole in its landing. */
export interface NewAnswer {
  readonly locator: string
  readonly sha256: string
  readonly bytes: number
  readonly fingerprint: Fingerprint
  readonly dataPoints: number | null
  /** As the service sorted it; undefined or null where it did not say. */
  readonly order?: unknown
  readonly dialect?: string | null
  /** See core/request-digest.ts. */
  readonly asks: string
  readonly metrics: readonly string[]
  /** Only the first so many rows of each combination were asked for; null: all. */
  readonly top?: number | null
}

/**
 * Records the answer and returns its number: from here on the job asks for nothing again. `released` is reset, since no person has seen this answer. A report that is
 * downloaded again because its bytes were unusable keeps its number. Throws FENCED.
 */
export const insertAnswer = async (db: Db, claim: Claim, landed: NewAnswer): Promise<number> => {
  const [row] = await prepared<Row<'etl.answers', 'answer_id'>>(db)`
    with job as materialized (
      select * from etl.jobs where ${isClaimedBy(claim)} for update
    ), answer as (
      ${insertingAnswer(landed)}
      on conflict (answer_id) do update set landing = excluded.landing, sha256 = excluded.sha256, bytes = excluded.bytes,
        source_last_updated = excluded.source_last_updated, source_count = excluded.source_count, data_points_count = excluded.data_points_count,
        shape_id = excluded.shape_id, verdict = null, verdict_message = null
      returning answer_id
    )
    update etl.jobs set answer_id = (select answer_id from answer), begun_landing = null, released = false, updated_at = clock_timestamp(),
      report_state = case when ${mayBegin(reportTransitions['bytes landed'])} then 'downloaded' else report_state end
    where ${isClaimedBy(claim)} returning answer_id`
  if (row === undefined) throw fenced(claim)
  return Number(row.answer_id)
}

/** Part of a statement over `job`, a row of etl.jobs: inserts the answer that landed for it. */
export const insertingAnswer = (landed: NewAnswer): RawBuilder<unknown> => {
  const { locator, sha256, bytes, fingerprint, dataPoints, order, dialect = null, asks, metrics, top = null } = landed
  return sql`
    insert into etl.answer_rows (answer_id, job_id, asked_at, bytes, source_count, data_points_count, pipeline_id, shape_id, window_from, window_to,
      slice_id, slice_ids, sha256, landing, source_last_updated)
    select ask_number, job_id, coalesce(asked_at, clock_timestamp()), ${bytes}::bigint, ${fingerprint.count}::bigint, ${dataPoints}::bigint,
      pipeline_id, etl.shape_of(${asks}, ${[...metrics]}::text[], ${top}::integer, ${dialect}::text, ${jsonOrNull(order)}::jsonb, ${fingerprint.dataVersion ?? null}::text, null, null),
      window_from, window_to, case cardinality(slice_ids) when 1 then slice_ids[1] end, case when cardinality(slice_ids) <> 1 then slice_ids end, decode(${sha256}, 'hex'),
      etl.landing_name(${locator}, etl.landing_folder(pipeline_id, case cardinality(slice_ids) when 1 then slice_ids[1] end, window_from), ask_number), ${fingerprint.lastUpdated}
    from job`
}

const jsonOrNull = (value: unknown): string | null => (value === undefined || value === null ? null : JSON.stringify(value))

/** A landing by its name. */
export interface NamedLanding {
  readonly locator: string
  /** null: the landing's name does not say. */
  readonly askNumber: string | null
}

/** Whether `a` of etl.answers has its bytes in landing `l` (landing, ask_number): found by its number, or by the full name where the answer was renumbered. */
export const isLandedIn = sql<boolean>`a.landing = l.landing and a.answer_id in (
  select l.ask_number union all select r.answer_id from etl.answer_rows r where r.landing = l.landing and strpos(r.landing, '/') > 0)`

/** Whether an answer on record has its bytes there. */
export const isLandingKnown = async (db: Db, { locator, askNumber }: NamedLanding): Promise<boolean> =>
  (await countRows(db)`
    select from (select ${locator}::text as landing, ${askNumber}::bigint as ask_number) l, etl.answers a where ${isLandedIn}`) >
  0

/** What the service said of it as a whole. @param answer name of its row */
export const fingerprintOf = (answer: string): RawBuilder<Fingerprint> => {
  const a = sql.ref(answer)
  return sql`json_build_object('lastUpdated', ${a}.source_last_updated, 'count', ${a}.source_count, 'dataVersion', ${a}.data_version)`
}

/** SHA-256 of the bytes the answer was recorded with. */
export const shaOnRecord = async (db: Db, answerId: number): Promise<string> => {
  const answers = db.selectFrom('etl.answers').where('answer_id', '=', String(answerId))
  return (await answers.select('sha256').executeTakeFirstOrThrow()).sha256
}

/** The landed bytes turned out unusable: the next try downloads again (free), or reads the pages again; it never buys again. */
export const dropAnswer = async (db: Db, claim: Claim): Promise<void> => {
  await query(db)`
    update etl.jobs set answer_id = null, updated_at = clock_timestamp(),
      report_state = case when ${mayBegin(reportTransitions['bytes unusable'])} then 'ready' else report_state end
    where ${isClaimedBy(claim)} and exists (select from etl.answers a where a.answer_id = jobs.answer_id and a.job_id = jobs.job_id)`
}

/** Records that the answer is good as a whole. Where it already is, the notes on its held units stay. */
export const markGood = async (db: Db, answerId: number): Promise<void> => {
  await db
    .updateTable('etl.answer_rows')
    .set({ verdict: 'good', verdict_message: null })
    .where('answer_id', '=', String(answerId))
    .where('verdict', 'is distinct from', 'good')
    .execute()
}

/**
 * What is recorded of the answer before it is judged. `verdict`: null, `good`, or the code that refused it. `account`: of the job that asked for it, also where another
 * job loads it. `isLoaded`: by this pipeline, since each judges by its own rules. Throws where there is no such answer. @param pipelineId the pipeline that loads it
 */
export const recordedVerdict = (db: Db, answerId: number, pipelineId: number) =>
  db
    .selectFrom('etl.answers as a')
    .leftJoin('etl.jobs as j', 'j.job_id', 'a.job_id')
    .select([
      'a.verdict',
      sql<number>`a.job_id::float8`.as('jobId'),
      'a.times_incomplete as timesIncomplete',
      'a.metrics',
      'j.account',
      sql<boolean>`exists (select from etl.loads l where l.answer_id = a.answer_id and l.pipeline_id = ${pipelineId})`.as(
        'isLoaded',
      ),
    ])
    .where('a.answer_id', '=', String(answerId))
    .executeTakeFirstOrThrow()

/** The answer is refused as a whole. @param verdict code of the error that says why */
export const setVerdict = async (db: Db, answerId: number, verdict: string, message: string | null): Promise<void> => {
  await db
    .updateTable('etl.answer_rows')
    .set((eb) => ({
      verdict,
      verdict_message: message,
      times_incomplete: verdict === 'INCOMPLETE' ? eb('times_incomplete', '+', 1) : eb.ref('times_incomplete'),
    }))
    .where('answer_id', '=', String(answerId))
    .execute()
}

/** Notes why units of a good answer are held. Each code keeps its first message only. */
export const recordHoldReason = async (db: Db, answerId: number, code: string, message: string): Promise<void> => {
  await query(db)`
    update etl.answer_rows set verdict = 'good', verdict_message = concat_ws(chr(10), verdict_message, ${`${code}: ${message}`}::text)
    where answer_id = ${answerId}::bigint and coalesce(strpos(verdict_message, ${`${code}: `}), 0) = 0`
}

/** The box that the answer was asked for, named as units of that pipeline. A job that loads it again may cover less. */
export const answerBox = async (
  db: Db,
  answerId: number,
  { pipeline, version }: { readonly pipeline: string; readonly version: number },
): Promise<Box> => {
  const [answer] = await query<
    Row<'etl.answers', 'window_from' | 'window_to'> &
      Row<'etl.pipelines', 'dimensions'> &
      Readonly<Record<'slices', string[][] | null>>
  >(db)`
    select a.window_from, a.window_to, p.dimensions, (select json_agg(s."values") from etl.slices s where s.slice_id = any(a.slice_ids)) as slices
    from etl.answers a join etl.pipelines p using (pipeline_id) where a.answer_id = ${answerId}::bigint`
  assert.ok(answer !== undefined, `answer ${answerId} is on record`)
  const { window_from: from, window_to: to, dimensions, slices } = answer
  return boxOf({ pipeline, version, window: { from, to }, dimensions, slices: slices ?? [] })
}
