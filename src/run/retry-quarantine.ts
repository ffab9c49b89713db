// Units with rows in quarantine, loaded again from their landing: after a definition was mended, without a call.
import { EtlError } from '../core/errors.ts'
import { quarantinedUnits } from '../db/ledger/quarantine.ts'
import { reopenLanded } from '../db/ledger/register.ts'
import { type RunResult, runRegistered } from './run.ts'
import type { Shop } from './shop.ts'

/** Throws USAGE when nothing is in quarantine. */
export const retryQuarantine = async (shop: Shop, signal: AbortSignal): Promise<RunResult> => {
  const pipelines = shop.definitions.map(({ pipeline }) => pipeline)
  const unitIds = await quarantinedUnits(shop.database.kysely, pipelines)
  if (unitIds.length === 0)
    throw new EtlError('USAGE', `Nothing of ${pipelines.join(', ')} is in quarantine; there is nothing to retry.`)
  return runRegistered(shop, {
    command: 'quarantine retry',
    arguments: { pipelines },
    definitions: shop.definitions,
    register: (trx, runId) => reopenLanded(trx, runId, unitIds),
    aside: [],
    signal,
  })
}
