// Held units that a person releases.
import { releaseByPerson } from '../ledger/actions.ts'
import type { Runtime } from './runtime.ts'

/** Those of `unitIds` that were held, in their order; each is a transaction of its own with its event. */
export const releaseUnits = async (
  runtime: Pick<Runtime, 'database'>,
  unitIds: readonly number[],
  by: string,
): Promise<number[]> => {
  const released: number[] = []
  for (const unitId of unitIds) if (await releaseByPerson(runtime.database.kysely, unitId, by)) released.push(unitId)
  return released
}
