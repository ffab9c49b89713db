// The SELECT of a checked question: rows of one view, filtered, grouped, ordered and limited. Two periods are compared like with like: a change is over cells
// (a slice in one of the periods) that have the metric's measure in both periods. Inside such a cell a row that only one period has (a keyword won or lost)
// counts as 0 in the other.
import { type RawBuilder, sql } from 'kysely'
import { againstOf, isFiscal, type Metric, type SemanticDimension, type Subject } from '../definition/semantic.ts'
import { formulaSql, measureOf, measuresOf, withConditions } from './formula.ts'
import type { Shift, Span } from './period.ts'
import type { Plan } from './pins.ts'
import { mostRows, type QueryFilter, refuse, type SemanticQuery } from './query.ts'

export type Sql = RawBuilder<unknown>
export const refs = (names: readonly string[]): Sql => sql.join(names.map((name) => sql.ref(name)))
export const named = (value: Sql, name: string): Sql => sql`${value} as ${sql.ref(name)}`

/** Rows of an answer before they are ordered, and the names of their figures. */
export interface AnswerRows {
  readonly sql: Sql
  readonly figures: readonly string[]
}

/**
 * `tied`: columns of the order by which rows may tie at the limit, so that no tied row is dropped by chance. Empty where the order ends with a column of `rowOf`.
 * @param rowOf names of the columns that identify a row, the period first where there is one
 */
export const statementOf = ({ query }: Plan, rowOf: readonly string[], { sql: rows, figures }: AnswerRows) => {
  const columns = [...rowOf, ...figures]
  const chosen = chosenOrder(query, rowOf, columns)
  const last = chosen.at(-1)?.by ?? ''
  const tied = chosen.length === 0 || rowOf.includes(last) ? [] : chosen.map(({ by }) => by)
  // Break ties by the columns that identify a row, so that answers are reproducible.
  const ties = rowOf.filter((name) => !chosen.some(({ by }) => by === name)).map((by) => ({ by, descending: false }))
  const order = [...chosen, ...ties].map(
    ({ by, descending }) => sql`${sql.ref(by)} ${sql.raw(descending ? 'desc' : 'asc')} nulls last`,
  )
  const sorted = order.length === 0 ? sql`` : sql` order by ${sql.join(order)}`
  const names = refs(columns)
  const most = sql.lit(query.limit + 1)
  if (tied.length === 0) return { sql: sql`select ${names} from (${rows}) as answer${sorted} limit ${most}`, tied }
  const first = sql`select ${names} from (${rows}) as answer order by ${sql.join(order.slice(0, tied.length))} fetch first ${most} rows with ties`
  return { sql: sql`select ${names} from (${first}) as answer${sorted} limit ${sql.lit(mostRows + 1)}`, tied }
}

/** The order of the question; default: by period, else largest first. */
const chosenOrder = ({ order }: SemanticQuery, rowOf: readonly string[], columns: readonly string[]): SemanticQuery['order'] => {
  const unknown = order.find(({ by }) => !columns.includes(by))
  const ways = columns.map((name) => `order by ${name}`)
  if (unknown !== undefined) return refuse(`The answer has no column '${unknown.by.slice(0, 60)}' to order by.`, ways)
  if (order.length > 0 || rowOf.length === 0) return order
  return [rowOf[0] === 'period' ? { by: 'period', descending: false } : { by: columns[rowOf.length] ?? '', descending: true }]
}

/** Rows without a comparison. */
export const plainRows = (plan: Plan): AnswerRows => {
  const { subject, metrics, span } = plan
  const made = metrics.map((metric) => named(sql.raw(formulaSql(metric, subject)), metric.name))
  const where = [...spanConditions(subject, span), ...conditionsOn(plan)]
  return { sql: groupedFacts(plan, made, where), figures: metrics.map(({ name }) => name) }
}

