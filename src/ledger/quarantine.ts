// Rejected rows with their raw record: kept with the answer that held them, listed, shown, superseded by the next load of their unit.
import { type Expression, type RawBuilder, type SqlBool, sql } from 'kysely'
import { redact } from '../core/redact.ts'
import { query, type Row } from '../db/typed-row.ts'
import type { Reject } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { databaseNow } from '../db/database-clock.ts'

/** A record to keep with the reason it could not be loaded. */
export interface QuarantineEntry extends Reject {
  /** null or left out: of an unknown unit. */
  readonly unitId?: number | null
}

/** Entries of one answer. */
export interface QuarantineBatch {
  readonly answerId: number
  readonly jobId: number
  readonly runId: number
  readonly pipeline: string
  readonly entries: readonly QuarantineEntry[]
}

/** A rejected record with where it came from. */
export interface QuarantineRow
  extends Row<'etl.quarantine', 'pipeline' | 'part' | 'column_name' | 'reason' | 'raw' | 'created_at'>,
    Row<'etl.answers', 'landing'> {
  readonly quarantine_id: number
  /** null: of an unknown unit. */
  readonly unit_key: string | null
  readonly answer_id: number
  readonly state: string
  /** Line of the file, or the record's place in the page, from 1. */
  readonly line: number
  readonly run_id: number | null
}

const batchSize = 1_000

/** PostgreSQL's text cannot hold NUL; it is shown as `\u0000`. */
const storable = (text: string): string => redact(text).toWellFormed().replaceAll('\u0000', '\\u0000')

/** In the transaction of the load; secrets are taken out of the raw record. */
export const insertQuarantine = async (db: Db, batch: QuarantineBatch): Promise<void> => {
  const { answerId, jobId, runId, pipeline } = batch
  for (let start = 0; start < batch.entries.length; start += batchSize) {
    await db
      .insertInto('etl.quarantine')
      .values(
        batch.entries.slice(start, start + batchSize).map((entry) => ({
          answer_id: answerId,
          job_id: jobId,
          unit_id: entry.unitId ?? null,
          run_id: runId,
          pipeline,
          part: entry.part,
          line: entry.line,
          column_name: entry.column,
          reason: storable(entry.reason),
          raw: storable(entry.raw),
        })),
      )
      .execute()
  }
}

/**
 * Part of a larger statement: open rows of the units are answered for by the load at hand, and those still wrong are written again by it. Said as what they
 * are not, so that a plan made while the table was empty reads the units' few rows and not the index of all open ones.
 */
export const closeQuarantine = (units: readonly number[]): RawBuilder<unknown> =>
  sql`update etl.quarantine set state = 'superseded', resolved_at = clock_timestamp()
    where unit_id = any(${units.map(String)}::bigint[]) and state not in ('resolved', 'superseded')`

const supersede = async (db: Db, answerId: number, also: Expression<SqlBool>): Promise<void> => {
  await db
    .updateTable('etl.quarantine')
    .set({ state: 'superseded', resolved_at: databaseNow })
    .where('answer_id', '=', String(answerId))
    .where('state', '=', 'open')
    .where(also)
    .execute()
}

/** Every open row of the answer gives way to those of a later try. */
export const supersedeAnswer = (db: Db, answerId: number): Promise<void> => supersede(db, answerId, sql<boolean>`true`)

/** Those of the answer of an unknown unit. */
export const supersedeStrays = (db: Db, answerId: number): Promise<void> => supersede(db, answerId, sql<boolean>`unit_id is null`)

/** Those of the answer that belong to these units, which stay as they are. */
export const supersedeHeld = (db: Db, answerId: number, unitIds: readonly number[]): Promise<void> =>
  supersede(db, answerId, sql<boolean>`unit_id = any(${unitIds.map(String)}::bigint[])`)

/**
 * Records of an unknown unit, of answers that no unit holds or waits for any more: newer answers have taken their place. There are
 * hardly ever any.
 */
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

/** Which rows; what is left out does not narrow. */
export interface QuarantineFilter {
  /** Empty: all. */
  readonly pipelines: readonly string[]
  readonly limit: number
  /** Also resolved and superseded rows. */
  readonly all: boolean
}

const rowsOf = (db: Db) =>
  db
    .selectFrom('etl.quarantine as q')
    .innerJoin('etl.answers as a', 'a.answer_id', 'q.answer_id')
    .leftJoin('etl.unit_list as u', 'u.unit_id', 'q.unit_id')
    .select([
      'q.quarantine_id',
      'u.unit_key',
      'q.answer_id',
      'q.pipeline',
      'q.state',
      'a.landing',
      'q.part',
      'q.line',
      'q.column_name',
      'q.reason',
      'q.raw',
      'q.run_id',
      'q.created_at',
    ])

type FoundRow = Awaited<ReturnType<ReturnType<typeof rowsOf>['executeTakeFirstOrThrow']>>

const quarantineRow = (row: FoundRow): QuarantineRow => ({
  ...row,
  quarantine_id: Number(row.quarantine_id),
  answer_id: Number(row.answer_id),
  line: Number(row.line),
  run_id: row.run_id === null ? null : Number(row.run_id),
})

/** Newest first. */
export const listQuarantine = async (db: Db, filter: QuarantineFilter): Promise<{ rows: QuarantineRow[]; total: number }> => {
  const { pipelines, limit, all } = filter
  const rows = await rowsOf(db)
    .$if(!all, (query) => query.where('q.state', '=', 'open'))
    .$if(pipelines.length > 0, (query) => query.where('q.pipeline', 'in', [...pipelines]))
    .orderBy('q.quarantine_id', 'desc')
    .limit(limit)
    .execute()
  const counted = await db
    .selectFrom('etl.quarantine as q')
    .select((eb) => eb.fn.countAll<string>().as('total'))
    .$if(!all, (query) => query.where('q.state', '=', 'open'))
    .$if(pipelines.length > 0, (query) => query.where('q.pipeline', 'in', [...pipelines]))
    .executeTakeFirstOrThrow()
  return { rows: rows.map(quarantineRow), total: Number(counted.total) }
}

/** null: there is no such row. */
export const showQuarantine = async (db: Db, id: number): Promise<QuarantineRow | null> => {
  const row = await rowsOf(db).where('q.quarantine_id', '=', String(id)).executeTakeFirst()
  return row === undefined ? null : quarantineRow(row)
}
