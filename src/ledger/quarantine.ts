// Rejected rows with their raw record: kept with the answer that held them, listed, shown, superseded by the next load of their unit.
import { type RawBuilder, sql } from 'kysely'
import { redact } from '../core/redact.ts'
import { asNumber, query } from '../db/typed-row.ts'
import type { Reject } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { ClaimedJob } from './claim.ts'
import { isFormer, isSucceeded } from './slices.ts'

/** A record to keep with the reason it could not be loaded. */
export interface QuarantineEntry extends Reject {
  /** null or left out: of an unknown unit. */
  readonly unitId?: number | null
}

const batchSize = 1_000

const storable = (text: string): string => redact(text).toWellFormed()

/** Call in the load's transaction. Secrets are masked in the raw record. */
export const insertQuarantine = async (
  db: Db,
  answerId: number,
  { jobId, runId, pipeline }: Pick<ClaimedJob, 'jobId' | 'runId' | 'pipeline'>,
  entries: readonly QuarantineEntry[],
): Promise<void> => {
  for (let start = 0; start < entries.length; start += batchSize) {
    await db
      .insertInto('etl.quarantine')
      .values(
        entries.slice(start, start + batchSize).map((entry) => ({
          ...{ answer_id: answerId, job_id: jobId, run_id: runId, pipeline, unit_id: entry.unitId ?? null },
          ...{ part: entry.part, line: entry.line, column_name: entry.column },
          reason: storable(entry.reason),
          raw: storable(entry.raw),
        })),
      )
      .execute()
  }
}

/**
 * Part of a larger statement: the load at hand supersedes open rows of its units, and writes those still wrong again. The states are given by what they are
 * not, so that a plan made while the table was empty reads the units' few rows and not the index of all open rows.
 */
export const closeQuarantine = (units: readonly number[]): RawBuilder<unknown> =>
  sql`update etl.quarantine set state = 'superseded', resolved_at = clock_timestamp()
    where unit_id = any(${units.map(String)}::bigint[]) and state <> 'superseded'`

/** A later try of the same version supersedes open rows of the answer. @param which `strays`: rows of an unknown unit; numbers: rows of these units */
export const supersede = async (
  db: Db,
  { pipelineId }: Pick<ClaimedJob, 'pipelineId'>,
  answerId: number,
  which: 'all' | 'strays' | readonly number[],
): Promise<void> => {
  await db
    .updateTable('etl.quarantine')
    .set({ state: 'superseded', resolved_at: databaseNow })
    .where((eb) => eb.and({ answer_id: String(answerId), state: 'open' }))
    .where(
      sql<boolean>`coalesce((select j.pipeline_id from etl.jobs j where j.job_id = etl.quarantine.job_id),
        (select a.pipeline_id from etl.answers a where a.answer_id = ${answerId}::bigint)) = ${pipelineId}`,
    )
    .$if(which === 'strays', (open) => open.where('unit_id', 'is', null))
    .$if(typeof which === 'object', (open) => open.where((eb) => eb('unit_id', '=', eb.fn.any(eb.val([...which].map(String))))))
    .execute()
}

/** Supersedes records of unknown units, of answers that no unit has, holds or waits for any more: newer answers have replaced them. There are hardly ever any. */
export const supersedeReplaced = async (db: Db, pipelineId: number, pipeline: string): Promise<void> => {
  await query(db)`
    with strays as (
      select distinct q.answer_id from etl.quarantine q where q.pipeline = ${pipeline} and q.state = 'open' and q.unit_id is null
    ), replaced as (
      select a.answer_id from strays s join etl.answers a on a.answer_id = s.answer_id
      where a.pipeline_id = ${pipelineId} and not exists (
        select 1 from etl.units u where u.pipeline_id = a.pipeline_id and u.window_from >= a.window_from and u.window_from < a.window_to
          and u.slice_id = any(a.slice_ids) and (u.answer_id = a.answer_id or u.held_answer_id = a.answer_id))
        and not exists (select 1 from etl.jobs j where j.job_id = a.job_id and j.state in ('open', 'held', 'failed'))
    )
    update etl.quarantine set state = 'superseded', resolved_at = clock_timestamp()
    where answer_id in (select answer_id from replaced) and unit_id is null and state = 'open'`
}

