// Prevents wrong figures: never combines overlapping members of a dimension, and refuses sums over a dimension that does not add up.
import type { Grain, Metric, SemanticDimension, Subject } from '../definition/semantic.ts'
import { isOnePeriod, type Span } from './period.ts'
import { type QueryFilter, refuse, type SemanticQuery } from './query.ts'

/** A condition that the question did not name, and the reason for it. */
interface DefaultFilter {
  readonly dimension: SemanticDimension
  readonly is: 'one' | 'not'
  readonly value: string
  readonly why: string
}

/** A checked question, shared by the parts of its statement. */
export interface Plan {
  readonly query: SemanticQuery
  readonly subject: Subject
  readonly metrics: readonly Metric[]
  readonly by: readonly SemanticDimension[]
  readonly grain: Grain | null
  readonly span: Span | null
  readonly defaults: readonly DefaultFilter[]
}

type Asked = Omit<Plan, 'defaults'>

const filtersOn = (where: readonly QueryFilter[], { name }: SemanticDimension): readonly QueryFilter[] =>
  where.filter(({ dimension }) => dimension === name)

const rowLengths: ReadonlyMap<string, Grain> = new Map([
  ['daily', 'day'],
  ['weekly', 'week'],
  ['monthly', 'month'],
])

/** A view may have daily, weekly and monthly rows: periods, sums and windows use the length that the question filters by. */
export const withRowLength = <Found extends Pick<Plan, 'subject' | 'metrics'>>(found: Found, query: SemanticQuery): Found => {
  const { subject, metrics } = found
  const { time } = subject
  const told = [...subject.dimensions.values()].find(({ overlap }) => overlap.kind === 'one' && rowLengths.has(overlap.value))
  if (time === null || told === undefined) return found
  const asked = chosen(filtersOn(query.where, told))
  if (query.by.includes(told.name) && asked?.length !== 1) {
    if (query.grain === undefined && query.period === undefined && !query.by.includes(time.column)) return found
    refuse(`Rows of different lengths have no periods in common.`, [`filter ${told.name} to one value`, `leave out ${told.name}`])
  }
  const rows = rowLengths.get(asked?.[0] ?? '')
  if (rows === undefined || rows === time.grains[0]) return found
  // Weekly rows add up to no longer period: a week can lie in two months.
  const isOfRows = (grain: Grain): boolean =>
    grain !== rows && (rows === 'day' || (rows === 'month' && grain !== 'day' && grain !== 'week'))
  const isBySelf = ({ formula: { kind } }: Metric): boolean => kind !== 'rolling' && (kind !== 'cumulative' || rows === 'day')
  const grainsOf = (metric: Metric): Grain[] => [...(isBySelf(metric) ? [rows] : []), ...metric.grains.filter(isOfRows)]
  return {
    ...found,
    subject: { ...subject, time: { ...time, grains: [rows, ...time.grains.filter(isOfRows)] } },
    metrics: metrics.map((metric) => ({ ...metric, grains: grainsOf(metric) })),
  }
}

/** Adds default filters for dimensions without one. Refuses overlapping members, and sums over dimensions that do not add up. */
export const withDefaultFilters = (asked: Asked): Plan => {
  const defaults = defaultFilters(asked)
  assertAdditive(asked, defaults)
  return { ...asked, defaults }
}

const defaultFilters = ({ subject, by, query: { where } }: Asked): readonly DefaultFilter[] =>
  [...subject.dimensions.values()].flatMap((dimension) => {
    const filters = filtersOn(where, dimension)
    const isAskedBy = by.includes(dimension)
    if (dimension.overlap.kind === 'one') return oneOnly(dimension, dimension.overlap.value, filters, isAskedBy)
    return dimension.overlap.kind === 'whole' ? neverBoth(dimension, dimension.overlap, filters, isAskedBy) : []
  })

