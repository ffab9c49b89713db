// Jobs, one after the other, into the slots of this process.
import { reapDead } from '../ledger/processes.ts'
import { workJob } from './job.ts'
import type { Runtime } from './runtime.ts'
import { type LoopOptions, workInSlots } from './slots.ts'

/** Resolves when `done` says so, the signal aborts or the run is cancelled; in each case nothing is at hand any more. */
export const workLoop = async (runtime: Runtime, options: LoopOptions): Promise<void> => {
  // Who helps every run must not begin with the list of one that died.
  if (options.runId === null) await reapDead(runtime.database.kysely, runtime.process)
  await workInSlots(runtime, options, (claim, signal) => workJob(runtime, claim, signal))
}
