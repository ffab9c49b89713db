// The sandbox's own endpoints under /_sandbox/, for tests and people that drive it over HTTP.
// They need no key: the sandbox listens on this machine alone.
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import { isEtlError } from '../core/errors.ts'
import { faultSchema } from './fault-kinds.ts'
import { problems, type Settings } from './sandbox-options.ts'
import { json, type Reply } from './reply.ts'
import { readJson } from './request-body.ts'
import type { Service } from './service.ts'

const restateSchema = z.strictObject({
  month: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected YYYY-MM'),
  domain: z.string().optional(),
})

type Action = (service: Service, body: unknown) => unknown

const actions: Readonly<Record<string, Action>> = {
  'GET /_sandbox/books': (service) => service.books(),
  'DELETE /_sandbox/books': (service) => {
    service.clearBooks()
    return service.books()
  },
  'GET /_sandbox/options': (service) => shown(service.settings()),
  'PATCH /_sandbox/options': (service, body) => {
    service.configure(z.record(z.string(), z.unknown()).parse(body))
    return shown(service.settings())
  },
  'GET /_sandbox/faults': (service) => service.settings().faults,
  'PUT /_sandbox/faults': (service, body) => {
    service.configure({ faults: z.array(faultSchema).parse(body) })
    return service.settings().faults
  },
  'DELETE /_sandbox/faults': (service) => {
    service.configure({ faults: [] })
    return []
  },
  'POST /_sandbox/release': async (service, body) => {
    const { event = 'Monthly', date } = releaseSchema.parse(body) ?? {}
    return { sent: await service.webhooks.release(event, date) }
  },
  'POST /_sandbox/method': (service, body) => {
    const { from, change } = methodSchema.parse(body)
    service.calendar.changeMethod(from, change)
    return { from, change }
  },
  'POST /_sandbox/restate': (service, body) => {
    const { month, domain } = restateSchema.parse(body)
    service.calendar.restate(month, domain)
    return { month, domain: domain ?? 'every domain', last_updated: service.calendar.lastUpdated([month], domain ?? '') }
  },
}

const methodSchema = z.strictObject({ from: restateSchema.shape.month, change: z.number().gt(-1) })

const releaseSchema = z.strictObject({ event: z.enum(['Monthly', 'Daily']).optional(), date: z.iso.date().optional() }).optional()

const shown = ({ apiKey, batchApiKey, now, ...rest }: Settings): unknown => ({
  ...rest,
  batchApiKey: batchApiKey === null || batchApiKey === apiKey ? 'the same' : 'its own',
  now: typeof now === 'function' ? 'a function' : now,
})

export const isControl = (path: string): boolean => path.startsWith('/_sandbox/')

export const control = async (service: Service, request: IncomingMessage, path: string): Promise<Reply> => {
  const action = actions[`${request.method} ${path}`]
  if (action === undefined) return json(404, { errors: [`There are ${Object.keys(actions).join(', ')}`] })
  const body = await readJson(request)
  try {
    return json(200, await action(service, body))
  } catch (error) {
    if (error instanceof z.ZodError) return json(400, { errors: [problems(error)] })
    if (isEtlError(error)) return json(400, { errors: [error.message] })
    throw error
  }
}
