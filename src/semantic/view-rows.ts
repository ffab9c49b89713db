// Rows of one view of bi as they are: what is loaded, how fresh it is, what was restated. Columns are what the catalogue says.
import { sql } from 'kysely'
import { columnNames } from '../db/catalog.ts'
import type { SemanticModel } from '../definition/semantic.ts'
import { type Cell, cellOf } from './answer.ts'
import { spanOf } from './period.ts'
import type { Reader, Rows } from './reader.ts'
import { refuse } from './refusal.ts'

/** Which rows. */
export interface ViewQuestion {
  /** In bi, without the schema. A name of ours, never a caller's. */
  readonly view: string
  readonly pipeline?: string | undefined
  readonly period?: { readonly from: string; readonly to: string } | undefined
  /** The newest come first by this column, where it is there. */
  readonly newestBy?: string
  readonly limit: number
}

/** As `Answer`, for rows that are no metric. */
export interface ViewAnswer {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, Cell>>[]
  readonly is_cut: boolean
  readonly sql: string
  readonly parameters: readonly unknown[]
}

/** Throws QueryRefusedError where the view is not there or cannot be asked so. */
export const answerView = (reader: Reader, model: SemanticModel, question: ViewQuestion): Promise<ViewAnswer> =>
  reader.answer(async (reading) => {
    const { view, pipeline, limit } = question
    const columns = await columnNames(reading.db, `bi.${view}`)
    if (columns.length === 0) return refuse(`bi.${view} is not there.`, ['run `millrace migrate`'])
    const subject = [...model.subjects.values()].find((one) => one.view === view)
    const span = subject === undefined ? null : spanOf(subject, { period: question.period })
    const time = subject?.time?.column ?? ''
    const conditions = [
      ...(pipeline === undefined || !columns.includes('pipeline') ? [] : [sql`pipeline = ${pipeline}`]),
      ...(span === null ? [] : [sql`${sql.ref(time)} >= ${span.from}`, sql`${sql.ref(time)} < ${span.to}`]),
    ]
    const where = conditions.length === 0 ? sql`` : sql` where ${sql.join(conditions, sql` and `)}`
    const newest = question.newestBy ?? time
    const order = columns.includes(newest) ? sql` order by ${sql.ref(newest)} desc` : sql``
    const names = sql.join(columns.map((name) => sql.ref(name)))
    const statement = sql`select ${names} from ${sql.table(`bi.${view}`)}${where}${order} limit ${sql.lit(limit + 1)}`.compile(
      reading.db,
    )
    return { ...shownOf(await reading.read(statement), limit), sql: statement.sql, parameters: statement.parameters }
  })

const shownOf = ({ columns, rows }: Rows, limit: number) => ({
  columns,
  rows: rows.slice(0, limit).map((row) => Object.fromEntries(columns.map((name, at) => [name, cellOf(row[at], true)]))),
  is_cut: rows.length > limit,
})
