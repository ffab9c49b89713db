// Answers a question: rows with their SQL, the moment of the data, whether they are final, and what is missing. Refuses values that do not exist, since
// a sum over no rows reads like "none". Also reads plain rows of a view of bi: what is loaded, how fresh it is, what was restated.
import { sql } from 'kysely'
import { z } from 'zod'
import { columnNames } from '../db/catalog.ts'
import { suggest } from '../definition/problem.ts'
import type { Metric, SemanticDimension, SemanticModel, Subject } from '../definition/semantic.ts'
import { type CompiledQuery, compileQuery } from './compile-question.ts'
import { spanOf } from './period.ts'
import { mostRows, type QueryFilter, querySchema, refuse } from './query.ts'
import { type Reader, type Reading, type Rows, rowsOf } from './reader.ts'
import { type AnswerState, type MethodBreak, stateOf } from './state.ts'
import { refs, type Sql, whereAll } from './statement.ts'

/** A value for JSON; a figure that a JavaScript number would round is text. */
export type Cell = string | number | boolean | null | readonly string[]

/** The answer exactly as callers get it. */
export type Answer = Awaited<ReturnType<typeof answerOf>>

/** @param input whatever a caller sent. Throws QueryRefusedError. */
export const answerQuery = async (reader: Reader, model: SemanticModel, input: unknown): Promise<Answer> => {
  const checked = querySchema.safeParse(input)
  if (!checked.success)
    return refuse(`The question is not valid: ${z.prettifyError(checked.error).replaceAll(/\s+/g, ' ').slice(0, 600)}`)
  const compiled = compileQuery(reader.db, model, checked.data)
  return reader.answer(async (reading) => {
    await assertKnown(reading, compiled.subject, checked.data.where)
    return answerOf(reading, model, compiled, checked.data.as_of ?? null)
  })
}

const answerOf = async (reading: Reading, model: SemanticModel, compiled: CompiledQuery, asOf: string | null) => {
  const { sql, parameters, subject, metrics, rowOf } = compiled
  const { columns, rows } = await reading.read({ sql, parameters })
  const compared = await comparedOf(reading, compiled)
  const state = await stateOf(reading, model, subject, compiled)
  const limit = lastShown(compiled, columns, rows)
  return {
    subject: subject.name,
    metrics: metrics.map(wordsOf),
    ...shownOf({ columns, rows }, limit, (name) => !rowOf.includes(name)),
    sql,
    parameters,
    /** ISO 8601: as_of, or the moment of the answer. */
    believed_at: asOf ?? (await momentOf(reading)),
    compared,
    ...state,
    notes: [
      ...cutNotes(state.cells_cut, compared !== null),
      ...comparedNotes(compared),
      ...state.method_breaks.map(breakNote),
      ...compiled.notes,
      ...(limit > compiled.limit ? [`${limit - compiled.limit} more than requested, since they tie with the last one.`] : []),
      ...(rows.length > limit ? [`Only the first ${limit} rows are shown; raise limit, or filter with where.`] : []),
      ...(rows.length === 0 ? ['No matching rows: no row has these values, or nothing of the period is loaded.'] : []),
      ...(state.cells_missing.length > 0
        ? ['Rows are missing (cells_missing): sums are too small, and a figure that is null is not known.']
        : []),
      ...(asOf !== null ? ['What is missing and what is final is stated as of now, not as of as_of.'] : []),
    ],
  }
}

/** The number of rows to show: the limit, extended by rows that tie with the last one. */
const lastShown = ({ limit, tied }: CompiledQuery, columns: readonly string[], rows: readonly (readonly unknown[])[]): number => {
  const last = rows[limit - 1]
  const places = tied.map((name) => columns.indexOf(name))
  // NULLs do not tie: they are not known.
  if (last === undefined || places.length === 0 || places.some((place) => last[place] === null)) return limit
  let shown = limit
  while (shown < Math.min(rows.length, mostRows) && places.every((place) => rows[shown]?.[place] === last[place])) shown += 1
  return shown
}

