// `millrace cancel RUN`: asks a run to stop and waits until nothing of it is at hand.
import { EtlError } from '../core/errors.ts'
import { cancelRun } from '../pipeline/cancel.ts'
import type { Handler } from './command-spec.ts'
import { withRuntime } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const runId = Number(invocation.args[0])
  if (!Number.isSafeInteger(runId) || runId < 1) {
    throw new EtlError('USAGE', `'${invocation.args[0]}' is not a run's number; \`millrace status\` lists the runs.`)
  }
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, async (runtime) => {
    const { parked, state } = await cancelRun(runtime, runId)
    invocation.output.event({ event: 'summary', command: 'cancel', run_id: runId, state, units_parked: parked })
    invocation.output.line(`Run ${runId} is ${state}; ${parked} units were put back. Nothing more is submitted for it.`)
    invocation.output.line('The same run or backfill command goes on where it stopped.')
    return 0
  })
}
