// `millrace run`: what is due now.

import { notificationTargets, notify } from '../notify/notify.ts'
import { createPing } from '../notify/ping.ts'
import { planRun } from '../pipeline/plan-run.ts'
import { sweepLandings } from '../pipeline/retention.ts'
import { runUnits } from '../pipeline/run.ts'
import type { Handler } from './command-spec.ts'
import { parseOnly } from './only.ts'
import { withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const only = parseOnly(invocation.options['only'])
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (runtime, progress) => {
    const units = await planRun(runtime, runtime.definitions, { mode: 'due', force: false, only, order: 'newest-first' })
    notificationTargets(runtime.settings)
    const ping = createPing(runtime.settings, runtime.log)
    await ping('start')
    const result = await runUnits(runtime, {
      command: 'run',
      arguments: { pipelines: invocation.args, only: invocation.options['only'] ?? null },
      definitions: runtime.definitions,
      units,
      signal: invocation.signal,
    })
    await sweepLandings(runtime)
    await ping(result.state === 'done' ? 'success' : 'fail')
    await notify(runtime)
    progress.stop()
    printSummary(invocation.output, 'run', result)
    return exitCodeOf(result, true)
  })
}
