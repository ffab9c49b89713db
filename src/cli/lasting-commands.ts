// Commands that run until stopped: `millrace schedule` runs every pipeline with a schedule, `millrace worker` works for every run and scheduler of the
// warehouse. Also the status page beside them, and for `demo --keep` and `status --serve`.
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { timeIn } from '../core/window.ts'
import { noteCancel } from '../ledger/release-unit.ts'
import { previewRun } from '../plan/dry-run.ts'
import { pricesOf } from '../plan/price.ts'
import { withReadFiles } from '../plan/query-lists.ts'
import { nextTicks, scheduledOf } from '../plan/ticks.ts'
import { cancelRun } from '../run/cancel-run.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { replayRange } from '../run/replay.ts'
import { hookReceiver, readPoll } from '../schedule/release-watch.ts'
import { type Scheduler, startHelper, startScheduler } from '../schedule/run-schedule.ts'
import { createStatusApp } from '../web/app.ts'
import { actor, type WebContext } from '../web/context.ts'
import { listen, webSettings } from '../web/web-server.ts'
import { interruptedCode, untilInterrupted, withRuntime } from './command-runtime.ts'
import { type Handler, type Invocation, pagePort } from './command-spec.ts'
import { reasonsOf } from '../web/plan-cache.ts'

const shownTicks = 5

/** Runs until stopped; runs in progress then put their jobs back. */
export const schedule: Handler = async (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: true, isLasting: true, pipelines: [] }, async (runtime) => {
    const scheduled = scheduledOf(runtime.definitions)
    if (scheduled.length === 0)
      throw new EtlError(
        'DEFINITION',
        'No pipeline has a schedule; add `schedule: { cron: "30 2 * * *", time_zone: Europe/Berlin }`.',
      )
    readPoll(runtime.settings.raw)
    const sinceMs = runtime.clock.now()
    for (const { pipeline, schedule: rule } of scheduled) {
      const { cron, timeZone } = rule
      const ticks = nextTicks(rule, shownTicks, sinceMs)
      const next = ticks.map((ms) => new Date(ms).toISOString())
      invocation.output.event({ event: 'ticks', pipeline, time_zone: timeZone, next })
      const shown = ticks.map((ms) => timeIn(ms, timeZone)).join(', ')
      invocation.output.line(`${pipeline} (${cron} ${timeZone}): ${shown}`)
    }
    withReadFiles(runtime, runtime.definitions)
    let scheduler: Scheduler | null = null
    const hooks = hookReceiver(runtime, () => scheduler?.releases ?? null)
    const options = { showsDatabase: true, hooks, overdue: async () => scheduler?.overdue() ?? [] }
    return withStatusPage(invocation, runtime, options, async () => {
      scheduler = await startScheduler(runtime, invocation.signal, sinceMs)
      await untilInterrupted(invocation)
      await scheduler.stop()
    })
  })

/** Runs until stopped; then other processes take its jobs. Without a scheduler it also sends alarms and buys what a person approved. */
export const worker: Handler = async (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: true, isLasting: true, pipelines: [] }, async (runtime) => {
    invocation.output.note(`worker ${runtime.process.name} helps every run; Ctrl-C ends it`)
    return withStatusPage(invocation, runtime, {}, async () => {
      const helper = await startHelper(runtime, invocation.signal)
      await untilInterrupted(invocation)
      await helper.stop()
    })
  })

interface PageOptions {
  /** From `--port`. Default: MILLRACE_WEB_PORT, else 7433. */
  readonly port?: string | undefined
  /** For the health endpoint, see `Scheduler.overdue`. */
  readonly overdue?: WebContext['overdue']
  readonly hooks?: WebContext['hooks']
  /** Whether to say how a person can query the embedded database meanwhile. */
  readonly showsDatabase?: boolean
  /** The process reads no landings, so the page offers no replay. */
  readonly isReader?: boolean
}

/**
 * Serves the page while `work` runs, and prints its address first. A taken port ends the command only where a person chose the port; else a free port
 * replaces the default.
 * @returns the exit code
 */
export const withStatusPage = async (
  { output }: Invocation,
  runtime: OpenRuntime,
  { port, overdue = async () => [], hooks = null, isReader = false, showsDatabase = false }: PageOptions,
  work: () => Promise<void>,
): Promise<number> => {
  const raw = port === undefined ? runtime.settings.raw : { ...runtime.settings.raw, MILLRACE_WEB_PORT: port }
  const { address, token } = webSettings(raw, pagePort)
  const replays = createReplays(runtime)
  const shown = webContext(runtime, isReader ? null : replays.begin)
  const { app, close } = createStatusApp({ ...shown, overdue, hooks }, token, (error) =>
    runtime.log.warn({ error: messageOf(error) }, 'status page'),
  )
  let gaveWay = false
  const server = await listen(app, address).catch((error: unknown) => {
    if (raw['MILLRACE_WEB_PORT'] || !isEtlError(error)) throw error
    gaveWay = true
    return listen(app, { ...address, port: 0 })
  })
  output.event({ event: 'status_page', url: server.url })
  output.line(`The status page is at ${server.url}${gaveWay ? ` (port ${pagePort} is taken)` : ''}. Ctrl-C ends it.`)
  const { psql } = runtime.database
  if (showsDatabase && psql !== null)
    output.line(`The database runs as long as this does; from another terminal in this folder:\n  ${psql}`)
  try {
    await work()
    return interruptedCode
  } finally {
    close()
    await server.close()
    await replays.close()
  }
}

/** Replays started from the page: runs of this process, at most one for a pipeline and month at a time. */
const createReplays = (runtime: OpenRuntime) => {
  const stop = new AbortController()
  const atWork = new Map<string, Promise<void>>()
  const begin = (pipeline: string, month: string): boolean => {
    const definitions = runtime.definitions.filter((one) => one.pipeline === pipeline)
    const name = `${pipeline} ${month}`
    if (definitions.length === 0 || atWork.has(name) || stop.signal.aborted) return false
    const range = { from: month, to: month, only: null, signal: stop.signal }
    const work = replayRange({ ...runtime, definitions }, range)
      .then(() => undefined)
      .catch((error: unknown) =>
        runtime.log.warn({ error: messageOf(error) }, `the replay of ${name} from the status page ended`),
      )
      .finally(() => atWork.delete(name))
    atWork.set(name, work)
    return true
  }
  return {
    begin,
    close: async () => {
      stop.abort()
      await Promise.all(atWork.values())
    },
  }
}

const webContext = (runtime: OpenRuntime, replay: WebContext['actions']['replay']): Omit<WebContext, 'overdue' | 'hooks'> => ({
  kysely: runtime.database.kysely,
  definitions: runtime.definitions,
  clock: runtime.clock,
  warehouse: runtime.database.display,
  actions: {
    cancel: async (runId) => {
      const { state } = await cancelRun(runtime, runId)
      if (state === 'cancelled') await noteCancel(runtime.database.kysely, runId, actor)
      return state
    },
    replay,
  },
  plan: async (signal) => {
    const { jobs, pipelines, asked } = await previewRun(runtime, runtime.definitions, { mode: 'due', only: null }, signal)
    return { reasons: reasonsOf(jobs), pipelines, asked }
  },
  priceOf: pricesOf(runtime, runtime.definitions),
  nextTicks: (count) =>
    scheduledOf(runtime.definitions).map(({ pipeline, schedule }) => ({
      pipeline,
      timeZone: schedule.timeZone,
      at: nextTicks(schedule, count, runtime.clock.now()),
    })),
})
