// `millrace run`: what is due now.

import { notificationTargets, notify } from '../run/notify.ts'
import { createPing } from '../run/ping.ts'
import { planRun } from '../run/plan-run.ts'
import { sweepLandings } from '../run/retention.ts'
import { runUnits } from '../run/run.ts'
import type { Handler } from './command-spec.ts'
import { parseOnly } from './only.ts'
import { withShop } from './shop.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const only = parseOnly(invocation.options['only'])
  return withShop(invocation, { callsService: true, usesLanding: true }, async (shop, progress) => {
    const units = await planRun(shop, shop.definitions, { mode: 'due', force: false, only, order: 'newest-first' })
    notificationTargets(shop.settings)
    const ping = createPing(shop.settings, shop.log)
    await ping('start')
    const result = await runUnits(shop, {
      command: 'run',
      arguments: { pipelines: invocation.args, only: invocation.options['only'] ?? null },
      definitions: shop.definitions,
      units,
      signal: invocation.signal,
    })
    await sweepLandings(shop)
    await ping(result.state === 'done' ? 'success' : 'fail')
    await notify(shop)
    progress.stop()
    printSummary(invocation.output, 'run', result)
    return exitCodeOf(result, true)
  })
}
