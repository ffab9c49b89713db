// `millrace plan`: what a run, or the backfill of a range, would do and why; spends nothing. Every --dry-run is this.
import { previewRun } from '../plan/dry-run.ts'
import { checkScope, type Scope } from '../plan/frames.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { rangeScope } from './command-options.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { parseOnly } from './parse-only.ts'
import { printPlan } from './print-plan.ts'
import type { ProgressView } from './progress-bar.ts'

/** Spends nothing. */
export const handle: Handler = async (invocation) => {
  const { options } = invocation
  const only = parseOnly(options['only'])
  const isRange = options['from'] !== undefined || options['to'] !== undefined
  const scope: Scope = isRange ? rangeScope(invocation) : { mode: 'due', only }
  return withRuntime(invocation, { callsService: true, usesLanding: false }, async (runtime, progress) => {
    checkScope(runtime.definitions, scope)
    return showPlan(invocation, runtime, progress, 'plan', scope)
  })
}

/** Shows what would be done and returns the exit code. Spends nothing. */
export const showPlan = async (
  { output, signal }: Invocation,
  runtime: OpenRuntime,
  progress: ProgressView,
  command: string,
  scope: Scope,
): Promise<number> => {
  const preview = await previewRun(runtime, runtime.definitions, scope, signal)
  progress.stop()
  printPlan(output, command, preview)
  return 0
}
