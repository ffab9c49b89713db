// What is there, what is final and what is missing of the months that an answer is made of.
import { sql } from 'kysely'
import { z } from 'zod'
import { Temporal } from '../core/temporal.ts'
import { columnNames } from '../db/catalog.ts'
import { knowsThePast, type SemanticModel, type Subject } from '../definition/semantic.ts'
import type { Span } from './period.ts'
import type { Reading } from './reader.ts'

/** What a reader must know before believing a figure. */
export interface AnswerState {
  /** Whether every month is behind the look-back, so that no change is expected; null: not known. */
  readonly is_final: boolean | null
  /** Months, as 2026-01, that the service may still change. */
  readonly not_final: readonly string[]
  /** Months of the period of which nothing is loaded. */
  readonly months_missing: readonly string[]
  /** Months that are loaded in part. */
  readonly months_incomplete: readonly { readonly month: string; readonly units: number; readonly units_loaded: number }[]
}

const unknown: AnswerState = { is_final: null, not_final: [], months_missing: [], months_incomplete: [] }
const monthRow = z.tuple([z.string(), z.coerce.number(), z.coerce.number(), z.boolean().nullable()])
/** Ten years. */
const mostMonths = 120

/** @param spans of the question and its comparison; none: everything that is loaded */
export const stateOf = async (
  reading: Reading,
  model: SemanticModel,
  subject: Subject,
  spans: readonly Span[],
): Promise<AnswerState> => {
  const { pipeline } = subject
  if (pipeline === null) return unknown
  const columns = await columnNames(reading.db, 'bi.coverage')
  if (!['pipeline', 'month', 'units', 'units_loaded'].every((name) => columns.includes(name))) return unknown
  const facts = [...model.subjects.values()].find((one) => one.pipeline === pipeline && knowsThePast(one))
  const statement = monthsOf(pipeline, facts, spans).compile(reading.db)
  const months = (await reading.read(statement)).rows.map((row) => monthRow.parse(row))
  const there = new Set(months.map(([month]) => month))
  const not_final = months.flatMap(([month, , , isFinal]) => (isFinal === false ? [month] : []))
  return {
    is_final: months.length === 0 || facts === undefined ? null : not_final.length === 0,
    not_final,
    months_missing: [...new Set(spans.flatMap(monthsIn))].filter((month) => !there.has(month)),
    months_incomplete: months
      .filter(([, units, loaded]) => loaded > 0 && loaded < units)
      .map(([month, units, units_loaded]) => ({ month, units, units_loaded })),
  }
}

/** A month is as final as any row of it: finality goes by the window. */
const monthsOf = (pipeline: string, facts: Subject | undefined, spans: readonly Span[]) => {
  const within = spans.map(({ from, to }) => sql`(month >= date_trunc('month', ${from}::date) and month < ${to}::date)`)
  const where = within.length === 0 ? sql`` : sql` and (${sql.join(within, sql` or `)})`
  const time = sql.ref(`f.${facts?.time?.column ?? 'month'}`)
  const isFinal =
    facts === undefined
      ? sql`null::boolean`
      : sql`(select f.is_final from ${sql.table(`bi.${facts.view}`)} f where ${time} >= c.month and ${time} < c.month + interval '1 month' limit 1)`
  return sql`select to_char(c.month, 'YYYY-MM'), c.units, c.units_loaded, ${isFinal} from (select month, sum(units) as units, sum(units_loaded) as units_loaded
    from bi.coverage where pipeline = ${pipeline}${where} group by month having sum(units_loaded) > 0 order by month desc limit ${sql.lit(mostMonths)}) as c order by c.month`
}

const monthsIn = ({ from, to }: Span): string[] => {
  const months: string[] = []
  for (
    let day = Temporal.PlainDate.from(from).with({ day: 1 });
    day.toString() < to && months.length < mostMonths;
    day = day.add({ months: 1 })
  )
    months.push(day.toString().slice(0, 7))
  return months
}
