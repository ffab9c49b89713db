// Figures that are set against other rows of the answer (parts of a whole, running and rolling sums), and periods without rows.
import { sql } from 'kysely'
import { type Grain, isFiscal, type Metric, type SemanticDimension, windowOf } from '../definition/semantic.ts'
import { digits, formulaSql } from './formula.ts'
import { earlier, intervalOf, lengthOf, type Span } from './period.ts'
import { refuse } from './query.ts'
import {
  type AnswerRows,
  calendarJoin,
  columnOf,
  comma,
  conditionsOn,
  groupedFacts,
  named,
  periodsOf,
  type Plan,
  type Sql,
  spanConditions,
  whereAll,
} from './statement.ts'

/** Whether rows are needed that the question does not name. */
export const isFramed = ({ query, metrics }: Plan): boolean => query.fill || metrics.some((metric) => windowOf(metric) !== null)

/** With the periods before it that its figures are made of. */
export const readSpan = ({ span, grain, metrics }: Plan): Span | null => {
  if (span === null) return null
  const starts = metrics.flatMap((metric) => {
    const window = windowOf(metric)
    if (window?.kind === 'rolling' && grain !== null) return [earlier(span.from, grain, window.periods)]
    return window?.kind === 'cumulative' && window.each !== null ? [earlier(span.from, window.each, 1)] : []
  })
  return { ...span, from: [span.from, ...starts].sort()[0] ?? span.from }
}

/** Refuses what has no right answer. Returns the dimension whose values make the whole. */
const wholeOver = ({ subject, metrics, by, query, grain }: Plan): SemanticDimension | undefined => {
  const windows = metrics.flatMap((metric) => windowOf(metric) ?? [])
  if (grain === null && (query.fill || windows.some(({ kind }) => kind !== 'share')))
    refuse('What is added up over periods, or filled, needs their length.', [`ask with grain ${subject.time?.grains[0]}`])
  const overs = [...new Set(windows.flatMap((one) => (one.kind === 'share' ? [one.over] : [])))]
  if (overs.length > 1) refuse(`One question has parts of one whole; these are of ${overs.join(' and ')}.`, ['ask two questions'])
  const over = subject.dimensions.get(overs[0] ?? '')
  if (over === undefined) return undefined
  const isMeant = (one: SemanticDimension | undefined): boolean => one === over || one?.of === over.name
  if (!by.some(isMeant) && !query.where.some(({ dimension }) => isMeant(subject.dimensions.get(dimension))))
    refuse(`A part of all ${over.name} needs to know of which.`, [`ask by ${over.name}`, `filter ${over.name}`])
  return over
}

/** Groups of the question, and of the rest of the whole (`_kept` is false), in every period. */
export const framedRows = (plan: Plan): AnswerRows => {
  const { subject, metrics, by, grain, span, query } = plan
  const over = wholeOver(plan)
  const isOver = (one: SemanticDimension): boolean => over !== undefined && (one === over || one.of === over.name)
  const own = conditionsOn(plan, isOver)
  const kept = own.length === 0 ? sql`true` : sql`coalesce(${sql.join(own, sql` and `)}, false)`
  const noWhole = over?.overlap.kind === 'whole' ? [sql`${columnOf(over)} <> ${over.overlap.whole}`] : []
  const where = [...spanConditions(subject, readSpan(plan)), ...conditionsOn(plan, (one) => !isOver(one)), ...noWhole]
  const counted = over === undefined ? [] : [named(sql`count(distinct ${columnOf(over)})`, '_over')]
  const base = groupedFacts(plan, [...metrics.map((metric) => named(sql.raw(formulaSql(metric, subject)), metric.name)), ...counted], where, kept) // biome-ignore format: one look
  const groups = [...by.map(({ name }) => name), '_kept']
  const figures = metrics.flatMap((metric) => figuresOf(metric, plan, groups.filter((name) => name === '_kept' || !by.some((one) => one.name === name && isOver(one))))) // biome-ignore format: one look
  const shown = [...(grain === null ? [] : ['period']), ...by.map(({ name }) => name)]
  const columns = sql.join([...shown.map((name) => sql.ref(name)), ...figures.map(({ made, name }) => named(made, name))], comma)
  const rows = grain === null ? sql`select * from base` : filledRows(plan, groups)
  const isThere = grain === null || query.fill ? [] : [sql`_there`]
  const isAsked = grain === null || span === null ? [] : [sql`_asked`]
  return {
    sql: sql`with base as (${base}), filled as (${rows})
      select ${sql.join([...shown, ...figures.map(({ name }) => name)].map((name) => sql.ref(name)), comma)}
      from (select ${columns}, _kept${sql.join([...isThere, ...isAsked].map((one) => sql`, ${one}`), sql``)} from filled) as windows${whereAll([sql`_kept`, ...isThere, ...isAsked])}`, // biome-ignore format: one look
    figures: figures.map(({ name }) => name),
  }
}

