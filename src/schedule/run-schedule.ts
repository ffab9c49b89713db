// The scheduler, one long-running process: checks every few seconds for ticks until it is stopped. Also the part that schedulers and workers share.
import { messageOf } from '../core/errors.ts'
import { notify } from './notify/send-alarms.ts'
import { concurrencyOf } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { workLoop } from '../run/work-loop.ts'
import { createReleaseWatch } from './release-watch.ts'
import { createTicker } from './ticker.ts'

const minuteMs = 60_000
/** Ticks have no timers of their own: a timer would fire while the database is unreachable, the machine sleeps, or another process runs. */
const tickEveryMs = 5_000
const helpAgainMs = 5_000

/** A running scheduler. */
export type Scheduler = Awaited<ReturnType<typeof startScheduler>>

/**
 * Takes ticks and announced releases until stopped. Beside that it works on the jobs of every run.
 * @param sinceMs ticks from then on count: the command has announced them to the person
 */
export const startScheduler = async (runtime: Runtime, signal: AbortSignal, sinceMs: number) => {
  const { ticker, stop: stopHelping } = await startHelper(runtime, signal, { first: (made) => made.catchUp(), sinceMs })
  const watch = createReleaseWatch(runtime, signal, ticker.sweep)
  const sweep = every(tickEveryMs, runtime, 'ticks wait for the next check', async () => ticker.sweep())
  const listen = every(tickEveryMs, runtime, 'releases of data wait for the next check', watch.look)
  return {
    /** Releases that services announce. */
    releases: watch,
    /** Pipelines whose tick is late. */
    overdue: ticker.overdue,
    /** Takes no more ticks and resolves when the runs in progress are done. */
    stop: async (): Promise<void> => {
      await sweep.stop()
      await listen.stop()
      await stopHelping()
    },
  }
}

/**
 * Works on the jobs of every run and on orphans; each minute, also between nights, sends alarms and buys what a person has approved. An unreachable
 * database ends neither the helper nor the process. @param how `first`: runs before the first minute
 */
export const startHelper = async (
  runtime: Runtime,
  signal: AbortSignal,
  how: { readonly first?: (ticker: ReturnType<typeof createTicker>) => Promise<void>; readonly sinceMs?: number } = {},
) => {
  const { first = async () => undefined, sinceMs } = how
  // One loop does the work of all ticks, so that concurrency stays the same when several ticks fall together.
  const ticker = createTicker(runtime, signal, { concurrency: 0, ...(sinceMs === undefined ? {} : { sinceMs }) })
  const ending = new AbortController()
  const stopped = AbortSignal.any([signal, ending.signal])
  const options = { runId: null, concurrency: concurrencyOf(runtime.definitions), signal: stopped, done: async () => false }
  const help = async (): Promise<void> => {
    while (!stopped.aborted) {
      await workLoop(runtime, options).catch((error) =>
        runtime.log.error({ error: messageOf(error) }, 'no work was done for a while; trying again'),
      )
      await runtime.clock.sleep(helpAgainMs, stopped).catch(() => undefined)
    }
  }
  const helping = help()
  const finish = async (): Promise<void> => {
    await ticker.settled()
    ending.abort()
    await helping
  }
  await first(ticker).catch(async (error: unknown) => {
    await finish()
    throw error
  })
  const minute = every(minuteMs, runtime, 'approved purchases wait for the next minute', async () => {
    await notify(runtime)
    await ticker.approved()
  })
  return {
    ticker,
    stop: async (): Promise<void> => {
      await minute.stop()
      await finish()
    },
  }
}

/** Calls `work` every `ms`, never two at once. @param problem the log message where it throws */
const every = (ms: number, { log }: Runtime, problem: string, work: () => Promise<void>): { stop: () => Promise<void> } => {
  let at: Promise<void> | null = null
  const begin = (): void => {
    at ??= work()
      .catch((error: unknown) => log.warn({ error: messageOf(error) }, problem))
      .finally(() => {
        at = null
      })
  }
  begin()
  const timer = setInterval(begin, ms)
  return {
    stop: async () => {
      clearInterval(timer)
      await at
    },
  }
}
