// A message by which a person sees that a receiver is set up: it says so, and nothing of it is kept.
import { EtlError } from '../../core/errors.ts'
import type { Telling } from '../../ledger/deliveries.ts'
import type { Runtime } from '../../run/runtime.ts'
import { tell } from './channels.ts'
import { alarmingOf } from './receivers.ts'

export interface Tested {
  readonly receiver: string
  readonly kind: string
  /** null: it took the message. */
  readonly problem: string | null
}

/** Raised and over: what a receiver opens for the one it closes for the other. @param names which receivers; empty: all. Throws USAGE, CONFIGURATION. */
export const testReceivers = async (runtime: Runtime, names: readonly string[]): Promise<readonly Tested[]> => {
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
  const tested: Tested[] = []
  for (const receiver of receivers.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const sender = { warehouseId: `test-${nowMs}`, nowMs }
    const raised = await tell(receiver, testTelling(receiver.name, 'raised', nowMs), sender)
    const over =
      raised === null && receiver.kind === 'pagerduty'
        ? await tell(receiver, testTelling(receiver.name, 'resolved', nowMs), sender)
        : null
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