/** Every group in every period; `_asked`: the question names it, `_there`: the group has a row. */
const filledRows = (plan: Plan, groups: readonly string[]): Sql => {
  const { span, grain, metrics } = plan
  const read = readSpan(plan)
  const days = read === null
    ? [sql`facts.date between (select min(period) from base) and (select max(period) from base)`]
    : [sql`facts.date >= ${read.from}`, sql`facts.date < ${read.to}`] // biome-ignore format: one look
  const [period = sql`null`] = periodsOf(
    { ...plan, subject: { ...plan.subject, time: { column: 'date', grains: ['day'] } } },
    'date',
  )
  const asked = span === null || grain === null ? sql`true` : sql`period + ${sql.lit(intervalOf(lengthOf[grain]))}::interval > ${span.from}` // biome-ignore format: one look
  const names = groups.map((name) => sql.ref(name))
  const firsts = metrics.flatMap((metric) => {
    const window = windowOf(metric)
    if (window?.kind !== 'cumulative') return []
    const since = window.each === null ? sql` and ${asked}` : sql``
    return [named(sql`min(period) filter (where ${sql.ref(metric.name)} is not null${since})`, `_first_${metric.name}`)]
  })
  const same = groups.map((name) => sql` and base.${sql.ref(name)} is not distinct from lists.${sql.ref(name)}`)
  const of = [...metrics.map(({ name }) => name), ...(metrics.some((one) => windowOf(one)?.kind === 'share') ? ['_over'] : [])]
  return sql`select periods.period, lists.*, periods._asked, base.period is not null as _there, ${sql.join(of.map((name) => sql`base.${sql.ref(name)}`), comma)}
    from (select period, ${asked} as _asked from (select distinct ${period} as period from bi.dim_date as facts${calendarJoin(plan, 'date')}${whereAll(days)}) as all_periods) as periods
    cross join (select ${sql.join([...names, ...firsts], comma)} from base group by ${sql.join(names, comma)}) as lists
    left join base on base.period = periods.period${sql.join(same, sql``)}` // biome-ignore format: one look
}

/** NULL where a period between is not known: a sum over it would be too small. @param rest what a whole is told by, the period aside */
const figuresOf = (
  metric: Metric,
  plan: Plan,
  rest: readonly string[],
): readonly { readonly name: string; readonly made: Sql }[] => {
  const { name } = metric
  const window = windowOf(metric)
  const figure = sql.ref(name)
  if (window === null) return [{ name, made: figure }]
  const of = (names: readonly string[]): Sql => sql.join(names.map((one) => sql.ref(one)), comma) // biome-ignore format: one look
  if (window.kind === 'share') {
    const [period] = plan.grain === null ? [] : ['period']
    const told = [...(period === undefined ? [] : [period]), ...rest.filter((one) => one !== '_kept')]
    const whole = told.length === 0 ? sql`over ()` : sql`over (partition by ${of(told)})`
    return [
      { name, made: sql`round(${figure}::numeric / nullif(sum(${figure}) ${whole}, 0), ${sql.lit(digits)})` },
      { name: `${name}_over`, made: sql`sum(_over) ${whole}` },
    ]
  }
  const groups = [...plan.by.map((one) => one.name), '_kept']
  if (window.kind === 'rolling') {
    const frame = sql`over (partition by ${of(groups)} order by period rows between ${sql.lit(window.periods - 1)} preceding and current row)`
    return [
      { name, made: sql`case when count(${figure}) ${frame} = ${sql.lit(window.periods)} then sum(${figure}) ${frame} end` },
    ]
  }
  const { each } = window
  const since = each === null ? sql`` : sql`, ${startOfPeriod(each)}`
  const frame = sql`filter (where ${each === null ? sql`_asked` : sql`true`} and period >= ${sql.ref(`_first_${name}`)}) over (partition by ${of(groups)}${since} order by period)`
  return [{ name, made: sql`case when count(${figure}) ${frame} = count(*) ${frame} then sum(${figure}) ${frame} end` }]
}

/** Tells the years, quarters, ... of periods apart. */
const startOfPeriod = (each: Grain): Sql =>
  isFiscal(each)
    ? sql`(select d.${sql.ref(`${each}_name`)} from bi.dim_date as d where d.date = period)`
    : sql`date_trunc(${sql.lit(each)}, period)`
