// Tells people: what the ledger says is wrong, once when it begins and once when it ends, to Slack and to a signed webhook.
import { createHmac } from 'node:crypto'
import type { Settings } from '../config/env.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import { redact, type Secret, secret } from '../core/redact.ts'
import { apiNameOf } from '../core/source-spec.ts'
import {
  type Cause,
  causesInLedger,
  type Delivery,
  deliverNext,
  type QuotaSpent,
  quotaThisMonth,
  syncNotifications,
} from '../ledger/notifications.ts'
import { scheduledOf, untakenTicks } from '../pipeline/scheduled.ts'
import type { Runtime } from '../pipeline/runtime.ts'

const slackName = 'MILLRACE_NOTIFY_SLACK'
const webhookName = 'MILLRACE_NOTIFY_WEBHOOK'
const webhookSecretName = 'MILLRACE_NOTIFY_WEBHOOK_SECRET'
const sendMs = 10_000
/** A night that is this late is told of. */
const lateMs = 60 * 60_000
/** Percent of a month's budget at which people are told. */
const quotaLevels = [80, 100] as const

interface Target {
  readonly name: 'slack' | 'webhook'
  readonly url: Secret
  readonly key: Secret | null
}

/** Addresses are secrets: whoever has one can write to the channel. Throws CONFIGURATION for one that is none. */
export const notificationTargets = ({ raw }: Settings): readonly Target[] => {
  const address = (name: string): Secret | null => {
    const text = raw[name]
    if (text === undefined || text === '') return null
    const url = URL.canParse(text) ? new URL(text) : null
    const local = url !== null && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname)
    if (url === null || (url.protocol !== 'https:' && !local))
      throw new EtlError(
        'CONFIGURATION',
        `${name} is no https address; it holds what may write to the channel, so it is not shown.`,
      )
    return secret(name, text)
  }
  const slack = address(slackName)
  const webhook = address(webhookName)
  const key = raw[webhookSecretName]
  return [
    ...(slack === null ? [] : [{ name: 'slack' as const, url: slack, key: null }]),
    ...(webhook === null ? [] : [{ name: 'webhook' as const, url: webhook, key: key ? secret(webhookSecretName, key) : null }]),
  ]
}

/** Reads the ledger, then sends what is due. A target that does not answer is tried again later; nothing here fails a run. */
export const notify = async (runtime: Runtime): Promise<void> => {
  const targets = notificationTargets(runtime.settings)
  if (targets.length === 0) return
  const names = targets.map(({ name }) => name)
  try {
    await syncNotifications(runtime.database.kysely, await causes(runtime), names)
    const send = (delivery: Delivery): Promise<string | null> => post(targets, delivery, runtime.clock.now())
    while (await deliverNext(runtime.database.kysely, names, send));
  } catch (error) {
    runtime.log.warn({ error: messageOf(error) }, 'notifications wait for the next check')
  }
}

const causes = async (runtime: Runtime): Promise<readonly Cause[]> => [
  ...(await causesInLedger(runtime.database.kysely)),
  ...(await quotaCauses(runtime)),
  ...(await lateCauses(runtime)),
]

const quotaCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const spent = await quotaThisMonth(runtime.database.kysely)
  const byAccount = Map.groupBy(spent, ({ account, source }) => `account ${account} of ${apiNameOf(source)}`)
  return [
    ...runtime.definitions.flatMap(({ pipeline, limits }) =>
      levelsReached(runtime, pipeline, pipeline, sum(spent.filter((row) => row.pipeline === pipeline)), limits.quotaPerMonth),
    ),
    ...[...byAccount].flatMap(([whose, rows]) => levelsReached(runtime, null, whose, sum(rows), accountBudget(runtime, rows))),
  ]
}

/** What was spent may have been spent for an API that is gone. */
const accountBudget = (runtime: Runtime, [first]: readonly QuotaSpent[]): number | null => {
  if (first === undefined || ![...runtime.sources.keys()].some((name) => apiNameOf(name) === apiNameOf(first.source))) return null
  return runtime.allowance(first).budget.perMonth
}

const sum = (rows: readonly QuotaSpent[]): number => rows.reduce((total, { spent }) => total + spent, 0)

/** The first warning is not over when the second comes. */
const levelsReached = (
  runtime: Runtime,
  pipeline: string | null,
  whose: string,
  spent: number,
  budget: number | null,
): Cause[] => {
  const month = new Date(runtime.clock.now()).toISOString().slice(0, 7)
  if (budget === null || spent === 0) return []
  return quotaLevels
    .filter((level) => spent * 100 >= budget * level)
    .map((level) => ({
      cause: `quota/${whose}/${month}/${level}`,
      kind: 'quota',
      pipeline,
      message: `${whose} has spent or reserved ${spent} of its ${budget} credits for ${month} (${level} % reached).`,
      details: { month, spent, budget, level },
    }))
}

const lateCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const late: Cause[] = []
  for (const entry of scheduledOf(runtime.definitions)) {
    const missed = (await untakenTicks(runtime, entry)).filter((dueMs) => dueMs < runtime.clock.now() - lateMs)
    const [oldest] = missed
    if (oldest === undefined) continue
    const { pipeline } = entry.definition
    const due = new Date(oldest).toISOString()
    late.push({
      cause: `late/${pipeline}`,
      kind: 'late',
      pipeline,
      message: `${pipeline} was due at ${due} and has not run${more(missed.length)}; is \`millrace schedule\` running?`,
      details: { due_at: due, missed: missed.length },
    })
  }
  return late
}

const more = (missed: number): string => (missed > 1 ? ` (${missed} ticks so far)` : '')

/** null when it was taken, else why not. The body is signed over its time, so that an old one cannot be sent again. */
const post = async (targets: readonly Target[], delivery: Delivery, nowMs: number): Promise<string | null> => {
  const target = targets.find(({ name }) => name === delivery.target)
  if (target === undefined) return 'the target is not set any more'
  const body = redact(JSON.stringify(target.name === 'slack' ? slackBody(delivery) : webhookBody(delivery)))
  const at = String(Math.floor(nowMs / 1000))
  const signature =
    target.key === null
      ? {}
      : { 'millrace-signature': `t=${at},v1=${createHmac('sha256', target.key.reveal()).update(`${at}.${body}`).digest('hex')}` }
  try {
    const answer = await fetch(target.url.reveal(), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'millrace-delivery': deliveryId(delivery), ...signature },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(sendMs),
    })
    await answer.body?.cancel()
    return answer.ok ? null : `HTTP ${answer.status}`
  } catch (error) {
    return redact(messageOf(error)).slice(0, 200)
  }
}

/** The same for every try, so that a receiver can tell a repetition. */
const deliveryId = ({ notification_id, event }: Delivery): string => `${notification_id}-${event}`

const headline = ({ event, kind, message }: Delivery): string =>
  event === 'resolved' ? `Over (${kind}): ${message}` : `${kind[0]?.toUpperCase()}${kind.slice(1)}: ${message}`

const slackBody = (delivery: Delivery): unknown => ({
  text: headline(delivery),
  blocks: [{ type: 'section', text: { type: 'plain_text', text: headline(delivery).slice(0, 2_900) } }],
})

const webhookBody = (delivery: Delivery): unknown => ({
  id: deliveryId(delivery),
  event: delivery.event,
  kind: delivery.kind,
  pipeline: delivery.pipeline,
  message: delivery.message,
  raised_at: delivery.raised_at,
  resolved_at: delivery.resolved_at,
})
