// Rejected rows, with the raw record.
import { sql } from 'kysely'
import type { Row } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'
import { wholeAs, wholeOrNullAs } from './first-row.ts'

/** A rejected record with where it came from; its beginning only. */
export interface QuarantineLine
  extends Row<'etl.quarantine', 'pipeline' | 'part' | 'column_name' | 'reason' | 'raw' | 'created_at'>,
    Row<'etl.answers', 'landing'> {
  readonly quarantine_id: number
  /** null: nobody can tell whose record it is. */
  readonly unit_id: number | null
  readonly unit_key: string | null
  readonly job_id: number
  /** Line of the file, or the record's place in the page, from 1. */
  readonly line: number
}

const rawShown = 2_000

/** Open rows, newest first. @param unitId null: of every unit */
export const quarantined = (db: Db, limit: number, unitId: number | null = null): Promise<QuarantineLine[]> =>
  db
    .selectFrom('etl.quarantine as q')
    .innerJoin('etl.answers as a', 'a.answer_id', 'q.answer_id')
    .leftJoin('etl.unit_list as u', 'u.unit_id', 'q.unit_id')
    .select([wholeAs('q', 'quarantine_id'), wholeOrNullAs('q', 'unit_id'), 'u.unit_key', wholeAs('q', 'job_id'), 'q.pipeline'])
    .select(['a.landing', 'q.part', wholeAs('q', 'line'), 'q.column_name', 'q.reason', 'q.created_at'])
    .select(sql<string>`left(q.raw, ${rawShown})`.as('raw'))
    .where('q.state', '=', 'open')
    .$if(unitId !== null, (query) => query.where('q.unit_id', '=', String(unitId)))
    .orderBy('q.quarantine_id', 'desc')
    .limit(limit)
    .execute()

/** Open rows by pipeline. */
export const countQuarantined = (db: Db): Promise<readonly { readonly pipeline: string; readonly rows: number }[]> =>
  db
    .selectFrom('etl.quarantine as q')
    .select(['q.pipeline', sql<number>`count(*)::float8`.as('rows')])
    .where('q.state', '=', 'open')
    .groupBy('q.pipeline')
    .orderBy('q.pipeline')
    .execute()
