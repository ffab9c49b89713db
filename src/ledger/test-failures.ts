// What the tests of definitions found: written with the load they belong to, and what a person has said to them before.
import { sql } from 'kysely'
import type { TestFinding } from '../core/data-test.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'
import type { IsoDate } from '../core/types.ts'
import type { UnitsOfJob } from './job-units.ts'

/** A test that a unit fails. */
export interface FailedTest extends TestFinding {
  readonly unitId: number
  /** First day of the unit's window. */
  readonly windowFrom: IsoDate
  /** What was expected and what was found. */
  readonly words: string
  readonly becomes: 'held' | 'released' | 'warned'
}

/** Of these units those whose answer was released before although its tests hold it: it need not be released again. */
export const releasedBefore = async (db: Db, answerId: number, unitIds: readonly number[]): Promise<ReadonlySet<number>> => {
  const rows = await db
    .selectFrom('etl.test_failures')
    .select('unit_id')
    .distinct()
    .where('answer_id', '=', String(answerId))
    .where('released', '=', true)
    .where((eb) => eb('unit_id', '=', eb.fn.any(eb.val(unitIds.map(String)))))
    .execute()
  return new Set(rows.map(({ unit_id }) => Number(unit_id)))
}

/** Call in the load's transaction, after units were pointed to the answer or held: what was found of answers that are neither any more goes. */
export const recordTests = async (
  db: Db,
  claim: UnitsOfJob & Pick<ClaimedJob, 'runId'>,
  answerId: number,
  failures: readonly FailedTest[],
): Promise<void> => {
  const rows = failures.map(({ unitId, windowFrom, test, rows: tested, failing, found, expected, words, becomes }) => ({
    unit_id: unitId,
    window_from: windowFrom,
    test: test.name,
    kind: test.kind,
    on_failure: test.onFailure,
    released: becomes === 'released',
    rows_tested: tested,
    rows_failing: failing,
    found,
    expected,
    message: words,
  }))
  await sql`
    delete from etl.test_failures f using etl.units u
    where u.pipeline_id = ${claim.pipelineId} and u.window_from >= ${claim.box.window.from}::date and u.window_from < ${claim.box.window.to}::date and u.slice_id = any(${[...claim.sliceIds]}::integer[])
      and f.unit_id = u.unit_id and (f.answer_id = ${answerId}::bigint
        or f.answer_id is distinct from u.answer_id and f.answer_id is distinct from u.held_answer_id)`.execute(db)
  if (rows.length === 0) return
  await sql`
    insert into etl.test_failures (unit_id, answer_id, test, pipeline_id, window_from, run_id, kind, on_failure, released, rows_tested,
      rows_failing, found, expected, message)
    select x.unit_id, ${answerId}::bigint, x.test, ${claim.pipelineId}::integer, x.window_from, ${claim.runId}::bigint, x.kind,
      x.on_failure, x.released, x.rows_tested, x.rows_failing, x.found, x.expected, x.message
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as x (unit_id bigint, window_from date, test text, kind text, on_failure text, released boolean,
      rows_tested bigint, rows_failing bigint, found text, expected text, message text)
    order by x.unit_id, x.test`.execute(db)
}
