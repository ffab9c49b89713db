// Questions as Lightdash asks them: SQL put together from the generated files, nothing of the semantic layer's own statements.
import { parse } from 'yaml'
import { z } from 'zod'
import type { Db } from '../../src/db/tables.ts'
import { type SemanticModel, windowOf } from '../../src/definition/semantic.ts'
import { compileQuery } from '../../src/semantic/compile-question.ts'
import { semanticDocuments } from '../../src/semantic/documents.ts'
import { querySchema } from '../../src/semantic/query.ts'

const file = z.object({
  sql_from: z.string(),
  dimensions: z.array(z.object({ name: z.string(), sql: z.string() })),
  metrics: z.record(z.string(), z.object({ sql: z.string() })),
})
const quoted = (values: readonly string[]): string => values.map((value) => `'${value.replaceAll("'", "''")}'`).join(', ')

/** Defaults of the files are written out, as a person would. null: there is no such question there. */
export const lightdashSqlOf = (db: Db, model: SemanticModel, input: Record<string, unknown>): string | null => {
  const query = querySchema.parse(input)
  if (query.compare !== undefined || query.as_of !== undefined || query.fill || query.limit !== 100) return null
  const { subject, rowOf, spans, cells, metrics } = compileQuery(db, model, query)
  if (
    metrics.some((metric) => windowOf(metric) !== null) ||
    query.where.some((one) => one.contains ?? one.at_least ?? one.at_most)
  )
    return null
  const text = semanticDocuments(model, [], []).get(`lightdash/lightdash/models/${subject.name}.yml`) ?? ''
  const { sql_from, dimensions, metrics: formulas } = file.parse(parse(text))
  const time = subject.time?.column ?? ''
  const sqlOf = (name: string): string => dimensions.find((one) => one.name === name)?.sql ?? 'no such dimension'
  const nameOf = (column: string): string => [...subject.dimensions.values()].find((one) => one.column === column)?.name ?? column
  const columns = rowOf.map((name) => (name === 'period' ? `date_trunc('${query.grain}', ${sqlOf(time)})::date` : sqlOf(name)))
  const where = [
    ...spans.flatMap(({ from, to }) => [`${sqlOf(time)} >= '${from}'`, `${sqlOf(time)} < '${to}'`]),
    ...cells.map(({ column, isNot, values }) => `${sqlOf(nameOf(column))} ${isNot ? 'not in' : 'in'} (${quoted(values)})`),
  ]
  const shown = [
    ...columns.map((sql, at) => `${sql} as "${rowOf[at]}"`),
    ...metrics.map(({ name }) => `${formulas[name]?.sql} as "${name}"`),
  ]
  const groups = columns.length === 0 ? '' : ` group by ${columns.map((_, at) => at + 1).join(', ')}`
  const held = where.length === 0 ? '' : ` where ${where.join(' and ')}`
  return `select ${shown.join(', ')} from ${sql_from} as "${subject.name}"${held}${groups}`.replaceAll(
    /\$\{TABLE\}/g,
    () => `"${subject.name}"`,
  )
}
