// Messages of the service: that data are released (subscription, message, proof of the sender), and that a report changed (api-facts 28, 29).
import { z } from 'zod'
import { addWindows, alignDown } from '../../core/window.ts'
import type { ReleaseApi, ReleaseMessage } from '../../extract/api.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { foldStatus, isKnownStatus } from '../../extract/report-api.ts'
import { askOptional, jsonOf } from './json-answer.ts'
import { capabilities } from './discovery.ts'
import { type EndpointName, endpoints } from './service-dialect.ts'
import { readRefusal, refusalError } from './refusal-table.ts'

/** Both spellings that were seen: 2023-10-19 and 10/19/2023. */
const date = z
  .string()
  .transform((text) => text.trim().replace(/^(\d{2})\/(\d{2})\/(\d{4})$/, '$3-$1-$2'))
  .pipe(z.iso.date())

const message = z.looseObject({
  subscription_id: z.string().min(1).max(100),
  latest_data_available: date,
  webhook_event_type: z
    .string()
    .transform((text) => text.trim().toLowerCase())
    .pipe(z.enum(['daily', 'monthly'])),
})

const read = (body: unknown): ReleaseMessage | null => {
  const parsed = message.safeParse(body)
  if (!parsed.success) return null
  const { subscription_id, latest_data_available, webhook_event_type } = parsed.data
  return {
    every: webhook_event_type === 'monthly' ? 'month' : 'day',
    subscriptionId: subscription_id,
    availableTo: latest_data_available,
  }
}

const eventTypes = { month: 'Monthly', day: 'Daily' } as const

const assertTaken = (answer: HttpAnswer, name: EndpointName): void => {
  if (answer.status >= 300) throw refusalError(readRefusal(answer), endpoints[name], 'webhooks')
}

const subscription = z.looseObject({ subscription_id: z.union([z.string().min(1), z.number()]).transform(String) })
const failure = z.looseObject({ errors: z.array(z.unknown()).catch([]) })

/** The newest day of all families of data: a run finds out by itself which of its values are there. */
const newest: ReleaseApi['newest'] = async (http, latest) => {
  const said = await capabilities(http)
  const dates = (said?.families ?? []).flatMap(({ to }) =>
    to === null ? [] : [/^\d{4}-\d{2}$/.test(to) ? lastOf(to) : to.slice(0, 10)],
  )
  return (
    dates
      .filter((day) => z.iso.date().safeParse(day).success && day <= latest)
      .sort()
      .at(-1) ?? null
  )
}

const lastOf = (month: string): string => addWindows(addWindows(alignDown(`${month}-01`, 'month'), 'month', 1), 'day', -1)

export const releases: ReleaseApi = {
  longestAddress: 255,
  proofHeader: 'x-sw-authorization',
  isTest: (body) => z.looseObject({ event_type: z.string().regex(/test/i) }).safeParse(body).success,
  read,
  newest,
  sender: async (http, proof) => {
    const answer = await askOptional(http, 'authorize', { body: {}, unrecorded: { headers: { 'X-sw-authorization': proof } } })
    if (answer === null) return 'unknown'
    if (answer.status === 200) return 'genuine'
    // 424: sent by the service, more than five minutes ago. A message that somebody kept and sends again looks the same.
    return answer.status === 406 || answer.status === 424 ? 'forged' : 'unknown'
  },
  subscribe: async (http, every, address) => {
    const answer = await askOptional(http, 'subscribe', {
      body: { webhook_event_type: eventTypes[every] },
      unrecorded: { body: { url: address } },
    })
    if (answer === null) return null
    assertTaken(answer, 'subscribe')
    return subscription.parse(jsonOf(answer, endpoints.subscribe)).subscription_id
  },
  unsubscribe: async (http, every, subscriptionId) => {
    const answer = await askOptional(http, 'unsubscribe', {
      body: { webhook_event_type: eventTypes[every], subscription_id: subscriptionId },
    })
    if (answer === null || answer.status === 404) return false
    assertTaken(answer, 'unsubscribe')
    return true
  },
  test: async (http, address) => {
    const answer = await askOptional(http, 'webhook_test', { body: {}, unrecorded: { body: { webhook_url: address } } })
    if (answer === null) return `the service has no ${endpoints.webhook_test}`
    if (answer.status < 300) return null
    if (answer.status !== 400) throw refusalError(readRefusal(answer), endpoints.webhook_test, 'webhooks')
    const errors = failure.safeParse(jsonOf(answer, endpoints.webhook_test))
    return errors.success && errors.data.errors.length > 0
      ? errors.data.errors.map(String).join('; ')
      : 'the service could not reach the address'
  },
  isStillMaking: (body) => {
    const word = statusIn(body)
    return word !== null && isKnownStatus(word) && foldStatus(word) === 'open'
  },
}

/** The form of these messages is not published: a status word is looked for where one would stand. */
const statusIn = (body: unknown): string | null => {
  if (typeof body !== 'object' || body === null) return null
  const found = Object.entries(body).find(
    ([name, value]) => /^(report_|request_)?status$/.test(name) && typeof value === 'string',
  )
  if (found !== undefined) return String(found[1])
  return 'payload' in body ? statusIn(body.payload) : null
}
