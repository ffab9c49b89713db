// The tests of definitions and the units that fail them.
import { sql } from 'kysely'
import type { Counts, Maybe, Row, Texts } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'
import { wholeAs } from './first-row.ts'

/** A test as it was last planned with, and how many units fail it now. */
export interface TestLine extends Row<'etl.pipelines', 'pipeline' | 'version'> {
  readonly test: string
  readonly expects: string
  readonly on_failure: string
  readonly held: number
  readonly warned: number
  readonly released: number
  /** null: none fails it now. */
  readonly tested_at: string | null
}

/** By pipeline, in the order of the definition. */
export const testLines = async (db: Db): Promise<readonly TestLine[]> => {
  const { rows } = await sql<
    Row<'etl.pipelines', 'pipeline' | 'version'> &
      Texts<'test' | 'expects' | 'on_failure'> &
      Counts<'held' | 'warned' | 'released'> &
      Maybe<Texts<'tested_at'>>
  >`
    select p.pipeline, p.version, t.test ->> 'name' as test, t.test ->> 'expects' as expects, t.test ->> 'on_failure' as on_failure,
      coalesce(f.held, 0) as held, coalesce(f.warned, 0) as warned, coalesce(f.released, 0) as released, f.tested_at
    from (select distinct on (pipeline, version) * from etl.pipelines order by pipeline, version, updated_at desc) p
      cross join lateral jsonb_array_elements(p.tests) with ordinality as t (test, place)
      left join (select pipeline, version, test, count(*) filter (where outcome = 'held') as held, count(*) filter (where outcome = 'warned') as warned,
        count(*) filter (where outcome = 'released') as released, max(tested_at) as tested_at from etl.failed_tests group by 1, 2, 3) f
        on f.pipeline = p.pipeline and f.version = p.version and f.test = t.test ->> 'name'
    order by p.pipeline, p.version, t.place`.execute(db)
  return rows.map((row) => ({ ...row, held: Number(row.held), warned: Number(row.warned), released: Number(row.released) }))
}

/** A unit that fails a test, with what was found. */
export interface FailedTestLine extends Row<'etl.failed_tests', 'pipeline' | 'test' | 'outcome' | 'message' | 'tested_at'> {
  readonly unit_id: number
  readonly unit_key: string
}

/** Newest first. @param unitId null: of every unit */
export const failedTests = (db: Db, limit: number, unitId: number | null = null): Promise<FailedTestLine[]> =>
  db
    .selectFrom('etl.failed_tests as f')
    .innerJoin('etl.unit_list as u', 'u.unit_id', 'f.unit_id')
    .select([wholeAs('f', 'unit_id'), 'u.unit_key', 'f.pipeline', 'f.test', 'f.outcome', 'f.message', 'f.tested_at'])
    .$if(unitId !== null, (query) => query.where('f.unit_id', '=', String(unitId)))
    .orderBy('f.tested_at', 'desc')
    .orderBy('f.unit_id')
    .limit(limit)
    .execute()
