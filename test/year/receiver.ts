// Takes notifications as a team's webhook would.
import { createServer } from 'node:http'
import { z } from 'zod'

const messageSchema = z.object({
  id: z.string(),
  event: z.enum(['raised', 'resolved']),
  kind: z.string(),
  pipeline: z.string().nullable(),
  message: z.string(),
})
export type Message = z.infer<typeof messageSchema> & {
  /** Simulated day it came, `YYYY-MM-DD` (UTC). */
  readonly day: string
}

export interface Receiver {
  readonly url: string
  readonly messages: readonly Message[]
  close(): void
}

export const startReceiver = async (nowMs: () => number): Promise<Receiver> => {
  const messages: Message[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const day = new Date(nowMs()).toISOString().slice(0, 10)
      messages.push({ ...messageSchema.parse(JSON.parse(Buffer.concat(parts).toString())), day })
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: `http://127.0.0.1:${address.port}/hook`,
    messages,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
