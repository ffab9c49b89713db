// Asks the service what is left of an account before and after requests that are paid for one by one, so that every credit is counted by its own books.
import { messageOf } from '../core/errors.ts'
import { apiNameOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { stopsWith } from '../db/stoppable.ts'
import { countedOf, hasReading, keepReading } from '../ledger/meter.ts'
import { dropBalancePrices } from '../ledger/prices.ts'
import { accountsOf } from './apis.ts'
import { forgetPrices, readBalance } from './first-bill.ts'
import type { Runtime } from './runtime.ts'

/** The questions are free, and the night does not wait for them; nor does a command that is told to stop, whoever locks the ledger. */
const meterMs = 10_000

/** Before the first such requests of a month: what they are compared with. */
export const readMetersBefore = (runtime: Runtime, definitions: readonly Definition[], signal: AbortSignal): Promise<void> =>
  eachMetered(runtime, definitions, signal, async (definition) => {
    const of = meterOf(definition)
    if (!(await hasReading(runtime.database.kysely, of))) await readMeter(runtime, definition, signal)
  })

/** After them. While other processes are at it nothing can be compared, and the last of them reads. */
export const readMetersAfter = (runtime: Runtime, definitions: readonly Definition[], signal: AbortSignal): Promise<void> =>
  eachMetered(runtime, definitions, signal, (definition) => readMeter(runtime, definition, signal))

const meterOf = ({ source, account, pipeline }: Definition) => ({ api: apiNameOf(source), account, pipeline })

const eachMetered = async (
  { sources, log }: Runtime,
  definitions: readonly Definition[],
  signal: AbortSignal,
  read: (definition: Definition) => Promise<void>,
): Promise<void> => {
  const metered = definitions.filter(({ source }) => sources.get(source)?.meter !== undefined)
  for (const { definitions: group } of accountsOf(metered)) {
    const [first] = group
    if (first === undefined || signal.aborted) continue
    const soon = AbortSignal.any([signal, AbortSignal.timeout(meterMs / 2)])
    await stopsWith(soon, () => read(first)).catch((error: unknown) =>
      log.info(
        { account: first.account, error: messageOf(error) },
        'the service did not say what is left; credits are counted by price',
      ),
    )
  }
}

const readMeter = async (runtime: Runtime, definition: Definition, stop: AbortSignal): Promise<void> => {
  const { database, progress } = runtime
  const of = meterOf(definition)
  const before = await countedOf(database.kysely, of)
  if (!before.isQuiet) return
  const left = await readBalance(runtime, definition, AbortSignal.any([stop, AbortSignal.timeout(meterMs)]))
  const after = await countedOf(database.kysely, of)
  if (left === null || !after.isQuiet || after.requests !== before.requests || after.reports !== before.reports) return
  const difference = await keepReading(database.kysely, of, left, after)
  if (difference === null || difference === 0) return
  // A price that only the balance told may be another one by now.
  await dropBalancePrices(database.kysely, of.account)
  forgetPrices(database)
  const message =
    difference > 0
      ? `${of.api}, account ${of.account}: the service charged ${difference} credits that are of no request on record: a price was not known or is another one now, others use the key, or a process was killed at its work.`
      : `${of.api}, account ${of.account}: the service charged ${-difference} credits less than its prices say; requests that broke off may have been free.`
  progress.emit({ event: 'notice', code: 'CREDITS_DIFFER', message: `${message} \`millrace quota\` shows them apart.` })
}
