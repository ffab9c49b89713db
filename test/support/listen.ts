// Small HTTP servers of tests on a free port of 127.0.0.1.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Listening {
  readonly url: string
  readonly server: Server
  /** Ends every connection at once. */
  close(): Promise<void>
}

/** @param answer gets the request with its body read whole */
export const listen = async (
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => unknown,
): Promise<Listening> => {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => undefined)
    request.on('end', () => answer(request, response, Buffer.concat(chunks).toString('utf8')))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
