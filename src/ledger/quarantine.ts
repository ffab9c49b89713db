// Rejected rows with their raw record: kept, listed, shown, superseded by the next load of their unit.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { redact } from '../core/redact.ts'
import { executePrepared } from '../db/prepared.ts'
import type { Tables } from '../db/tables.ts'

type Db = Kysely<Tables>

export interface QuarantineEntry {
  readonly part: number
  readonly line: number
  readonly column: string | null
  readonly reason: string
  readonly raw: string
}

export interface QuarantineBatch {
  readonly unitId: number
  readonly edition: number
  readonly runId: number
  readonly pipeline: string
  readonly landing: string | null
  readonly entries: readonly QuarantineEntry[]
}

export interface QuarantineRow {
  readonly quarantine_id: number
  readonly unit_key: string
  readonly pipeline: string
  readonly state: string
  readonly landing: string | null
  readonly part: number
  readonly line: number
  readonly column_name: string | null
  readonly reason: string
  readonly raw: string
  readonly run_id: number | null
  readonly created_at: string
}

const batchSize = 1_000

/** PostgreSQL's text cannot hold NUL; it is shown as `\u0000`. */
const storable = (text: string): string => redact(text).toWellFormed().replaceAll('\u0000', '\\u0000')

export const insertQuarantine = async (db: Db, batch: QuarantineBatch): Promise<void> => {
  const { unitId, edition, runId, pipeline, landing } = batch
  for (let start = 0; start < batch.entries.length; start += batchSize) {
    await db
      .insertInto('etl.quarantine')
      .values(
        batch.entries.slice(start, start + batchSize).map((entry) => ({
          unit_id: unitId,
          edition,
          run_id: runId,
          pipeline,
          landing,
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
 * Open rows of the unit are answered for by the load at hand: those still wrong are written again by it. Said as what they are not, so that
 * a plan made while the table was empty reads the unit's few rows and not the index of all open ones.
 */
export const closeQuarantine = (unitId: number | string, when: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`update etl.quarantine set state = 'superseded', resolved_at = clock_timestamp()
    where unit_id = ${unitId}::bigint and state not in ('resolved', 'superseded') and ${when}`

/** @param edition only rows of this one */
export const supersedeQuarantine = async (db: Db, unitId: number, edition?: number): Promise<void> => {
  await executePrepared(db, closeQuarantine(unitId, edition === undefined ? sql`true` : sql`edition = ${edition}`))
}

/** Units of `pipelines` with open rows. */
export const quarantinedUnits = async (db: Db, pipelines: readonly string[]): Promise<number[]> => {
  const rows = await db
    .selectFrom('etl.quarantine')
    .select('unit_id')
    .distinct()
    .where('state', '=', 'open')
    .where('pipeline', 'in', [...pipelines])
    .orderBy('unit_id')
    .execute()
  return rows.map((row) => Number(row.unit_id))
}

const columns = sql`q.quarantine_id::float8 as quarantine_id, u.unit_key, q.pipeline, q.state, q.landing, q.part, q.line::float8 as line,
  q.column_name, q.reason, q.raw, q.run_id::float8 as run_id, q.created_at`

export interface QuarantineFilter {
  /** Empty: all. */
  readonly pipelines: readonly string[]
  readonly limit: number
  /** Also resolved and superseded rows. */
  readonly all: boolean
}

export const listQuarantine = async (db: Db, filter: QuarantineFilter): Promise<{ rows: QuarantineRow[]; total: number }> => {
  const wanted = sql`${filter.all ? sql`true` : sql`q.state = 'open'`} and ${
    filter.pipelines.length === 0 ? sql`true` : sql`q.pipeline in (${sql.join([...filter.pipelines])})`
  }`
  const { rows } = await sql<QuarantineRow>`
    select ${columns} from etl.quarantine q join etl.units u on u.unit_id = q.unit_id
    where ${wanted} order by q.quarantine_id desc limit ${filter.limit}`.execute(db)
  const count = await sql<{ total: number }>`select count(*)::int as total from etl.quarantine q where ${wanted}`.execute(db)
  return { rows, total: count.rows[0]?.total ?? 0 }
}

export const showQuarantine = async (db: Db, id: number): Promise<QuarantineRow | null> => {
  const { rows } = await sql<QuarantineRow>`
    select ${columns} from etl.quarantine q join etl.units u on u.unit_id = q.unit_id where q.quarantine_id = ${id}::bigint`.execute(
    db,
  )
  return rows[0] ?? null
}
