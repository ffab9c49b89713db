// Listens for HTTP: on loopback unless configured otherwise, and elsewhere only with a token.
import { serve } from '@hono/node-server'
import type { Hono } from 'hono'
import { EtlError } from '../core/errors.ts'
import { type Secret, secret } from '../core/redact.ts'

/** Where the page listens. */
export interface WebAddress {
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

const isLoopback = (host: string): boolean => /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host)

/** Address and token by the environment; CONFIGURATION where the page would be open to others without a token. */
export const webSettings = (
  raw: Readonly<Record<string, string>>,
  defaultPort: number,
): { readonly address: WebAddress; readonly token: Secret | null } => {
  const host = raw[hostName] || '127.0.0.1'
  const port = Number(raw[portName] || defaultPort)
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new EtlError('CONFIGURATION', `${portName} is '${raw[portName]}', expected a port from 0 to 65535.`)
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
