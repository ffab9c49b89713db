// `millrace worker`: helps every run and scheduler of the warehouse until it is stopped.
import { messageOf } from '../core/errors.ts'
import { concurrencyOf } from '../run/run-jobs.ts'
import { workLoop } from '../run/work-loop.ts'
import { notify } from '../schedule/notify/send-alarms.ts'
import { createTicker } from '../schedule/ticker.ts'
import { interruptedCode, withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { serveStatusPage } from './status-page.ts'

const everyMs = 60_000

/** Ends when it is stopped; its jobs go to others. */
export const handle: Handler = async (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: true, pipelines: [] }, async (runtime) => {
    invocation.output.note(`worker ${runtime.process.name} helps every run; Ctrl-C ends it`)
    const page = await serveStatusPage(runtime)
    invocation.output.event({ event: 'status_page', url: page.url })
    invocation.output.note(`status page: ${page.url}`)
    // The loop below does the work of the runs it begins.
    const ticker = createTicker(runtime, invocation.signal, { concurrency: 0 })
    const begin = (): Promise<void> =>
      ticker
        .approved()
        .catch((error) => runtime.log.warn({ error: messageOf(error) }, 'what was approved waits for the next minute'))
    // Also where no scheduler lives people are told, and what a person allowed is bought.
    const minute = setInterval(() => void notify(runtime).then(begin), everyMs)
    void begin()
    try {
      await workLoop(runtime, {
        runId: null,
        concurrency: concurrencyOf(runtime.definitions),
        signal: invocation.signal,
        done: async () => false,
      })
    } finally {
      clearInterval(minute)
      await ticker.settled()
      await page.close()
    }
    return interruptedCode
  })
