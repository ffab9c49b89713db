// Stops a run: nothing is submitted for it any more, what it only planned is dissolved, and its jobs at hand are put back by their holders.
import { EtlError } from '../core/errors.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { cancelOn } from '../db/stoppable.ts'
import { withdrawRun } from '../ledger/approvals.ts'
import { jobsInFlight, leaveRun, requestCancel } from '../ledger/cancel-request.ts'
import { reapOverdue } from '../ledger/processes.ts'
import { finishRun, runState, unitsOf } from '../ledger/runs.ts'
import type { Runtime } from './runtime.ts'

/** From the command's start; after that, statements which still wait for a lock are cancelled. */
const patienceMs = 2_500
const checkEveryMs = 100

type CancelRuntime = Pick<Runtime, 'database' | 'clock'> & { readonly process: Pick<Runtime['process'], 'processId'> }

/**
 * Resolves when no process holds a job for the run, at the latest after 5 seconds. For a run that is over it withdraws failed purchases, and what the
 * run left when it was stopped or killed. Once the request to cancel is on record nothing is submitted any more; cleaning up that waits for a lock is left
 * to the run's own process. Throws DATABASE where the request cannot be recorded. `parked`: units that the run had requested and let go of; `withdrawn`:
 * its failed purchases that no night tries again.
 */
export const cancelRun = (runtime: CancelRuntime, runId: number) => {
  const late = AbortSignal.timeout(patienceMs)
  return cancelOn(late, () => cancelInTime(runtime, runId, late))
}

const cancelInTime = async ({ database: { kysely }, clock, process }: CancelRuntime, runId: number, late: AbortSignal) => {
  const state = await runState(kysely, runId)
  if (state === null) throw new EtlError('USAGE', `There is no run ${runId}; \`millrace status\` lists the runs.`)
  // First of all: it needs the run's row alone, whatever else is locked.
  if (state === 'running' || state === 'interrupted')
    await requestCancel(kysely, runId).catch((error: unknown) => {
      throw late.aborted ? notCancelled(runId, error) : error
    })
  try {
    // Frees the jobs that killed processes held.
    await reapOverdue(kysely, process.processId)
    const before = await runState(kysely, runId)
    if (before !== null && before !== 'running') {
      // Else other commands would continue what the run left when it was stopped or killed.
      const isOpen = before === 'interrupted'
      if (isOpen) await leaveRun(kysely, runId)
      return {
        parked: isOpen ? await unitsOf(kysely, runId, 'let go') : 0,
        withdrawn: await withdrawRun(kysely, runId, 'cancel'),
        state: before,
      }
    }
    await leaveRun(kysely, runId)
    while (!late.aborted && (await jobsInFlight(kysely, runId)) > 0) await clock.sleep(checkEveryMs)
    // Again for rows that were being settled, and plans that were held, the first time.
    await leaveRun(kysely, runId)
    await finishRun(kysely, runId, 'cancelled', null)
    const withdrawn = await withdrawRun(kysely, runId, 'cancel')
    return { parked: await unitsOf(kysely, runId, 'let go'), withdrawn, state: 'cancelled' as const }
  } catch (error) {
    if (!late.aborted || sqlStateOf(error) !== '57014') throw error
    if (state !== 'running') throw notCancelled(runId, error)
    return { parked: 0, withdrawn: 0, state: 'cancelled' as const }
  }
}

const notCancelled = (runId: number, cause: unknown): EtlError =>
  new EtlError(
    'DATABASE',
    `Run ${runId} was not cancelled: another session has locked its row in etl.runs for more than ${patienceMs / 1000} seconds. ` +
      'pg_blocking_pids() tells which; cancel again once it has ended.',
    { cause },
  )
