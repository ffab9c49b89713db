// The fifty questions as Superset's pages ask them: saved metrics of the datasets, by dimensions and periods, through /api/v1/chart/data.
import type { Pool } from 'pg'
import { z } from 'zod'
import type { Db } from '../../src/db/tables.ts'
import { type Grain, type SemanticModel, windowOf } from '../../src/definition/semantic.ts'
import { compileQuery } from '../../src/semantic/compile-question.ts'
import { allMetrics, querySchema } from '../../src/semantic/query.ts'
import { type Api, plain } from './superset-api.ts'

const grains: Readonly<Partial<Record<Grain, string>>> = { day: 'P1D', week: 'P1W', month: 'P1M', quarter: 'P3M', year: 'P1Y' }
const nothing = { annotation_layers: [], applied_time_extras: {}, url_params: {}, custom_params: {}, custom_form_data: {} }

/** A query of a chart on one view. */
export interface SupersetQuestion {
  readonly view: string
  readonly query: Readonly<Record<string, unknown>>
}

/** null: a chart has no such question (a comparison of two spans, as of a moment). Defaults of the files are written out. */
export const supersetQuestionOf = (db: Db, model: SemanticModel, input: Record<string, unknown>): SupersetQuestion | null => {
  const query = querySchema.parse(input)
  if (query.compare !== undefined || query.as_of !== undefined) return null
  const { subject, rowOf, spans, cells, metrics } = compileQuery(db, model, query)
  const time = subject.time?.column ?? ''
  const columnOf = (name: string): string => subject.dimensions.get(name)?.column ?? name
  const axis = { columnType: 'BASE_AXIS', sqlExpression: time, label: time, expressionType: 'SQL' }
  const [rows = 'month'] = subject.time?.grains ?? []
  const columns = rowOf.map((name) => (name === 'period' ? { timeGrain: grains[query.grain ?? rows], ...axis } : columnOf(name)))
  const names = metrics.map(({ name }) => name)
  const filters = [
    ...spans.map(({ from, to }) => ({ col: time, op: 'TEMPORAL_RANGE', val: `${from} : ${to}` })),
    ...cells.map(({ column, isNot, values }) => ({ col: column, op: isNot ? 'NOT IN' : 'IN', val: values })),
    ...query.where.flatMap(({ dimension, contains, at_most, at_least }) => [
      ...(contains === undefined ? [] : [{ col: columnOf(dimension), op: 'ILIKE', val: `%${contains}%` }]),
      ...(at_most === undefined ? [] : [{ col: columnOf(dimension), op: '<=', val: at_most }]),
      ...(at_least === undefined ? [] : [{ col: columnOf(dimension), op: '>=', val: at_least }]),
    ]),
  ]
  const isTop = query.limit !== 100
  const orderby = isTop
    ? [[names[0], false], ...columns.flatMap((column) => (typeof column === 'string' ? [[column, true]] : []))]
    : []
  return {
    view: subject.view,
    query: {
      columns,
      metrics: names,
      filters,
      orderby,
      row_limit: isTop ? query.limit : 10_000,
      extras: { having: '', where: '' },
      ...nothing,
    },
  }
}

/** Every guarded metric over everything its dataset holds. */
export const unguardedQuestions = (model: SemanticModel): SupersetQuestion[] =>
  allMetrics(model)
    .filter(({ metric }) => metric.neverOver.size > 0 && windowOf(metric) === null)
    .map(({ metric, subject }) => ({
      view: subject.view,
      query: {
        columns: [],
        metrics: [metric.name],
        filters: [],
        orderby: [],
        row_limit: 10,
        extras: { having: '', where: '' },
        ...nothing,
      },
    }))

const found = z.object({ result: z.array(z.object({ id: z.int(), table_name: z.string() })) })
const answered = z.object({ result: z.array(z.object({ data: z.array(z.record(z.string(), z.unknown())) })).length(1) })

/** Asks as a chart does. Rows as text, in an order of their own. */
export const openQuestions = async (api: Api): Promise<(question: SupersetQuestion) => Promise<string[]>> => {
  const { result } = found.parse(
    await api('GET', `/api/v1/dataset/?q=(filters:!((col:schema,opr:eq,value:'bi')),page:0,page_size:100)`),
  )
  const ids = new Map(result.map(({ id, table_name }) => [table_name, id]))
  return async ({ view, query }) => {
    const datasource = { id: ids.get(view), type: 'table' }
    const context = { datasource, force: true, queries: [query], form_data: {}, result_format: 'json', result_type: 'full' }
    const answer = answered.parse(await api('POST', '/api/v1/chart/data', context))
    return comparableRows((answer.result[0]?.data ?? []).map((row) => Object.values(row)))
  }
}

/** Moments as ISO, numbers to six digits, whatever the client made of them. */
export const comparableRows = (rows: readonly (readonly unknown[])[]): string[] =>
  rows.map((row) => JSON.stringify(row.map((cell) => (typeof cell === 'boolean' ? String(cell) : plain(cell))))).sort()

/** The reference's rows in the same words; a date is its midnight. */
export const expectedRows = async (pool: Pick<Pool, 'query'>, sql: string): Promise<string[]> =>
  comparableRows((await pool.query<unknown[]>({ text: sql, rowMode: 'array' })).rows)
