// What planning has seen window by window: units that need no work, and windows that need none at all.
import type { Db } from '../db/tables.ts'
import type { CellCount, Refresh } from '../ledger/candidates.ts'
import { type WholeWindow, wholeWindow } from '../ledger/windows.ts'
import { isClosed, type PlanContext } from './plan-context.ts'
import type { PlanWindow } from './frames.ts'

export type CountedWindows = ReturnType<typeof countWindows>

export const countWindows = (context: PlanContext) => {
  const tally = { done: 0, held: 0, notPublished: 0 }
  /** Windows in which nothing was found to be asked for, joined or held. */
  const complete: PlanWindow[] = []
  const joined: { readonly window: PlanWindow; readonly cells: number }[] = []
  const countsDone = context.scope.mode === 'range'
  return {
    ...{ tally, complete, joined },
    /** Whether the window is known to need nothing; then it is counted as a whole. @param refresh which of its loaded units are asked for again */
    skip: async (db: Db, window: PlanWindow, refresh: Refresh, isVouched: boolean): Promise<boolean> => {
      if (isClosed(context, window)) {
        if (countsDone) tally.done += context.states.get(window.from)?.closedUnits ?? 0
        return true
      }
      const whole = await standsWhole(db, context, window, refresh)
      if (whole === null) return false
      if (isVouched) tally.done += whole.units
      return true
    },
    /** @param isVouched whether a sample found its loaded units unchanged: with `due` only these count as done */
    add: (window: PlanWindow, counts: readonly CellCount[], isVouched: boolean): void => {
      if (counts.every(({ decision }) => decision === 'done')) complete.push(window)
      for (const { decision, cells } of counts) {
        if (decision === 'held') tally.held += cells
        if (decision === 'not-published') tally.notPublished += cells
        if (decision === 'join') joined.push({ window, cells })
        if (decision === 'done' && (countsDone || isVouched)) tally.done += cells
      }
    },
  }
}

/** A window of the look-back that needs nothing, without reading each of its cells; null: they have to be read. */
const standsWhole = async (
  db: Db,
  { cells, frame }: PlanContext,
  { from, isInLookBack }: PlanWindow,
  { all, sliceIds, restatedAt, fullCheck }: Refresh,
): Promise<WholeWindow | null> => {
  if (!isInLookBack || frame.force || cells.only.size > 0 || all || sliceIds.length > 0) return null
  const before = [restatedAt, fullCheck?.before ?? null].flatMap((time) => (time === null ? [] : [Date.parse(time)]))
  const whole = await wholeWindow(db, cells.pipelineId, from, { withAge: before.length > 0, top: cells.top })
  return whole !== null && before.every((time) => time <= whole.stoodAtMs) ? whole : null
}
