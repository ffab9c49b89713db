// `millrace backfill`: a range of months, or with --dry-run what it would take.
import { EtlError } from '../core/errors.ts'
import { inclusiveRange } from '../core/window.ts'
import { notificationTargets, notify } from '../notify/notify.ts'
import { previewRun } from '../pipeline/dry-run.ts'
import { planRun, type Scope } from '../pipeline/plan-run.ts'
import { runJobs } from '../pipeline/run.ts'
import { checkScope } from '../plan/frames.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { printDryRun } from './dry-run.ts'
import { parseOnly } from './only.ts'
import { withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { args, options, output, signal } = invocation
  const { from, to } = rangeOf(invocation)
  const scope: Scope = {
    mode: 'range',
    rangeOf: ({ window }) => inclusiveRange(from, to, window.every),
    force: options['force'] === true,
    only: parseOnly(options['only']),
    order: orderOf(options),
  }
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (runtime, progress) => {
    const { definitions } = runtime
    checkScope(definitions, scope)
    if (options['dryRun'] === true) {
      const preview = await previewRun(runtime, definitions, scope, signal)
      progress.stop()
      printDryRun(output, 'backfill', preview)
      return 0
    }
    notificationTargets(runtime.settings)
    const result = await runJobs(runtime, {
      command: 'backfill',
      arguments: { pipelines: args, from, to, only: options['only'] ?? null, force: options['force'] === true },
      definitions,
      plan: (runId) => planRun(runtime, runId, definitions, scope, signal),
      signal,
    })
    await notify(runtime)
    progress.stop()
    printSummary(output, 'backfill', result)
    return exitCodeOf(result, false)
  })
}

/** Both ends of --from and --to; either missing is a USAGE error. */
export const rangeOf = ({ options }: Invocation): { from: string; to: string } => {
  const { from, to } = options
  if (typeof from !== 'string' || typeof to !== 'string') {
    throw new EtlError(
      'USAGE',
      'Both --from YYYY-MM and --to YYYY-MM are needed (inclusive), for example --from 2026-01 --to 2026-03.',
    )
  }
  return { from, to }
}

const orderOf = ({ order, oldestFirst }: Invocation['options']): 'newest-first' | 'oldest-first' => {
  if (oldestFirst === true) return 'oldest-first'
  if (order === 'newest' || order === 'oldest') return `${order}-first`
  throw new EtlError('USAGE', `--order is '${String(order)}'; write --order newest (the default) or --order oldest.`)
}