/** @param kept a further expression to group by */
export const groupedFacts = (plan: Plan, made: readonly Sql[], where: readonly Sql[], kept?: Sql): Sql => {
  const time = plan.subject.time?.column ?? ''
  const from = sql`from ${viewOf(plan)} as facts${calendarJoin(plan, time)}${entityJoins(plan)}${whereAll(where)}`
  return grouped(plan, time, made, from, kept)
}

/** @param time column of the facts from which periods are made */
const grouped = (plan: Plan, time: string, made: readonly Sql[], from: Sql, kept?: Sql): Sql => {
  const periods = periodsOf(plan, time)
  const more = kept === undefined ? [] : [kept]
  const columns = [
    ...periods.map((period) => named(period, 'period')),
    ...plan.by.map((one) => named(columnOf(one), one.name)),
    ...more.map((one) => named(one, '_kept')),
  ]
  // `_kept` by name, because its expression has parameters.
  const groups = [...periods, ...plan.by.map(columnOf), ...more.map(() => sql.ref('_kept'))]
  const by = groups.length === 0 ? sql`` : sql` group by ${sql.join(groups)}`
  return sql`select ${sql.join([...columns, ...made])} ${from}${by}`
}

const viewOf = ({ query, subject }: Plan): Sql =>
  query.as_of === undefined
    ? sql.table(`bi.${subject.view}`)
    : sql`${sql.table(`bi.${subject.view}_as_of`)}(${query.as_of}::timestamptz)`

export const whereAll = (conditions: readonly Sql[]): Sql =>
  conditions.length === 0 ? sql`` : sql` where ${sql.join(conditions, sql` and `)}`

/** SQL for the first day of the row's period; empty without a grain. Rows already of that length need no date_trunc. */
export const periodsOf = ({ subject: { time }, grain }: Plan, column: string): Sql[] => {
  if (time === null || grain === null) return []
  const day = sql`facts.${sql.ref(column)}`
  const past = grain === 'fiscal_year' ? sql`calendar.fiscal_month - 1` : sql`(calendar.fiscal_month - 1) % 3`
  if (isFiscal(grain)) return [sql`(calendar.month_start - make_interval(months => ${past}))::date`]
  return [grain === time.grains[0] ? day : sql`date_trunc(${sql.lit(grain)}, ${day})::date`]
}

/** Joins the calendar where the question has a fiscal grain. */
export const calendarJoin = ({ grain }: Plan, column: string): Sql =>
  grain !== null && isFiscal(grain) ? sql` join bi.dim_date as calendar on calendar.date = facts.${sql.ref(column)}` : sql``

export const columnOf = ({ of, column, table }: SemanticDimension): Sql =>
  of === null ? sql`facts.${sql.ref(column)}` : sql`${sql.ref(`of_${of}_${table}`)}.${sql.ref(column)}`

/** Joins the attributes of entities by the entity's key, many to one. */
const entityJoins = ({ subject, by, query }: Plan): Sql => {
  const used = [...by, ...query.where.flatMap(({ dimension }) => subject.dimensions.get(dimension) ?? [])]
  const tables = new Map(used.flatMap(({ of, table }) => (of === null ? [] : [[`${of}_${table}`, { of, table }] as const])))
  const joins = [...tables].flatMap(([name, { of, table }]) => {
    const root = subject.dimensions.get(of)
    if (root?.entity == null) return []
    const alias = sql.ref(`of_${name}`)
    // Select only the needed attributes: other columns of the entity may have names of the view's columns.
    const attributes = [...new Set(used.filter((one) => one.of === of && one.table === table).map(({ column }) => column))]
    return [
      sql` left join (select ${sql.ref(root.entity.key)} as of_key, ${refs(attributes)} from ${sql.table(`bi.${table ?? root.entity.table}`)}) as ${alias}
        on ${alias}.of_key = facts.${sql.ref(root.column)}`,
    ]
  })
  return joins.length === 0 ? sql`` : sql.join(joins, sql``)
}

export const spanConditions = ({ time }: Subject, span: Span | null): Sql[] => {
  if (time === null || span === null) return []
  const column = sql`facts.${sql.ref(time.column)}`
  return [sql`${column} >= ${span.from}`, sql`${column} < ${span.to}`]
}

