// Stops a run: its queued jobs go, its units at hand are aborted by whoever holds them, nothing is submitted after it.
import { EtlError } from '../core/errors.ts'
import { returnRunUnits } from '../ledger/held.ts'
import { finishRun, requestCancel, runState, unitsAtHand } from '../ledger/runs.ts'
import type { Runtime } from './runtime.ts'

const patienceMs = 5_000
const lookEveryMs = 100

/** Resolves when nothing of the run is at hand, at the latest after 5 seconds. */
export const cancelRun = async (runtime: Runtime, runId: number): Promise<{ parked: number; state: string }> => {
  const before = await runState(runtime.database.kysely, runId)
  if (before === null) throw new EtlError('USAGE', `There is no run ${runId}; \`millrace status\` lists the runs.`)
  if (before !== 'running') return { parked: 0, state: before }
  await requestCancel(runtime.database.kysely, runId)
  await runtime.queue.cancelRun(runId)
  const until = runtime.clock.now() + patienceMs
  while (runtime.clock.now() < until && (await unitsAtHand(runtime.database.kysely, runId)) > 0)
    await runtime.clock.sleep(lookEveryMs)
  const parked = await returnRunUnits(runtime.database.kysely, runId)
  await finishRun(runtime.database.kysely, runId, 'cancelled', null)
  return { parked, state: 'cancelled' }
}
