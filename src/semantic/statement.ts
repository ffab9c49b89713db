// The SELECT of a checked question: rows of one view, filtered, grouped, compared, ordered, and never more than asked for.
import { type RawBuilder, sql } from 'kysely'
import type { Grain, Metric, SemanticDimension, Subject } from '../definition/semantic.ts'
import { formulaSql } from './formula.ts'
import { type Shift, shiftOf, type Span } from './period.ts'
import type { DefaultFilter } from './pins.ts'
import { refuse } from './refusal.ts'
import type { QueryFilter, SemanticQuery } from './query.ts'

/** What the parts of a statement share. */
export interface Plan {
  readonly query: SemanticQuery
  readonly subject: Subject
  readonly metrics: readonly Metric[]
  readonly by: readonly SemanticDimension[]
  readonly grain: Grain | null
  readonly span: Span | null
  readonly defaults: readonly DefaultFilter[]
}

type Sql = RawBuilder<unknown>
const comma = sql`, `
const named = (value: Sql, name: string): Sql => sql`${value} as ${sql.ref(name)}`

/** Columns of a comparison beside the figure itself. */
const besides = (name: string): string[] => [`${name}_before`, `${name}_change`, `${name}_growth`]

/** @param rowOf names of the columns that say what a row is of, the period first where there is one */
export const statementOf = (plan: Plan, rowOf: readonly string[]): Sql => {
  const { query, metrics, span, grain } = plan
  const isCompared = query.compare !== undefined && span !== null
  const rows = isCompared
    ? compared(plan, rowOf, span, shiftOf(span, query.compare ?? 'previous', grain))
    : sql`select ${sql.join(figures(plan, null), comma)} ${fromRows(plan, span, null)}`
  const columns = [...rowOf, ...metrics.flatMap(({ name }) => (isCompared ? [name, ...besides(name)] : [name]))]
  const order = orderOf(query, rowOf, columns)
  const sorted = order.length === 0 ? sql`` : sql` order by ${sql.join(order, comma)}`
  return sql`select ${sql.join(
    columns.map((name) => sql.ref(name)),
    comma,
  )} from (${rows}) as answer${sorted} limit ${sql.lit(query.limit + 1)}`
}

/** Periods in their order, else the largest first; ties by what a row is of, so that answers repeat. */
const orderOf = ({ order }: SemanticQuery, rowOf: readonly string[], columns: readonly string[]): Sql[] => {
  for (const { by } of order)
    if (!columns.includes(by))
      refuse(
        `The answer has no column '${by.slice(0, 60)}' to order by.`,
        columns.map((name) => `order by ${name}`),
      )
  const [figure = ''] = columns.slice(rowOf.length)
  const usual = rowOf[0] === 'period' ? { by: 'period', descending: false } : { by: figure, descending: true }
  const chosen = order.length > 0 ? order : rowOf.length > 0 ? [usual] : []
  const ties = rowOf.filter((name) => !chosen.some(({ by }) => by === name)).map((by) => ({ by, descending: false }))
  return [...chosen, ...ties].map(({ by, descending }) => sql`${sql.ref(by)} ${sql.raw(descending ? 'desc' : 'asc')} nulls last`)
}

/** Which rows of a comparison these are, and how far their periods are moved. */
interface Side {
  readonly name: string
  readonly interval: string | null
}

const figures = ({ subject, metrics, by, grain }: Plan, side: Side | null): Sql[] => [
  ...(side === null ? [] : [sql`${sql.lit(side.name)} as side`]),
  ...periods(subject, grain, side?.interval ?? null).map((period) => named(period, 'period')),
  ...by.map((dimension) => named(columnOf(dimension), dimension.name)),
  ...metrics.map((metric) => named(sql.raw(formulaSql(metric, subject)), metric.name)),
]

/** `from … where … group by …`. */
const fromRows = (plan: Plan, span: Span | null, side: Side | null): Sql => {
  const { query, subject, by, grain } = plan
  const view = sql.table(`bi.${subject.view}`)
  const rows = query.as_of === undefined ? view : sql`${sql.table(`bi.${subject.view}_as_of`)}(${query.as_of}::timestamptz)`
  const conditions = [...spanConditions(subject, span), ...filterConditions(plan), ...defaultConditions(plan)]
  const where = conditions.length === 0 ? sql`` : sql` where ${sql.join(conditions, sql` and `)}`
  const groups = [...periods(subject, grain, side?.interval ?? null), ...by.map(columnOf)]
  const grouped = groups.length === 0 ? sql`` : sql` group by ${sql.join(groups, comma)}`
  return sql`from ${rows} as facts${entityJoins(plan)}${where}${grouped}`
}

