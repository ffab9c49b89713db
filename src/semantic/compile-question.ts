// A checked question as one SELECT over bi. Names come from the model, values are parameters: nothing a caller sends becomes SQL.
import type { Db } from '../db/tables.ts'
import { type Grain, isFiscal, knowsThePast, type Metric, type SemanticModel, type Subject } from '../definition/semantic.ts'
import { findDimension, findMetrics } from './find.ts'
import { isWhole, shiftOf, type Span, spanOf } from './period.ts'
import { assertAdditive, defaultFilters } from './pins.ts'
import { refuse, type SemanticQuery } from './query.ts'
import type { CellFilter } from './state.ts'
import { comparedCells, comparedRows, plainRows, type Plan, type Sides, statementOf, tiedBy } from './statement.ts'
import { framedRows, isFramed, readSpan } from './framed.ts'
import type { Statement } from './reader.ts'

/** What is sent to the database, and what a reader of the answer must know. */
export interface CompiledQuery {
  readonly sql: string
  readonly parameters: readonly unknown[]
  readonly subject: Subject
  readonly metrics: readonly Metric[]
  /** Names of the answer's columns that say what a row is of, in their order; `period` first where there is one. */
  readonly rowOf: readonly string[]
  /** Of the question and of its comparison; none: it names no period. */
  readonly spans: readonly Span[]
  /** Which cells of the pipeline the figures are made of. */
  readonly cells: readonly CellFilter[]
  /** Counts the cells that a comparison has on both sides, only before, only now; null: nothing is compared. */
  readonly compared: Statement | null
  readonly limit: number
  /** Rows that are alike in these columns are not told apart by the limit. */
  readonly tied: readonly string[]
  /** Sentences: defaults that were taken, periods that are cut. */
  readonly notes: readonly string[]
}

/** Throws QueryRefusedError where there is no right answer. */
export const compileQuery = (db: Db, model: SemanticModel, asked: SemanticQuery): CompiledQuery => {
  const { subject, metrics } = findMetrics(model, asked.metrics)
  const query = withTimeAsGrain(asked, subject)
  const by = [...new Set(query.by)].map((name) => findDimension(model, subject, name))
  for (const { dimension } of query.where) findDimension(model, subject, dimension)
  if (query.as_of !== undefined && !knowsThePast(subject)) refusePast(model, subject)
  const grain = grainOf(query, subject, metrics)
  const span = spanOf(subject, query)
  const { where } = query
  const defaults = defaultFilters({ subject, metrics, by, where, grain, span })
  assertAdditive({ subject, metrics, by, where, grain, span }, defaults)
  const plan: Plan = { query, subject, metrics, by, grain, span, defaults }
  const rowOf = [...(grain === null ? [] : ['period']), ...by.map(({ name }) => name)]
  const sides = sidesOf(plan, model)
  const rows = sides !== null ? comparedRows(plan, sides) : isFramed(plan) ? framedRows(plan) : plainRows(plan)
  const { sql: text, parameters } = statementOf(plan, rowOf, rows).compile(db)
  return {
    sql: text,
    parameters,
    subject,
    metrics,
    rowOf,
    spans: spansOf(plan),
    cells: cellsOf(plan),
    compared: sides === null ? null : comparedCells(plan, sides).compile(db),
    limit: query.limit,
    tied: tiedBy(query, rowOf, [...rowOf, ...rows.figures]),
    notes: notesOf(plan),
  }
}

/** `by: [month]` is what many would write. */
const withTimeAsGrain = (query: SemanticQuery, { time }: Subject): SemanticQuery => {
  const [rows] = time?.grains ?? []
  if (time === null || rows === undefined || !query.by.includes(time.column)) return query
  return { ...query, grain: query.grain ?? rows, by: query.by.filter((name) => name !== time.column) }
}

const refusePast = ({ subjects }: SemanticModel, { name, pipeline }: Subject): never => {
  const other = [...subjects.values()].find((one) => one.pipeline === pipeline && knowsThePast(one))
  return refuse(
    `${name} is only known as it is now.`,
    other === undefined
      ? ['leave as_of out']
      : [`${other.name} knows the past: ${[...other.metrics.keys()].slice(0, 6).join(', ')}`],
  )
}

const grainOf = ({ grain, compare, period }: SemanticQuery, subject: Subject, metrics: readonly Metric[]): Grain | null => {
  if (compare !== undefined && period === undefined) refuse('A comparison needs a period.', ['add period: { from, to }'])
  if (grain === undefined) return null
  for (const { name, grains } of metrics)
    if (!grains.includes(grain))
      refuse(
        `${name} is not known by ${grain}.`,
        grains.length === 0 ? ['leave grain out'] : grains.map((one) => `ask with grain ${one}`),
      )
  return subject.time === null ? null : grain
}

const sidesOf = ({ span, grain, subject, metrics, query }: Plan, { subjects }: SemanticModel): Sides | null => {
  const { compare } = query
  const others = [...subjects.values()].filter(
    ({ pipeline, dimensions }) => pipeline === subject.pipeline && dimensions.has('loaded_in'),
  )
  if (compare === undefined || span === null) return null
  if (query.fill) refuse('A comparison fills no periods.', ['leave fill out', 'leave compare out'])
  for (const { name, wholeOf, formula } of metrics) {
    if (formula.kind === 'cumulative' || formula.kind === 'rolling')
      refuse(`${name} is made of several periods and is not compared.`, [`compare ${formula.of}`])
    if (wholeOf.length > 0)
      refuse(
        `${name} is not compared so: it changes with which ${wholeOf.join(', ')} are loaded in each of the two periods.`,
        others.map(
          (one) =>
            `${one.name} takes the same ${wholeOf.join(', ')} in both: ${[...one.metrics.keys()].filter((other) => other.includes('share')).join(', ')}`,
        ),
      )
  }
  return { span, shift: shiftOf(span, compare, grain) }
}

const spansOf = (plan: Plan): Span[] => {
  const {
    span,
    query: { compare },
    grain,
  } = plan
  if (span === null) return []
  return compare === undefined ? [readSpan(plan) ?? span] : [span, shiftOf(span, compare, grain).before]
}

const cellsOf = ({ query, subject, defaults }: Plan): CellFilter[] => [
  ...query.where.flatMap(({ dimension, is, is_not }): CellFilter[] => {
    const column = subject.dimensions.get(dimension)?.column ?? dimension
    return [
      ...(is === undefined ? [] : [{ column, isNot: false, values: is }]),
      ...(is_not === undefined ? [] : [{ column, isNot: true, values: is_not }]),
    ]
  }),
  ...defaults.map(({ dimension, is, value }) => ({ column: dimension.column, isNot: is === 'not', values: [value] })),
]

const notesOf = ({ defaults, grain, span, subject }: Plan): string[] => [
  ...defaults.map(({ why }) => `${why}.`),
  ...(grain !== null && span !== null && !isWhole(span, grain)
    ? [`The first or the last ${grain} ${isFiscal(grain) ? 'may not be' : 'is not'} whole.`]
    : []),
  ...(subject.pipeline === null ? [] : ['NULL means no data, never 0.']),
]
