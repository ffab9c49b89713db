// `millrace run`: what is due now, or with --dry-run what it would take.

import { checkScope } from '../plan/frames.ts'
import { planRun, type Scope } from '../plan/plan-run.ts'
import { sweep } from '../run/retention.ts'
import { runJobs } from '../run/run-jobs.ts'
import { createPing } from '../schedule/notify/ping.ts'
import { checkAlarming } from '../schedule/notify/send-alarms.ts'
import { afterRun, sayEnded, tellAfter } from './after-run.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { agreed } from './consent.ts'
import { parseOnly } from './parse-only.ts'
import { showPlan } from './plan-command.ts'

/** Exit code 1 where units failed or are held. */
export const handle: Handler = async (invocation) => {
  const { options, output, signal } = invocation
  const scope: Scope = { mode: 'due', only: parseOnly(options['only']) }
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (opened, progress) => {
    const { definitions } = opened
    checkScope(definitions, scope)
    if (options['dryRun'] === true) return showPlan(invocation, opened, progress, 'run', scope)
    // A run without what the person refused: that is held, and the usual goes on.
    const runtime = (await progress.aside(() => agreed(invocation, opened, 'run', scope))) ?? opened
    checkAlarming(runtime)
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
    const after = await afterRun(runtime, result, runtime.consent.approvedBy)
    if (result.state !== 'cancelled') await sweep(runtime)
    await ping(result.state === 'done' ? 'success' : 'fail')
    await tellAfter(runtime, result)
    progress.stop()
    return sayEnded(output, { command: 'run', result, after, waitingIsDone: true })
  })
}
