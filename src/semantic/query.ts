// The form of a question: metrics, dimensions, filters, period, comparison, moment. Finds its names in the model, and refuses a question that has no right
// answer.
import { z } from 'zod'
import { suggest } from '../definition/problem.ts'
import { grains, type Metric, type SemanticDimension, type SemanticModel, type Subject } from '../definition/semantic.ts'

/** Rows of one answer at most. */
export const mostRows = 1_000
const mostValues = 100

// PostgreSQL's text holds no NUL.
const text = z
  .string()
  .min(1)
  .max(500)
  .refine((value) => !value.includes('\0'), 'text without NUL')
const name = z.string().min(1).max(100)
const value = z.union([text, z.number(), z.boolean()]).transform(String)
const values = z.union([value.transform((one) => [one]), z.array(value).min(1).max(mostValues)])

const filter = z
  .strictObject({
    dimension: name,
    is: values.optional().describe('Only these values (one, or a list).'),
    is_not: values.optional().describe('All but these values.'),
    contains: text.optional().describe('Only values that contain this text, in upper or lower case.'),
    at_least: value.optional().describe('From this value on.'),
    at_most: value.optional().describe('Up to this value.'),
  })
  .refine((one) => Object.keys(one).length > 1, 'a filter needs one of is, is_not, contains, at_least, at_most')

const day = z
  .string()
  .regex(/^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$/, 'a month such as 2026-01, or a day such as 2026-01-31')

/** The fields that a caller may send. Any other field is refused by name. */
export const querySchema = z.strictObject({
  metrics: z.array(name).min(1).max(10).describe('Names of metrics, all of one subject: see list_metrics.'),
  by: z.array(name).max(6).default([]).describe('Dimensions to group by, one row per combination of values; none: one figure.'),
  grain: z.enum(grains).optional().describe('One row per period of this length; omit it for the whole period.'),
  where: z.array(filter).max(12).default([]).describe('Conditions, combined with AND.'),
  period: z.strictObject({ from: day, to: day }).optional().describe('First and last month (or day), both included.'),
  fill: z.boolean().default(false).describe('With a grain: also a row for each period without data; its figures are NULL.'),
  compare: z
    .enum(['previous', 'year'])
    .optional()
    .describe('Adds to each figure that of the previous period, or of a year before.'),
  as_of: z.iso.datetime({ offset: true }).optional().describe('Figures as known at this moment, such as 2026-05-01T00:00:00Z.'),
  order: z
    .array(z.strictObject({ by: name, descending: z.boolean().default(true) }))
    .max(4)
    .default([]),
  limit: z.int().min(1).max(mostRows).default(100).describe('Maximum number of rows.'),
})

/** A checked question. */
export type SemanticQuery = z.output<typeof querySchema>
export type QueryFilter = SemanticQuery['where'][number]

/** No failure: the question has no right answer, or takes too long. */
export class QueryRefusedError extends Error {
  override readonly name = 'QueryRefusedError'
  /** Changes to the question that would make it answerable, the best first. */
  readonly instead: readonly string[]

  constructor(because: string, instead: readonly string[] = []) {
    super(because)
    this.instead = instead
  }
}

/** Never returns. @param instead what to ask instead */
export const refuse = (because: string, instead: readonly string[] = []): never => {
  throw new QueryRefusedError(because, instead)
}

/** Every metric of the model beside the subject it belongs to, in its order. */
export const allMetrics = ({ subjects }: SemanticModel) =>
  [...subjects.values()].flatMap((subject) => [...subject.metrics.values()].map((metric) => ({ metric, subject })))

/** The metric of that name. Throws QueryRefusedError with the nearest names. */
export const findMetric = (model: SemanticModel, name: string) => {
  const all = allMetrics(model)
  const found = all.find(({ metric }) => metric.name === name)
  if (found !== undefined) return found
  const meant = all.filter(({ metric }) => metric.synonyms.includes(name.toLowerCase())).map(({ metric }) => metric.name)
  const names = all.map(({ metric }) => metric.name)
  const hint = meant.length > 0 ? ` It is a synonym of ${meant.join(', ')}.` : suggest(name, names)
  return refuse(`There is no metric '${name}'.${hint}`, meant.length > 0 ? meant : ['list_metrics names them all'])
}

/** The metrics, which must belong to one subject: rows of different views have no common grain. */
export const findMetrics = (model: SemanticModel, names: readonly string[]): { subject: Subject; metrics: readonly Metric[] } => {
  const found = [...new Set(names)].map((name) => findMetric(model, name))
  const [first] = found
  if (first === undefined) return refuse('The question names no metric.', ['list_metrics names them all'])
  const others = found.filter(({ subject }) => subject !== first.subject)
  if (others.length > 0) {
    const bySubject = new Map<string, string[]>()
    for (const { metric, subject } of found) bySubject.set(subject.name, [...(bySubject.get(subject.name) ?? []), metric.name])
    const parts = [...bySubject].map(([subject, metrics]) => `${metrics.join(', ')} (${subject})`)
    refuse(
      `Metrics of one question must come from one subject; these come from ${bySubject.size}: ${parts.join('; ')}.`,
      [...bySubject.values()].map((metrics) => `query only ${metrics.join(', ')}`),
    )
  }
  return { subject: first.subject, metrics: found.map(({ metric }) => metric) }
}

/** The dimension of that name. Throws QueryRefusedError, with other subjects that have it. */
export const findDimension = (model: SemanticModel, subject: Subject, name: string): SemanticDimension => {
  const found = subject.dimensions.get(name)
  if (found !== undefined) return found
  const elsewhere = [...model.subjects.values()].filter(
    (other) => other.dimensions.has(name) && other.pipeline === subject.pipeline,
  )
  return refuse(
    `${subject.name} has no dimension '${name}'.${suggest(name, [...subject.dimensions.keys()])}`,
    elsewhere.map((other) => `${other.name} has it: ${[...other.metrics.keys()].slice(0, 6).join(', ')}`),
  )
}
