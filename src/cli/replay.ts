// `millrace replay`: parse and load again from the landing, with no call to the service.
import { inclusiveRange } from '../core/window.ts'
import { replayUnits } from '../pipeline/replay.ts'
import { rangeOf } from './backfill.ts'
import type { Handler } from './command-spec.ts'
import { parseOnly } from './only.ts'
import { withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  inclusiveRange(from, to, 'month')
  return withRuntime(invocation, { callsService: false, usesLanding: true }, async (runtime, progress) => {
    const result = await replayUnits(runtime, { from, to, only, signal: invocation.signal })
    progress.stop()
    printSummary(invocation.output, 'replay', result)
    return exitCodeOf(result, false)
  })
}