const count = z.coerce.number()
const countsRow = z.tuple([count, count, count])

/** Counts of cells (a slice in one period) of a comparison; change and growth use only those in both periods. null: no comparison. */
const comparedOf = async (reading: Reading, { compared }: CompiledQuery) => {
  if (compared === null) return null
  const [in_both, only_before, only_now] = countsRow.parse((await reading.read(compared)).rows[0] ?? [0, 0, 0])
  return { in_both, only_before, only_now }
}

const comparedNotes = (compared: Awaited<ReturnType<typeof comparedOf>>): string[] => {
  if (compared === null || compared.only_before + compared.only_now === 0) return []
  const { in_both, only_before, only_now } = compared
  return [
    `Like with like: change, growth and figures against an earlier month cover ${in_both} of ${in_both + only_before + only_now} cells, those that both periods have; only in the earlier period: ${only_before}, only in the later one: ${only_now}. Other figures cover all cells.`,
  ]
}

/** A note where only the first rows of a cell are loaded: sums are then too small. */
const cutNotes = ([cut]: AnswerState['cells_cut'], isCompared: boolean): string[] =>
  cut === undefined
    ? []
    : [
        `Only the first rows of some cells are loaded (cells_cut), for example ${cut.rows} of ${cut.cell} in ${cut.period.slice(0, 7)}: figures leave the other rows out${isCompared ? ', and change and growth against a completely loaded period are not like with like' : ''}.`,
      ]

const breakNote = ({ starts_on, columns, change }: MethodBreak): string => {
  const of =
    columns[0] === undefined || change === null
      ? ''
      : ` (${columns[0]} ${change < 0 ? '-' : '+'}${Math.abs(change * 100).toFixed(0)} % on average)`
  const what = change === null ? 'the figures come from another table' : `the service counts by another method${of}`
  return `From ${starts_on} on ${what}: figures before and after are not comparable (bi.breaks).`
}

const wordsOf = ({ name, about, unit, format }: Metric) => ({ name, about, unit, format })

