// `millrace schedule`: keeps time for every pipeline that has a schedule, until SIGTERM, which drains.
import { EtlError } from '../core/errors.ts'
import { scheduledOf, startScheduler } from '../run/schedule.ts'
import { nextTicks } from '../run/ticks.ts'
import type { Handler } from './command-spec.ts'
import { withShop } from './shop.ts'

const shownTicks = 5

export const handle: Handler = async (invocation) =>
  withShop(invocation, { callsService: true, pipelines: [] }, async (shop) => {
    const scheduled = scheduledOf(shop.definitions)
    if (scheduled.length === 0)
      throw new EtlError(
        'DEFINITION',
        'No pipeline has a schedule; add `schedule: { cron: "30 2 * * *", time_zone: Europe/Berlin }`.',
      )
    for (const { definition, schedule } of scheduled) {
      const ticks = nextTicks(schedule, shownTicks).map((ms) => new Date(ms).toISOString())
      invocation.output.event({ event: 'ticks', pipeline: definition.pipeline, time_zone: schedule.timeZone, next: ticks })
      invocation.output.line(`${definition.pipeline} (${schedule.cron} ${schedule.timeZone}): ${ticks.join(', ')}`)
    }
    const scheduler = await startScheduler(shop, invocation.signal)
    if (!invocation.signal.aborted) {
      await new Promise<void>((resolve) => invocation.signal.addEventListener('abort', () => resolve(), { once: true }))
    }
    await scheduler.stop()
    return 0
  })
