// Listens for HTTP: on loopback unless configured otherwise, and elsewhere only with a token.
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { secureHeaders } from 'hono/secure-headers'
import { isLoopback } from '../core/address.ts'
import { EtlError } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'
import { createAccess } from './access.ts'

/** Where the page listens. */
interface WebAddress {
  readonly host: string
  /** 0: any free one. */
  readonly port: number
}

/** The page, listening. */
export interface WebServer {
  readonly url: string
  /** Cuts what is still open. */
  close(): Promise<void>
}

const hostName = 'MILLRACE_WEB_HOST'
const portName = 'MILLRACE_WEB_PORT'
const tokenName = 'MILLRACE_WEB_TOKEN'
const shortestToken = 16

/** Address and token by the environment; CONFIGURATION where the page would be open to others without a token. */
export const webSettings = (
  raw: Readonly<Record<string, string>>,
  defaultPort: number,
): { readonly address: WebAddress; readonly token: Secret | null } => {
  const host = raw[hostName] || '127.0.0.1'
  const port = Number(raw[portName] || defaultPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new EtlError('CONFIGURATION', `The port is '${raw[portName]}'; write a number from 0 to 65535 (--port, ${portName}).`)
  const text = raw[tokenName]
  if (text !== undefined && text !== '' && text.length < shortestToken)
    throw new EtlError(
      'CONFIGURATION',
      `${tokenName} is shorter than ${shortestToken} characters; make one with \`openssl rand -hex 24\`.`,
    )
  const token = text ? secret(tokenName, text) : null
  if (!isLoopback(host) && token === null)
    throw new EtlError(
      'CONFIGURATION',
      `${hostName} is '${host}', which others can reach; set ${tokenName} too (for example \`openssl rand -hex 24\`), or use 127.0.0.1.`,
    )
  return { address: { host, port }, token }
}

/** Resolves when it listens. Throws CONFIGURATION when the port is taken. */
export const listen = (app: Hono, { host, port }: WebAddress): Promise<WebServer> =>
  new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname: host, port }, (address) =>
      resolve({
        url: `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`,
        close: () =>
          new Promise((done) => {
            server.close(() => done())
            if ('closeAllConnections' in server) server.closeAllConnections()
          }),
      }),
    )
    server.on('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new EtlError('CONFIGURATION', `Nothing can listen on ${host}:${port} (${cause.code}); set ${portName} to a free port.`, {
          cause,
        }),
      ),
    )
  })

/** One address for programs, behind the same door as the page: its token, or loopback under its own name. */
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

const hostOf = (origin: string): string | null => URL.parse(origin)?.host ?? null
