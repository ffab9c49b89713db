// `millrace backfill`: a range of months, or with --dry-run what it would take.
import { EtlError } from '../core/errors.ts'
import { checkScope } from '../plan/frames.ts'
import { planRun } from '../plan/plan-run.ts'
import { runJobs } from '../run/run-jobs.ts'
import { checkAlarming } from '../schedule/notify/send-alarms.ts'
import { afterRun, sayEnded, tellAfter } from './after-run.ts'
import { rangeOf, rangeScope } from './command-options.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { agreed, personWith } from './consent.ts'
import { showPlan } from './plan-command.ts'

/** Exit code 1 where units failed or are held, or nothing was bought. */
export const handle: Handler = async (invocation) => {
  const { args, options, output, signal } = invocation
  const { from, to } = rangeOf(invocation)
  const scope = rangeScope(invocation, { order: orderOf(options) })
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (opened, progress) => {
    const { definitions } = opened
    checkScope(definitions, scope)
    if (options['dryRun'] === true) return showPlan(invocation, opened, progress, 'backfill', scope)
    const runtime = await progress.aside(() => agreed(invocation, opened, 'backfill', scope))
    if (runtime === null) {
      output.note('Nothing was bought.')
      return 1
    }
    checkAlarming(runtime)
    const result = await runJobs(runtime, {
      command: 'backfill',
      arguments: { pipelines: args, from, to, only: options['only'] ?? null, force: options['force'] === true },
      definitions,
      plan: (runId) => planRun(runtime, runId, definitions, scope, signal),
      signal,
    })
    const after = await afterRun(runtime, result, personWith('backfill'))
    await tellAfter(runtime, result)
    progress.stop()
    return sayEnded(output, { command: 'backfill', result, after, waitingIsDone: false })
  })
}

const orderOf = ({ order, oldestFirst }: Invocation['options']): 'newest-first' | 'oldest-first' => {
  if (oldestFirst === true) return 'oldest-first'
  if (order === 'newest' || order === 'oldest') return `${order}-first`
  throw new EtlError('USAGE', `--order is '${String(order)}'; write --order newest (the default) or --order oldest.`)
}
