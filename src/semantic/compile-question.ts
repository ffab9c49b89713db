// Compiles a checked question into one SELECT over bi, also figures that need other rows of the answer, and periods without rows. Names come from the model, and
// values are parameters: no text of a caller becomes SQL.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import {
  type Grain,
  isFiscal,
  hasAsOf,
  type Metric,
  type SemanticDimension,
  type SemanticModel,
  type Subject,
  windowOf,
} from '../definition/semantic.ts'
import { decimalPlaces, formulaSql } from './formula.ts'
import { earlier, intervalOf, isWholePeriods, lengthOf, shiftOf, type Span, spanOf, startOf } from './period.ts'
import { type Plan, withDefaultFilters, withRowLength } from './pins.ts'
import { findDimension, findMetrics, refuse, type SemanticQuery } from './query.ts'
import type { CellFilter } from './state.ts'
import {
  type AnswerRows,
  calendarJoin,
  columnOf,
  comparedCells,
  comparedPairs,
  comparedRows,
  conditionsOn,
  groupedFacts,
  named,
  periodsOf,
  plainRows,
  refs,
  type Sides,
  spanConditions,
  type Sql,
  statementOf,
  whereAll,
} from './statement.ts'

/** The statements for the database, and what a reader of the answer must know. */
export type CompiledQuery = ReturnType<typeof compileQuery>

/** Throws QueryRefusedError where there is no right answer. */
export const compileQuery = (db: Db, model: SemanticModel, asked: SemanticQuery) => {
  const { subject, metrics } = withRowLength(findMetrics(model, asked.metrics), asked)
  const query = withTimeAsGrain(asked, subject)
  const by = [...new Set(query.by)].map((name) => findDimension(model, subject, name))
  for (const { dimension } of query.where) findDimension(model, subject, dimension)
  if (query.as_of !== undefined && !hasAsOf(subject)) refusePast(model, subject)
  const grain = grainOf(query, subject, metrics)
  const span = spanOf(subject, query)
  const plan = withDefaultFilters({ query, subject, metrics, by, grain, span })
  const rowOf = [...(grain === null ? [] : ['period']), ...by.map(({ name }) => name)]
  const sides = sidesOf(plan, model)
  const rows = sides !== null ? comparedRows(plan, sides) : isFramed(plan) ? framedRows(plan) : plainRows(plan)
  const { sql: statement, tied } = statementOf(plan, rowOf, rows)
  const { sql: text, parameters } = statement.compile(db)
  return {
    sql: text,
    parameters,
    subject,
    metrics,
    /** The answer's columns that identify a row, in order; `period` first where there is one. */
    rowOf,
    /** Spans of the question and of its comparison; empty: it names no period. */
    spans: spansOf(plan),
    /** The cells of the pipeline from which the figures are made. */
    cells: cellsOf(plan),
    /** A query that counts the cells on both sides of a comparison, only before, and only now; null: no comparison. */
    compared: (sides === null ? comparedPairs(plan) : comparedCells(plan, sides))?.compile(db) ?? null,
    limit: query.limit,
    /** The limit never separates rows with equal values in these columns. */
    tied,
    /** Sentences about defaults that were used and periods that are cut. */
    notes: notesOf(plan),
  }
}

/** Accepts the time column in `by` (`by: [month]`) as a grain, since many callers write that. */
const withTimeAsGrain = (query: SemanticQuery, { time }: Subject): SemanticQuery => {
  const [rows] = time?.grains ?? []
  if (time === null || rows === undefined || !query.by.includes(time.column)) return query
  return { ...query, grain: query.grain ?? rows, by: query.by.filter((name) => name !== time.column) }
}

const refusePast = ({ subjects }: SemanticModel, { name, pipeline }: Subject): never => {
  const other = [...subjects.values()].find((one) => one.pipeline === pipeline && hasAsOf(one))
  return refuse(
    `${name} has current values only.`,
    other === undefined
      ? ['leave as_of out']
      : [`${other.name} has past values: ${[...other.metrics.keys()].slice(0, 6).join(', ')}`],
  )
}

const grainOf = ({ grain, compare, period }: SemanticQuery, subject: Subject, metrics: readonly Metric[]): Grain | null => {
  if (compare !== undefined && period === undefined) refuse('A comparison needs a period.', ['add period: { from, to }'])
  if (grain === undefined) return null
  for (const { name, grains } of metrics)
    if (!grains.includes(grain))
      refuse(
        `${name} is not available by ${grain}.`,
        grains.length === 0 ? ['leave grain out'] : grains.map((one) => `query with grain ${one}`),
      )
  return subject.time === null ? null : grain
}

