// Runs the data tests of a definition over the units of an answer, window by window: which units fail, and what becomes of them.
import type { RawBuilder } from 'kysely'
import { type DataTest, type TestFinding, findingWords } from '../core/data-test.ts'
import type { Window } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { unitsOfWindows } from '../ledger/job-units.ts'
import { type FailedTest, releasedBefore } from '../ledger/loads.ts'
import { type FailedRow, failedTests, formerWindows } from '../load/run-data-tests.ts'
import type { Load } from './job-work.ts'

/** A unit of the job by its number and its places in the answer. */
export interface TestedUnit {
  readonly number: number
  readonly window: number
  readonly slice: number
}

interface TestedAnswer {
  readonly units: readonly TestedUnit[]
  /** See `TestedRows`. */
  readonly rows: RawBuilder<unknown>
  readonly mayBeLoaded: boolean
}

/**
 * One statement a window, if the definition has tests; from the oldest window on, since each is the former period of the next. Call in the load's
 * transaction, before anything is written. Returns what the tests found, and for each unit that a test holds, by number, why.
 * @param keeping units that keep their rows whatever the tests say
 */
export const testUnits = async (
  session: Session,
  loading: Load,
  { units, rows, mayBeLoaded }: TestedAnswer,
  keeping: readonly number[],
) => {
  const { work, units: all } = loading
  const { definition, claim } = work
  const failures: FailedTest[] = []
  const held = new Map<number, string>()
  if (definition.tests.length === 0) return { failures, held }
  const comes = new Set(units.map(({ number }) => number)).difference(new Set(keeping))
  for (const [place, tested] of Map.groupBy(units, ({ window }) => window)) {
    const window = all.windows[place]
    if (window === undefined) continue
    const former = await formerOf(session, loading, { window, tested, comes })
    const { slice } = claim.box
    const numbers = tested.map(({ number }) => number)
    const of = { definition, window, slice, units: numbers, rows, mayBeLoaded, former }
    const { rows: found } = await failedTests(of).execute(session.kysely)
    const failed = found.flatMap((row) => failureOf(definition.tests, row, window.from))
    const decided = await decide(session, loading, failed)
    failures.push(...decided)
    for (const { unitId, words } of decided.filter(({ becomes }) => becomes === 'held')) {
      held.set(unitId, [...(held.has(unitId) ? [held.get(unitId)] : []), words].join(' '))
      comes.delete(unitId)
    }
  }
  return { failures, held }
}

interface Testing {
  readonly window: Window
  readonly tested: readonly TestedUnit[]
  /** Numbers of units whose rows are those of the answer. */
  readonly comes: ReadonlySet<number>
}

/** Read only where a test compares with the window before. */
const formerOf = async (session: Session, { work, units }: Load, { window, tested, comes }: Testing) => {
  const { definition, claim } = work
  if (!definition.tests.some(({ kind }) => kind === 'ratio')) return []
  const windows = formerWindows(window, definition.window.every)
  const days = windows.map(({ from }) => from)
  const found = await unitsOfWindows(session.kysely, claim, days)
  return windows.map((one) => ({
    window: one,
    units: tested.flatMap(({ number, slice }) => {
      const former = found.get(one.from)?.get(units.sliceIds[slice] ?? 0)
      return former === undefined ? [] : [{ former, tested: number, comes: comes.has(former) }]
    }),
  }))
}

const failureOf = (tests: readonly DataTest[], row: FailedRow, windowFrom: string): readonly FailedTest[] => {
  const test = tests[row.place]
  if (test === undefined) return []
  const { found, expected, since: expectedFrom } = row
  const finding: TestFinding = { test, rows: Number(row.looked), failing: Number(row.failing), found, expected, expectedFrom }
  return [{ ...finding, unitId: Number(row.unit_id), windowFrom, words: findingWords(finding), becomes: 'warned' }]
}

/** A person who released an answer need not do so again when it is replayed. */
const decide = async (
  session: Session,
  { work, answer }: Load,
  failures: readonly FailedTest[],
): Promise<readonly FailedTest[]> => {
  const ids = [...new Set(failures.filter(({ test }) => test.onFailure === 'hold').map(({ unitId }) => unitId))]
  if (ids.length === 0) return failures
  const released = work.claim.released ? new Set(ids) : await releasedBefore(session.kysely, answer.answerId, ids)
  return failures.map((failure) => {
    if (failure.test.onFailure !== 'hold') return failure
    return { ...failure, becomes: released.has(failure.unitId) ? 'released' : 'held' }
  })
}
