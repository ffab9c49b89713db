// The endpoints around webhooks: subscribe, remove, the check of a sender, a test. Beyond the interface, as public facts describe them.
import { z } from 'zod'
import type { Exchange } from './exchange.ts'
import { json, type Reply, refusal } from './reply.ts'
import { problems } from './sandbox-options.ts'
import type { Service } from './service.ts'

const longestUrl = 255

const address = z.url({ protocol: /^https?$/, error: 'expected an address' }).max(longestUrl, `at most ${longestUrl} characters`)
const event = z.enum(['Monthly', 'Daily'], { error: 'expected Daily or Monthly' })
const subscription = z.strictObject({ webhook_event_type: event, url: address })
const removal = z.strictObject({ webhook_event_type: event, subscription_id: z.string().optional() })
const test = z.strictObject({ webhook_url: address })

export const subscribe = ({ webhooks }: Service, { body }: Exchange): Reply => {
  const asked = subscription.safeParse(body)
  if (!asked.success) return refusal('rest', 400, 100, [problems(asked.error)])
  const { webhook_event_type, url } = asked.data
  return json(200, {
    subscription_id: webhooks.subscribe(webhook_event_type, url),
    webhook_event_type,
    url,
    last_update_date: null,
  })
}

export const unsubscribe = ({ webhooks }: Service, { body }: Exchange): Reply => {
  const asked = removal.safeParse(body)
  if (!asked.success) return refusal('rest', 400, 100, [problems(asked.error)])
  const { webhook_event_type, subscription_id } = asked.data
  if (!webhooks.unsubscribe(webhook_event_type, subscription_id ?? null))
    return refusal('rest', 404, 404, ['No such subscription'])
  return json(200, { webhook_event_type, removed: true })
}

/** 200: the service sent it. 406: it did not. 424: it did, more than five minutes ago. */
export const authorize = ({ webhooks }: Service, { proof }: Exchange): Reply => {
  const found = webhooks.prove(proof)
  if (found === 'right') return json(200, { status: 'Ok' })
  return found === 'expired'
    ? refusal('rest', 424, 424, ['The authorization token expired'])
    : refusal('rest', 406, 406, ['The webhook was not triggered by this service'])
}

export const testWebhook = async ({ webhooks }: Service, { body }: Exchange): Promise<Reply> => {
  const asked = test.safeParse(body)
  if (!asked.success) return refusal('batch', 400, 400, [problems(asked.error)])
  const problem = await webhooks.test(asked.data.webhook_url)
  if (problem !== null) return refusal('batch', 400, 400, [problem])
  return json(200, { event_type: 'test_webhook_endpoint', payload: 'Webhook was triggered successfully.' })
}
