// `millrace schedule`: keeps time for every pipeline that has a schedule, until SIGTERM, which drains.
import { EtlError } from '../core/errors.ts'
import { timeIn } from '../core/window.ts'
import { nextTicks } from '../plan/ticks.ts'
import { scheduledOf } from '../run/scheduled.ts'
import { hookReceiver } from '../schedule/hook-subscriptions.ts'
import { type Scheduler, startScheduler } from '../schedule/run-schedule.ts'
import { interruptedCode, untilInterrupted, withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
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
      const { cron, timeZone } = schedule
      const ticks = nextTicks(schedule, shownTicks, runtime.clock.now())
      const next = ticks.map((ms) => new Date(ms).toISOString())
      invocation.output.event({ event: 'ticks', pipeline: definition.pipeline, time_zone: timeZone, next })
      const shown = ticks.map((ms) => timeIn(ms, timeZone)).join(', ')
      invocation.output.line(`${definition.pipeline} (${cron} ${timeZone}): ${shown}`)
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
