// `millrace cancel RUN`: asks a run to stop and waits until no process works on it.
import { cancelRun } from '../run/cancel-run.ts'
import { wholeNumber } from './command-options.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { some } from './output.ts'

/** Resolves when nothing of the run is at work any more. */
export const handle: Handler = async (invocation) => {
  const runId = wholeNumber(invocation.args[0], (text) => `'${text}' is not a run's number; \`millrace status\` lists the runs.`)
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, async (runtime) => {
    const { parked, withdrawn, state } = await cancelRun(runtime, runId)
    invocation.output.event({ event: 'summary', command: 'cancel', run_id: runId, state, units_parked: parked, withdrawn })
    invocation.output.line(`Run ${runId} is ${state}; ${some(parked, 'unit')} put back. Nothing more is submitted for it.`)
    if (withdrawn > 0) invocation.output.line(`${some(withdrawn, 'failed purchase')} taken back: no night tries them again.`)
    invocation.output.line('Run the same command again to resume.')
    return 0
  })
}
