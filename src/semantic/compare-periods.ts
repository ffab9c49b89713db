// Two periods compared, like with like: figures change over what both periods have. A cell (a slice in one of the periods) counts for a metric where the metric's measure is there on
// both sides; rows that only one side of such a cell has (a keyword won or lost) stand for 0 on the other.
import { sql } from 'kysely'
import type { Metric, SemanticDimension, Subject } from '../definition/semantic.ts'
import { formulaSql, summed } from './formula.ts'
import type { Shift, Span } from './period.ts'
import {
  type AnswerRows,
  conditionsOn,
  entityJoins,
  grouped,
  named,
  type Plan,
  type Sql,
  spanConditions,
  viewOf,
  whereAll,
} from './statement.ts'

/** The period of the question and the one before. */
export interface Sides {
  readonly span: Span
  readonly shift: Shift
}

/** What a reader gets for a metric: everything of both periods, then the change of what both have. */
const namesOf = (name: string): string[] => [name, `${name}_before`, `${name}_change`, `${name}_growth`]

const comma = sql`, `
const sideNames = { now: 'now', before: 'before' } as const
type Side = keyof typeof sideNames

/** Rows of both periods; the earlier ones are moved to where they are compared. */
const bothSides = (plan: Plan, { span, shift }: Sides): Sql => {
  const { time } = plan.subject
  const rows = (side: Side, within: Span, at: Sql): Sql =>
    sql`select ${sql.lit(side)} as _side, ${at} as _at, facts.* from ${viewOf(plan)} as facts${whereAll(spanConditions(plan.subject, within))}`
  const at = sql`facts.${sql.ref(time?.column ?? '')}`
  return sql`(${rows('now', span, at)} union all ${rows('before', shift.before, sql`(${at} + ${sql.lit(shift.interval)}::interval)::date`)}) as facts`
}

/** Whether it tells slices apart, by itself or as an attribute of what does. */
const isOfSlice =
  ({ slice, dimensions }: Subject) =>
  ({ column, of }: SemanticDimension): boolean =>
    slice.includes(of === null ? column : (dimensions.get(of)?.column ?? ''))

/** SQL that holds where a row has what the metric is made of. */
const measureOf = ({ formula }: Metric, { metrics }: Subject): string => {
  if (formula.kind === 'ratio')
    return [formula.of, formula.to].map((name) => `(${summed(metrics.get(name)).of}) is not null`).join(' and ')
  return formula.kind === 'mean'
    ? `(${formula.of}) is not null and (${formula.weight}) is not null`
    : `(${formula.of}) is not null`
}

const cellsOf = (plan: Plan, sides: Sides): Sql => {
  const { subject, metrics } = plan
  const places = [sql`facts._at`, ...subject.slice.map((column) => sql`facts.${sql.ref(column)}`)]
  const has = (side: Side, more: string): Sql => sql`bool_or(facts._side = ${sql.lit(side)}${sql.raw(more)})`
  const columns = [
    sql`facts._at as _at`,
    ...subject.slice.map((column, at) => named(sql`facts.${sql.ref(column)}`, `_s${at}`)),
    named(has('now', ''), '_now'),
    named(has('before', ''), '_before'),
    ...metrics.map((metric, at) => {
      const there = ` and ${measureOf(metric, subject)}`
      return named(sql`${has('now', there)} and ${has('before', there)}`, `_both${at}`)
    }),
  ]
  const where = conditionsOn(plan, isOfSlice(subject))
  return sql`select ${sql.join(columns, comma)} from ${bothSides(plan, sides)}${entityJoins(plan)}${whereAll(where)} group by ${sql.join(places, comma)}`
}

/** Sums and counts over cells that are there are 0 where no row fits; other figures are not. */
const figureOf = (metric: Metric, subject: Subject, condition: string): string => {
  const where = [metric.where, condition].flatMap((one) => (one === null ? [] : [`(${one})`])).join(' and ')
  const figure = formulaSql({ ...metric, where }, subject)
  const isCount = metric.formula.kind === 'sum' || metric.formula.kind === 'count_distinct'
  return isCount ? `case when count(*) filter (where ${where}) > 0 then ${figure} else 0 end` : figure
}

/** Rows with the figures of both periods, their change and growth. */
export const comparedRows = (plan: Plan, sides: Sides): AnswerRows => {
  const { subject, metrics } = plan
  const on = subject.slice.map((column, at) => sql` and cells.${sql.ref(`_s${at}`)} = facts.${sql.ref(column)}`)
  const made = metrics.flatMap((metric, at) => {
    const all = (side: Side): Sql =>
      sql.raw(
        formulaSql(
          {
            ...metric,
            where: [metric.where, `facts._side = '${side}'`]
              .flatMap((one) => one ?? [])
              .map((one) => `(${one})`)
              .join(' and '),
          },
          subject,
        ),
      )
    const both = (side: Side): Sql =>
      sql.raw(
        `(case when bool_or(cells._both${at}) then ${figureOf(metric, subject, `facts._side = '${side}' and cells._both${at}`)} end)`,
      )
    const [name = '', old = '', change = '', growth = ''] = namesOf(metric.name)
    return [
      named(all('now'), name),
      named(all('before'), old),
      named(sql`${both('now')} - ${both('before')}`, change),
      named(sql`round(${both('now')}::numeric / nullif(${both('before')}, 0) - 1, 6)`, growth),
    ]
  })
  const from = sql`from ${bothSides(plan, sides)} join cells on cells._at = facts._at${sql.join(on, sql``)}${entityJoins(plan)}`
  const rows = grouped(plan, '_at', made, sql`${from}${whereAll(conditionsOn(plan))}`)
  return { sql: sql`with cells as (${cellsOf(plan, sides)}) ${rows}`, figures: metrics.flatMap(({ name }) => namesOf(name)) }
}

/** One row: cells that both periods have, only the earlier one, only the later one. */
export const comparedCells = (plan: Plan, sides: Sides): Sql => sql`select count(*) filter (where _now and _before),
  count(*) filter (where _before and not _now), count(*) filter (where _now and not _before) from (${cellsOf(plan, sides)}) as cells`
