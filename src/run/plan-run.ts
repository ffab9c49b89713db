// From definitions and the ledger to the units of one run.
import type { Definition } from '../core/types.ts'
import { existingUnits } from '../db/ledger/units.ts'
import { type PlannedUnit, type PlanRequest, planUnits } from '../plan/plan.ts'
import type { Shop } from './shop.ts'

export type { PlannedUnit }

export type Scope = Omit<PlanRequest, 'definition' | 'existing' | 'nowMs' | 'kind'>

/** The units of every definition in `scope`; pure planning over what the ledger holds now. */
export const planRun = async (shop: Shop, definitions: readonly Definition[], scope: Scope): Promise<PlannedUnit[]> => {
  const units: PlannedUnit[] = []
  for (const definition of definitions) {
    const existing = await existingUnits(shop.database.kysely, definition.pipeline, definition.version)
    const kind = shop.sources.get(definition.source)?.kind ?? 'report'
    units.push(...planUnits({ ...scope, definition, existing, nowMs: shop.clock.now(), kind }).units)
  }
  return units
}