const sidesOf = ({ span, grain, subject, metrics, query }: Plan, { subjects }: SemanticModel): Sides | null => {
  const { compare } = query
  const others = [...subjects.values()].filter(
    ({ pipeline, dimensions }) => pipeline === subject.pipeline && dimensions.has('loaded_in'),
  )
  if (compare === undefined || span === null) return null
  if (query.fill) refuse('A comparison cannot fill periods.', ['leave fill out', 'leave compare out'])
  for (const { name, wholeOf, formula } of metrics) {
    if (formula.kind === 'cumulative' || formula.kind === 'rolling')
      refuse(`${name} covers several periods and cannot be compared.`, [`compare ${formula.of}`])
    if (wholeOf.length > 0)
      refuse(
        `${name} cannot be compared here: it depends on which values of ${wholeOf.join(', ')} are loaded in each of the two periods.`,
        others.map(
          (one) =>
            `${one.name} uses the same values of ${wholeOf.join(', ')} in both: ${[...one.metrics.keys()].filter((other) => other.includes('share')).join(', ')}`,
        ),
      )
  }
  const shift = shiftOf(span, compare, grain)
  if (subject.time?.grains[0] === 'week' && (shift.byMonths || compare === 'year'))
    refuse('Weeks do not begin on the same days of another month or year.', ['query with grain week and compare previous'])
  return { span, shift }
}

const spansOf = (plan: Plan): Span[] => {
  const { span, query, grain } = plan
  if (span === null) return []
  return query.compare === undefined ? [readSpan(plan) ?? span] : [span, shiftOf(span, query.compare, grain).before]
}

/** The dimension for how many months earlier the compared month of a row is, and its maximum. */
const monthsBack = 'months_back'
const mostBack = 36

/** The values of `months_back` that a question's filters allow. */
const backs = ({ where }: SemanticQuery): string[] =>
  Array.from({ length: mostBack }, (_, at) => String(at + 1)).filter((back) =>
    where
      .filter(({ dimension }) => dimension === monthsBack)
      .every(
        ({ is = [back], is_not = [], at_least = 1, at_most = mostBack }) =>
          is.includes(back) && !is_not.includes(back) && Number(back) >= Number(at_least) && Number(back) <= Number(at_most),
      ),
  )

/** Filters on cells. A share needs the cells of every value of the whole, so filters on that dimension are left out. */
const cellsOf = ({ query, subject, metrics, by, defaults }: Plan): CellFilter[] => [
  ...by.flatMap(({ name }) => (name === monthsBack ? [{ column: name, isNot: false, values: backs(query) }] : [])),
  ...query.where.flatMap(({ dimension, is, is_not }): CellFilter[] => {
    const one = subject.dimensions.get(dimension)
    const column = one?.column ?? dimension
    if (dimension === monthsBack && one !== undefined && by.includes(one)) return []
    if (metrics.some(({ wholeOf }) => wholeOf.includes(one?.of ?? dimension))) return []
    return [
      ...(is === undefined ? [] : [{ column, isNot: false, values: is }]),
      ...(is_not === undefined ? [] : [{ column, isNot: true, values: is_not }]),
    ]
  }),
  ...defaults.map(({ dimension, is, value }) => ({ column: dimension.column, isNot: is === 'not', values: [value] })),
]

const notesOf = ({ defaults, grain, span, subject }: Plan): string[] => [
  ...defaults.map(({ why }) => `${why}.`),
  ...(grain !== null && span !== null && !isWholePeriods(span, grain)
    ? [`The first or the last ${grain} ${isFiscal(grain) ? 'may not be' : 'is not'} complete.`]
    : []),
  ...(subject.pipeline === null ? [] : ['NULL means no data, never 0.']),
]

/** Whether the statement needs rows that the question does not name. */
const isFramed = ({ query, metrics }: Plan): boolean => query.fill || metrics.some((metric) => windowOf(metric) !== null)

/** A day at or before the first day of the period: only the database knows where a fiscal period begins. */
const startIn = (date: string, grain: Grain): string => (isFiscal(grain) ? earlier(date, grain, 1) : startOf(date, grain))

