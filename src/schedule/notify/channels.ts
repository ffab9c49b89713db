// One message in the form of its receiver, and the sending of it. An address is revealed here and nowhere else.
import { createHmac } from 'node:crypto'
import { EtlError, messageOf } from '../../core/errors.ts'
import { redact } from '../../core/redact.ts'
import type { Told, Telling } from '../../ledger/deliveries.ts'
import type { Receiver } from './receivers.ts'
import { wordsOf } from './wording.ts'

const sendMs = 10_000
const longestProblem = 200
const longestBlock = 2_900
const longestSummary = 1_000

/** What a message says of who sends it, and when. */
export interface Sender {
  /** Names the warehouse in messages for machines: two warehouses may share a receiver. */
  readonly warehouseId: string
  readonly nowMs: number
}

/** null: it was taken; else why not, without secrets. */
export const tell = async (receiver: Receiver, telling: Telling, sender: Sender): Promise<string | null> => {
  try {
    return await send(receiver, telling, sender)
  } catch (error) {
    return redact(error instanceof EtlError ? error.message : causeOf(error)).slice(0, longestProblem)
  }
}

/** fetch itself says no more than that it failed. */
const causeOf = (error: unknown): string =>
  error instanceof Error && error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : messageOf(error)

const send = async (receiver: Receiver, telling: Telling, sender: Sender): Promise<string | null> => {
  const [first] = telling.told
  if (first === undefined) return null
  if (receiver.kind === 'email') {
    // Read from disk only by those who send any.
    const { sendMail } = await import('./email.ts')
    return sendMail(receiver, telling, deliveryId(telling, first, sender))
  }
  if (receiver.kind === 'slack')
    return post(receiver.url.reveal(), slackBody(telling), { 'millrace-delivery': deliveryId(telling, first, null) })
  if (receiver.kind === 'pagerduty') return post(receiver.url, pagerdutyBody(receiver.key.reveal(), telling, first, sender), {})
  const body = redact(JSON.stringify(webhookBody(telling, first)))
  const at = String(Math.floor(sender.nowMs / 1000))
  const signature =
    receiver.key === null
      ? {}
      : {
          'millrace-signature': `t=${at},v1=${createHmac('sha256', receiver.key.reveal()).update(`${at}.${body}`).digest('hex')}`,
        }
  return post(receiver.url.reveal(), body, { 'millrace-delivery': deliveryId(telling, first, null), ...signature })
}

const post = async (url: string, body: string, headers: Readonly<Record<string, string>>): Promise<string | null> => {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    redirect: 'error',
    signal: AbortSignal.timeout(sendMs),
  })
  await answer.body?.cancel()
  return answer.ok ? null : `HTTP ${answer.status}`
}

/** The same for every try, so that a receiver can tell a repetition. */
const deliveryId = ({ event }: Telling, { notificationId }: Told, sender: Sender | null): string =>
  `${sender === null ? '' : `${sender.warehouseId}-`}${notificationId}-${event}`

/** Plain text alone: what a service says back must not become a link or a mention. */
const slackBody = (telling: Telling): string => {
  const words = wordsOf(telling)
  const block = (text: string) => ({ type: 'section', text: { type: 'plain_text', text: text.slice(0, longestBlock) } })
  return redact(
    JSON.stringify({
      text: words.headline,
      blocks: [block(words.headline), ...words.parts.map(({ title, lines }) => block(`${title}:\n${lines.join('\n')}`))],
    }),
  )
}

const webhookBody = (telling: Telling, told: Told): unknown => ({
  id: deliveryId(telling, told, null),
  event: telling.event,
  kind: told.kind,
  severity: told.severity,
  pipeline: told.pipeline,
  message: told.message,
  changed: told.changed,
  next_step: told.nextStep,
  raised_at: told.raisedAt,
  resolved_at: told.resolvedAt,
})

/** Events API v2: one incident for each cause, which its end resolves. */
const pagerdutyBody = (key: string, telling: Telling, told: Told, { warehouseId }: Sender): string => {
  const { kind, severity, pipeline, message, changed, nextStep, raisedAt } = told
  const event = {
    event_action: telling.event === 'resolved' ? 'resolve' : 'trigger',
    dedup_key: `millrace/${warehouseId}/${told.notificationId}`,
    payload: {
      ...{ summary: message.slice(0, longestSummary), source: 'millrace', severity, class: kind, timestamp: raisedAt },
      ...(pipeline === null ? {} : { component: pipeline }),
      custom_details: { what_changed: changed, what_to_do: nextStep },
    },
  }
  // The key is added behind redact, which would take it out.
  return JSON.stringify({ routing_key: key, ...(JSON.parse(redact(JSON.stringify(event))) as object) })
}
