// Who gets which alarms, from notify.yaml: receivers, routes, quiet hours. Addresses and keys come from the environment, never from this file.
import { z } from 'zod'
import { type AlarmKind, alarmKinds, severities } from './alarm.ts'

const weekdays = ['monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'] as const
/** Monday is 1. */
export type Weekday = 1 | 2 | 3 | 4 | 5 | 6 | 7

const kinds = Object.keys(alarmKinds) as [AlarmKind, ...AlarmKind[]]

/** Reads a single item as a list of one. */
const oneOrMore = <T extends z.ZodType>(item: T) =>
  z.preprocess((value) => (Array.isArray(value) ? value : [value]), z.array(item).min(1, 'at least one').readonly())
const name = z.string().regex(/^[a-z][a-z0-9_-]{0,40}$/, 'a name of lower-case letters, digits, _ and -')
const variable = z.string().regex(/^[A-Z][A-Z0-9_]*$/, 'the name of a variable of the environment, such as SLACK_DATA_TEAM')
/** Minutes since midnight. */
const time = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'a time such as "22:00"')
  .transform((text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3)))
const day = z.enum(weekdays).transform((one) => (weekdays.indexOf(one) + 1) as Weekday)
const zone = z.string().refine((text) => {
  try {
    return Intl.DateTimeFormat(undefined, { timeZone: text }) !== null
  } catch {
    return false
  }
}, 'a time zone such as Europe/Berlin')

const forms = {
  slack: z.strictObject({ slack: variable }).transform(({ slack }) => ({ kind: 'slack' as const, variable: slack })),
  webhook: z
    .strictObject({ webhook: variable, key: variable.optional() })
    .transform(({ webhook, key }) => ({ kind: 'webhook' as const, variable: webhook, key: key ?? null })),
  pagerduty: z
    .strictObject({ pagerduty: variable })
    .transform(({ pagerduty }) => ({ kind: 'pagerduty' as const, variable: pagerduty })),
  email: z
    .strictObject({ email: oneOrMore(z.email('an e-mail address')) })
    .transform(({ email }) => ({ kind: 'email' as const, to: email })),
}
const receiver = z.union(Object.values(forms))
/** Settings of the environment can make one receiver of each kind without the file; its name is its kind. */
export const receiverKinds: readonly string[] = Object.keys(forms)

const route = z
  .strictObject({
    to: oneOrMore(name),
    kind: oneOrMore(z.enum(kinds)).optional(),
    severity: oneOrMore(z.enum(severities)).optional(),
    pipeline: oneOrMore(z.string().min(1)).optional(),
    tags: z.record(z.string(), z.string()).optional(),
  })
  .transform(({ to, kind = null, severity = null, pipeline = null, tags = {} }) => ({
    ...{ to, kinds: kind, severities: severity, pipelines: pipeline, tags },
  }))

const quietHours = z
  .strictObject({
    from: time.optional(),
    to: time.optional(),
    days: oneOrMore(day).default([]),
    time_zone: zone,
    but: oneOrMore(z.enum(severities)).default(['critical']),
  })
  .transform(({ from, to, days, time_zone: timeZone, but }) => ({
    hours: from === undefined || to === undefined ? null : { from, to },
    ...{ days, timeZone, but },
  }))

export const notifySchema = z.strictObject({
  receivers: z.record(name, receiver).default({}),
  quiet_hours: quietHours.optional(),
  routes: z.array(route).min(1, 'at least one route: { to: [slack] } tells everything'),
})

/** From one time of the day to another, also over midnight, and whole days. `hours` null: only days. `but`: alarms that are sent all the same. */
export type QuietHours = Readonly<z.infer<typeof quietHours>>

/** Its place in the file, for messages: `notify.yaml:4:11`. */
interface Written {
  readonly at: string
}

/** `variable`: the setting that holds the address. `key`: the setting that holds the signing key; null: messages are not signed. */
export type ReceiverSpec = Written & { readonly name: string } & Readonly<z.infer<typeof receiver>>

/** A null field matches everything; a pipeline must have every tag that the route names. All matching routes apply; a receiver gets an alarm once. */
export type Route = Written & Readonly<z.infer<typeof route>>

export interface AlarmRoutes {
  readonly receivers: readonly ReceiverSpec[]
  readonly routes: readonly Route[]
  /** null: none. */
  readonly quietHours: QuietHours | null
}
