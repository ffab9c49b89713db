// A question answered: rows with their SQL, the moment they were believed, whether they are final, and what is missing.
import { z } from 'zod'
import type { Metric, SemanticModel } from '../definition/semantic.ts'
import { type CompiledQuery, compileQuery } from './compile.ts'
import { querySchema } from './query.ts'
import type { Reader, Reading } from './reader.ts'
import { refuse } from './refusal.ts'
import { type AnswerState, stateOf } from './state.ts'

/** A figure as JSON holds it exactly, else as text. */
export type Cell = string | number | boolean | null | readonly string[]

/** Also what callers get, as it stands. */
export interface Answer extends AnswerState {
  readonly subject: string
  readonly metrics: readonly { readonly name: string; readonly about: string; readonly unit: string; readonly format: string }[]
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, Cell>>[]
  /** There are more rows than were asked for. */
  readonly is_cut: boolean
  readonly sql: string
  readonly parameters: readonly unknown[]
  /** ISO 8601: as_of, or the moment of the answer. */
  readonly believed_at: string
  readonly notes: readonly string[]
}

/** @param input whatever a caller sent. Throws QueryRefusedError. */
export const answerQuery = async (reader: Reader, model: SemanticModel, input: unknown): Promise<Answer> => {
  const checked = querySchema.safeParse(input)
  if (!checked.success)
    return refuse(`The question is not well formed: ${z.prettifyError(checked.error).replaceAll(/\s+/g, ' ').slice(0, 600)}`)
  const compiled = compileQuery(reader.db, model, checked.data)
  return reader.answer(async (reading) => answerOf(reading, model, compiled, checked.data.as_of ?? null))
}

const answerOf = async (
  reading: Reading,
  model: SemanticModel,
  compiled: CompiledQuery,
  asOf: string | null,
): Promise<Answer> => {
  const { sql, parameters, subject, metrics, limit, rowOf } = compiled
  const [{ columns, rows }, state, now] = [
    await reading.read({ sql, parameters }),
    await stateOf(reading, model, subject, compiled),
    await momentOf(reading),
  ]
  const shown = rows.slice(0, limit)
  return {
    subject: subject.name,
    metrics: metrics.map(wordsOf),
    columns,
    rows: shown.map((row) => Object.fromEntries(columns.map((name, at) => [name, cellOf(row[at], !rowOf.includes(name))]))),
    is_cut: rows.length > limit,
    sql,
    parameters,
    believed_at: asOf ?? now,
    ...state,
    notes: [
      ...compiled.notes,
      ...(rows.length > limit ? [`Only the first ${limit} rows are shown; ask for more (limit) or for less (where).`] : []),
      ...(rows.length === 0 ? ['Nothing fits: no row has these values, or nothing is loaded of the period.'] : []),
      ...(state.cells_missing.length > 0
        ? ['Rows are missing (cells_missing): sums are too small by them, and comparisons are not like with like.']
        : []),
      ...(asOf !== null ? ['What is missing and what is final is as of now, not as of then.'] : []),
    ],
  }
}

const wordsOf = ({ name, about, unit, format }: Metric) => ({ name, about, unit, format })

const textRow = z.tuple([z.string()])

const momentOf = async (reading: Reading): Promise<string> => {
  const { rows } = await reading.read({
    sql: `select to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
    parameters: [],
  })
  return textRow.parse(rows[0])[0]
}

/** @param isFigure a number, where JavaScript holds it to the last digit */
export const cellOf = (value: unknown, isFigure: boolean): Cell => {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(String)
  const text = String(value)
  if (!isFigure || !/^-?\d+(\.\d+)?$/.test(text)) return text
  const short = text.includes('.') ? text.replace(/\.?0+$/, '') : text
  return String(Number(short)) === short ? Number(short) : text
}