/** None or one: the first day of the row's period. The rows' own length needs no cutting. */
const periods = ({ time }: Subject, grain: Grain | null, interval: string | null): Sql[] => {
  if (time === null || grain === null) return []
  const column = sql`facts.${sql.ref(time.column)}`
  const moved = interval === null ? column : sql`(${column} + ${sql.lit(interval)}::interval)::date`
  return [grain === time.grains[0] ? moved : sql`date_trunc(${sql.lit(grain)}, ${moved})::date`]
}

const columnOf = ({ of, column }: SemanticDimension): Sql =>
  of === null ? sql`facts.${sql.ref(column)}` : sql`${sql.ref(`of_${of}`)}.${sql.ref(column)}`

/** Attributes of entities: many rows to one, by the entity's key. */
const entityJoins = ({ subject, by, query }: Plan): Sql => {
  const used = [...by, ...query.where.flatMap(({ dimension }) => subject.dimensions.get(dimension) ?? [])]
  const roots = new Set(used.flatMap(({ of }) => (of === null ? [] : [of])))
  const joins = [...roots].flatMap((name) => {
    const root = subject.dimensions.get(name)
    if (root?.entity == null) return []
    const alias = sql.ref(`of_${name}`)
    // Only what is asked for leaves the entity: its columns may be called as those of the view are.
    const attributes = [...new Set(used.filter(({ of }) => of === name).map(({ column }) => column))]
    const columns = sql.join(
      attributes.map((column) => sql.ref(column)),
      comma,
    )
    return [
      sql` left join (select ${sql.ref(root.entity.key)} as of_key, ${columns} from ${sql.table(`bi.${root.entity.table}`)}) as ${alias}
        on ${alias}.of_key = facts.${sql.ref(root.column)}`,
    ]
  })
  return joins.length === 0 ? sql`` : sql.join(joins, sql``)
}

const spanConditions = ({ time }: Subject, span: Span | null): Sql[] => {
  if (time === null || span === null) return []
  const column = sql`facts.${sql.ref(time.column)}`
  return [sql`${column} >= ${span.from}`, sql`${column} < ${span.to}`]
}

const list = (values: readonly string[]): Sql =>
  sql.join(
    values.map((value) => sql`${value}`),
    comma,
  )

const filterConditions = ({ subject, query }: Plan): Sql[] =>
  query.where.flatMap((filter) => {
    const dimension = subject.dimensions.get(filter.dimension)
    return dimension === undefined ? [] : conditionsOf(filter, columnOf(dimension))
  })

const conditionsOf = ({ is, is_not, contains, at_least, at_most }: QueryFilter, column: Sql): Sql[] => [
  ...(is === undefined ? [] : [sql`${column} in (${list(is)})`]),
  ...(is_not === undefined ? [] : [sql`(${column} is null or ${column} not in (${list(is_not)}))`]),
  ...(contains === undefined ? [] : [sql`position(lower(${contains}) in lower(${column}::text)) > 0`]),
  ...(at_least === undefined ? [] : [sql`${column} >= ${at_least}`]),
  ...(at_most === undefined ? [] : [sql`${column} <= ${at_most}`]),
]

const defaultConditions = ({ defaults }: Plan): Sql[] =>
  defaults.map(({ dimension, is, value }) => sql`${columnOf(dimension)} ${sql.raw(is === 'one' ? '=' : '<>')} ${value}`)

/** Both spans in one statement: a row that is on one side only stays, with NULL on the other. */
const compared = (plan: Plan, rowOf: readonly string[], span: Span, { interval, before }: Shift): Sql => {
  const [now, then]: [Side, Side] = [
    { name: 'now', interval: null },
    { name: 'before', interval },
  ]
  const both = sql`select ${sql.join(figures(plan, now), comma)} ${fromRows(plan, span, now)}
    union all select ${sql.join(figures(plan, then), comma)} ${fromRows(plan, before, then)}`
  const keys = rowOf.map((name) => sql.ref(name))
  const columns = plan.metrics.flatMap(({ name }) => {
    const [old = '', change = '', growth = ''] = besides(name)
    const on = (side: string): Sql => sql`max(${sql.ref(name)}) filter (where side = ${sql.lit(side)})`
    const [today, earlier] = [on('now'), on('before')]
    return [
      named(today, name),
      named(earlier, old),
      named(sql`${today} - ${earlier}`, change),
      named(sql`round(${today}::numeric / nullif(${earlier}, 0) - 1, 6)`, growth),
    ]
  })
  const grouped = keys.length === 0 ? sql`` : sql` group by ${sql.join(keys, comma)}`
  return sql`select ${sql.join([...keys, ...columns], comma)} from (${both}) as sides${grouped}`
}
