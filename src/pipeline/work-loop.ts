// Jobs, one after the other, into the slots of this process.
import { workJob } from './job.ts'
import type { Runtime } from './runtime.ts'
import { type LoopOptions, workInSlots } from './slots.ts'

/** Resolves when `done` says so, the signal aborts or the run is cancelled; in each case nothing is at hand any more. */
export const workLoop = (runtime: Runtime, options: LoopOptions): Promise<void> =>
  workInSlots(runtime, options, (claim, signal) => workJob(runtime, claim, signal))
