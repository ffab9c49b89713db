// The first answer of a month straight into the month's own table. Whatever is not as it should be is left to staging and merge, from the landing.
import type { Box, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import { isCluster } from '../db/cluster.ts'
import type { Session } from '../db/session.ts'
import { unitsNeverLoaded } from '../ledger/unit-values.ts'
import { needsAnotherWay } from '../load/another-way.ts'
import { openAccepted } from '../load/accepted-units.ts'
import { type Filling, openFilling } from '../load/filling.ts'
import { unitColumns } from '../load/merge-scope.ts'
import { emptyMonthOf } from '../load/partition.ts'
import { stagedColumns } from '../load/table-columns.ts'
import { createUnitMark, type UnitMark, unitNumbers } from '../parse/unit-mark.ts'
import type { JobWork } from './job-work.ts'
import { isVerdict } from './judge.ts'
import { pointsJudge } from './judge-points.ts'
import type { LoadInput } from './load-input.ts'
import type { LoadResult } from './load-result.ts'
import { loadClean } from './load-windows.ts'

/** Where rows go, and how they are told apart on their way. */
export interface MonthFilling {
  readonly filling: Filling
  readonly mark: UnitMark
  readonly window: Window
}

/** Each is kept in memory while the answer is parsed. */
const mostUnits = 50_000

/** Null where the answer is not the first of its month, or not one that tells its units apart by text. @param box what the answer is for */
export const openMonthFilling = async (work: JobWork, session: Session, box: Box): Promise<MonthFilling | null> => {
  const { claim, definition, runtime } = work
  const [window, ...others] = windowsBetween(claim.box.window.from, claim.box.window.to, claim.windowEvery)
  if (window === undefined || others.length > 0 || box.key !== claim.box.key) return null
  if (claim.cells < 2 || claim.cells > mostUnits) return null
  const columns = unitColumns(definition)
  if (columns.length === 0 || columns.some(({ type }) => type !== 'text')) return null
  const month = await emptyMonthOf(session, definition, window, Number.POSITIVE_INFINITY)
  if (month === null || (await isCluster(runtime.database))) return null
  const staged = stagedColumns(definition).map(({ name }) => name)
  const ordered = columns.map(({ name }) => name).sort((a, b) => staged.indexOf(a) - staged.indexOf(b))
  const units = await unitsNeverLoaded(session.kysely, claim, window, ordered)
  if (units === null) return null
  const scope = { name: claim.box.key, window, slice: claim.box.slice }
  const filling = await openFilling(session, { definition, scope, month, runId: claim.runId })
  if (filling === null) return null
  const places = ordered.map((name) => staged.indexOf(name))
  return { filling, window, mark: createUnitMark(places, unitNumbers(units)) }
}

/** null: nothing is loaded, and the answer is to be staged; what speaks against it is recorded there. */
export const loadFilled = async (
  work: JobWork,
  session: Session,
  { filling, mark, window }: MonthFilling,
  input: LoadInput,
): Promise<LoadResult | null> => {
  const { parsed } = input
  if (parsed.rejects > 0 || parsed.rows === 0 || mark.strays > 0) return null
  const answerId = await input.record()
  try {
    await filling.flush()
    const judgePoints = await pointsJudge(work, session, input, answerId)
    await judgePoints(null)
    const accepted = await openAccepted(session, work.definition, work.claim.box)
    const judging = { input, answerId, conflicting: [], judgePoints }
    const result = await loadClean(work, session, judging, { window, accepted, rows: parsed.rows, isOnly: true, filling })
    if (result === null) filling.giveBack()
    return result
  } catch (error) {
    filling.giveBack()
    if (isVerdict(error) || needsAnotherWay(error)) return null
    throw error
  }
}
