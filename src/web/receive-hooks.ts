// The paths that services send messages to. The secret part of the path is all that proves a caller may knock; who sent it is checked behind it.
import type { Context, Hono } from 'hono'
import type { HookReceiver } from '../core/hook-receiver.ts'
import type { Secret } from '../core/redact.ts'
import { equal } from './access.ts'

/** Bodies are limited by the app, before they are read. */
export const mountHooks = (app: Hono, hooks: HookReceiver): void => {
  app.post('/hooks/:token/releases/:api/:account', (request) =>
    received(request, hooks.token, (body) =>
      hooks.release(param(request, 'api'), param(request, 'account'), body, (name) => request.req.header(name) ?? null),
    ),
  )
  app.post('/hooks/:token/reports/:job', (request) =>
    received(request, hooks.token, (body) => {
      const job = param(request, 'job')
      return /^\d{1,15}$/.test(job) ? hooks.report(Number(job), body) : Promise.resolve(404)
    }),
  )
  // No login page for a guess; and nothing that tells a wrong token from a wrong path.
  app.all('/hooks/*', nothingHere)
}

const param = (request: Context, name: string): string => request.req.param(name) ?? ''

const nothingHere = (request: Context): Response => request.text('There is nothing at this address.\n', 404)

const received = async (request: Context, token: Secret, take: (body: unknown) => Promise<number>): Promise<Response> => {
  if (!equal(token.reveal(), param(request, 'token'))) return nothingHere(request)
  const body = parsed(await request.req.text())
  if (body === undefined) return request.text('Expected JSON.\n', 400)
  const status = await take(body)
  return new Response(null, { status, headers: status === 503 ? { 'retry-after': '30' } : {} })
}

/** undefined: not JSON. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
