// Listens for HTTP: on loopback unless configured otherwise, and elsewhere only with a token.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { secureHeaders } from 'hono/secure-headers'
import { isLoopback } from '../core/address.ts'
import { settingError } from '../core/errors.ts'
import { secret } from '../core/redact.ts'
import { type Access, createAccess } from './access.ts'

const hostName = 'MILLRACE_WEB_HOST'
const portName = 'MILLRACE_WEB_PORT'
const tokenName = 'MILLRACE_WEB_TOKEN'
const shortestToken = 16

/** Address and token from the environment. Throws CONFIGURATION where other machines could open the page without a token. */
export const webSettings = (raw: Readonly<Record<string, string>>, defaultPort: number) => {
  const host = raw[hostName] || '127.0.0.1'
  const port = Number(raw[portName] || defaultPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw settingError(`The port is '${raw[portName]}'; write a number from 0 to 65535 (--port, ${portName}).`)
  const text = raw[tokenName]
  if (text !== undefined && text !== '' && text.length < shortestToken)
    throw settingError(`${tokenName} is shorter than ${shortestToken} characters; make one with \`openssl rand -hex 24\`.`)
  const token = text ? secret(tokenName, text) : null
  if (!isLoopback(host) && token === null)
    throw settingError(
      `${hostName} is '${host}', which others can reach; set ${tokenName} too (for example \`openssl rand -hex 24\`), or use 127.0.0.1.`,
    )
  return { address: { host, port }, token }
}

/** Resolves when it listens. Throws CONFIGURATION when the port is taken. @param port 0: any free one */
export const listen = async (app: Hono, { host, port }: { readonly host: string; readonly port: number }) => {
  const server = createAdaptorServer({ fetch: app.fetch })
  try {
    await once(server.listen(port, host), 'listening')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    const words = `Nothing can listen on ${host}:${port} (${code}); name a free port (--port, ${portName}).`
    throw settingError(words, cause)
  }
  const at = server.address() as AddressInfo
  return {
    url: `http://${at.family === 'IPv6' ? `[${at.address}]` : at.address}:${at.port}`,
    /** Stops listening and cuts open connections. */
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        if ('closeAllConnections' in server) server.closeAllConnections()
      }),
  }
}

/** An address for programs, with the page's access rules: the token, or loopback under its own name. */
export interface Endpoint extends Access {
  readonly path: string
  readonly mostBytes: number
  handle(request: Request): Promise<Response>
}

/** Serves `path` alone; any other path is 404. Refuses requests that another site's page sends from a browser. */
export const createEndpoint = ({ path, mostBytes, handle, ...door }: Endpoint): Hono => {
  const app = new Hono()
  const access = createAccess(door)
  app.use(secureHeaders())
  app.use(bodyLimit({ maxSize: mostBytes, onError: (context) => context.text('The body is too large.\n', 413) }))
  app.use(async (context, next) => {
    const origin = context.req.header('origin')
    if (origin !== undefined && new URL(context.req.url).host !== URL.parse(origin)?.host)
      return context.text('Not from another page.\n', 403)
    return next()
  })
  app.use(access.guard)
  app.all(path, (context) => handle(context.req.raw))
  app.notFound((context) => context.text(`Nothing is here; the address is ${path}.\n`, 404))
  return app
}
