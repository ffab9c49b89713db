// The benchmark's service as a child process, and the messages that tell it what to send.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { z } from 'zod'
import { answerSchema, type Order } from './service-messages.ts'

export interface Service {
  readonly url: string
  tell(order: Order): Promise<z.infer<typeof answerSchema>>
  close(): void
}

export const createService = async (): Promise<Service> => {
  const child = fork(join(import.meta.dirname, 'service.ts'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const next = async (): Promise<z.infer<typeof answerSchema>> => {
    const [message]: unknown[] = await once(child, 'message')
    return answerSchema.parse(message)
  }
  const { port } = await next()
  return {
    url: `http://127.0.0.1:${port}`,
    tell: (order) => {
      const answer = next()
      child.send(order)
      return answer
    },
    close: () => child.disconnect(),
  }
}
