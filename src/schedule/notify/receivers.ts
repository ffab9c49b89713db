// Receivers with their addresses and keys: those of notify.yaml and those of the environment, checked before anything is called.
import type { Settings } from '../../core/env.ts'
import { namedSecret } from '../../core/secret-settings.ts'
import { EtlError } from '../../core/errors.ts'
import { type Secret, secret } from '../../core/redact.ts'
import type { AlarmRoutes, ReceiverSpec, Route } from '../../core/alarm-routes.ts'
import type { ReceiverTraits } from '../../ledger/deliveries.ts'

const slackName = 'MILLRACE_NOTIFY_SLACK'
const webhookName = 'MILLRACE_NOTIFY_WEBHOOK'
const webhookKeyName = 'MILLRACE_NOTIFY_WEBHOOK_SECRET'
const pagerdutyName = 'MILLRACE_NOTIFY_PAGERDUTY'
const emailName = 'MILLRACE_NOTIFY_EMAIL'
const fromName = 'MILLRACE_NOTIFY_FROM'
const smtpName = 'MILLRACE_SMTP_URL'
const pagerdutyAddressName = 'MILLRACE_PAGERDUTY_URL'
const pagerdutyAddress = 'https://events.pagerduty.com/v2/enqueue'

/** Where alarms go, with its address and key. */
export type Receiver = ReceiverTraits &
  (
    | { readonly kind: 'slack'; readonly url: Secret }
    | { readonly kind: 'webhook'; readonly url: Secret; readonly key: Secret | null }
    | { readonly kind: 'pagerduty'; readonly url: string; readonly key: Secret }
    | { readonly kind: 'email'; readonly smtp: Secret; readonly from: string; readonly to: readonly string[] }
  )

/** notify.yaml together with the settings it names. */
export interface Alarming {
  readonly receivers: readonly Receiver[]
  /** Without a notify.yaml one that tells everybody everything. */
  readonly routes: readonly Route[]
  readonly quietHours: AlarmRoutes['quietHours']
}

/** Throws CONFIGURATION for what is missing or wrong, never with the secret's text. */
export const alarmingOf = ({ raw }: Settings, routes: AlarmRoutes | null): Alarming => {
  const environment = ownReceivers(raw)
  const named = (routes?.receivers ?? []).map((spec) => receiverOf(raw, spec))
  const receivers = [...named, ...environment.filter(({ name }) => !named.some((one) => one.name === name))]
  const everything = { kinds: null, severities: null, pipelines: null, tags: {}, at: 'the environment' }
  const found = routes?.routes ?? [{ ...everything, to: receivers.map(({ name }) => name) }]
  for (const { to, at } of found)
    for (const name of to)
      if (!receivers.some((one) => one.name === name))
        throw new EtlError(
          'CONFIGURATION',
          `${at}: '${name}' cannot receive messages: MILLRACE_NOTIFY_${name.toUpperCase()} is not set. Set it, or name a receiver of notify.yaml.`,
        )
  return { receivers, routes: found, quietHours: routes?.quietHours ?? null }
}

type Raw = Settings['raw']

const ownReceivers = (raw: Raw): Receiver[] => {
  const at = 'the environment'
  const email = (raw[emailName] ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
  return [
    ...(isSet(raw, slackName) ? [receiverOf(raw, { name: 'slack', at, kind: 'slack', variable: slackName })] : []),
    ...(isSet(raw, webhookName)
      ? [receiverOf(raw, { name: 'webhook', at, kind: 'webhook', variable: webhookName, key: webhookKeyName }, true)]
      : []),
    ...(isSet(raw, pagerdutyName)
      ? [receiverOf(raw, { name: 'pagerduty', at, kind: 'pagerduty', variable: pagerdutyName })]
      : []),
    ...(email.length > 0 ? [receiverOf(raw, { name: 'email', at, kind: 'email', to: email })] : []),
  ]
}

const isSet = (raw: Raw, name: string): boolean => [name, `${name}_FILE`, `${name}_COMMAND`].some((one) => raw[one])

/** @param mayBeUnsigned the key may be missing */
const receiverOf = (raw: Raw, spec: ReceiverSpec, mayBeUnsigned = false): Receiver => {
  const { name } = spec
  switch (spec.kind) {
    case 'slack':
      return { name, kind: 'slack', grouped: true, repeatable: false, url: address(raw, spec.variable, spec.at) }
    case 'webhook': {
      const url = address(raw, spec.variable, spec.at)
      const key = spec.key === null || (mayBeUnsigned && !isSet(raw, spec.key)) ? null : keyOf(raw, spec.key, spec.at)
      return { name, kind: 'webhook', grouped: false, repeatable: true, url, key }
    }
    case 'pagerduty':
      return {
        ...{ name, kind: 'pagerduty', grouped: false, repeatable: true },
        url: pagerdutyUrl(raw),
        key: keyOf(raw, spec.variable, spec.at),
      }
    case 'email':
      return {
        name,
        kind: 'email',
        grouped: true,
        repeatable: false,
        smtp: smtpOf(raw, spec.at),
        from: fromOf(raw, spec.at),
        to: spec.to,
      }
  }
}

const keyOf = (raw: Raw, name: string, at: string): Secret => {
  const text = namedSecret(raw, name)?.trim()
  if (!text)
    throw new EtlError('CONFIGURATION', `${at}: ${name} is not set; put the key there, or into the file ${name}_FILE names.`)
  return secret(name, text)
}

const isLocal = ({ hostname }: URL): boolean => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)

/** Addresses are secrets: whoever has one can write to the channel. */
const address = (raw: Raw, name: string, at: string): Secret => {
  const held = keyOf(raw, name, at)
  const url = URL.canParse(held.reveal()) ? new URL(held.reveal()) : null
  if (url === null || (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLocal(url))))
    throw new EtlError(
      'CONFIGURATION',
      `${name} is no https address; it holds what may write to the channel, so it is not shown.`,
    )
  // What a server says back may name the path alone.
  if (url.pathname.length > 8) secret(name, url.pathname)
  return held
}

const pagerdutyUrl = (raw: Raw): string => {
  const text = raw[pagerdutyAddressName] || pagerdutyAddress
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || (url.protocol !== 'https:' && !isLocal(url)))
    throw new EtlError('CONFIGURATION', `${pagerdutyAddressName} is no https address such as ${pagerdutyAddress}.`)
  return url.href
}

const smtpOf = (raw: Raw, at: string): Secret => {
  const held = keyOf(raw, smtpName, at)
  const url = URL.canParse(held.reveal()) ? new URL(held.reveal()) : null
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '')
    throw new EtlError(
      'CONFIGURATION',
      `${smtpName} is no address such as smtps://user:password@mail.example.com:465 (not shown).`,
    )
  if (url.password) secret(`${smtpName} password`, decodeURIComponent(url.password))
  return held
}

const fromOf = (raw: Raw, at: string): string => {
  const text = raw[fromName] ?? ''
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(text))
    throw new EtlError(
      'CONFIGURATION',
      `${at}: ${fromName} is '${text}', expected the address e-mail comes from, such as millrace@example.com.`,
    )
  return text
}
