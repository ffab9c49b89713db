// A question in words of the model: metrics, what to ask them by, filters, period, comparison, moment; and the refusal of one that has no right answer.
import { z } from 'zod'
import { grains } from '../definition/semantic.ts'

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
    contains: text.optional().describe('Only values that hold this text, whatever the case.'),
    at_least: value.optional().describe('From this value on.'),
    at_most: value.optional().describe('Up to this value.'),
  })
  .refine((one) => Object.keys(one).length > 1, 'a filter needs one of is, is_not, contains, at_least, at_most')

const day = z
  .string()
  .regex(/^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$/, 'a month such as 2026-01, or a day such as 2026-01-31')

/** What a caller may send. Everything else is refused by name. */
export const querySchema = z.strictObject({
  metrics: z.array(name).min(1).max(10).describe('Names of metrics, all of one subject; list_metrics has them.'),
  by: z.array(name).max(6).default([]).describe('Dimensions that make a row each; none: one figure.'),
  grain: z.enum(grains).optional().describe('A row for each period of this length; leave it out for the whole period.'),
  where: z.array(filter).max(12).default([]).describe('Conditions, all of which hold.'),
  period: z.strictObject({ from: day, to: day }).optional().describe('First and last month (or day), both included.'),
  fill: z.boolean().default(false).describe('With a grain: a row also for each period without rows; its figures are NULL.'),
  compare: z.enum(['previous', 'year']).optional().describe('Beside each figure that of the period before, or of a year before.'),
  as_of: z.iso.datetime({ offset: true }).optional().describe('As it was believed at this moment, such as 2026-05-01T00:00:00Z.'),
  order: z
    .array(z.strictObject({ by: name, descending: z.boolean().default(true) }))
    .max(4)
    .default([]),
  limit: z.int().min(1).max(mostRows).default(100).describe('Rows at most.'),
})

/** A checked question. */
export type SemanticQuery = z.output<typeof querySchema>
export type QueryFilter = SemanticQuery['where'][number]

/** Not a failure: the question as it stands has no right answer, or costs too much. */
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