/** The span of the question, extended by earlier periods that its figures need. */
const readSpan = ({ span, grain, metrics }: Plan): Span | null => {
  if (span === null) return null
  const first = grain === null ? span.from : startIn(span.from, grain)
  const starts = metrics.flatMap((metric) => {
    const window = windowOf(metric)
    if (window?.kind === 'rolling' && grain !== null) return [earlier(first, grain, window.periods - 1)]
    return window?.kind === 'cumulative' && window.each !== null ? [startIn(first, window.each)] : []
  })
  return { ...span, from: [span.from, ...starts].sort()[0] ?? span.from }
}

/** The span for finding a group's first figure: unlimited for totals by year and the like, which need every month since then. */
const knownSpan = (plan: Plan): Span | null => {
  const read = readSpan(plan)
  const isFromFirst = plan.metrics.map(windowOf).some((one) => one?.kind === 'cumulative' && one.each !== null)
  return read === null || !isFromFirst ? read : { ...read, from: '-infinity' }
}

/** The dimension over which a share is computed. Refuses questions that have no right answer. */
const wholeOver = ({ subject, metrics, by, query, grain }: Plan): SemanticDimension | undefined => {
  const windows = metrics.flatMap((metric) => windowOf(metric) ?? [])
  if (grain === null && (query.fill || windows.some(({ kind }) => kind !== 'share')))
    refuse('Sums over periods and fill need a grain.', [`query with grain ${subject.time?.grains[0]}`])
  const overs = [...new Set(windows.flatMap((one) => (one.kind === 'share' ? [one.over] : [])))]
  if (overs.length > 1)
    refuse(`One question can have shares over one dimension; these are over ${overs.join(' and ')}.`, ['ask two questions'])
  const over = subject.dimensions.get(overs[0] ?? '')
  if (over === undefined) return undefined
  const isMeant = (one: SemanticDimension | undefined): boolean => one === over || one?.of === over.name
  if (!by.some(isMeant) && !query.where.some(({ dimension }) => isMeant(subject.dimensions.get(dimension))))
    refuse(`A share over ${over.name} needs ${over.name} in by or in a filter.`, [`group by ${over.name}`, `filter ${over.name}`])
  return over
}

/** Rows for every group in every period; `_kept` false: the group only belongs to the rest of a whole. */
const framedRows = (plan: Plan): AnswerRows => {
  const { subject, metrics, by, grain, span, query } = plan
  const over = wholeOver(plan)
  const isOver = (one: SemanticDimension): boolean => over !== undefined && (one === over || one.of === over.name)
  const own = conditionsOn(plan, isOver)
  const kept = own.length === 0 ? sql`true` : sql`coalesce(${sql.join(own, sql` and `)}, false)`
  const noWhole = over?.overlap.kind === 'whole' ? [sql`${columnOf(over)} <> ${over.overlap.whole}`] : []
  const where = [...spanConditions(subject, knownSpan(plan)), ...conditionsOn(plan, (one) => !isOver(one)), ...noWhole]
  const counted = over === undefined ? [] : [named(sql`count(distinct ${columnOf(over)})`, '_over')]
  const base = groupedFacts(plan, [...metrics.map((metric) => named(sql.raw(formulaSql(metric, subject)), metric.name)), ...counted], where, kept) // biome-ignore format: one look
  const groups = [...by.map(({ name }) => name), '_kept']
  const figures = metrics.flatMap((metric) => figuresOf(metric, plan, groups.filter((name) => name === '_kept' || !by.some((one) => one.name === name && isOver(one))))) // biome-ignore format: one look
  const shown = [...(grain === null ? [] : ['period']), ...by.map(({ name }) => name)]
  const columns = sql.join([...shown.map((name) => sql.ref(name)), ...figures.map(({ made, name }) => named(made, name))])
  const rows = grain === null ? sql`select * from base` : filledRows(plan, groups)
  const isThere = grain === null || query.fill ? [] : [sql`_there`]
  const isAsked = grain === null || span === null ? [] : [sql`_asked`]
  return {
    sql: sql`with base as (${base}), filled as (${rows})
      select ${refs([...shown, ...figures.map(({ name }) => name)])}
      from (select ${columns}, _kept${sql.join([...isThere, ...isAsked].map((one) => sql`, ${one}`), sql``)} from filled) as windows${whereAll([sql`_kept`, ...isThere, ...isAsked])}`, // biome-ignore format: one look
    figures: figures.map(({ name }) => name),
  }
}

