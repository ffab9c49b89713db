// `millrace worker`: takes units from the shared queue until it is told to stop.
import { concurrencyOf } from '../run/run.ts'
import { workLoop } from '../run/work-loop.ts'
import type { Handler } from './command-spec.ts'
import { withShop } from './shop.ts'
import { serveStatusPage } from './status-page.ts'

export const handle: Handler = async (invocation) =>
  withShop(invocation, { callsService: true, usesLanding: true, pipelines: [] }, async (shop) => {
    invocation.output.note(`worker ${shop.owner} takes units from the queue; Ctrl-C finishes`)
    const page = await serveStatusPage(shop)
    invocation.output.event({ event: 'status_page', url: page.url })
    invocation.output.note(`status page: ${page.url}`)
    try {
      await workLoop(shop, { concurrency: concurrencyOf(shop.definitions), signal: invocation.signal, done: async () => false })
    } finally {
      await page.close()
    }
    return 0
  })
