// `millrace backfill`: a range of months, or with --dry-run what it would take.
import { EtlError } from '../core/errors.ts'
import { inclusiveRange } from '../core/window.ts'
import { dryRun } from '../pipeline/dry-run.ts'
import { notificationTargets, notify } from '../notify/notify.ts'
import type { OpenRuntime } from '../pipeline/open-runtime.ts'
import { type PlannedUnit, planRun, type Scope } from '../pipeline/plan-run.ts'
import { requestsPerSecond } from '../config/request-rate.ts'
import { runUnits } from '../pipeline/run.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { printDryRun } from './dry-run.ts'
import { parseOnly } from './only.ts'
import { withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  orderOf(invocation.options)
  return withRuntime(invocation, { callsService: true, usesLanding: true }, async (runtime, progress) => {
    const units = await planRange(runtime, invocation, from, to, only)
    if (invocation.options['dryRun'] === true) {
      const estimate = await dryRun(runtime, units, invocation.signal, requestsPerSecond(runtime.settings))
      progress.stop()
      printDryRun(invocation.output, 'backfill', estimate)
      return 0
    }
    notificationTargets(runtime.settings)
    const result = await runUnits(runtime, {
      command: 'backfill',
      arguments: {
        pipelines: invocation.args,
        from,
        to,
        only: invocation.options['only'] ?? null,
        force: invocation.options['force'] === true,
      },
      definitions: runtime.definitions,
      units,
      signal: invocation.signal,
    })
    await notify(runtime)
    progress.stop()
    printSummary(invocation.output, 'backfill', result)
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

const planRange = (
  runtime: OpenRuntime,
  { options }: Invocation,
  from: string,
  to: string,
  only: Scope['only'],
): Promise<PlannedUnit[]> =>
  planRun(runtime, runtime.definitions, {
    mode: 'range',
    rangeOf: ({ window }) => inclusiveRange(from, to, window.every),
    force: options['force'] === true,
    only,
    order: orderOf(options),
  })
