// The SELECT of a checked question: rows of one view, filtered, grouped, compared, ordered, and never more than asked for.
import { type RawBuilder, sql } from 'kysely'
import type { Grain, Metric, SemanticDimension, Subject } from '../definition/semantic.ts'
import { formulaSql } from './formula.ts'
import type { Span } from './period.ts'
import type { DefaultFilter } from './pins.ts'
import { refuse } from './refusal.ts'
import { mostRows, type QueryFilter, type SemanticQuery } from './query.ts'

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

export type Sql = RawBuilder<unknown>
const comma = sql`, `
export const named = (value: Sql, name: string): Sql => sql`${value} as ${sql.ref(name)}`

/** Rows of an answer before they are ordered, and the names of their figures. */
export interface AnswerRows {
  readonly sql: Sql
  readonly figures: readonly string[]
}

/** @param rowOf names of the columns that say what a row is of, the period first where there is one */
export const statementOf = ({ query }: Plan, rowOf: readonly string[], { sql: rows, figures }: AnswerRows): Sql => {
  const columns = [...rowOf, ...figures]
  const order = orderOf(query, rowOf, columns)
  const sorted = order.length === 0 ? sql`` : sql` order by ${sql.join(order, comma)}`
  const names = sql.join(
    columns.map((name) => sql.ref(name)),
    comma,
  )
  const most = sql.lit(query.limit + 1)
  const tied = tiedBy(query, rowOf, columns)
  if (tied.length === 0) return sql`select ${names} from (${rows}) as answer${sorted} limit ${most}`
  const first = sql`select ${names} from (${rows}) as answer order by ${sql.join(order.slice(0, tied.length), comma)} fetch first ${most} rows with ties`
  return sql`select ${names} from (${first}) as answer${sorted} limit ${sql.lit(mostRows + 1)}`
}

/** Columns of the order in which rows at the limit may be alike: none is left out by chance. None where the order is by what a row is of. */
export const tiedBy = (query: SemanticQuery, rowOf: readonly string[], columns: readonly string[]): readonly string[] => {
  const chosen = chosenOrder(query, rowOf, columns).map(({ by }) => by)
  const last = chosen.at(-1)
  return last === undefined || rowOf.includes(last) ? [] : chosen
}

/** Periods in their order, else the largest first; ties by what a row is of, so that answers repeat. */
const orderOf = ({ order }: SemanticQuery, rowOf: readonly string[], columns: readonly string[]): Sql[] => {
  for (const { by } of order)
    if (!columns.includes(by))
      refuse(
        `The answer has no column '${by.slice(0, 60)}' to order by.`,
        columns.map((name) => `order by ${name}`),
      )
  const chosen = chosenOrder({ order }, rowOf, columns)
  const ties = rowOf.filter((name) => !chosen.some(({ by }) => by === name)).map((by) => ({ by, descending: false }))
  return [...chosen, ...ties].map(({ by, descending }) => sql`${sql.ref(by)} ${sql.raw(descending ? 'desc' : 'asc')} nulls last`)
}

const chosenOrder = (
  { order }: Pick<SemanticQuery, 'order'>,
  rowOf: readonly string[],
  columns: readonly string[],
): SemanticQuery['order'] => {
  const [figure = ''] = columns.slice(rowOf.length)
  const usual = rowOf[0] === 'period' ? { by: 'period', descending: false } : { by: figure, descending: true }
  return order.length > 0 ? order : rowOf.length > 0 ? [usual] : []
}

/** One period, or all of them. */
export const plainRows = (plan: Plan): AnswerRows => {
  const { subject, metrics, span } = plan
  const made = metrics.map((metric) => named(sql.raw(formulaSql(metric, subject)), metric.name))
  const from = sql`from ${viewOf(plan)} as facts${entityJoins(plan)}`
  const where = [...spanConditions(subject, span), ...conditionsOn(plan)]
  return {
    sql: grouped(plan, subject.time?.column ?? '', made, sql`${from}${whereAll(where)}`),
    figures: metrics.map(({ name }) => name),
  }
}

/** @param time column of the facts that periods are told by */
export const grouped = (plan: Plan, time: string, made: readonly Sql[], from: Sql): Sql => {
  const periods = periodsOf(plan, time)
  const columns = [...periods.map((period) => named(period, 'period')), ...plan.by.map((one) => named(columnOf(one), one.name))]
  const groups = [...periods, ...plan.by.map(columnOf)]
  const by = groups.length === 0 ? sql`` : sql` group by ${sql.join(groups, comma)}`
  return sql`select ${sql.join([...columns, ...made], comma)} ${from}${by}`
}

export const viewOf = ({ query, subject }: Plan): Sql =>
  query.as_of === undefined
    ? sql.table(`bi.${subject.view}`)
    : sql`${sql.table(`bi.${subject.view}_as_of`)}(${query.as_of}::timestamptz)`

export const whereAll = (conditions: readonly Sql[]): Sql =>
  conditions.length === 0 ? sql`` : sql` where ${sql.join(conditions, sql` and `)}`

/** None or one: the first day of the row's period. The rows' own length needs no cutting. */
const periodsOf = ({ subject: { time }, grain }: Plan, column: string): Sql[] => {
  if (time === null || grain === null) return []
  const day = sql`facts.${sql.ref(column)}`
  return [grain === time.grains[0] ? day : sql`date_trunc(${sql.lit(grain)}, ${day})::date`]
}

export const columnOf = ({ of, column, table }: SemanticDimension): Sql =>
  of === null ? sql`facts.${sql.ref(column)}` : sql`${sql.ref(`of_${of}_${table}`)}.${sql.ref(column)}`

/** Attributes of entities: many rows to one, by the entity's key. */
export const entityJoins = ({ subject, by, query }: Plan): Sql => {
  const used = [...by, ...query.where.flatMap(({ dimension }) => subject.dimensions.get(dimension) ?? [])]
  const tables = new Map(used.flatMap(({ of, table }) => (of === null ? [] : [[`${of}_${table}`, { of, table }] as const])))
  const joins = [...tables].flatMap(([name, { of, table }]) => {
    const root = subject.dimensions.get(of)
    if (root?.entity == null) return []
    const alias = sql.ref(`of_${name}`)
    // Only what is asked for leaves the entity: its columns may be called as those of the view are.
    const attributes = [...new Set(used.filter((one) => one.of === of && one.table === table).map(({ column }) => column))]
    const columns = sql.join(
      attributes.map((column) => sql.ref(column)),
      comma,
    )
    return [
      sql` left join (select ${sql.ref(root.entity.key)} as of_key, ${columns} from ${sql.table(`bi.${table ?? root.entity.table}`)}) as ${alias}
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

const list = (values: readonly string[]): Sql =>
  sql.join(
    values.map((value) => sql`${value}`),
    comma,
  )

/** Of the filters and the defaults on those dimensions. */
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
  ...(is === undefined ? [] : [sql`${column} in (${list(is)})`]),
  ...(is_not === undefined ? [] : [sql`(${column} is null or ${column} not in (${list(is_not)}))`]),
  ...(contains === undefined ? [] : [sql`position(lower(${contains}) in lower(${column}::text)) > 0`]),
  ...(at_least === undefined ? [] : [sql`${column} >= ${at_least}`]),
  ...(at_most === undefined ? [] : [sql`${column} <= ${at_most}`]),
]
