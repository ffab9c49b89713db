// Walks of one pipeline: which windows have units that need one, and a job for each, made in the database; a step at a time.
import type { IsoDate } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type CellCount, countCells, type FullCheck, noRefresh, type Refresh, type WindowQuery } from '../ledger/candidates.ts'
import { insertWalks } from '../ledger/register-jobs.ts'
import type { CountedWindows } from './count-windows.ts'
import type { PlanWindow } from './frames.ts'
import type { NightGuard } from './guard-night.ts'
import type { UnitsToBuy } from './guard.ts'
import { mostUnitsAStep } from './pack.ts'
import { askOf, type PlanContext } from './plan-context.ts'

export interface NeededWalks {
  readonly window: PlanWindow
  readonly ask: WindowQuery
  readonly counts: readonly CellCount[]
}

/** Windows with units that need a walk, in the order they are planned; what needs none is counted. Reads only. @param refreshes what sampling found */
export const walksNeeded = async (
  db: Db,
  context: PlanContext,
  counted: CountedWindows,
  refreshes: ReadonlyMap<IsoDate, Refresh>,
): Promise<NeededWalks[]> => {
  const needed: NeededWalks[] = []
  const windows = context.frame.order === 'oldest-first' ? context.windows : context.windows.toReversed()
  const overdue = await context.overdue()
  for (const window of windows) {
    context.signal.throwIfAborted()
    const looked = window.isInLookBack ? refreshes.get(window.from) : undefined
    const refresh = looked ?? noRefresh
    if (!(await counted.skip(db, window, refresh, looked !== undefined))) {
      const ask = askOf(context, window, refresh)
      const counts = await countCells(db, context.cells, ask)
      counted.add(window, counts, looked !== undefined)
      if (counts.some(({ decision }) => decision === 'ask')) needed.push({ window, ask, counts })
    }
    if (refresh.all || !overdue.has(window.from)) continue
    needed.push(...(await inTurn(db, context, window, refreshes.get(window.from)?.fullCheck ?? context.fullCheck)))
  }
  return needed
}

/** Units of this night that would else go unchecked for longer than `window.full_check`, also in closed windows. */
const inTurn = async (db: Db, { cells }: PlanContext, window: PlanWindow, fullCheck: FullCheck | null) => {
  const ask = { from: window.from, isPublished: window.isPublished, since: 0, refresh: { ...noRefresh, fullCheck } }
  const counts = (await countCells(db, cells, ask)).filter(
    ({ decision, reason }) => decision === 'ask' && reason === 'full check',
  )
  return counts.length === 0 ? [] : [{ window, ask, counts }]
}

export const walksToBuy = ({ counts }: NeededWalks): UnitsToBuy[] =>
  counts.flatMap(({ reason, wantedBy, served, cells }) =>
    wantedBy === null || served ? [] : [{ reason, wantedBy, units: cells }],
  )

/** Makes a job for each of them, 50,000 a transaction. */
export const askForWalks = async (
  { locked, frame, cells }: PlanContext,
  needed: NeededWalks,
  guard: NightGuard,
): Promise<void> => {
  const { window, ask, counts } = needed
  const leaves = counts.some(({ reason }) => reason === 'unfinished' || reason === 'forced')
  const stepFrom = (after: number): Promise<number | null> =>
    locked(async (trx) => {
      const ruling = await guard.rule(trx, after === 0 ? walksToBuy(needed) : null)
      return insertWalks(trx, frame, cells, { ...ask, to: window.to }, { after, most: mostUnitsAStep, leaves, ruling })
    })
  for (let after: number | null = 0; after !== null; ) after = await stepFrom(after)
}
