// Rejected rows, with the raw record.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { wholes, wholesOrNull } from './shared-columns.ts'

const rawShown = 2_000

/** Open rows with where they came from, newest first; without a unit its owner is unknown. @param unitId null: of every unit */
export const quarantined = (db: Db, limit: number, unitId: number | null = null) =>
  db
    .selectFrom('etl.quarantine as q')
    .leftJoin('etl.unit_list as u', 'u.unit_id', 'q.unit_id')
    .select([...wholes('q', 'quarantine_id', 'job_id', 'line'), ...wholesOrNull('q', 'unit_id')])
    .select(['u.unit_key', 'q.pipeline', 'q.part', 'q.column_name', 'q.reason', 'q.created_at'])
    .select(sql<string>`left(q.raw, ${rawShown})`.as('raw'))
    .where('q.state', '=', 'open')
    .$if(unitId !== null, (query) => query.where('q.unit_id', '=', String(unitId)))
    .orderBy('q.quarantine_id', 'desc')
    .limit(limit)
    .execute()

export type QuarantineLine = Awaited<ReturnType<typeof quarantined>>[number]

export const countQuarantined = (db: Db) =>
  db
    .selectFrom('etl.quarantine as q')
    .select(['q.pipeline', sql<number>`count(*)::float8`.as('rows')])
    .where('q.state', '=', 'open')
    .groupBy('q.pipeline')
    .orderBy('q.pipeline')
    .execute()
