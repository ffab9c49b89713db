// The file of a dashboard: charts over views of bi, and filters above them. For a comparison (bi.*_comparison) this file makes the SQL of tiles and tables:
// the newest figure, and its change over rows that have the measure in both months; in a table for each listed value and for the total.
import { z } from 'zod'

const expression = z.string().regex(/^[a-z_][a-z0-9_]*( [+-] [a-z_][a-z0-9_]*)*$/, 'columns of the view, added or subtracted')

/** What a tile compares: columns of the view that also exist as `X_before`, or sums and differences of such. `over`: the column whose compared values are counted. */
const comparedSchema = z.strictObject({
  of: expression,
  per: expression.optional(),
  over: z.string().regex(/^[a-z_][a-z0-9_]*$/, 'a column of the view'),
  as: z.enum(['count', 'money', 'decimal', 'share']).default('count'),
  digits: z.int().min(0).max(4).default(1),
})

/** The change of a share is in percentage points, any other in per cent. */
type Compared = z.infer<typeof comparedSchema>

const before = (expression: string): string => expression.replaceAll(/[a-z_][a-z0-9_]*/g, '$&_before')
const known = (...expressions: readonly string[]): string => expressions.map((one) => `(${one}) is not null`).join(' and ')

/** SQL of a tile's texts, by label, in order. */
const comparedMeasures = ({ of, per, over, as, digits }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const figure = (spell: (expression: string) => string, back: number, where: string): string =>
    figureOf(parts.map(spell), `months_back = ${back} and ${where}`)
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
        : `to_char(100 * ((${now}) / nullif(${then}, 0) - 1), 'FMSG999,999,999,990.0') || ' % on ${than}'`
    return `coalesce(${text}, 'nothing to compare with ${than}')`
  }
  return {
    Value: written,
    Month: "to_char(max(month), 'FMMonth YYYY')",
    Before: change(1, 'the month before'),
    Year: change(12, 'the same month last year'),
    Compared: sidesText(over, both, ` ${over}s compared`, 'rows '),
  }
}

/** SQL for a text: how many values are compared, and how many rows exist in only one of the two months. */
const sidesText = (over: string, both: string, compared: string, rows: string): string => {
  const only = (side: string): string => `count(*) filter (where months_back = 1 and loaded_in = '${side}')`
  return (
    `count(distinct ${over}) filter (where months_back = 1 and ${both}) || ' of ' || count(distinct ${over}) || '${compared}' || ` +
    `case when ${only('before')} + ${only('now')} > 0 then '; ${rows}only before: ' || ${only('before')} || ', only now: ' || ${only('now')} else '' end`
  )
}

/** SQL of a table's columns, by label. */
const comparedRows = ({ of, per, over }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const sides = (back: number): [string, string] => {
    const where = `months_back = ${back} and ${both}`
    return [figureOf(parts, where), figureOf(parts.map(before), where)]
  }
  const growth = ([now, then]: [string, string]): string => `(${now})::numeric / nullif(${then}, 0) - 1`
  const [now, then] = sides(1)
  return {
    Now: figureOf(parts, `months_back = 1 and ${known(...parts)}`),
    Change: `${now} - ${then}`,
    Growth: growth([now, then]),
    'On last year': growth(sides(12)),
    Compared: sidesText(over, both, '', ''),
  }
}

/**
 * SQL of a trend: the newest month's figure, and earlier figures chained back from it: divided by the growth of each later month over rows that both months
 * have. So the change between neighbours is like for like. NULL before a month that cannot be compared with its predecessor.
 */
const comparedTrend = ({ of, per }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const [value, now, then] = [figureOf(parts, known(...parts)), figureOf(parts, both), figureOf(parts.map(before), both)]
  const growth = `(${now})::numeric / nullif(${then}, 0)`
  const later = 'over (order by max(month) desc rows between unbounded preceding and 1 preceding)'
  return {
    Newest:
      `case when not coalesce(bool_or(nullif(${growth}, 0) is null) ${later}, false) ` +
      `then first_value(${value}) over (order by max(month) desc) / exp(coalesce(sum(ln(nullif(${growth}, 0))) ${later}, 0)) end`,
  }
}

/** A sum, or one sum divided by another. */
const figureOf = (parts: readonly string[], where: string): string => {
  const [above = '', below] = parts.map((one) => `sum(${one}) filter (where ${where})`)
  return below === undefined ? above : `${above} / nullif(${below}, 0)`
}

