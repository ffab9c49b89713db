// What a plan offers beside what is due: where the service has changed its method, to load the months before again, a few cells first. It buys nothing.
import { formatOnly } from '../core/only.ts'
import type { Definition } from '../core/types.ts'
import { addWindows, lastDay } from '../core/window.ts'
import type { BreakLine } from '../ledger/breaks.ts'

/** A command that buys, with its price. */
export interface Offer {
  readonly command: string
  readonly units: number
  /** null: unknown. */
  readonly credits: number | null
}

/** How many values of the first dimension are sampled; of other dimensions the first value only. */
const mostSampled = 3

/** Commands for the months before a break, which are loaded by the former method. @param perUnit credits; null: unknown */
export const offerOlder = (
  definition: Definition,
  { startsOn, seenBackTo, columns, change, oldest, last, olderUnits, olderWindows }: BreakLine,
  perUnit: number | null,
) => {
  if (oldest === null || last === null) return null
  const { every } = definition.window
  // The months of weeks and days would hold others, too, whose price is not named.
  const [from = '', to = ''] = [oldest, lastDay({ from: last, to: addWindows(last, every, 1) })].map((day) =>
    every === 'month' ? day.slice(0, 7) : day,
  )
  const range = `millrace backfill ${definition.pipeline} --from ${from} --to ${to} --force`
  const [first, ...others] = definition.dimensions
  const some =
    first === undefined ? [] : first.values.slice(0, Math.min(mostSampled, Math.max(1, Math.floor(first.values.length / 100))))
  const only = formatOnly([
    ...(first === undefined ? [] : [{ name: first.name, values: some }]),
    ...others.map(({ name, values }) => ({ name, values: values.slice(0, 1) })),
  ])
  const offer = (command: string, units: number): Offer => ({
    command,
    units,
    credits: perUnit === null ? null : Math.ceil(perUnit * units),
  })
  return {
    startsOn,
    seenBackTo,
    column: columns[0] ?? '',
    change,
    ...{ from, to },
    /** One value in a hundred, from one to three: it shows how far back the change goes. */
    sample: offer(
      only === '' ? range : `${range} --only '${only.replaceAll("'", "'\\''")}'`,
      Number(olderWindows) * Math.max(1, some.length),
    ),
    all: offer(range, Number(olderUnits)),
  }
}