const oneOnly = (
  dimension: SemanticDimension,
  value: string,
  filters: readonly QueryFilter[],
  isAskedBy: boolean,
): readonly DefaultFilter[] => {
  const { name } = dimension
  if (isAskedBy || chosen(filters)?.length === 1) return []
  if (filters.length > 0)
    return refuse(`Figures of several values of ${name} cannot be added up.`, [
      `group by ${name} too`,
      `filter ${name} to one value, such as ${value}`,
    ])
  return [{ dimension, is: 'one', value, why: `${name} is ${value}, unless the question says otherwise` }]
}

const neverBoth = (
  dimension: SemanticDimension,
  overlap: { readonly whole: string; readonly default: 'whole' | 'parts' },
  filters: readonly QueryFilter[],
  isAskedBy: boolean,
): readonly DefaultFilter[] => {
  const { name } = dimension
  const { whole } = overlap
  const values = chosen(filters)
  if (values?.includes(whole) === true && values.length > 1)
    return refuse(`${whole} contains the other values of ${name}; one answer cannot combine them.`, [
      `filter ${name} to ${whole} alone`,
      `filter ${name} to ${values.filter((value) => value !== whole).join(', ')}`,
      'ask two questions',
    ])
  if (values !== null || filters.some(({ is_not }) => is_not?.includes(whole))) return []
  if (filters.length > 0 || isAskedBy || overlap.default === 'parts')
    return [{ dimension, is: 'not', value: whole, why: `${whole} contains the other values of ${name}, so it is left out` }]
  return [
    {
      dimension,
      is: 'one',
      value: whole,
      why: `${name} is ${whole}, which contains all others, unless the question says otherwise`,
    },
  ]
}

/** Values that all filters allow; null: no filter lists values. */
const chosen = (filters: readonly QueryFilter[]): readonly string[] | null => {
  const lists = filters.flatMap(({ is }) => (is === undefined ? [] : [is]))
  const [first] = lists
  if (first === undefined) return null
  return [...new Set(first.filter((value) => lists.every((list) => list.includes(value))))]
}

/** Refuses the first metric that would be summed over a dimension or time over which it does not add up, with suggestions. */
const assertAdditive = (asked: Asked, defaults: readonly DefaultFilter[]): void => {
  const { subject, metrics, by, query, grain, span } = asked
  const [rows] = subject.time?.grains ?? []
  for (const metric of metrics)
    for (const [name, reason] of metric.neverOver) {
      const dimension = subject.dimensions.get(name)
      if (dimension === undefined) {
        if ((grain !== null && grain === rows) || (span !== null && rows !== undefined && isOnePeriod(span, rows))) continue
        refuseSum(asked, metric, name, reason, [`query with grain ${rows}`, `query a period of one ${rows}`])
      } else if (!by.includes(dimension) && !isPinned(dimension, query.where, defaults))
        refuseSum(asked, metric, name, reason, [`group by ${name} too`, ...pinWays(dimension)])
    }
}

const isPinned = (dimension: SemanticDimension, where: readonly QueryFilter[], defaults: readonly DefaultFilter[]): boolean =>
  chosen(filtersOn(where, dimension))?.length === 1 || defaults.some((one) => one.dimension === dimension && one.is === 'one')

const pinWays = ({ name, overlap }: SemanticDimension): string[] =>
  overlap.kind === 'whole' ? [`filter ${name} to one value, such as ${overlap.whole}`] : [`filter ${name} to one value`]

const refuseSum = ({ subject }: Asked, metric: Metric, name: string, reason: string, instead: string[]): never => {
  const others = [...subject.metrics.values()].filter(({ formula, neverOver }) => formula.kind === 'sum' && !neverOver.has(name))
  const known = others.slice(0, 3).map((one) => one.name)
  return refuse(`${metric.name} does not add up over ${name}: ${reason}.`, [
    ...instead,
    ...(known.length === 0 ? [] : [`query metrics that add up over ${name}: ${known.join(', ')}`]),
  ])
}
