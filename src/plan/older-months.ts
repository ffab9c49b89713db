// What a plan offers beside what is due: where the service counts by another method the months before it anew, a few cells of them first; and a higher limit where answers were cut. It buys nothing.
import type { Definition, IsoDate } from '../core/types.ts'
import { addWindows, lastDay } from '../core/window.ts'
import type { BreakLine } from '../ledger/breaks.ts'

/** A command that buys, with its price. */
export interface Offer {
  readonly command: string
  readonly units: number
  /** null: unknown. */
  readonly credits: number | null
}

/** Units whose answers were cut, with twice the limit. @param limit rows of each combination @param perUnit credits; null: nobody knows */
export const offerHigher = (
  { pipeline, window }: Definition,
  capped: { readonly units: string; readonly from: IsoDate; readonly last: IsoDate } | undefined,
  limit: number | undefined,
  perUnit: number | null,
) => {
  if (capped === undefined || limit === undefined) return null
  const units = Number(capped.units)
  const to = lastDay({ from: capped.last, to: addWindows(capped.last, window.every, 1) })
  return {
    command: `millrace backfill ${pipeline} --from ${capped.from.slice(0, 7)} --to ${to.slice(0, 7)} --force`,
    ...{ units, limit, higher: 2 * limit },
    /** As much as now where the service counts no rows, twice as much where it does; null: nobody knows. */
    credits: perUnit === null ? null : { low: Math.ceil(perUnit * units), high: Math.ceil(2 * perUnit * units) },
  }
}

/** Values of the first dimension; of others the first value. */
const mostSampled = 3

/** Values that `--only` can name, where there are any. */
const nameable = (values: readonly string[]): readonly string[] => {
  const left = values.filter((value) => !/[,;=]/.test(value))
  return left.length > 0 ? left : values
}

/** Months before a break, which are loaded as the former method has them. @param perUnit credits; null: unknown */
export const offerOlder = (
  definition: Definition,
  { startsOn, seenBackTo, columns, change, oldest, last, olderUnits, olderWindows }: BreakLine,
  perUnit: number | null,
) => {
  if (oldest === null || last === null) return null
  const [from, to] = [oldest.slice(0, 7), lastDay({ from: last, to: addWindows(last, definition.window.every, 1) }).slice(0, 7)]
  const range = `millrace backfill ${definition.pipeline} --from ${from} --to ${to} --force`
  const [first, ...others] = definition.dimensions.map(({ name, values }) => ({ name, values: nameable(values) }))
  const some =
    first === undefined ? [] : first.values.slice(0, Math.min(mostSampled, Math.max(1, Math.floor(first.values.length / 100))))
  const only = [
    ...(first === undefined ? [] : [`${first.name}=${some.join(',')}`]),
    ...others.map(({ name, values }) => `${name}=${values[0] ?? ''}`),
  ].join(';')
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
    /** One value in a hundred, one at least: how far back the change goes. */
    sample: offer(
      only === '' ? range : `${range} --only '${only.replaceAll("'", "'\\''")}'`,
      Number(olderWindows) * Math.max(1, some.length),
    ),
    all: offer(range, Number(olderUnits)),
  }
}
