// `millrace run`: what is due now, or with --dry-run what it would take.
import { notificationTargets, notify } from '../notify/notify.ts'
import { createPing } from '../notify/ping.ts'
import { previewRun } from '../pipeline/dry-run.ts'
import { planRun, type Scope } from '../pipeline/plan-run.ts'
import { sweep } from '../pipeline/retention.ts'
import { runJobs } from '../pipeline/run.ts'
import { checkScope } from '../plan/frames.ts'
import type { Handler } from './command-spec.ts'
import { printDryRun } from './dry-run.ts'
import { parseOnly } from './only.ts'
import { withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { options, output, signal } = invocation
  const scope: Scope = { mode: 'due', only: parseOnly(options['only']) }
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (runtime, progress) => {
    const { definitions } = runtime
    checkScope(definitions, scope)
    if (options['dryRun'] === true) {
      const preview = await previewRun(runtime, definitions, scope, signal)
      progress.stop()
      printDryRun(output, 'run', preview)
      return 0
    }
    notificationTargets(runtime.settings)
    const ping = createPing(runtime.settings, runtime.log)
    await ping('start')
    const result = await runJobs(runtime, {
      command: 'run',
      arguments: { pipelines: invocation.args, only: options['only'] ?? null },
      definitions,
      plan: (runId) => planRun(runtime, runId, definitions, scope, signal),
      signal,
    }).catch(async (error: unknown) => {
      await ping('fail')
      throw error
    })
    if (result.state !== 'cancelled') await sweep(runtime)
    await ping(result.state === 'done' ? 'success' : 'fail')
    await notify(runtime)
    progress.stop()
    printSummary(output, 'run', result)
    return exitCodeOf(result, true)
  })
}