/** Conditions from the filters and defaults on the dimensions that `isMeant` accepts. */
export const conditionsOn = (
  { subject, query, defaults }: Plan,
  isMeant: (dimension: SemanticDimension) => boolean = () => true,
): Sql[] => [
  ...query.where.flatMap((filter) => {
    const dimension = subject.dimensions.get(filter.dimension)
    return dimension === undefined || !isMeant(dimension) ? [] : conditionsOf(filter, columnOf(dimension))
  }),
  ...defaults.flatMap(({ dimension, is, value }) =>
    isMeant(dimension) ? [sql`${columnOf(dimension)} ${sql.raw(is === 'one' ? '=' : '<>')} ${value}`] : [],
  ),
]

const conditionsOf = ({ is, is_not, contains, at_least, at_most }: QueryFilter, column: Sql): Sql[] => [
  ...(is === undefined ? [] : [sql`${column} in (${sql.join(is)})`]),
  ...(is_not === undefined ? [] : [sql`(${column} is null or ${column} not in (${sql.join(is_not)}))`]),
  ...(contains === undefined ? [] : [sql`position(lower(${contains}) in lower(${column}::text)) > 0`]),
  ...(at_least === undefined ? [] : [sql`${column} >= ${at_least}`]),
  ...(at_most === undefined ? [] : [sql`${column} <= ${at_most}`]),
]

/** The period of the question and its distance to the compared period. */
export interface Sides {
  readonly span: Span
  readonly shift: Shift
}

/** The columns of a compared metric: the figures of both periods, then change and growth over cells that both have. */
const namesOf = (name: string): string[] => [name, `${name}_before`, `${name}_change`, `${name}_growth`]

type Side = 'now' | 'before'

/** Rows of both periods; `_at` moves earlier rows to the later period's dates. */
const bothSides = (plan: Plan, { span, shift }: Sides): Sql => {
  const day = sql`facts.${sql.ref(plan.subject.time?.column ?? '')}`
  const at = shift.byMonths ? sql`date_trunc('month', ${day})::date` : day
  const step = sql`${sql.lit(shift.interval)}::interval`
  const then = sql`(${at} + ${step})::date`
  const rows = (side: Side, within: Span, place: Sql, ...more: readonly Sql[]): Sql =>
    sql`select ${sql.lit(side)} as _side, ${place} as _at, facts.* from ${viewOf(plan)} as facts${whereAll([...spanConditions(plan.subject, within), ...more])}`
  // A leap day has no counterpart a year later.
  const before = rows('before', shift.before, then, sql`(${then} - ${step})::date = ${at}`)
  return sql`(${rows('now', span, at)} union all ${before}) as facts`
}

/** Whether the dimension is a column of the slice, or an attribute of one. */
const isOfSlice =
  ({ slice, dimensions }: Subject) =>
  ({ column, of }: SemanticDimension): boolean =>
    slice.includes(of === null ? column : (dimensions.get(of)?.column ?? ''))

const cellsOf = (plan: Plan, sides: Sides): Sql => {
  const { subject, metrics } = plan
  const places = [sql`facts._at`, ...subject.slice.map((column) => sql`facts.${sql.ref(column)}`)]
  const has = (side: Side, more: string): Sql => sql`bool_or(facts._side = ${sql.lit(side)}${sql.raw(more)})`
  const columns = [
    sql`facts._at as _at`,
    ...subject.slice.map((column, at) => named(sql`facts.${sql.ref(column)}`, `_s${at}`)),
    ...metrics.flatMap((metric, at) => {
      const [now, before] = [
        has('now', ` and ${measureOf(metric, subject)}`),
        has('before', ` and ${measureOf(metric, subject)}`),
      ]
      return [named(now, `_now${at}`), named(before, `_before${at}`), named(sql`${now} and ${before}`, `_both${at}`)]
    }),
  ]
  const where = conditionsOn(plan, isOfSlice(subject))
  return sql`select ${sql.join(columns)} from ${bothSides(plan, sides)}${entityJoins(plan)}${whereAll(where)} group by ${sql.join(places)}`
}