/** Every group in every period; `_asked`: the question names the period, `_there`: the group has a row. */
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
  // Whether a period reaches into a span: its first period is the one that contains the span's first day.
  const reaches = (last: Sql, since: Span | null): Sql => since === null || grain === null ? sql`true` : sql`${last} + ${sql.lit(intervalOf(lengthOf[grain]))}::interval > ${since.from}` // biome-ignore format: one look
  const asked = reaches(sql`period`, span)
  const names = groups.map((name) => sql.ref(name))
  const firsts = metrics.flatMap((metric) => {
    const window = windowOf(metric)
    if (window?.kind !== 'cumulative') return []
    const since = window.each === null ? sql` and ${asked}` : sql``
    return [named(sql`min(period) filter (where ${sql.ref(metric.name)} is not null${since})`, `_first_${metric.name}`)]
  })
  const firstNames = metrics.filter((metric) => windowOf(metric)?.kind === 'cumulative').map(({ name }) => `_first_${name}`)
  const of = [...metrics.map(({ name }) => name), ...(metrics.some((one) => windowOf(one)?.kind === 'share') ? ['_over'] : [])]
  const noneOf = (columns: readonly string[]): Sql[] => columns.map((name) => named(sql`null`, name))
  const refsOf = (columns: readonly string[]): Sql[] => columns.map((name) => sql.ref(name))
  // UNION and GROUP BY instead of a join: group values may be NULL, and a join on NULLs would compare every row with every row.
  return sql`select ${sql.join([
    sql`period`,
    ...names,
    sql`bool_or(_asked) as _asked, bool_or(_there) as _there`,
    ...[...firstNames, ...of].map((name) => named(sql`max(${sql.ref(name)})`, name)),
  ])}
    from (select ${sql.join([sql`period`, ...names, sql`_asked, false as _there`, ...refsOf(firstNames), ...noneOf(of)])}
      from (select period, ${asked} as _asked from (select distinct ${period} as period from bi.dim_date as facts${calendarJoin(plan, 'date')}${whereAll(days)}) as all_periods) as periods
      cross join (select ${sql.join([...names, ...firsts])} from base group by ${sql.join(names)} having ${reaches(sql`max(period)`, read)}) as lists
      union all select ${sql.join([sql`period`, ...names, sql`null, true`, ...noneOf(firstNames), ...refsOf(of)])} from base) as each
    group by ${sql.join([sql`period`, ...names])} having bool_or(_asked) is not null` // biome-ignore format: one look
}

/** Figures are NULL where a period in between is missing, since a sum over it would be too small. @param rest columns, besides the period, by which a whole is grouped */
const figuresOf = (metric: Metric, plan: Plan, rest: readonly string[]) => {
  const { name } = metric
  const window = windowOf(metric)
  const figure = sql.ref(name)
  if (window === null) return [{ name, made: figure }]
  if (window.kind === 'share') {
    const [period] = plan.grain === null ? [] : ['period']
    const told = [...(period === undefined ? [] : [period]), ...rest.filter((one) => one !== '_kept')]
    const whole = told.length === 0 ? sql`over ()` : sql`over (partition by ${refs(told)})`
    return [
      { name, made: sql`round(${figure}::numeric / nullif(sum(${figure}) ${whole}, 0), ${sql.lit(decimalPlaces)})` },
      { name: `${name}_over`, made: sql`sum(_over) ${whole}` },
    ]
  }
  const groups = [...plan.by.map((one) => one.name), '_kept']
  if (window.kind === 'rolling') {
    const frame = sql`over (partition by ${refs(groups)} order by period rows between ${sql.lit(window.periods - 1)} preceding and current row)`
    return [
      { name, made: sql`case when count(${figure}) ${frame} = ${sql.lit(window.periods)} then sum(${figure}) ${frame} end` },
    ]
  }
  const { each } = window
  const since = each === null ? sql`` : sql`, ${startOfPeriod(each)}`
  const frame = sql`filter (where ${each === null ? sql`_asked` : sql`true`} and period >= ${sql.ref(`_first_${name}`)}) over (partition by ${refs(groups)}${since} order by period)`
  return [{ name, made: sql`case when count(${figure}) ${frame} = count(*) ${frame} then sum(${figure}) ${frame} end` }]
}

/** SQL that identifies the year, quarter, ... of a period. */
const startOfPeriod = (each: Grain): Sql =>
  isFiscal(each)
    ? sql`(select d.${sql.ref(`${each}_name`)} from bi.dim_date as d where d.date = period)`
    : sql`date_trunc(${sql.lit(each)}, period)`