const momentOf = async (reading: Reading): Promise<string> => {
  const asked = sql`select to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
  const [[moment] = ['']] = await rowsOf(reading, asked, z.tuple([z.string()]))
  return moment
}

/** @param isFigure becomes a number where JavaScript holds it exactly */
export const cellOf = (value: unknown, isFigure: boolean): Cell => {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(String)
  const text = String(value)
  if (!isFigure || !/^-?\d+(\.\d+)?$/.test(text)) return text
  const short = text.includes('.') ? text.replace(/\.?0+$/, '') : text
  return String(Number(short)) === short ? Number(short) : text
}

/** Which rows. */
interface ViewQuestion {
  /** In bi, without the schema. A name of ours, never a caller's. */
  readonly view: string
  readonly pipeline?: string | undefined
  readonly period?: { readonly from: string; readonly to: string } | undefined
  /** Newest first by this column, where the view has it. */
  readonly newestBy?: string
  readonly limit: number
}

/** As `Answer`, for plain rows. Throws QueryRefusedError where the view does not exist or lacks a filter's column. */
export const answerView = (reader: Reader, model: SemanticModel, question: ViewQuestion) =>
  reader.answer(async (reading) => {
    const { view, pipeline, limit } = question
    const columns = await columnNames(reading.db, `bi.${view}`)
    if (columns.length === 0) return refuse(`bi.${view} does not exist.`, ['run `millrace migrate`'])
    const subject = [...model.subjects.values()].find((one) => one.view === view)
    const span = subject === undefined ? null : spanOf(subject, { period: question.period })
    const time = subject?.time?.column ?? ''
    const conditions = [
      ...(pipeline === undefined || !columns.includes('pipeline') ? [] : [sql`pipeline = ${pipeline}`]),
      ...(span === null ? [] : [sql`${sql.ref(time)} >= ${span.from}`, sql`${sql.ref(time)} < ${span.to}`]),
    ]
    const newest = question.newestBy ?? time
    const order = columns.includes(newest) ? sql` order by ${sql.ref(newest)} desc nulls last` : sql``
    const rows = sql`select ${refs(columns)} from ${sql.table(`bi.${view}`)}${whereAll(conditions)}${order} limit ${sql.lit(limit + 1)}`
    const statement = rows.compile(reading.db)
    return { ...shownOf(await reading.read(statement), limit, () => true), sql: statement.sql, parameters: statement.parameters }
  })

const shownOf = ({ columns, rows }: Rows, limit: number, isFigure: (name: string) => boolean) => ({
  columns,
  rows: rows.slice(0, limit).map((row) => Object.fromEntries(columns.map((name, at) => [name, cellOf(row[at], isFigure(name))]))),
  /** Whether there are more rows than `limit`. */
  is_cut: rows.length > limit,
})

/** Most names among which the nearest is searched. */
const mostNames = 5_000
const nameRow = z.tuple([z.string().nullable()])

/** The values of a dimension, or the table that has them; null: not all are known. */
const valuesOf = ({ dimensions }: Subject, { column, of, table, entity, values }: SemanticDimension) => {
  if (values !== null) return values
  if (of !== null) return { table: table ?? dimensions.get(of)?.entity?.table ?? '', column }
  return entity === null ? null : { table: entity.table, column: entity.key }
}

/** Throws QueryRefusedError. */
const assertKnown = async (reading: Reading, subject: Subject, where: readonly QueryFilter[]): Promise<void> => {
  for (const { dimension: name, is = [], is_not = [] } of where) {
    const dimension = subject.dimensions.get(name)
    const values = dimension === undefined ? null : valuesOf(subject, dimension)
    if (dimension === undefined || values === null) continue
    for (const asked of [...is, ...is_not]) await assertOne(reading, subject, dimension, values, asked)
  }
}

const assertOne = async (
  reading: Reading,
  subject: Subject,
  { name, column }: SemanticDimension,
  values: NonNullable<SemanticDimension['values']>,
  asked: string,
): Promise<void> => {
  const read = async (more: Sql): Promise<string[]> => {
    if (!('table' in values)) return [...values]
    const names = sql`select ${sql.ref(values.column)}::text as name from ${sql.table(`bi.${values.table}`)}`
    const rows = await rowsOf(reading, sql`select name from (${names}) as known${more}`, nameRow)
    return rows.flatMap(([known]) => known ?? [])
  }
  const known = await read(sql` where name = ${asked} limit 1`)
  if (known.includes(asked) || known.includes(asked.replaceAll(/\d+/g, '#'))) return
  if (await isOnLists(reading, subject, column, asked))
    refuse(`${name} '${asked}' is in the lists, but not loaded: its figures are not known.`, [
      'leave it out',
      'call coverage to see why it is not loaded',
    ])
  const names = await read(sql` order by starts_with(name, left(${asked}, 2)) desc, name limit ${sql.lit(mostNames)}`)
  const same = names.find((one) => one.toLowerCase() === asked.toLowerCase())
  refuse(`${name} has no value '${asked}'.${same === undefined ? suggest(asked, names) : ` Did you mean '${same}'?`}`, [
    'write the value as the warehouse has it',
  ])
}

/** Whether the value is on the lists: without rows it is then missing data, not a mistake of the question. */
const isOnLists = async (reading: Reading, { pipeline }: Subject, column: string, value: string): Promise<boolean> => {
  if (pipeline === null || !(await columnNames(reading.db, 'bi.coverage')).includes(column)) return false
  const asked = sql`select 1 from bi.coverage where pipeline = ${pipeline} and ${sql.ref(column)}::text = ${value} limit 1`
  return (await reading.read(asked.compile(reading.db))).rows.length > 0
}
