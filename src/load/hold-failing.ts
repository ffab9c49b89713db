// The tests of a definition before a merge: units that fail one that holds are left as they are, the others' failures are noted.
import { sql } from 'kysely'
import { type DataTest, type TestFinding, findingWords } from '../core/data-test.ts'
import type { Session } from '../db/session.ts'
import { markOutcome } from './accepted-units.ts'
import { type FailedRow, failedTests, formerWindows, type TestedRows } from './data-tests.ts'
import type { HeldUnit, MergeRequest, TestFailure } from './merge-context.ts'
import { names, stagedKey, stagedRows } from './table-columns.ts'

/** What the tests leave to be merged. */
export interface Tested {
  /** Without the units that are held. */
  readonly request: MergeRequest
  readonly failures: readonly TestFailure[]
  readonly held: readonly HeldUnit[]
}

/** One statement where the definition has tests, nothing where it has none. Call in the merge's transaction. */
export const holdFailing = async (session: Session, request: MergeRequest): Promise<Tested> => {
  const { definition, scope } = request
  if (definition.tests.length === 0) return { request, failures: [], held: [] }
  const { rows } = await failedTests(testedRows(request)).execute(session.kysely)
  const failures = await decide(
    request,
    rows.flatMap((row) => failureOf(definition.tests, row)),
  )
  const held = heldUnits(failures, scope.kind === 'one')
  if (scope.kind === 'one' || held.length === 0) return { request, failures, held }
  await markOutcome(
    session,
    scope,
    held.map(({ unitId, code }) => ({ unitId: unitId ?? 0, code })),
  )
  return { request: { ...request, scope: { ...scope, isWhole: false } }, failures, held }
}

const testedRows = ({ definition, scope, staging, repeated }: MergeRequest): TestedRows => {
  const rows = stagedRows(definition, scope, staging.table)
  const key = stagedKey(definition)
  // Rows that come twice count once, as they will be loaded.
  const once = scope.kind === 'one' && repeated === 'likely' && key.length > 0
  return {
    definition,
    scope,
    rows: once ? sql`(select distinct on (${names(key)}) * from ${rows})` : rows,
    former: formerWindows(scope.window, definition.window.every),
  }
}

const failureOf = (tests: readonly DataTest[], row: FailedRow): readonly TestFailure[] => {
  const test = tests[row.place]
  if (test === undefined) return []
  const { found, expected, since: expectedFrom } = row
  const finding: TestFinding = { test, rows: Number(row.looked), failing: Number(row.failing), found, expected, expectedFrom }
  return [{ ...finding, unitId: Number(row.unit_id), words: findingWords(finding), becomes: 'warned' }]
}

/** A person who released an answer need not do so again when it is replayed. */
const decide = async (
  { shrink, releasedBefore }: MergeRequest,
  failures: readonly TestFailure[],
): Promise<readonly TestFailure[]> => {
  const holding = failures.filter(({ test }) => test.onFailure === 'hold')
  if (holding.length === 0) return failures
  const ids = [...new Set(holding.map(({ unitId }) => unitId))]
  const released = shrink === null ? new Set(ids) : ((await releasedBefore?.(ids)) ?? new Set<number>())
  return failures.map((failure) => {
    if (failure.test.onFailure !== 'hold') return failure
    return { ...failure, becomes: released.has(failure.unitId) ? 'released' : 'held' }
  })
}

const heldUnits = (failures: readonly TestFailure[], isOne: boolean): readonly HeldUnit[] => {
  const byUnit = Map.groupBy(
    failures.filter(({ becomes }) => becomes === 'held'),
    ({ unitId }) => unitId,
  )
  return [...byUnit].map(([unitId, own]) => ({
    unitId: isOne ? null : unitId,
    code: 'TEST_FAILED',
    rows: 0,
    previousRows: 0,
    because: own.map(({ words }) => words).join(' '),
  }))
}
