// Which months of an answer are loaded, final, or missing.
import { sql } from 'kysely'
import { z } from 'zod'
import { addWindows, windowsBetween } from '../core/window.ts'
import { columnNames } from '../db/catalog.ts'
import { hasAsOf, type SemanticModel, type Subject } from '../definition/semantic.ts'
import { earlier, type Span } from './period.ts'
import { type Reading, rowsOf } from './reader.ts'

export interface MethodBreak {
  readonly starts_on: string
  readonly columns: readonly string[]
  /** Change as a fraction of the former value; null: another table continues from then on. */
  readonly change: number | null
}

/** What a reader must know before believing a figure. */
export type AnswerState = Awaited<ReturnType<typeof stateOf>>

/** A filter on cells: `column` is a column of bi.coverage. */
export interface CellFilter {
  readonly column: string
  readonly isNot: boolean
  readonly values: readonly string[]
}

const monthRow = z.tuple([z.string(), z.coerce.number(), z.coerce.number(), z.boolean().nullable()])
const breakRow = z.tuple([z.string(), z.array(z.string()).nullable(), z.coerce.number().nullable()])
const monthName = z.tuple([z.string()])
const partRow = z.tuple([z.string(), z.string()])
const cellRow = z.tuple([z.string(), z.string(), z.coerce.string()])
/** Most cells that are named one by one. */
const mostCells = 20
/** Ten years. */
const mostMonths = 120

/** @param spans of the question and its comparison; empty: all loaded data */
export const stateOf = async (
  reading: Reading,
  model: SemanticModel,
  subject: Subject,
  question: { readonly spans: readonly Span[]; readonly cells: readonly CellFilter[] },
) => {
  const { pipeline } = subject
  const spans = [...question.spans, ...earlierSpans(question)]
  const cells = cellsMeant(subject, question.cells)
  const columns = await columnNames(reading.db, 'bi.coverage_months')
  const isKnown = ['pipeline', 'month', 'cells', 'cells_with_rows'].every((name) => columns.includes(name))
  const parts = pipeline === null || !isKnown ? [] : await partsOf(reading, pipeline)
  const facts = [...model.subjects.values()].find((one) => one.pipeline === pipeline && hasAsOf(one))
  const months = parts.length === 0 ? [] : await monthsOf(reading, parts, facts, spans)
  const absent = parts.length === 0 ? [] : monthsOfAll(spans).filter((month) => !months.some(([there]) => there === month))
  const former = await monthsShown(reading, facts, absent)
  const handedOver = parts[1]?.from?.slice(0, 7)
  // A summary has no rows of its pipeline's successor, also where the successor is loaded.
  const after =
    handedOver === undefined || subject.time === null
      ? []
      : monthsOfAll(spans).filter((month) => month >= handedOver && !absent.includes(month))
  const summedUp = after.length === 0 ? [] : await monthsShown(reading, subject, after)
  const incomplete = months.filter(([, expected, found]) => found < expected)
  const asked = { parts, spans, cells }
  const missing = incomplete.length === 0 ? [] : await cellsIn(reading, 'bi.coverage', 'reason', asked, sql` and not has_data`)
  const cut = await cellsIn(reading, 'bi.cut_units', 'top', asked)
  const capped = cut.length === 0 ? [] : await cellsIn(reading, 'bi.cut_units', 'top', asked, sql` and is_capped`)
  const not_final = months
    .filter(([month, , , isFinal]) => isFinal === false || capped.some(([period]) => period.startsWith(month)))
    .map(([month]) => month)
  return {
    /** Whether every month is older than the look-back, so that no change is expected; null: not known. */
    is_final: months.length === 0 || facts === undefined ? null : not_final.length === 0,
    /** Months, as 2026-01, that the service may still change. */
    not_final,
    /** Months of the period of which nothing is loaded. */
    months_missing: [
      ...absent.filter((month) => !former.includes(month)),
      ...after.filter((month) => !summedUp.includes(month)),
    ].sort(),
    /** Months in which cells (one value of each dimension) have no rows. */
    months_incomplete: incomplete.map(([month, expected, found]) => ({ month, cells: expected, cells_with_rows: found })),
    /** The first cells of the question without rows, with the reason. */
    cells_missing: missing.map(([period, cell, reason]) => ({ period, cell, reason })),
    /** The first cells of which only the first `rows` rows are loaded: no figure contains the rest. */
    cells_cut: cut.map(([period, cell, rows]) => ({ period, cell, rows: Number(rows) })),
    /** Days, within the period and its comparison, from which the service counts by another method; `change` is a fraction of the former value. */
    method_breaks: await breaksWithin(reading, parts, spans),
  }
}

