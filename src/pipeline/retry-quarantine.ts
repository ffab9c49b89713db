// Units with rows in quarantine, loaded again from their landing: after a definition was mended, without a call.
import { EtlError } from '../core/errors.ts'
import { quarantinedUnits } from '../ledger/quarantine.ts'
import { reopenLanded } from '../ledger/register.ts'
import { type RunResult, runRegistered } from './run.ts'
import type { Runtime } from './runtime.ts'

/** Throws USAGE when nothing is in quarantine. */
export const retryQuarantine = async (runtime: Runtime, signal: AbortSignal): Promise<RunResult> => {
  const pipelines = runtime.definitions.map(({ pipeline }) => pipeline)
  const unitIds = await quarantinedUnits(runtime.database.kysely, pipelines)
  if (unitIds.length === 0)
    throw new EtlError('USAGE', `Nothing of ${pipelines.join(', ')} is in quarantine; there is nothing to retry.`)
  return runRegistered(runtime, {
    command: 'quarantine retry',
    arguments: { pipelines },
    definitions: runtime.definitions,
    register: (trx, runId) => reopenLanded(trx, runId, unitIds),
    aside: [],
    signal,
  })
}
