// `millrace schedule`: keeps time for every pipeline that has a schedule, until SIGTERM, which drains.
import { EtlError } from '../core/errors.ts'
import { hookReceiver } from '../schedule/hooks.ts'
import { type Scheduler, startScheduler } from '../schedule/schedule.ts'
import { scheduledOf } from '../pipeline/scheduled.ts'
import { nextTicks } from '../plan/ticks.ts'
import type { Handler } from './command-spec.ts'
import { interruptedCode, untilInterrupted, withRuntime } from './runtime.ts'
import { serveStatusPage } from './status-page.ts'

const shownTicks = 5

/** Ends when it is stopped; runs in progress put their jobs back. */
export const handle: Handler = async (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: true, pipelines: [] }, async (runtime) => {
    const scheduled = scheduledOf(runtime.definitions)
    if (scheduled.length === 0)
      throw new EtlError(
        'DEFINITION',
        'No pipeline has a schedule; add `schedule: { cron: "30 2 * * *", time_zone: Europe/Berlin }`.',
      )
    for (const { definition, schedule } of scheduled) {
      const ticks = nextTicks(schedule, shownTicks, runtime.clock.now()).map((ms) => new Date(ms).toISOString())
      invocation.output.event({ event: 'ticks', pipeline: definition.pipeline, time_zone: schedule.timeZone, next: ticks })
      invocation.output.line(`${definition.pipeline} (${schedule.cron} ${schedule.timeZone}): ${ticks.join(', ')}`)
    }
    let scheduler: Scheduler | null = null
    const hooks = hookReceiver(runtime, () => scheduler?.releases ?? null)
    const page = await serveStatusPage(runtime, { hooks, overdue: async () => scheduler?.overdue() ?? [] })
    invocation.output.event({ event: 'status_page', url: page.url })
    invocation.output.line(`status page: ${page.url}`)
    try {
      scheduler = await startScheduler(runtime, invocation.signal)
      await untilInterrupted(invocation)
      await scheduler.stop()
    } finally {
      await page.close()
    }
    return interruptedCode
  })
