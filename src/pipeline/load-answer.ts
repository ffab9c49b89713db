// An answer that is staged, or so small that it need not be: judged as a whole, then loaded window by window.
import type { Session } from '../db/session.ts'
import type { QuarantineEntry } from '../ledger/quarantine.ts'
import type { JobWork } from './job-work.ts'
import { type Judging, entryOf, isVerdict, judgeCount, judgeRejects, judgeRepeated, refuse } from './judge.ts'
import { pointsJudge } from './judge-points.ts'
import { loadAtOnce } from './load-at-once.ts'
import type { LoadInput } from './load-input.ts'
import type { LoadResult } from './load-result.ts'
import { loadWindow } from './load-window.ts'
import { loadWindows } from './load-windows.ts'

/**
 * Loads the answer into the units of the job, and settles the job with the last of them. Throws (and changes no data) where the answer is
 * refused as a whole; its verdict is on record then. What a killed predecessor has loaded is not loaded again.
 */
export const loadAnswer = async (work: JobWork, session: Session, input: LoadInput): Promise<LoadResult> => {
  const atOnce = input.answerId === null ? await loadAtOnce(work, session, input) : null
  if (atOnce !== null) return { ...atOnce, unitsLoaded: 1, unitsHeld: 0, heldBecause: null, unitsSkipped: 0 }
  const answerId = await input.record()
  const conflicting: QuarantineEntry[] = []
  try {
    judgeRejects(work, input.parsed.rejects, input.parsed.read)
    await input.staging.flush()
    const judgePoints = await pointsJudge(work, session, input, answerId)
    await judgePoints(null)
    // A part of an answer is found by what its rows say, also where that part is one unit.
    const isOne = work.claim.cells === 1 && input.box.key === work.claim.box.key
    return isOne
      ? await loadUnit(work, session, { input, answerId, conflicting, judgePoints })
      : await loadWindows(work, session, { input, answerId, conflicting, judgePoints })
  } catch (error) {
    if (isVerdict(error)) await refuse(work, answerId, error, [...input.parsed.rejected.map(entryOf), ...conflicting])
    throw error
  }
}

/** Repeated keys are looked for only where there is a sign of them: then the judgement of the whole waits for their number. */
const loadUnit = async (work: JobWork, session: Session, judging: Judging): Promise<LoadResult> => {
  const { input, answerId } = judging
  const { parsed, completeness, staging } = input
  const isExpected = completeness.expectedRows === null || parsed.read === completeness.expectedRows
  if (completeness.expectedRows !== null && parsed.read < completeness.expectedRows) judgeCount(work, parsed.read, completeness)
  return loadWindow(work, session, {
    input,
    answerId,
    window: work.claim.box.window,
    accepted: null,
    rows: staging.rows(),
    refused: parsed.rejected.map((reject) => ({ key: reject.key, entry: entryOf(reject) })),
    strays: null,
    hasRemoved: false,
    repeated: isExpected ? 'unknown' : 'likely',
    judge: judgeRepeated(work, judging),
    // A record whose key cannot be read may be any of the loaded rows: then none of them is known to be missing.
    mayEnd: parsed.rejected.every((reject) => reject.key !== null),
    isLast: true,
  })
}
