// `millrace worker`: helps every run and scheduler of the warehouse until it is stopped.
import { checkAlarming, notify } from '../notify/notify.ts'
import { concurrencyOf } from '../pipeline/run.ts'
import { workLoop } from '../pipeline/work-loop.ts'
import type { Handler } from './command-spec.ts'
import { interruptedCode, withRuntime } from './runtime.ts'
import { serveStatusPage } from './status-page.ts'

const tellEveryMs = 60_000

/** Ends when it is stopped; its jobs go to others. */
export const handle: Handler = async (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: true, pipelines: [] }, async (runtime) => {
    invocation.output.note(`worker ${runtime.process.name} helps every run; Ctrl-C ends it`)
    checkAlarming(runtime)
    const page = await serveStatusPage(runtime)
    invocation.output.event({ event: 'status_page', url: page.url })
    invocation.output.note(`status page: ${page.url}`)
    // Whoever lives tells: also when no scheduler does.
    const telling = setInterval(() => void notify(runtime), tellEveryMs)
    try {
      await workLoop(runtime, {
        runId: null,
        concurrency: concurrencyOf(runtime.definitions),
        signal: invocation.signal,
        done: async () => false,
      })
    } finally {
      clearInterval(telling)
      await page.close()
    }
    return interruptedCode
  })
