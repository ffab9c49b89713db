// `millrace backfill`: a range of months, or with --dry-run what it would take.
import { EtlError } from '../core/errors.ts'
import { inclusiveRange } from '../core/window.ts'
import { dryRun } from '../run/dry-run.ts'
import { notificationTargets, notify } from '../run/notify.ts'
import type { OpenShop } from '../run/open-shop.ts'
import { type PlannedUnit, planRun, type Scope } from '../run/plan-run.ts'
import { requestsPerSecond } from '../run/request-rate.ts'
import { runUnits } from '../run/run.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { printDryRun } from './dry-run.ts'
import { parseOnly } from './only.ts'
import { withShop } from './shop.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  orderOf(invocation.options)
  return withShop(invocation, { callsService: true, usesLanding: true }, async (shop, progress) => {
    const units = await planRange(shop, invocation, from, to, only)
    if (invocation.options['dryRun'] === true) {
      const estimate = await dryRun(shop, units, invocation.signal, requestsPerSecond(shop.settings))
      progress.stop()
      printDryRun(invocation.output, 'backfill', estimate)
      return 0
    }
    notificationTargets(shop.settings)
    const result = await runUnits(shop, {
      command: 'backfill',
      arguments: {
        pipelines: invocation.args,
        from,
        to,
        only: invocation.options['only'] ?? null,
        force: invocation.options['force'] === true,
      },
      definitions: shop.definitions,
      units,
      signal: invocation.signal,
    })
    await notify(shop)
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
  shop: OpenShop,
  { options }: Invocation,
  from: string,
  to: string,
  only: Scope['only'],
): Promise<PlannedUnit[]> =>
  planRun(shop, shop.definitions, {
    mode: 'range',
    rangeOf: ({ window }) => inclusiveRange(from, to, window.every),
    force: options['force'] === true,
    only,
    order: orderOf(options),
  })
