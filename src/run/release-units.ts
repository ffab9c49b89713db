// Releases held units and works on them at once: what waits for a person is loaded, or asked for again, by the command that lets it go.
import { EtlError } from '../core/errors.ts'
import { type Releasable, type Release, releasable, releaseFor, unknownUnits } from '../ledger/release.ts'
import { waitedFor } from '../ledger/register-jobs.ts'
import { type RunResult, runJobs } from './run-jobs.ts'
import type { Runtime } from './runtime.ts'

export interface ReleaseResult {
  /** Unit by unit, in the order they were named. */
  readonly units: ReadonlyMap<number, Release['kind']>
  /** null: none of them was held, and there was nothing to work on. */
  readonly run: RunResult | null
}

/** Who releases, and when to stop. */
export interface ReleaseRequest {
  readonly by: string
  readonly signal: AbortSignal
}

/** Throws USAGE, and releases none, where the ledger does not know one of the units; CONFIGURATION where the service must be asked and the key is missing. */
export const releaseUnits = async (
  runtime: Runtime,
  unitIds: readonly number[],
  { by, signal }: ReleaseRequest,
): Promise<ReleaseResult> => {
  const { kysely } = runtime.database
  const unknown = await unknownUnits(kysely, unitIds)
  if (unknown.length > 0) {
    const named = unknown.length === 1 ? `is no unit ${unknown[0]}` : `are no units ${unknown.join(', ')}`
    throw new EtlError('USAGE', `There ${named}; \`millrace status\` lists held units with their numbers. Nothing was released.`)
  }
  const units = new Map<number, Release['kind']>(unitIds.map((unitId) => [unitId, 'not held']))
  const held = await releasable(kysely, unitIds)
  if (held.length === 0) return { units, run: null }
  assertReachable(runtime, held)
  const plan = async (runId: number) => {
    for (const unitId of units.keys()) {
      signal.throwIfAborted()
      units.set(unitId, (await releaseFor(kysely, runId, unitId, by)).kind)
    }
    return { ...(await waitedFor(kysely, runId)), done: 0, held: 0, notPublished: 0 }
  }
  const { definitions } = runtime
  const run = await runJobs(runtime, { command: 'release', arguments: { units: unitIds }, definitions, plan, signal })
  return { units, run }
}

/** Nothing is let go that would then fail for want of a key. */
const assertReachable = (runtime: Runtime, held: readonly Releasable[]): void => {
  const asking = new Set(held.filter(({ asksService }) => asksService).map(({ pipeline }) => pipeline))
  for (const definition of runtime.definitions) if (asking.has(definition.pipeline)) runtime.service(definition)
}
