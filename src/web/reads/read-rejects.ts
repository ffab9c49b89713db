// Rejected rows with the raw record; the tests of definitions, and the units that fail them.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { isOpenRecord } from '../../ledger/quarantine.ts'
import { type Maybe, type Numbers, query, type Row, type Texts } from '../../db/typed-row.ts'
import { asNumbers, asNumbersOrNull } from './shared-columns.ts'

const rawShown = 2_000

/** Open rejected rows with their origin, newest first; no unit: it could not be told. @param unitId null: of every unit */
export const quarantined = (db: Db, limit: number, unitId: number | null = null) =>
  db
    .selectFrom('etl.quarantine as q')
    .leftJoin('etl.unit_list as u', 'u.unit_id', 'q.unit_id')
    .select([...asNumbers('q', 'quarantine_id', 'job_id', 'line'), ...asNumbersOrNull('q', 'unit_id')])
    .select(['u.unit_key', 'q.pipeline', 'q.part', 'q.column_name', 'q.reason', 'q.created_at'])
    .select(sql<string>`left(q.raw, ${rawShown})`.as('raw'))
    .$if(unitId === null, (query) => query.where(isOpenRecord))
    .$if(unitId !== null, (query) => query.where('q.state', '=', 'open').where('q.unit_id', '=', String(unitId)))
    .orderBy('q.quarantine_id', 'desc')
    .limit(limit)
    .execute()

export type QuarantineLine = Awaited<ReturnType<typeof quarantined>>[number]

export const countQuarantined = (db: Db) =>
  db
    .selectFrom('etl.quarantine as q')
    .select(['q.pipeline', sql<number>`count(*)::float8`.as('rows')])
    .where(isOpenRecord)
    .groupBy('q.pipeline')
    .orderBy('q.pipeline')
    .execute()

/** The tests of the definitions last used for planning, and how many units fail each now; by pipeline, in the order of the definition. */
export const testLines = (db: Db) =>
  query<
    Row<'etl.pipelines', 'pipeline'> &
      Texts<'test' | 'expects' | 'on_failure'> &
      Numbers<'held' | 'warned' | 'released'> &
      Maybe<Texts<'tested_at'>>
  >(db)`
    select p.pipeline, t.test ->> 'name' as test, t.test ->> 'expects' as expects, t.test ->> 'on_failure' as on_failure,
      coalesce(f.held, 0)::float8 as held, coalesce(f.warned, 0)::float8 as warned, coalesce(f.released, 0)::float8 as released, f.tested_at
    from (select distinct on (pipeline, version) * from etl.pipelines order by pipeline, version, updated_at desc) p
      cross join lateral jsonb_array_elements(p.tests) with ordinality as t (test, place)
      left join (select pipeline, version, test, count(*) filter (where outcome = 'held') as held, count(*) filter (where outcome = 'warned') as warned,
        count(*) filter (where outcome = 'released') as released, max(tested_at) as tested_at from etl.failed_tests group by 1, 2, 3) f
        on f.pipeline = p.pipeline and f.version = p.version and f.test = t.test ->> 'name'
    order by p.pipeline, p.version, t.place`

/** Units that fail a test with what was found, newest first. @param unitId null: of every unit */
export const failedTests = (db: Db, limit: number, unitId: number | null = null) =>
  db
    .selectFrom('etl.failed_tests as f')
    .innerJoin('etl.unit_list as u', 'u.unit_id', 'f.unit_id')
    .select([...asNumbers('f', 'unit_id'), 'u.unit_key', 'f.pipeline', 'f.test', 'f.outcome', 'f.message', 'f.tested_at'])
    .$if(unitId !== null, (query) => query.where('f.unit_id', '=', String(unitId)))
    .orderBy('f.tested_at', 'desc')
    .orderBy('f.unit_id')
    .limit(limit)
    .execute()

export type FailedTestLine = Awaited<ReturnType<typeof failedTests>>[number]
