// Tells people: what is wrong, once when it begins and once when it ends, to those whom the routes name.
import type { Settings } from '../../core/env.ts'
import { messageOf } from '../../core/errors.ts'
import type { AlarmRoutes } from '../../core/alarm-routes.ts'
import { deliverDue, type Sending, settleLeftBehind, syncNotifications, type TargetsOf } from '../../ledger/deliveries.ts'
import { endLease, takeLease } from '../../ledger/processes.ts'
import type { Runtime } from '../../run/runtime.ts'
import { causes } from './alarm-causes.ts'
import { tell } from './channels.ts'
import { type Alarming, alarmingOf } from './receivers.ts'
import { quietForMs, receiversOf, type TagsOf } from './alarm-routing.ts'

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
