// What planning has seen window by window: units that need no work, and windows that need none at all and can be closed.
import type { CellCount } from '../ledger/candidates.ts'
import { isClosed, type PlanContext } from './plan-context.ts'
import type { PlanWindow } from '../plan/frames.ts'

export interface Tally {
  done: number
  held: number
  notPublished: number
}

export interface CountedWindows {
  readonly tally: Tally
  /** Windows whose every unit is loaded, as far as was seen without a lock. */
  readonly complete: readonly PlanWindow[]
  /** Units that jobs there are ask for. */
  readonly joined: readonly { readonly window: PlanWindow; readonly cells: number }[]
  /** Whether the window is known to need nothing; then it is counted from what stands on record. */
  skip(window: PlanWindow): boolean
  /** @param vouched whether a sample vouched for its loaded units: with `due` loaded units that owe nothing are else left out */
  add(window: PlanWindow, counts: readonly CellCount[], vouched: boolean): void
}

export const countWindows = (context: PlanContext): CountedWindows => {
  const tally: Tally = { done: 0, held: 0, notPublished: 0 }
  const complete: PlanWindow[] = []
  const joined: { window: PlanWindow; cells: number }[] = []
  const countsDone = context.scope.mode === 'range'
  return {
    tally,
    complete,
    joined,
    skip: (window) => {
      if (!isClosed(context, window)) return false
      if (countsDone) tally.done += context.states.get(window.from)?.closedUnits ?? 0
      return true
    },
    add: (window, counts, vouched) => {
      for (const { decision, cells } of counts) {
        if (decision === 'held') tally.held += cells
        if (decision === 'not-published') tally.notPublished += cells
        if (decision === 'join') joined.push({ window, cells })
        if (decision === 'done' && (countsDone || vouched)) tally.done += cells
      }
      if (counts.every(({ decision }) => decision === 'done')) complete.push(window)
    },
  }
}
