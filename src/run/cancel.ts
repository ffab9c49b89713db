// Stops a run: its queued jobs go, its units at hand are aborted by whoever holds them, nothing is submitted after it.
import { EtlError } from '../core/errors.ts'
import { returnRunUnits } from '../db/ledger/held.ts'
import { finishRun, requestCancel, runState, unitsAtHand } from '../db/ledger/runs.ts'
import type { Shop } from './shop.ts'

const patienceMs = 5_000
const lookEveryMs = 100

/** Resolves when nothing of the run is at hand, at the latest after 5 seconds. */
export const cancelRun = async (shop: Shop, runId: number): Promise<{ parked: number; state: string }> => {
  const before = await runState(shop.database.kysely, runId)
  if (before === null) throw new EtlError('USAGE', `There is no run ${runId}; \`millrace status\` lists the runs.`)
  if (before !== 'running') return { parked: 0, state: before }
  await requestCancel(shop.database.kysely, runId)
  await shop.queue.cancelRun(runId)
  const until = shop.clock.now() + patienceMs
  while (shop.clock.now() < until && (await unitsAtHand(shop.database.kysely, runId)) > 0) await shop.clock.sleep(lookEveryMs)
  const parked = await returnRunUnits(shop.database.kysely, runId)
  await finishRun(shop.database.kysely, runId, 'cancelled', null)
  return { parked, state: 'cancelled' }
}
