// From definitions and the ledger to the units of one run.
import type { Definition, Window } from '../core/types.ts'
import { type ExistingUnit, existingUnits } from '../ledger/units.ts'
import { type PlannedUnit, type PlanRequest, planUnits } from '../plan/plan.ts'
import type { Runtime } from './runtime.ts'

export type { PlannedUnit }

export interface Scope extends Omit<PlanRequest, 'definition' | 'existing' | 'nowMs' | 'kind' | 'range'> {
  /** Half-open, for each definition's own window size; needed with mode `range`. */
  readonly rangeOf?: (definition: Definition) => Window
}

/**
 * The units of every definition in `scope`, window by window over all of them: last month is what readers wait for, of every pipeline; and
 * as each window is the same mixture of work, what is done so far tells how long the rest takes. Pure planning over what the ledger holds now.
 */
export const planRun = async (
  runtime: Runtime,
  definitions: readonly Definition[],
  { rangeOf, ...scope }: Scope,
): Promise<PlannedUnit[]> => {
  const units: PlannedUnit[] = []
  for (const definition of definitions) {
    const existing = await existingUnits(runtime.database.kysely, definition.pipeline, definition.version)
    const kind = runtime.sources.get(definition.source)?.kind ?? 'report'
    units.push(
      ...planUnits({
        ...scope,
        range: rangeOf?.(definition),
        definition,
        existing: existing.map((row) => resumed(row, mayResubmit(runtime, definition), scope.force === true)),
        nowMs: runtime.clock.now(),
        kind,
      }).units,
    )
  }
  const sign = scope.order === 'oldest-first' ? 1 : -1
  return units.toSorted((left, right) => sign * compare(left.window.from, right.window.from))
}

const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0)

/** Holds that end by themselves: the budget may have turned, the answer may hold still by now. */
const passing = new Set(['QUOTA_EXHAUSTED', 'UNSTABLE', 'INCOMPLETE'])

const mayResubmit = (runtime: Runtime, definition: Definition): boolean =>
  runtime.consent.resubmitUncertain || definition.report.resubmitUncertain

/** A held unit that may be tried again counts as unfinished; every other hold waits for a person. */
const resumed = (row: ExistingUnit, resubmit: boolean, force: boolean): ExistingUnit => {
  const code = row.errorCode ?? ''
  const goesOn = passing.has(code) || (resubmit && code === 'REPORT_UNCERTAIN') || (force && code === 'REPORT_EXPIRED')
  return row.state === 'held' && goesOn ? { ...row, state: 'failed' } : row
}
