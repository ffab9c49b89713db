// Prices of answers: the kinds of price seen at the service (facts 42 to 47), each with what it counts.
import { z } from 'zod'

export interface Priced {
  /** Most rows that the request allows. */
  readonly rowsAsked: number
  readonly rows: number
  readonly metrics: number
  /** Windows times domains times countries (or whatever else the table is filtered by). */
  readonly periods: number
}

/** What a price counts. `request`: flat. `revealed`: a credit for each metric value and one for each row (fact 47). */
const counted = {
  request: () => 1,
  'rows-asked': ({ rowsAsked }) => rowsAsked,
  'rows-returned': ({ rows }) => rows,
  'rows-by-metrics': ({ rows, metrics }) => rows * (metrics + 1),
  'metric-periods': ({ metrics, periods }) => metrics * periods,
  periods: ({ periods }) => periods,
  revealed: ({ rows, metrics }) => rows * metrics + rows,
} satisfies Readonly<Record<string, (size: Priced) => number>>

type Base = keyof typeof counted
export const priceBases = Object.keys(counted) as [Base, ...Base[]]

export const priceSchema = z.strictObject({
  by: z.enum(priceBases),
  /** Credits for each of what is counted. Default 1. */
  credits: z.number().positive().optional(),
  /** The least an answer with rows costs. Default 0. */
  minimum: z.number().nonnegative().optional(),
  /** Rounding to whole credits: up (default), nearest, or none. */
  rounding: z.enum(['up', 'nearest', 'none']).optional(),
})
export type Price = z.infer<typeof priceSchema>

const rounded = { up: Math.ceil, nearest: Math.round, none: (value: number): number => value }

/** Credits for the answer; nothing for an answer without rows (fact 11). */
export const chargeFor = ({ by, credits = 1, minimum = 0, rounding = 'up' }: Price, size: Priced): number =>
  size.rows === 0 ? 0 : rounded[rounding](Math.max(minimum, Number((counted[by](size) * credits).toFixed(6))))