const name = z.string().regex(/^[a-z][a-z0-9_]{0,62}$/, 'a name of lower-case letters, digits and _')
/** Superset would run it as a template, in SQL and in the texts of a tile. */
const notTemplate = [
  (text: string): boolean => !/\{[{%#]/.test(text),
  "no '{{', '{%' or '{#', which Superset takes for a template",
] as const
const words = z
  .string()
  .min(1, 'some words')
  .max(250, 'at most 250 characters')
  .refine(...notTemplate)
const names = z.array(name).default([])

/** How figures of a chart are written: `share` is a fraction shown as a percentage, `change` the same with its sign, `points` percentage points, `money` US dollars. */
const format = z.enum(['count', 'decimal', 'share', 'change', 'points', 'money'])

const measure = z
  .string()
  .min(1, 'some SQL')
  .max(1_000, 'at most 1,000 characters')
  .refine(...notTemplate)

const chart = z.strictObject({
  chart: words,
  about: z.string().default(''),
  pipeline: name.optional(),
  view: name,
  /** A `trend` shows the newest period's figure large, with its change and a line; a `tile` the newest period's texts. */
  kind: z.enum(['trend', 'tile', 'line', 'bar', 'table']),
  period: name.optional(),
  measures: z.record(words, measure).default({}),
  compare: comparedSchema.optional(),
  by: names,
  columns: names,
  order: z.array(z.string().regex(/^.+?( desc)?$/, "a column or measure, with 'desc' for the largest first")).default([]),
  rows: z.int().min(1).max(10_000).default(1_000),
  where: words.optional(),
  /** Columns over whose values measures do not add up: with several values a measure is NULL. */
  never_across: names,
  format: format.default('count'),
  /** The axis begins at 1, at the top. */
  axis: z.literal('rank').optional(),
  formats: z.record(words, format).default({}),
  /** Width in columns; a dashboard has twelve. */
  width: z.int().min(2, 'from 2 to 12 columns').max(12, 'from 2 to 12 columns').default(6),
  /** Height in units of eight pixels. */
  height: z.int().min(10, 'from 10 to 200').max(200, 'from 10 to 200').default(50),
})

/** A filter above the charts that applies to the charts with the column. */
const valueFilter = z.strictObject({
  filter: words,
  view: name,
  column: name,
  /** Exactly one value is chosen, at first the first or the last in order. Default: none or any number of values. */
  one: z.enum(['first', 'last']).optional(),
  charts: z.array(words).min(1, 'at least one chart').optional(),
})
/** A filter by time, for every chart with a period. */
const timeFilter = z.strictObject({ filter: words, time: z.literal(true) })

export const schema = z.strictObject({
  dashboard: words,
  pipeline: name.optional(),
  about: z.string().default(''),
  never_across: names,
  filters: z.array(z.union([timeFilter, valueFilter])).default([]),
  charts: z.array(chart).min(1, 'at least one chart'),
})

export type ChartFile = z.infer<typeof chart>
export type NumberFormat = z.infer<typeof format>
export type FilterFile = z.infer<typeof schema>['filters'][number]

export const filterOf = (one: FilterFile) =>
  'time' in one
    ? { kind: 'time' as const, name: one.filter }
    : {
        ...one,
        kind: 'value' as const,
        name: one.filter,
        one: one.one ?? null,
        charts: one.charts ?? null,
      }

/** The chart's measures; a comparison's are generated, so that all compare in the same way. */
export const measuresOf = ({ kind, compare, measures }: ChartFile): Readonly<Record<string, string>> => {
  if (compare === undefined) return measures
  if (kind === 'table') return comparedRows(compare)
  return kind === 'trend' ? comparedTrend(compare) : comparedMeasures(compare)
}

const comparedFormats = ({ as }: Compared): Readonly<Record<string, NumberFormat>> => ({
  ...{ Now: as, Change: as, Growth: 'change', 'On last year': 'change' },
})

export const chartOf = (one: ChartFile, { pipeline, never_across: neverAcross }: z.infer<typeof schema>) => ({
  ...one,
  name: one.chart,
  /** The pipeline whose parameters filter the rows; null: rows of all pipelines. */
  pipeline: one.pipeline ?? pipeline ?? null,
  period: one.period ?? null,
  /** SQL by label. */
  measures: new Map(Object.entries(measuresOf(one))),
  order: one.order.map((text) => ({ name: text.replace(/ desc$/, ''), descending: text.endsWith(' desc') })),
  // One row more than a comparison has, else Superset warns that the limit was reached.
  rows: one.kind === 'tile' ? (one.compare === undefined ? 1 : 2) : one.rows,
  where:
    one.where ??
    (one.compare === undefined ? null : one.kind === 'trend' ? 'months_back = 1' : 'months_back in (1, 12) and is_newest'),
  neverAcross: [...new Set([...neverAcross, ...one.never_across])],
  format: one.compare?.as ?? one.format,
  isRank: one.axis === 'rank',
  formats: new Map(
    Object.entries({
      ...(one.kind === 'table' && one.compare !== undefined ? comparedFormats(one.compare) : {}),
      ...one.formats,
    }),
  ),
  /** Whether a last line shows the measures over all rows. */
  hasTotal: one.kind === 'table' && one.compare !== undefined,
})

export type Chart = ReturnType<typeof chartOf>
export type DashboardFilter = ReturnType<typeof filterOf>
