// Rejected rows, with the raw record.
import { sql } from 'kysely'
import { type Db, rowsOf } from './row.ts'

export interface QuarantineLine {
  readonly quarantine_id: number
  readonly unit_id: number
  readonly unit_key: string
  readonly pipeline: string
  readonly landing: string | null
  readonly part: number
  readonly line: number
  readonly column_name: string | null
  readonly reason: string
  readonly raw: string
  readonly created_at: string
}

const rawShown = 2_000

/** Open rows, newest first. @param unitId null: of every unit */
export const quarantined = (db: Db, limit: number, unitId: number | null = null): Promise<readonly QuarantineLine[]> =>
  rowsOf(
    db,
    sql<QuarantineLine>`select q.quarantine_id::float8 as quarantine_id, q.unit_id::float8 as unit_id, u.unit_key, q.pipeline, q.landing,
      q.part, q.line::float8 as line, q.column_name, q.reason, left(q.raw, ${rawShown}) as raw, q.created_at
      from etl.quarantine q join etl.units u on u.unit_id = q.unit_id
      where q.state = 'open' and (${unitId}::bigint is null or q.unit_id = ${unitId}::bigint)
      order by q.quarantine_id desc limit ${limit}`,
  )

export const countQuarantined = (db: Db): Promise<readonly { readonly pipeline: string; readonly rows: number }[]> =>
  rowsOf(
    db,
    sql<{ pipeline: string; rows: number }>`select pipeline, count(*)::float8 as rows from etl.quarantine where state = 'open'
      group by 1 order by 1`,
  )
