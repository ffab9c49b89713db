// The nightly in one long-running process: a look every few seconds drives the ticker until it is stopped. And what a scheduler and a worker do alike.
import { messageOf } from '../core/errors.ts'
import { notify } from './notify/send-alarms.ts'
import { concurrencyOf } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { workLoop } from '../run/work-loop.ts'
import { createReleaseWatch } from './release-watch.ts'
import { createTicker } from './ticker.ts'

const minuteMs = 60_000
/** No timer keeps a tick: it would pass while the database is away, the machine sleeps, or another process is at work. */
const tickEveryMs = 5_000
const helpAgainMs = 5_000

/** A schedule that runs. */
export type Scheduler = Awaited<ReturnType<typeof startScheduler>>

/**
 * Takes ticks as they come, and what services say they have released, until stopped. Beside that it helps every run there is.
 * @param sinceMs from when on ticks are its own: those it was announced with
 */
export const startScheduler = async (runtime: Runtime, signal: AbortSignal, sinceMs: number) => {
  const { ticker, stop: stopHelping } = await startHelper(runtime, signal, { first: (made) => made.catchUp(), sinceMs })
  const watch = createReleaseWatch(runtime, signal, ticker.sweep)
  const sweep = every(tickEveryMs, runtime, 'ticks wait for the next look', async () => ticker.sweep())
  const listen = every(tickEveryMs, runtime, 'releases of data wait for the next look', watch.look)
  return {
    /** What services tell by themselves. */
    releases: watch,
    /** Pipelines whose tick came and was not taken. */
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
 * Works for every run, and on what was asked for without a waiting run; each minute people are told what is wrong, also between the nights, and what a person
 * allowed is bought. A database that stays away ends neither it nor the process. @param how `first`: what is done before the first minute
 */
export const startHelper = async (
  runtime: Runtime,
  signal: AbortSignal,
  how: { readonly first?: (ticker: ReturnType<typeof createTicker>) => Promise<void>; readonly sinceMs?: number } = {},
) => {
  const { first = async () => undefined, sinceMs } = how
  // One loop does the work of all ticks, so that however many fall together, no more is worked on at once.
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
  const minute = every(minuteMs, runtime, 'what was approved waits for the next minute', async () => {
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

/** One after the other, never two at once. @param problem what the log says where it throws */
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
