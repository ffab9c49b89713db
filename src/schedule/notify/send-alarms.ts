// Sends alarms: one message when a cause begins and one when it ends, to the receivers that the routes name, outside of quiet hours; test messages, by which a
// person sees that a receiver works; and pings for a dead man’s switch, a service elsewhere that raises an alarm when no ping comes after a night.
import { docPage } from '../../core/shipped.ts'
import type { QuietHours, Route, Weekday } from '../../core/alarm-routes.ts'
import { type Cause, type Severity, severityOf } from '../../core/alarm.ts'
import type { Settings } from '../../core/env.ts'
import { messageOf, settingError, usageError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { redact, secret } from '../../core/redact.ts'
import { Temporal } from '../../core/temporal.ts'
import { deliverDue, type Transport, settleInterrupted, syncNotifications, type Alarm } from '../../ledger/deliveries.ts'
import { endLease, takeLease } from '../../ledger/processes.ts'
import type { Runtime } from '../../run/runtime.ts'
import { causes } from './alarm-causes.ts'
import { type Alarming, alarmingOf, sendMessage } from './receivers.ts'

/** Only the process with this lease sends; another takes over once it is dead. Longer than a mail to eighty addresses that all answer just before the timeout. */
const leaseName = 'alarms are sent'
const leaseSeconds = 15 * 60
/** Another process may release the lease soon, or be dead, which is noticed after at most 24 seconds. */
const waitForLeaseMs = 28_000
const askAgainMs = 250

/** Reads the causes, then sends due messages. A receiver that does not answer is tried again later; no error here fails a run. */
export const notify = async (runtime: Runtime): Promise<void> => {
  const alarming = alarmingOf(runtime)
  if (alarming.receivers.length === 0) return
  try {
    await raise(runtime, alarming)
    await inTurn(runtime.database.kysely, () => sendDue(runtime, alarming))
  } catch (error) {
    runtime.log.warn({ error: messageOf(error) }, 'notifications wait for the next check')
  }
}

const raise = async (runtime: Runtime, { receivers, routes }: Alarming): Promise<void> => {
  const { definitions } = runtime
  const tagsOf: TagsOf = (pipeline) => definitions.find((one) => one.pipeline === pipeline)?.tags ?? {}
  const known = receivers.map(({ name }) => name)
  // A process with some of the pipelines cannot judge ticks and budgets of the others.
  const judged = runtime.hasAllPipelines ? null : definitions.map(({ pipeline }) => pipeline)
  const wrong = await causes(runtime)
  await syncNotifications(runtime.database.kysely, wrong, (cause) => receiversOf(routes, cause, tagsOf), known, judged)
}

type Ledger = Runtime['database']['kysely']

const lines = new WeakMap<Ledger, Promise<unknown>>()

/** Sends one after another within this process, because the lease belongs to the process as a whole. */
const inTurn = async (db: Ledger, work: () => Promise<void>): Promise<void> => {
  const mine = (lines.get(db) ?? Promise.resolve()).then(work)
  lines.set(
    db,
    mine.catch(() => undefined),
  )
  await mine
}

const sendDue = async (runtime: Runtime, alarming: Alarming): Promise<void> => {
  const { kysely } = runtime.database
  if (!(await leased(runtime))) return
  try {
    await settleInterrupted(kysely, alarming.receivers)
    const isStillOurs = () => takeLease(kysely, leaseName, runtime.process, leaseSeconds)
    await deliverDue(kysely, alarming.receivers, transportOf(runtime, alarming), isStillOurs)
  } finally {
    await endLease(kysely, leaseName, runtime.process)
  }
}

const leased = async ({ database, process, clock }: Runtime): Promise<boolean> => {
  const untilMs = performance.now() + waitForLeaseMs
  for (;;) {
    if (await takeLease(database.kysely, leaseName, process, leaseSeconds)) return true
    if (performance.now() > untilMs) return false
    await clock.sleep(askAgainMs)
  }
}

const transportOf = ({ warehouse, clock }: Runtime, { receivers, quietHours }: Alarming): Transport => ({
  waitMs: (_, severity) => quietForMs(quietHours, severity, clock.now()),
  send: async (alarm) => {
    const receiver = receivers.find(({ name }) => name === alarm.target)
    if (receiver === undefined) return 'the receiver is not set any more'
    return sendMessage(receiver, alarm, { warehouseId: warehouse.id, nowMs: clock.now() })
  },
})

/** Sends a test to each receiver that a route names; where it opens an incident, also the message that closes it. @param names which receivers; empty: all. `problem` null: accepted. Throws USAGE, CONFIGURATION. */
export const testReceivers = async (runtime: Runtime, names: readonly string[]) => {
  const { receivers, routes } = alarmingOf(runtime)
  const known = receivers.map(({ name }) => name)
  if (known.length === 0)
    throw settingError(
      `No receiver is configured: set MILLRACE_NOTIFY_SLACK or another receiver, or write notify.yaml (${docPage('alarms.md')}).`,
    )
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw usageError(`There is no receiver '${unknown}'; there are ${known.join(', ')}.`)
  const nowMs = runtime.clock.now()
  const sender = { warehouseId: `test-${nowMs}`, nowMs, isTest: true }
  const tested = []
  for (const receiver of receivers.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const { name, kind, opens } = receiver
    const isReached = routes.some(({ to }) => to.includes(name))
    let problem = isReached ? null : 'no route of notify.yaml names it, so no alarm is sent to it'
    for (const event of opens ? (['raised', 'resolved'] as const) : (['raised'] as const))
      problem ??= await sendMessage(receiver, testMessage(name, event, nowMs), sender)
    tested.push({ receiver: name, kind, problem })
  }
  return tested
}

const testMessage = (target: string, event: Alarm['event'], nowMs: number): Alarm => {
  const raisedAt = new Date(nowMs).toISOString()
  const resolvedAt = event === 'resolved' ? raisedAt : null
  const cause = { notificationId: 0, kind: 'test', severity: 'info', pipeline: null, raisedAt, resolvedAt } as const
  const message = `A test by \`millrace notify test\`: alarms reach ${target}.`
  return { target, event, causes: [{ ...cause, message, changed: 'Nothing is wrong.', nextStep: 'Nothing.' }] }
}

/** Tags of a pipeline's definition; none where it has none. */
type TagsOf = (pipeline: string) => Readonly<Record<string, string>>

/** Names of the receivers, each once, in the order of the routes. */
export const receiversOf = (routes: readonly Route[], cause: Cause, tagsOf: TagsOf): readonly string[] => [
  ...new Set(routes.filter((route) => matches(route, cause, tagsOf)).flatMap(({ to }) => to)),
]

/** A cause without a pipeline matches no route that names pipelines or tags. */
const matches = ({ kinds, severities, pipelines, tags }: Route, cause: Cause, tagsOf: TagsOf): boolean => {
  const { kind, pipeline } = cause
  if (kinds !== null && !kinds.includes(kind)) return false
  if (severities !== null && !severities.includes(severityOf(cause))) return false
  if (pipelines !== null && (pipeline === null || !pipelines.includes(pipeline))) return false
  const own = pipeline === null ? {} : tagsOf(pipeline)
  return Object.entries(tags).every(([name, value]) => own[name] === value)
}

/** How many days ahead the end of quiet hours is searched; quiet hours that never end count as none. */
const mostDays = 8

/** Milliseconds until a message of this severity may be sent; 0: now. @param nowMs since the epoch */
export const quietForMs = (quiet: QuietHours | null, severity: Severity, nowMs: number): number => {
  if (quiet === null || quiet.but.includes(severity)) return 0
  let at = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(quiet.timeZone)
  const end = at.add({ days: mostDays })
  while (Temporal.ZonedDateTime.compare(at, end) < 0) {
    const next = quietUntil(quiet, at)
    if (next === null) return Math.max(0, at.epochMilliseconds - nowMs)
    at = next
  }
  return 0
}

/** When the quiet period that contains `at` ends; null: `at` is not in one. */
const quietUntil = ({ hours, days }: QuietHours, at: Temporal.ZonedDateTime): Temporal.ZonedDateTime | null => {
  const midnight = at.startOfDay()
  if (days.includes(at.dayOfWeek as Weekday)) return midnight.add({ days: 1 })
  if (hours === null || hours.from === hours.to) return null
  const minute = at.hour * 60 + at.minute
  const endOn = (day: Temporal.ZonedDateTime): Temporal.ZonedDateTime =>
    day.withPlainTime({ hour: Math.floor(hours.to / 60), minute: hours.to % 60 })
  if (hours.from < hours.to) return minute >= hours.from && minute < hours.to ? endOn(midnight) : null
  if (minute >= hours.from) return endOn(midnight.add({ days: 1 }))
  return minute < hours.to ? endOn(midnight) : null
}

const pingName = 'MILLRACE_PING_URL'
const pingMs = 10_000
const tries = 3

/** Pings the watchdog about a night. Never throws: an unreachable watchdog must not end a run. */
export type Ping = (what: 'start' | 'success' | 'fail') => Promise<void>

/** Pings URL/start, URL and URL/fail, as Healthchecks expects. A failed ping is only logged. */
export const createPing = ({ raw }: Settings, log: Log): Ping => {
  const text = raw[pingName]
  if (text === undefined || text === '') return async () => undefined
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? ''))
    throw settingError(`${pingName} is no address such as https://hc.example.com/ping/ID.`)
  const base = secret(pingName, text)
  return async (what) => {
    const url = new URL(base.reveal())
    if (what !== 'success') url.pathname = `${url.pathname.replace(/\/$/, '')}/${what}`
    for (let attempt = 1; attempt <= tries; attempt += 1) {
      try {
        const answer = await fetch(url, { signal: AbortSignal.timeout(pingMs) })
        await answer.body?.cancel()
        if (answer.ok) return
        log.warn({ status: answer.status, attempt }, 'ping refused')
      } catch (error) {
        log.warn({ error: redact(messageOf(error)), attempt }, 'ping lost')
      }
    }
  }
}