// Open records of pipelines with a former version; of most pipelines there are none.
const perhapsFormer = sql`etl.quarantine x where x.state = 'open' and x.pipeline in (select p.pipeline from etl.pipelines p where ${isFormer})`

/**
 * Row `q` is open, and not of a former version that a later one has succeeded: by its unit, or, of an unknown unit, as a whole. There may be 240,000 rows: each unit
 * and each answer is decided once, whatever the statistics of the tables say.
 */
export const isOpenRecord = sql<boolean>`(q.state = 'open' and not coalesce(case when q.unit_id is not null
  then (select jsonb_object_agg(d.unit_id::text, true) from (select distinct x.unit_id from ${perhapsFormer}) d
    where (select ${isSucceeded} from etl.units u where u.unit_id = d.unit_id)) ? q.unit_id::text
  else (select jsonb_object_agg(concat(d.answer_id, ' ', d.job_id), true) from (select distinct x.answer_id, x.job_id from ${perhapsFormer} and x.unit_id is null) d
    where (select ${isFormer} from etl.answers a left join etl.jobs j on j.job_id = d.job_id
      join etl.pipelines p on p.pipeline_id = coalesce(j.pipeline_id, a.pipeline_id) where a.answer_id = d.answer_id)) ? concat(q.answer_id, ' ', q.job_id)
  end, false))`

/** Which rows; what is left out does not narrow. */
interface QuarantineFilter {
  /** Empty: all. */
  readonly pipelines: readonly string[]
  readonly limit: number
  readonly all: boolean
}

const rowsOf = (db: Db) =>
  db
    .selectFrom('etl.quarantine as q')
    .innerJoin('etl.answers as a', 'a.answer_id', 'q.answer_id')
    .leftJoin('etl.unit_list as u', 'u.unit_id', 'q.unit_id')
    .select(['u.unit_key', 'q.pipeline', 'q.state', 'a.landing', 'q.part', 'q.column_name', 'q.reason', 'q.raw', 'q.created_at'])
    .select([asNumber('q.quarantine_id').as('quarantine_id'), asNumber('q.answer_id').as('answer_id')])
    .select([asNumber('q.line').as('line'), sql<number | null>`q.run_id::float8`.as('run_id')])

/** A rejected record with where it came from; the line of the file, or its place in the page, counts from 1. */
type QuarantineRow = Awaited<ReturnType<ReturnType<typeof rowsOf>['executeTakeFirstOrThrow']>>

/** Newest first. */
export const listQuarantine = async (db: Db, { pipelines, limit, all }: QuarantineFilter) => {
  const rows = await rowsOf(db)
    .$if(!all, (query) => query.where(isOpenRecord))
    .$if(pipelines.length > 0, (query) => query.where('q.pipeline', 'in', [...pipelines]))
    .orderBy('q.quarantine_id', 'desc')
    .limit(limit)
    .execute()
  const counted = await db
    .selectFrom('etl.quarantine as q')
    .select((eb) => eb.fn.countAll<string>().as('total'))
    .$if(!all, (query) => query.where(isOpenRecord))
    .$if(pipelines.length > 0, (query) => query.where('q.pipeline', 'in', [...pipelines]))
    .executeTakeFirstOrThrow()
  return { rows, total: Number(counted.total) }
}

/** null: there is no such row. */
export const showQuarantine = async (db: Db, id: number): Promise<QuarantineRow | null> =>
  (await rowsOf(db).where('q.quarantine_id', '=', String(id)).executeTakeFirst()) ?? null
