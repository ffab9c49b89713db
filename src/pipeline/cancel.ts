// Stops a run: nothing is submitted for it any more, what it only planned is dissolved, and its jobs at hand are put back by whoever holds them.
import { EtlError } from '../core/errors.ts'
import { dissolveLeft, unitsLetGo } from '../ledger/actions.ts'
import { jobsAtHand, letGo, requestCancel } from '../ledger/cancel.ts'
import { finishRun, type RunState, runState } from '../ledger/runs.ts'
import type { Runtime } from './runtime.ts'

const patienceMs = 5_000
const checkEveryMs = 100

export interface Cancelled {
  readonly state: RunState
  /** Units the run had asked for and let go of. */
  readonly parked: number
}

/** Resolves when no process holds a job on the run's behalf, at the latest after 5 seconds. A run that is over stays as it is. */
export const cancelRun = async (runtime: Pick<Runtime, 'database' | 'clock'>, runId: number): Promise<Cancelled> => {
  const { kysely } = runtime.database
  const before = await runState(kysely, runId)
  if (before === null) throw new EtlError('USAGE', `There is no run ${runId}; \`millrace status\` lists the runs.`)
  if (before !== 'running') return { parked: 0, state: before }
  const until = runtime.clock.now() + patienceMs
  await requestCancel(kysely, runId)
  await letGo(kysely, runId)
  while (runtime.clock.now() < until && (await jobsAtHand(kysely, runId)) > 0) await runtime.clock.sleep(checkEveryMs)
  // Rows that were being settled at the first time.
  await letGo(kysely, runId)
  await dissolveLeft(kysely, runId)
  await finishRun(kysely, runId, 'cancelled', null)
  return { parked: await unitsLetGo(kysely, runId), state: 'cancelled' }
}
