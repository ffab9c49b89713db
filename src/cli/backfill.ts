// `millrace backfill`: a range of months, or with --dry-run what it would take.
import { systemClock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { dateIn, inclusiveRange } from '../core/window.ts'
import { dryRun } from '../run/dry-run.ts'
import { notificationTargets, notify } from '../run/notify.ts'
import { type OpenShop, requestsPerSecond } from '../run/open-shop.ts'
import { type PlannedUnit, planRun, type Scope } from '../run/plan-run.ts'
import { runUnits } from '../run/run.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { printDryRun } from './dry-run.ts'
import { parseOnly } from './only.ts'
import { withShop } from './shop.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  assertBegun(from, inclusiveRange(from, to, 'month').from)
  orderOf(invocation.options['order'])
  return withShop(invocation, { callsService: true }, async (shop, progress) => {
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

/** A range of which nothing has begun is a slip of the pen; months that are only not published yet are planned and wait. */
const assertBegun = (text: string, from: string): void => {
  const today = dateIn(systemClock.now(), 'UTC')
  if (from > today)
    throw new EtlError(
      'USAGE',
      `--from ${text} lies in the future (today is ${today}). A month is published about the 10th of the month after it; name one that is over.`,
    )
}

const orderOf = (order: unknown): 'newest-first' | 'oldest-first' => {
  if (order === 'newest' || order === 'oldest') return `${order}-first`
  throw new EtlError('USAGE', `--order is '${String(order)}'; write --order newest (the default) or --order oldest.`)
}

const planRange = async (
  shop: OpenShop,
  { options }: Invocation,
  from: string,
  to: string,
  only: Scope['only'],
): Promise<PlannedUnit[]> => {
  const planOne = (definition: Definition): Promise<PlannedUnit[]> =>
    planRun(shop, [definition], {
      mode: 'range',
      range: inclusiveRange(from, to, definition.window.every),
      force: options['force'] === true,
      only,
      order: orderOf(options['order']),
    })
  const units: PlannedUnit[] = []
  for (const definition of shop.definitions) units.push(...(await planOne(definition)))
  return units
}