/** Earlier spans that rows with `months_back` also depend on. */
const earlierSpans = ({ spans, cells }: Parameters<typeof stateOf>[3]): Span[] =>
  cells
    .flatMap(({ column, isNot, values }) => (column === 'months_back' && !isNot ? values : []))
    .filter((value) => /^\d{1,3}$/.test(value))
    .flatMap((back) =>
      spans.map(({ from, to }) => ({ from: earlier(from, 'month', Number(back)), to: earlier(to, 'month', Number(back)) })),
    )

/** Filters by the columns of bi.coverage. The second domain of a pair has its cells under `domain`, too; a filter on `period` is dropped, because there it means a length. */
const cellsMeant = ({ dimensions }: Subject, cells: readonly CellFilter[]): CellFilter[] => {
  const keyOf = (column: string): string => [...dimensions.values()].find((one) => one.column === column)?.entity?.key ?? column
  const meant = cells.filter(({ column }) => column !== 'period')
  const isOther = (one: CellFilter) => (other: CellFilter) =>
    other.column !== one.column && keyOf(other.column) === keyOf(one.column) && other.isNot === one.isNot
  return meant.map((one) => ({
    ...one,
    column: keyOf(one.column),
    values: [one, ...meant.filter(isOther(one))].flatMap(({ values }) => values),
  }))
}

/** A pipeline and the days for which a view shows its rows; null: no bound. */
interface Part {
  readonly pipeline: string
  readonly from: string | null
  readonly to: string | null
}

interface Asked {
  readonly parts: readonly Part[]
  readonly spans: readonly Span[]
  readonly cells: readonly CellFilter[]
}

/** The pipelines whose rows a view shows, in order: a pipeline that ended, then its successors. */
const partsOf = async (reading: Reading, pipeline: string, before: readonly Part[] = []): Promise<Part[]> => {
  const hasEnds = (await columnNames(reading.db, 'bi.breaks')).includes('continued_by')
  const statement = sql`select continued_by, starts_on::text from bi.breaks where pipeline = ${pipeline} and kind = 'table'`
  const [[next, to] = [null, null]] = hasEnds ? await rowsOf(reading, statement, partRow) : []
  const parts = [...before, { pipeline, from: before.at(-1)?.to ?? null, to }]
  return next === null || parts.some((part) => part.pipeline === next) ? parts : partsOf(reading, next, parts)
}

/** A condition on `column` (a day): the rows that the parts show. */
const inParts = (column: string, parts: readonly Part[]) =>
  sql`(${sql.join(
    parts.map(
      ({ pipeline, from, to }) =>
        sql`pipeline = ${pipeline}${from === null ? sql`` : sql` and ${sql.ref(column)} >= ${from}::date`}${to === null ? sql`` : sql` and ${sql.ref(column)} < ${to}::date`}`,
    ),
    sql` or `,
  )})`

/** Method breaks inside the spans (with days before and after); also the day from which another table continues. */
const breaksWithin = async (reading: Reading, parts: readonly Part[], spans: readonly Span[]): Promise<MethodBreak[]> => {
  if (parts.length === 0 || (await columnNames(reading.db, 'bi.breaks')).length === 0) return []
  const [first, last] = [spans.map(({ from }) => from).sort()[0], spans.map(({ to }) => to).sort().at(-1)] // biome-ignore format: one look
  const within =
    first === undefined || last === undefined ? sql`` : sql` and starts_on > ${first}::date and starts_on < ${last}::date`
  const names = sql.join(parts.map(({ pipeline }) => pipeline))
  const statement = sql`select starts_on::text, columns, change from bi.breaks where pipeline in (${names})${within} order by starts_on limit ${sql.lit(mostCells)}`
  const rows = await rowsOf(reading, statement, breakRow)
  return rows.map(([starts_on, columns, change]) => ({ starts_on, columns: columns ?? [], change }))
}

