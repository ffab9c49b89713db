// Metrics as SQL over the columns of their view: plain for questions that were checked, guarded for tools that check nothing.
import type { Metric, SemanticDimension, Subject } from '../definition/semantic.ts'
import { metricWords } from '../definition/semantic-metric.ts'

/** Digits of shares and averages after the point. */
export const decimalPlaces = 6

/** Text as an SQL literal. */
export const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** A plain column as it is, any other expression in brackets. */
const part = (expression: string): string => (/^\w+$/.test(expression) ? expression : `(${expression})`)

const filtered = (conditions: readonly (string | null)[]): string => {
  const held = conditions.filter((one) => one !== null)
  return held.length === 0 ? '' : ` filter (where ${held.join(' and ')})`
}

/** An SQL condition: the row has the values that the metric needs. */
export const measureOf = ({ formula, known }: Metric, subject: Pick<Subject, 'metrics'>): string => {
  if (formula.kind === 'ratio' || formula.kind === 'derived')
    return measuresOf(formula.kind === 'ratio' ? [formula.of, formula.to] : formula.parts, subject)
  const parts = [`(${formula.of}) is not null`, ...(formula.kind === 'mean' ? [`(${formula.weight}) is not null`] : [])]
  return [...parts, ...(known === null ? [] : [`(${known})`])].join(' and ')
}

/** An SQL condition: the row has the values that all of these metrics need. */
export const measuresOf = (parts: readonly string[], subject: Pick<Subject, 'metrics'>): string =>
  parts
    .flatMap((name) => subject.metrics.get(name) ?? [])
    .map((metric) => measureOf(metric, subject))
    .join(' and ')

/** A part of a derived metric, restricted to rows that have all of its parts. */
export const partOf = (name: string, whole: Metric, subject: Pick<Subject, 'metrics'>): Metric | undefined => {
  const part = subject.metrics.get(name)
  if (part === undefined || whole.formula.kind !== 'derived') return part
  const others = whole.formula.parts.filter((one) => one !== name)
  return withConditions(part, whole.where, others.length === 0 ? null : measuresOf(others, subject))
}

/** The metric with further conditions on its rows. */
export const withConditions = (metric: Metric, ...conditions: readonly (string | null)[]): Metric => {
  const held = [metric.where, ...conditions].filter((one) => one !== null)
  return { ...metric, where: held.length === 0 ? null : held.map((one) => `(${one})`).join(' and ') }
}

/**
 * The SQL aggregate; NULL where there is no data. For a window metric only its sum.
 * @param isExact not rounded, for further computation
 */
export const formulaSql = (metric: Metric, subject: Pick<Subject, 'metrics'>, isExact = false): string => {
  const { formula } = metric
  const rounded = (figure: string): string => (isExact ? `(${figure})` : `round(${figure}, ${decimalPlaces})`)
  const { metrics } = subject
  const where = metric.where === null ? null : part(metric.where)
  if (formula.kind === 'derived') {
    const figure = (name: string): string => {
      const one = partOf(name, metric, subject)
      return one === undefined ? name : `(${formulaSql(one, subject)})::numeric`
    }
    return rounded(`(${formula.of.replaceAll(metricWords, figure)})::numeric`)
  }
  if (formula.kind === 'quantile')
    return rounded(`(percentile_cont(${formula.at}) within group (order by (${formula.of}))${filtered([where])})::numeric`)
  if (formula.kind === 'share' || formula.kind === 'cumulative' || formula.kind === 'rolling') {
    const { of, where: held } = summed(metrics.get(formula.of))
    return `sum(${of})${filtered([held, where])}`
  }
  if (formula.kind === 'mean') {
    const [value, weight] = [part(formula.of), part(formula.weight)]
    const above = `sum(${value}::numeric * ${weight})${filtered([where])}`
    return rounded(`${above} / nullif(sum(${weight})${filtered([`${value} is not null`, where])}, 0)`)
  }
  if (formula.kind !== 'ratio') {
    const rows = filtered([where])
    // Without rows there is no data: a count is then NULL like a sum, not 0.
    if (formula.kind === 'count_distinct') return `case when count(*)${rows} > 0 then count(distinct ${formula.of})${rows} end`
    return `${formula.kind}(${formula.of})${rows}`
  }
  const [above, below] = [summed(metrics.get(formula.of)), summed(metrics.get(formula.to))]
  const top = `sum(${above.of})${filtered([`${part(below.of)} is not null`, above.where, where])}`
  const bottom = `sum(${below.of})${filtered([`${part(above.of)} is not null`, below.where, where])}`
  return rounded(`${top}::numeric / nullif(${bottom}, 0)`)
}

/** The expression and condition of a sum, for callers that write the two sums of a ratio separately. */
export const summed = (metric: Metric | undefined): { readonly of: string; readonly where: string | null } => ({
  of: metric?.formula.kind === 'sum' ? metric.formula.of : '1',
  where: metric?.where == null ? null : part(metric.where),
})

/** A condition on the rows of one figure that prevents a wrong sum; uses only columns of the view. */
export interface Guard {
  readonly dimension: string
  readonly column: string
  /** The member that contains all others; null: the rows may have only one value. */
  readonly whole: string | null
}

/** Guards of a metric, one for each dimension that needs one. */
export const guardsOf = (metric: Metric, subject: Subject): readonly Guard[] => {
  const own = [...subject.dimensions.values()].filter(({ of }) => of === null)
  const guards = own.flatMap((dimension): Guard[] => {
    const guard = { dimension: dimension.name, column: dimension.column }
    if (metric.neverOver.has(dimension.name) || dimension.overlap.kind === 'one') return [{ ...guard, whole: null }]
    return dimension.overlap.kind === 'whole' ? [{ ...guard, whole: dimension.overlap.whole }] : []
  })
  const { time } = subject
  return time !== null && metric.neverOver.has(time.column)
    ? [{ dimension: time.column, column: time.column, whole: null }, ...guards]
    : guards
}

const guardSql = ({ column, whole }: Guard): string => {
  const one = `count(distinct ${column}) <= 1`
  return whole === null ? one : `(${one} or count(*) filter (where ${column} = ${quoted(whole)}) = 0)`
}

/** The formula, but NULL where its rows do not add up. Not for window metrics. */
export const guardedSql = (metric: Metric, subject: Subject): string => {
  const guards = guardsOf(metric, subject).map(guardSql)
  const formula = formulaSql(metric, subject)
  return guards.length === 0 ? formula : `case when ${guards.join(' and ')} then ${formula} end`
}

/** Over which dimensions a metric may be summed, in words. */
export const additivity = (metric: Metric, subject: Subject): Readonly<Record<string, string>> => {
  const names = [...(subject.time === null ? [] : [subject.time.column]), ...subject.dimensions.keys()]
  return Object.fromEntries(names.map((name) => [name, overDimension(metric, name, subject.dimensions.get(name))]))
}

const overDimension = ({ neverOver, formula }: Metric, name: string, dimension: SemanticDimension | undefined): string => {
  const reason = neverOver.get(name)
  if (reason !== undefined) return `does not add up: ${reason}`
  const overlap = dimension?.overlap
  if (overlap?.kind === 'one') return `one value per query; default: ${overlap.value}`
  const how = formula.kind === 'sum' ? 'adds up' : 'computed from the rows, not added up'
  if (overlap?.kind !== 'whole') return how
  const side = overlap.default === 'whole' ? `${overlap.whole}` : `all but ${overlap.whole}`
  return `${how}, except ${overlap.whole}, which contains the others; default: ${side}`
}
