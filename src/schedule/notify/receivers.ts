// Receivers of alarms, from notify.yaml and from the environment. Each kind has its settings (checked before any call), the form of its messages, and the way to
// send them. A new kind is a function here with entries in receiverOf and ownReceivers, its form in core/alarm-routes.ts, and its settings' names in
// cli/check/check-settings.ts. An address is revealed only where a message is sent.
import { createHmac } from 'node:crypto'
import { isLoopback, isEncryptedOrLocal } from '../../core/address.ts'
import type { ReceiverSpec, Route } from '../../core/alarm-routes.ts'
import { hidePassword, type Settings } from '../../core/env.ts'
import { EtlError, messageOf, settingError } from '../../core/errors.ts'
import { readAll } from '../../core/read-setting.ts'
import { redact, type Secret, secret } from '../../core/redact.ts'
import { namedSecret } from '../../core/secret-settings.ts'
import type { ReceiverTraits, Alarm, AlarmCause } from '../../ledger/deliveries.ts'
import type { Runtime } from '../../run/runtime.ts'

const slackName = 'MILLRACE_NOTIFY_SLACK'
const webhookName = 'MILLRACE_NOTIFY_WEBHOOK'
const webhookKeyName = 'MILLRACE_NOTIFY_WEBHOOK_SECRET'
const pagerdutyName = 'MILLRACE_NOTIFY_PAGERDUTY'
const emailName = 'MILLRACE_NOTIFY_EMAIL'
const fromName = 'MILLRACE_NOTIFY_FROM'
const smtpName = 'MILLRACE_SMTP_URL'
const pagerdutyAddressName = 'MILLRACE_PAGERDUTY_URL'
const pagerdutyAddress = 'https://events.pagerduty.com/v2/enqueue'

const sendMs = 10_000
const longestProblem = 200
const longestBlock = 2_900
/** Most characters of a subject; mail programs cut longer ones anyway. */
const longestSubject = 150
const longestSummary = 1_000

/** Who sends a message, and when. */
interface Sender {
  /** Names the warehouse in messages for machines: two warehouses may share a receiver. */
  readonly warehouseId: string
  readonly nowMs: number
  /** A test message: it succeeds only if every address accepts it; its `warehouseId` is made up. */
  readonly isTest?: boolean
}

/** One message to send. */
interface OutgoingMessage extends Sender {
  readonly alarm: Alarm
  /** The first cause of the message. */
  readonly first: AlarmCause
  /** The same for every try, so that a receiver can tell a repetition. */
  readonly id: string
}

/** Where alarms go. */
export interface Receiver extends ReceiverTraits {
  readonly kind: ReceiverSpec['kind']
  /** A message opens an incident, which stays open until another message closes it. */
  readonly opens: boolean
  /** Resolves to null: accepted; else to the reason why not. */
  send(message: OutgoingMessage): Promise<string | null>
}

export type Alarming = ReturnType<typeof alarmingOf>

/** Receivers and routes of notify.yaml; without the file one route sends everything to every receiver. Throws CONFIGURATION for a missing or wrong setting, never with a secret's text. */
export const alarmingOf = ({ settings: { raw }, routes }: Pick<Runtime, 'settings' | 'routes'>) => {
  const named = routes?.receivers ?? []
  const specs = [...named, ...ownReceivers(raw).filter(({ name }) => !named.some((one) => one.name === name))]
  const receivers = readAll(specs.map((spec) => () => receiverOf(raw, spec)))
  const everything = { kinds: null, severities: null, pipelines: null, tags: {}, at: 'the environment' }
  const found: readonly Route[] = routes?.routes ?? [{ ...everything, to: receivers.map(({ name }) => name) }]
  for (const { to, at } of found)
    for (const name of to)
      if (!receivers.some((one) => one.name === name))
        throw settingError(
          `${at}: '${name}' cannot receive messages: MILLRACE_NOTIFY_${name.toUpperCase()} is not set. Set it, or name a receiver of notify.yaml.`,
        )
  return { receivers, routes: found, quietHours: routes?.quietHours ?? null }
}

