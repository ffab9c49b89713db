// The texts of a tile over a comparison (bi.*_comparison): the newest figure, and its change over rows that have the measure in both months. The one place that says what may be compared.
import { z } from 'zod'

/** What a tile compares: columns of the view that have a twin `X_before`, or sums and differences of such; and `over` which column's values it says how many are compared. */
export const comparedSchema = z.strictObject({
  of: z.string().regex(/^[a-z_][a-z0-9_]*( [+-] [a-z_][a-z0-9_]*)*$/, 'columns of the view, added or subtracted'),
  per: z
    .string()
    .regex(/^[a-z_][a-z0-9_]*( [+-] [a-z_][a-z0-9_]*)*$/, 'columns of the view, added or subtracted')
    .optional(),
  over: z.string().regex(/^[a-z_][a-z0-9_]*$/, 'a column of the view'),
  as: z.enum(['count', 'money', 'decimal', 'share']).default('count'),
  digits: z.int().min(0).max(4).default(1),
})

/** A share changes by percentage points, everything else by per cent. */
export type Compared = z.output<typeof comparedSchema>

const before = (expression: string): string => expression.replaceAll(/[a-z_][a-z0-9_]*/g, '$&_before')
const known = (...expressions: readonly string[]): string => expressions.map((one) => `(${one}) is not null`).join(' and ')

/** Measures in their order, by label. */
export const comparedMeasures = ({ of, per, over, as, digits }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const figure = (spell: (expression: string) => string, back: number, where: string): string => {
    const [above = '', below] = parts.map((one) => `sum(${spell(one)}) filter (where months_back = ${back} and ${where})`)
    return below === undefined ? above : `${above} / nullif(${below}, 0)`
  }
  const value = figure((one) => one, 1, known(...parts))
  const written = {
    count: `to_char(${value}, 'FM999,999,999,999')`,
    money: `'$' || to_char(${value}, 'FM999,999,999,999')`,
    decimal: `to_char(${value}, 'FM990.00')`,
    share: `to_char(100 * ${value}, 'FM990.${'0'.repeat(digits)}') || ' %'`,
  }[as]
  const change = (back: number, than: string): string => {
    const [now, then] = [figure((one) => one, back, both), figure(before, back, both)]
    const text =
      as === 'share'
        ? `to_char(100 * (${now} - ${then}), 'FMSG990.${'0'.repeat(digits)}') || ' percentage points on ${than}'`
        : `to_char(100 * ((${now}) / nullif(${then}, 0) - 1), 'FMSG99990.0') || ' % on ${than}'`
    return `coalesce(${text}, 'nothing to compare with ${than}')`
  }
  const rows = (where: string): string => `count(*) filter (where months_back = 1 and loaded_in = '${where}')`
  return {
    Value: written,
    Month: "to_char(max(month), 'FMMonth YYYY')",
    Before: change(1, 'the month before'),
    Year: change(12, 'the same month last year'),
    Compared:
      `count(distinct ${over}) filter (where months_back = 1 and ${both}) || ' of ' || count(distinct ${over}) || ' ${over}s compared' || ` +
      `case when ${rows('before')} + ${rows('now')} > 0 then '; rows only before: ' || ${rows('before')} || ', only now: ' || ${rows('now')} else '' end`,
  }
}
