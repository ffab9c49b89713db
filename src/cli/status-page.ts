// The status page beside a command's own work: `schedule`, `worker`, `demo --keep` and `status --serve`.
import { isEtlError, messageOf } from '../core/errors.ts'
import { noteCancel, retryByPerson } from '../ledger/person-actions.ts'
import { releaseByPerson } from '../ledger/release.ts'
import { previewRun } from '../plan/dry-run.ts'
import { nextTicks } from '../plan/ticks.ts'
import { cancelRun } from '../run/cancel-run.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { scheduledOf } from '../run/scheduled.ts'
import { createStatusApp } from '../web/app.ts'
import type { WebContext } from '../web/context.ts'
import { listen, type WebServer, webSettings } from '../web/web-server.ts'
import { reasonsOf } from './plan-events.ts'
import { pagePort } from './ports.ts'

/** Of `status --serve`, `schedule` and `worker`. */
const actor = 'status page'

interface PageOptions {
  readonly port?: string | undefined
  readonly overdue?: WebContext['overdue']
  readonly hooks?: WebContext['hooks']
}

/**
 * Serves the page until closed. A taken port ends the command only where someone chose it; the default gives way to a free one.
 * @param port what `--port` says; undefined: MILLRACE_WEB_PORT, else 7433
 * @param overdue asked by the health endpoint, see `Scheduler.overdue`
 */
export const serveStatusPage = async (
  runtime: OpenRuntime,
  { port, overdue = async () => [], hooks = null }: PageOptions = {},
): Promise<WebServer> => {
  const raw = port === undefined ? runtime.settings.raw : { ...runtime.settings.raw, MILLRACE_WEB_PORT: port }
  const { address, token } = webSettings(raw, pagePort)
  const { app, close } = createStatusApp({
    context: { ...webContext(runtime), overdue, hooks },
    token,
    onError: (error) => runtime.log.warn({ error: messageOf(error) }, 'status page'),
  })
  const server = await listen(app, address).catch((error: unknown) => {
    const chosen = raw['MILLRACE_WEB_PORT'] !== undefined && raw['MILLRACE_WEB_PORT'] !== ''
    if (chosen || !isEtlError(error)) throw error
    return listen(app, { ...address, port: 0 })
  })
  return {
    url: server.url,
    close: async () => {
      close()
      await server.close()
    },
  }
}

const webContext = (runtime: OpenRuntime): Omit<WebContext, 'overdue' | 'hooks'> => ({
  kysely: runtime.database.kysely,
  definitions: runtime.definitions,
  clock: runtime.clock,
  warehouse: runtime.database.display,
  actions: {
    release: (unitId) => releaseByPerson(runtime.database.kysely, unitId, actor),
    retry: (unitId) => retryByPerson(runtime.database.kysely, unitId, actor),
    cancel: async (runId) => {
      const { state } = await cancelRun(runtime, runId)
      if (state === 'cancelled') await noteCancel(runtime.database.kysely, runId, actor)
      return state
    },
  },
  plan: async (signal) => {
    const { jobs, pipelines, asked } = await previewRun(runtime, runtime.definitions, { mode: 'due', only: null }, signal)
    return { reasons: reasonsOf(jobs), pipelines, asked }
  },
  nextTicks: (count) =>
    scheduledOf(runtime.definitions).map(({ definition, schedule }) => ({
      pipeline: definition.pipeline,
      timeZone: schedule.timeZone,
      at: nextTicks(schedule, count, runtime.clock.now()),
    })),
})