/** Sends one message. null: accepted; else the reason why not, without secrets. */
export const sendMessage = async (receiver: Receiver, alarm: Alarm, sender: Sender): Promise<string | null> => {
  const [first] = alarm.causes
  if (first === undefined) return null
  try {
    const number = sender.isTest === true ? sender.warehouseId : first.notificationId
    return await receiver.send({ ...sender, alarm, first, id: `${number}-${alarm.event}` })
  } catch (error) {
    return redact(error instanceof EtlError ? error.message : causeOf(error)).slice(0, longestProblem)
  }
}

/** An error of fetch says only that it failed; its cause says why. */
const causeOf = (error: unknown): string =>
  error instanceof Error && error.cause instanceof Error ? `${error.message}: ${messageOf(error.cause)}` : messageOf(error)

type Raw = Settings['raw']
type Spec<Kind extends ReceiverSpec['kind']> = Extract<ReceiverSpec, { kind: Kind }>

const ownReceivers = (raw: Raw): ReceiverSpec[] => {
  const at = 'the environment'
  const to = (raw[emailName] ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
  const key = isSet(raw, webhookKeyName) ? webhookKeyName : null
  return [
    ...(isSet(raw, slackName) ? [{ name: 'slack', at, kind: 'slack', variable: slackName } as const] : []),
    ...(isSet(raw, webhookName) ? [{ name: 'webhook', at, kind: 'webhook', variable: webhookName, key } as const] : []),
    ...(isSet(raw, pagerdutyName) ? [{ name: 'pagerduty', at, kind: 'pagerduty', variable: pagerdutyName } as const] : []),
    ...(to.length > 0 ? [{ name: 'email', at, kind: 'email', to } as const] : []),
  ]
}

const isSet = (raw: Raw, name: string): boolean => [name, `${name}_FILE`, `${name}_COMMAND`].some((one) => raw[one])

const receiverOf = (raw: Raw, spec: ReceiverSpec): Receiver =>
  spec.kind === 'slack'
    ? slack(raw, spec)
    : spec.kind === 'webhook'
      ? webhook(raw, spec)
      : spec.kind === 'pagerduty'
        ? pagerduty(raw, spec)
        : email(raw, spec)

const people = { grouped: true, repeatable: false, opens: false } as const
const machine = { grouped: false, repeatable: true, opens: false } as const

/** Only plain text: a service's message quoted in an alarm must not become a link or a mention. */
const slack = (raw: Raw, { name, kind, variable, at }: Spec<'slack'>): Receiver => {
  const url = address(raw, variable, at)
  const block = (text: string) => ({ type: 'section', text: { type: 'plain_text', text: text.slice(0, longestBlock) } })
  return {
    ...{ name, kind, ...people },
    send: ({ alarm, first, id }) => {
      const { headline, parts } = wordsOf(alarm, first)
      const blocks = [block(headline), ...parts.map(({ title, lines }) => block(`${title}:\n${lines.join('\n')}`))]
      return post(url.reveal(), redact(JSON.stringify({ text: headline, blocks })), { 'millrace-delivery': id })
    },
  }
}

const webhook = (raw: Raw, spec: Spec<'webhook'>): Receiver => {
  const { name, kind, at, variable } = spec
  const [url, key] = readAll([() => address(raw, variable, at), () => (spec.key === null ? null : keyOf(raw, spec.key, at))])
  return {
    ...{ name, kind, ...machine },
    send: ({ alarm, first, id, nowMs }) => {
      const { severity, pipeline, message, changed, nextStep, raisedAt, resolvedAt } = first
      const of = { kind: first.kind, severity, pipeline, message, changed, next_step: nextStep }
      const body = redact(JSON.stringify({ id, event: alarm.event, ...of, raised_at: raisedAt, resolved_at: resolvedAt }))
      const sentAt = String(Math.floor(nowMs / 1000))
      const signed = key && createHmac('sha256', key.reveal()).update(`${sentAt}.${body}`).digest('hex')
      const signature = signed === null ? {} : { 'millrace-signature': `t=${sentAt},v1=${signed}` }
      return post(url.reveal(), body, { 'millrace-delivery': id, ...signature })
    },
  }
}

/** Events API v2: one incident for each cause, which its end resolves. */
const pagerduty = (raw: Raw, { name, kind, variable, at }: Spec<'pagerduty'>): Receiver => {
  const [url, key] = readAll([() => pagerdutyUrl(raw), () => keyOf(raw, variable, at)])
  return {
    ...{ name, kind, ...machine, opens: true },
    send: ({ alarm, first, warehouseId }) => {
      const { severity, pipeline, message, changed, nextStep, raisedAt } = first
      const event = {
        event_action: alarm.event === 'resolved' ? 'resolve' : 'trigger',
        dedup_key: `millrace/${warehouseId}/${first.notificationId}`,
        payload: {
          ...{ summary: message.slice(0, longestSummary), source: 'millrace', severity, class: first.kind, timestamp: raisedAt },
          ...(pipeline === null ? {} : { component: pipeline }),
          custom_details: { what_changed: changed, what_to_do: nextStep },
        },
      }
      // The key is added after redact, which would remove it.
      const body = { routing_key: key.reveal(), ...(JSON.parse(redact(JSON.stringify(event))) as object) }
      return post(url, JSON.stringify(body), {})
    },
  }
}

/** Over the SMTP server of MILLRACE_SMTP_URL. */
const email = (raw: Raw, { name, kind, to, at }: Spec<'email'>): Receiver => {
  const [smtp, from] = readAll([() => smtpOf(raw, at), () => fromOf(raw, at)])
  return {
    ...{ name, kind, ...people },
    send: async ({ alarm, first, id, warehouseId, isTest = false }) => {
      const transport = await transportTo(new URL(smtp.reveal()))
      try {
        const words = wordsOf(alarm, first)
        const { rejected, rejectedErrors = [] } = await transport.sendMail({
          from: { name: 'Millrace', address: from },
          to: [...to],
          subject: redact(`[millrace] ${words.headline}`).replaceAll(/\s+/g, ' ').slice(0, longestSubject),
          text: redact(`${plainText(words)}\n`),
          messageId: `<${warehouseId}-${id}@${from.slice(from.indexOf('@') + 1)}>`,
          // RFC 3834: stops automatic replies such as out-of-office notes.
          headers: { 'Auto-Submitted': 'auto-generated' },
        })
        const forGood = rejectedErrors.filter(({ responseCode = 0 }) => responseCode >= 500)
        // Other addresses have the message and would get every repetition. So addresses refused for good (5xx) are not tried again.
        const isTaken = rejected.length === 0 || (!isTest && forGood.length === rejected.length)
        return isTaken ? null : `the server refuses ${rejected.length} of ${to.length} addresses`
      } finally {
        transport.close()
      }
    },
  }
}

const transportTo = async (url: URL) => {
  // Imported here, so that only processes that send e-mail load it.
  const { createTransport } = await import('nodemailer')
  return createTransport({
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (url.protocol === 'smtps:' ? 465 : 587),
    secure: url.protocol === 'smtps:',
    // The password must not go over an unencrypted connection.
    requireTLS: url.protocol === 'smtp:' && !isLoopback(url.hostname),
    ...(url.username === '' ? {} : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
    ...{ connectionTimeout: sendMs, greetingTimeout: sendMs, socketTimeout: sendMs },
  })
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

const keyOf = (raw: Raw, name: string, at: string): Secret => {
  const text = namedSecret(raw, name)?.trim()
  if (!text) throw settingError(`${at}: ${name} is not set; put the key there, or into the file ${name}_FILE names.`)
  return secret(name, text)
}

/** Reads an address. Never shows its text: knowing it may be enough to write to the channel. @param words the message where it is wrong */
const addressOf = (text: string, isRight: (url: URL) => boolean, words: string): URL => {
  const url = URL.parse(text)
  if (url === null || !isRight(url)) throw settingError(words)
  return url
}

const address = (raw: Raw, name: string, at: string): Secret => {
  const held = keyOf(raw, name, at)
  const words = `${name} is no https address; it holds what may write to the channel, so it is not shown.`
  const { pathname } = addressOf(held.reveal(), isEncryptedOrLocal, words)
  // The path is a secret of its own, because a server's error may quote only the path.
  if (pathname.length > 8) secret(name, pathname)
  return held
}

const pagerdutyUrl = (raw: Raw): string =>
  addressOf(
    raw[pagerdutyAddressName] || pagerdutyAddress,
    isEncryptedOrLocal,
    `${pagerdutyAddressName} is no https address such as ${pagerdutyAddress}.`,
  ).href

const smtpOf = (raw: Raw, at: string): Secret => {
  const held = keyOf(raw, smtpName, at)
  const isSmtp = ({ protocol, hostname }: URL): boolean => /^smtps?:$/.test(protocol) && hostname !== ''
  const words = `${smtpName} is no address such as smtps://user:password@mail.example.com:465 (not shown).`
  hidePassword(smtpName, addressOf(held.reveal(), isSmtp, words).href)
  return held
}

const fromOf = (raw: Raw, at: string): string => {
  const text = raw[fromName] ?? ''
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(text))
    throw settingError(
      `${at}: ${fromName} is ${text === '' ? 'not set' : `'${text}'`}, expected the address e-mail comes from, such as millrace@example.com.`,
    )
  return text
}

const longestLine = 1_500
/** Most pipelines that a message names one by one. */
const mostLines = 20

/** A message in no channel's form yet: a line such as `Error: 200 units in 3 pipelines failed`, and paragraphs, each with a title and lines. */
const wordsOf = ({ event, causes }: Alarm, first: AlarmCause) => {
  const headline =
    causes.length === 1
      ? first.message
      : `${capital(first.kind)} in ${causes.length} places: ${unique(causes.map(({ pipeline, message }) => pipeline ?? message)).join(', ')}`
  if (event === 'resolved')
    return {
      headline: `Over (${first.kind}): ${cut(headline)}`,
      parts: [{ title: 'It lasted', lines: listed(causes.map((one) => `${nameOf(one, causes)}${lastedOf(one)}`)) }],
    }
  const parts = [
    ...(causes.length === 1 ? [] : [{ title: 'What is wrong', lines: listed(causes.map(({ message }) => message)) }]),
    {
      title: 'What changed',
      lines: listed(unique(causes.map(({ changed, raisedAt }) => `${changed ?? ''} First seen ${minute(raisedAt)}.`.trim()))),
    },
    { title: 'What to do', lines: listed(unique(causes.flatMap(({ nextStep }) => nextStep ?? []))) },
  ]
  return {
    headline: `${capital(first.severity)} (${first.kind}): ${cut(headline)}`,
    parts: parts.filter(({ lines }) => lines.length > 0),
  }
}

/** For e-mail, standard error and channels without a form of their own. */
const plainText = ({ headline, parts }: ReturnType<typeof wordsOf>): string =>
  [headline, ...parts.map(({ title, lines }) => [`${title}:`, ...lines].join('\n'))].join('\n\n')

const capital = (text: string): string => `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}`

const cut = (text: string): string => (text.length > longestLine ? `${text.slice(0, longestLine)} ...` : text)

const listed = (lines: readonly string[]): string[] => {
  const shown = lines.slice(0, mostLines).map(cut)
  return lines.length > mostLines ? [...shown, `and ${lines.length - mostLines} more.`] : shown
}

const unique = (lines: readonly string[]): string[] => [...new Set(lines)]

const nameOf = ({ pipeline }: AlarmCause, told: readonly AlarmCause[]): string =>
  told.length > 1 && pipeline !== null ? `${pipeline}: ` : ''

const lastedOf = ({ raisedAt, resolvedAt }: AlarmCause): string => {
  const from = minute(raisedAt)
  if (resolvedAt === null) return `from ${from}.`
  const minutes = Math.max(1, Math.round((Date.parse(resolvedAt) - Date.parse(raisedAt)) / 60_000))
  const span =
    minutes < 120 ? `${minutes} min` : minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1_440)} days`
  return `${span}, from ${from} to ${minute(resolvedAt)}.`
}

const minute = (iso: string): string => `${new Date(iso).toISOString().slice(0, 16).replace('T', ' ')} UTC`
