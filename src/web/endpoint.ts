// One address for programs, behind the same door as the page: its token, or loopback under its own name.
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { secureHeaders } from 'hono/secure-headers'
import type { Secret } from '../core/redact.ts'
import { createAccess } from './access.ts'

/** What answers there. */
export interface Endpoint {
  readonly path: string
  /** null: loopback alone may ask. */
  readonly token: Secret | null
  readonly mostBytes: number
  readonly nowMs: () => number
  handle(request: Request): Promise<Response>
}

/** Everything else is not found; a browser of another page is refused. */
export const createEndpoint = ({ path, token, mostBytes, nowMs, handle }: Endpoint): Hono => {
  const app = new Hono()
  const access = createAccess({ token, nowMs })
  app.use(secureHeaders())
  app.use(bodyLimit({ maxSize: mostBytes, onError: (context) => context.text('The body is too large.\n', 413) }))
  app.use(async (context, next) => {
    const origin = context.req.header('origin')
    if (origin !== undefined && new URL(context.req.url).host !== hostOf(origin))
      return context.text('Not from another page.\n', 403)
    return next()
  })
  app.use(access.guard)
  app.all(path, (context) => handle(context.req.raw))
  app.notFound((context) => context.text(`Nothing is here; the address is ${path}.\n`, 404))
  return app
}

const hostOf = (origin: string): string | null => (URL.canParse(origin) ? new URL(origin).host : null)