/** In an existing cell a sum or count without rows is 0; other figures stay NULL. */
const figureOf = (metric: Metric, subject: Subject, condition: string, isExact: boolean): string => {
  const narrow = withConditions(metric, condition)
  const figure = formulaSql(narrow, subject, isExact)
  const isCount = metric.formula.kind === 'sum' || metric.formula.kind === 'count_distinct'
  return isCount ? `case when count(*) filter (where ${narrow.where}) > 0 then ${figure} else 0 end` : figure
}

/** Rows with the figures of both periods, their change and growth. */
export const comparedRows = (plan: Plan, sides: Sides): AnswerRows => {
  const { subject, metrics } = plan
  const on = subject.slice.map((column, at) => sql` and cells.${sql.ref(`_s${at}`)} = facts.${sql.ref(column)}`)
  const made = metrics.flatMap((metric, at) => {
    const all = (side: Side): Sql => sql.raw(formulaSql(withConditions(metric, `facts._side = '${side}'`), subject))
    const both = (side: Side, isExact = false): Sql =>
      sql.raw(
        `(case when bool_or(cells._both${at}) then ${figureOf(metric, subject, `facts._side = '${side}' and cells._both${at}`, isExact)} end)`,
      )
    const [name = '', old = '', change = '', growth = ''] = namesOf(metric.name)
    return [
      named(all('now'), name),
      named(all('before'), old),
      named(sql`${both('now')} - ${both('before')}`, change),
      named(sql`round(${both('now', true)}::numeric / nullif(${both('before', true)}, 0) - 1, 6)`, growth),
    ]
  })
  const from = sql`from ${bothSides(plan, sides)} join cells on cells._at = facts._at${sql.join(on, sql``)}${calendarJoin(plan, '_at')}${entityJoins(plan)}`
  const rows = grouped(plan, '_at', made, sql`${from}${whereAll(conditionsOn(plan))}`)
  return { sql: sql`with cells as (${cellsOf(plan, sides)}) ${rows}`, figures: metrics.flatMap(({ name }) => namesOf(name)) }
}

/** A query of one row: counts of cells on both sides, only before, only now. */
const sidesCounted = (now: Sql, before: Sql): Sql =>
  sql`select count(*) filter (where ${now} and ${before}), count(*) filter (where ${before} and not ${now}), count(*) filter (where ${now} and not ${before})`

/** Of several counts (for several metrics, or values that are never combined) the one with the fewest cells on both sides. */
const fewest = (counts: readonly Sql[]): Sql => sql`${sql.join(counts, sql` union all `)} order by 1 limit 1`

/** A query of one row: counts of cells whose figure exists in both periods, only in the earlier, only in the later. */
export const comparedCells = (plan: Plan, sides: Sides): Sql => {
  const counts = plan.metrics.map((_, at) => sql`${sidesCounted(sql.ref(`_now${at}`), sql.ref(`_before${at}`))} from cells`)
  return sql`with cells as (${cellsOf(plan, sides)}) ${fewest(counts)}`
}

/** The same for metrics whose rows already hold both periods (`against`); null: the question has none. */
export const comparedPairs = (plan: Plan): Sql | null => {
  const { subject, metrics, span, by } = plan
  const apart = by.filter(({ overlap }) => overlap.kind === 'one').map(columnOf)
  const groups = apart.length === 0 ? sql`` : sql` group by ${sql.join(apart)}`
  const from = sql`from ${viewOf(plan)} as facts${entityJoins(plan)}${whereAll([...spanConditions(subject, span), ...conditionsOn(plan)])}${groups}`
  const counts = metrics.flatMap(({ formula }) => {
    const pair = againstOf(formula)
    if (pair === null) return []
    const [now, before] = pair.map((name) => sql.raw(measuresOf([name], subject)))
    return now === undefined || before === undefined ? [] : [sql`${sidesCounted(now, before)} ${from}`]
  })
  return counts.length === 0 ? null : fewest(counts)
}