const withinSpans = (column: string, spans: readonly Span[]) =>
  spans.length === 0
    ? sql``
    : sql` and (${sql.join(
        spans.map(
          ({ from, to }) => sql`(${sql.ref(column)} >= date_trunc('month', ${from}::date) and ${sql.ref(column)} < ${to}::date)`,
        ),
        sql` or `,
      )})`

/** The first cells of the question in the view, newest first, each with the column `said`. @param only a further condition on the view */
const cellsIn = async (
  reading: Reading,
  view: 'bi.coverage' | 'bi.cut_units',
  said: 'reason' | 'top',
  { parts, spans, cells }: Asked,
  only = sql``,
): Promise<z.output<typeof cellRow>[]> => {
  const columns = parts.length === 0 ? [] : await columnNames(reading.db, view)
  if (!['pipeline', 'period', 'slice', said].every((name) => columns.includes(name))) return []
  const conditions = cells
    .filter(({ column }) => columns.includes(column))
    .map(({ column, isNot, values }) => {
      const list = sql.join(values)
      return isNot ? sql` and ${sql.ref(column)}::text not in (${list})` : sql` and ${sql.ref(column)}::text in (${list})`
    })
  const statement = sql`select period::text, slice, ${sql.ref(said)} from ${sql.table(view)} where ${inParts('period', parts)}${only}
    ${withinSpans('period', spans)}${sql.join(conditions, sql``)} order by period desc, slice limit ${sql.lit(mostCells)}`
  return rowsOf(reading, statement, cellRow)
}

/** Loaded months with counts of cells and whether they are final. All rows of a window become final together, so one row is enough. */
const monthsOf = async (reading: Reading, parts: readonly Part[], facts: Subject | undefined, spans: readonly Span[]) => {
  const time = sql.ref(`f.${facts?.time?.column ?? 'month'}`)
  const isFinal =
    facts === undefined
      ? sql`null::boolean`
      : sql`(select f.is_final from ${sql.table(`bi.${facts.view}`)} f where ${time} >= c.month and ${time} < c.month + interval '1 month' limit 1)`
  const statement = sql`select to_char(c.month, 'YYYY-MM'), c.cells, c.there, ${isFinal} from (select month, sum(cells) as cells, sum(cells_with_rows) as there
    from bi.coverage_months where ${inParts('month', parts)}${withinSpans('month', spans)} group by month having sum(cells_with_rows) > 0
    order by month desc limit ${sql.lit(mostMonths)}) as c order by c.month`
  return rowsOf(reading, statement, monthRow)
}

/** The given months that have rows in the view, for example rows of a former version. */
const monthsShown = async (reading: Reading, facts: Subject | undefined, months: readonly string[]): Promise<string[]> => {
  if (facts?.time == null || months.length === 0) return []
  const time = sql.ref(`f.${facts.time.column}`)
  const firsts = sql.join(months.map((month) => sql`${`${month}-01`}::date`))
  const statement = sql`select to_char(m, 'YYYY-MM') from unnest(array[${firsts}]) as m
    where exists (select from ${sql.table(`bi.${facts.view}`)} f where ${time} >= m and ${time} < m + interval '1 month')`
  return (await rowsOf(reading, statement, monthName)).flat()
}

const monthsOfAll = (spans: readonly Span[]): string[] => [...new Set(spans.flatMap(monthsIn))]

const monthsIn = ({ from, to }: Span): string[] => {
  const latest = addWindows(from, 'month', mostMonths)
  return windowsBetween(from, to < latest ? to : latest, 'month').map((month) => month.from.slice(0, 7))
}
