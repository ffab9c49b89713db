// Tells people: what is wrong, once when it begins and once when it ends, to those whom the routes name; and a message by which a person sees that a receiver
// is set up.
import type { AlarmRoutes } from '../../core/alarm-routes.ts'
import type { Settings } from '../../core/env.ts'
import { EtlError, messageOf } from '../../core/errors.ts'
import {
  deliverDue,
  type Sending,
  settleLeftBehind,
  syncNotifications,
  type TargetsOf,
  type Telling,
} from '../../ledger/deliveries.ts'
import { endLease, takeLease } from '../../ledger/processes.ts'
import type { Runtime } from '../../run/runtime.ts'
import { causes } from './alarm-causes.ts'
import { quietForMs, receiversOf, type TagsOf } from './alarm-routing.ts'
import { type Alarming, alarmingOf, tell } from './receivers.ts'

/** One process sends at a time; whoever dies is followed by another after that. Longer than a message takes. */
const leaseName = 'alarms are sent'
const leaseSeconds = 60
/** Another process may be about to let go, or is dead: that is known after 20 seconds at most. */
const waitForLeaseMs = 25_000
const askAgainMs = 250

/** Throws CONFIGURATION where a receiver is wrong: before the first night, not in it. */
export const checkAlarming = ({ settings, routes }: { readonly settings: Settings; readonly routes: AlarmRoutes | null }): void =>
  void alarmingOf(settings, routes)

/** Reads what is wrong, then sends what is due. A receiver that does not answer is tried again later; nothing here fails a run. */
export const notify = async (runtime: Runtime): Promise<void> => {
  const alarming = alarmingOf(runtime.settings, runtime.routes)
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
  // A run of some pipelines can judge no other's time and budget.
  const judged = runtime.hasAllPipelines ? null : definitions.map(({ pipeline }) => pipeline)
  const targetsOf: TargetsOf = (cause) => receiversOf(routes, cause, tagsOf)
  await syncNotifications(runtime.database.kysely, await causes(runtime), targetsOf, known, judged)
}

type Ledger = Runtime['database']['kysely']

const lines = new WeakMap<Ledger, Promise<unknown>>()

/** The lease is the process's: within it one sends after the other. */
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
    await settleLeftBehind(kysely, alarming.receivers)
    const isStillOurs = () => takeLease(kysely, leaseName, runtime.process, leaseSeconds)
    await deliverDue(kysely, alarming.receivers, sendingOf(runtime, alarming), isStillOurs)
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

const sendingOf = ({ warehouse, clock }: Runtime, { receivers, quietHours }: Alarming): Sending => ({
  waitMs: (_, severity) => quietForMs(quietHours, severity, clock.now()),
  send: async (telling) => {
    const receiver = receivers.find(({ name }) => name === telling.target)
    if (receiver === undefined) return 'the receiver is not set any more'
    return tell(receiver, telling, { warehouseId: warehouse.id, nowMs: clock.now() })
  },
})

/** Raised and over: what a receiver opens for the one it closes for the other. @param names which receivers; empty: all. `problem` null: it took the message. Throws USAGE, CONFIGURATION. */
export const testReceivers = async (runtime: Runtime, names: readonly string[]) => {
  const { receivers } = alarmingOf(runtime.settings, runtime.routes)
  const known = receivers.map(({ name }) => name)
  if (known.length === 0)
    throw new EtlError(
      'CONFIGURATION',
      'No receiver is configured: set MILLRACE_NOTIFY_SLACK or another receiver, or write notify.yaml (docs/alarms.md).',
    )
  const unknown = names.find((name) => !known.includes(name))
  if (unknown !== undefined) throw new EtlError('USAGE', `There is no receiver '${unknown}'; there are ${known.join(', ')}.`)
  const nowMs = runtime.clock.now()
  const tested = []
  for (const receiver of receivers.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const sender = { warehouseId: `test-${nowMs}`, nowMs }
    const raised = await tell(receiver, testTelling(receiver.name, 'raised', nowMs), sender)
    const over =
      raised === null && receiver.opens ? await tell(receiver, testTelling(receiver.name, 'resolved', nowMs), sender) : null
    tested.push({ receiver: receiver.name, kind: receiver.kind, problem: raised ?? over })
  }
  return tested
}

const testTelling = (target: string, event: Telling['event'], nowMs: number): Telling => {
  const at = new Date(nowMs).toISOString()
  return {
    target,
    event,
    told: [
      {
        notificationId: 0,
        kind: 'test',
        severity: 'info',
        pipeline: null,
        message: `A test by \`millrace notify test\`: alarms reach ${target}.`,
        changed: 'Nothing is wrong.',
        nextStep: 'Nothing.',
        raisedAt: at,
        resolvedAt: event === 'resolved' ? at : null,
      },
    ],
  }
}
