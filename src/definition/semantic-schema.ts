// The YAML of a semantic file, as zod checks it; test/unit/definition/semantic.test.ts writes it to semantic/schema.json, which editors use for completion.
import { z } from 'zod'
import { calendarGrains, figureFormats, grains } from './semantic.ts'

const name = z
  .string()
  .regex(/^[a-z](_?[a-z0-9])*$/, 'a name of lower-case letters, digits and single _')
  .max(50, 'at most 50 characters')
const column = z.string().regex(/^[a-z_][a-z0-9_]*$/, 'the name of a column')
/** dbt and Superset would run it as a template, also inside quotes. */
const isTemplate = (value: unknown): boolean => typeof value === 'string' && /\{[{%#]/.test(value)
const noTemplate = "no '{{', '{%' or '{#', which dbt and Superset take for a template"

const words = z
  .string()
  .min(1, 'some words')
  .max(500, 'at most 500 characters')
  .refine((text) => !isTemplate(text), noTemplate)
const synonyms = z.array(words).optional().describe('Other words people use for it.')
const plain = z
  .union([z.string(), z.number(), z.boolean()], { error: 'a plain value' })
  .refine((value) => !isTemplate(value), noTemplate)

/** An expression becomes part of SQL as it is, so it must not contain a second statement, a comment or a subquery. */
const expression = z
  .union([z.string(), z.number()], { error: 'an SQL expression over the columns of the view' })
  .transform(String)
  .refine((text) => text.length <= 500 && !/;|--|\/\*|\\|\$|\b(?:select|from|union|with|join)\b/i.test(text), {
    error: 'an SQL expression over the columns of the view, without queries, comments and semicolons',
  })
  .refine((text) => !isTemplate(text), noTemplate)

const dimension = z
  .strictObject({
    about: words.optional().describe('A sentence for people.'),
    column: column.optional().describe("The column; default: the dimension's name."),
    synonyms,
    whole: plain.optional().describe('The member that contains all others; no figure mixes it with them.'),
    default: z
      .enum(['whole', 'parts'])
      .optional()
      .describe('Whether queries use the whole or its parts by default. Default whole.'),
    one: plain.optional().describe('Each figure uses one member; by default this one.'),
    values: z
      .union([
        z.array(plain).min(1, 'at least one'),
        z.string().regex(/^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$/, 'a table of bi and its column'),
      ])
      .optional()
      .describe(
        'All possible values (# is any number), or the column in bi with them, as table.column: queries for others are refused.',
      ),
    entity: column.optional().describe('Table in bi that the column joins to, such as dim_date.'),
    key: column.optional().describe("The entity's key column; default: the column's name."),
    table: column
      .optional()
      .describe("With 'of': the table in bi that has the attribute by the entity's key; default: the entity's."),
    of: name.optional().describe('The dimension whose entity has this column as an attribute.'),
    type: z.enum(['text', 'number']).optional().describe('Type of its values for tools. Default text.'),
  })
  .nullable()

const metric = z.strictObject({
  about: words.describe('A sentence for people.'),
  sum: expression.optional().describe('The sum of an expression over the rows.'),
  count_distinct: expression.optional().describe('The number of distinct values.'),
  min: expression.optional().describe('The smallest value.'),
  max: expression.optional().describe('The largest value.'),
  mean: z.strictObject({ of: expression, weight: expression }).optional().describe('An average, weighted.'),
  median: expression.optional().describe('The median of the values of the rows.'),
  quantile: z
    .strictObject({ of: expression, at: z.number().gt(0).lt(1) })
    .optional()
    .describe('The value below which this part of the rows is, such as 0.9.'),
  derived: expression.optional().describe('An expression over metrics of this subject, such as revenue / nullif(visits, 0).'),
  share: z
    .strictObject({ of: name, over: name })
    .optional()
    .describe('A sum of this subject, divided by its total over a dimension.'),
  cumulative: z
    .strictObject({ of: name, each: z.enum(grains).optional() })
    .optional()
    .describe('A sum of this subject, added up period by period; restarts with each year, quarter or month, if named.'),
  rolling: z
    .strictObject({ of: name, periods: z.int().min(2).max(120) })
    .optional()
    .describe('A sum of this subject over this many periods, the last one included.'),
  ratio: z
    .strictObject({ of: name, to: name })
    .optional()
    .describe('Two sums of this subject, divided: never an average of ratios.'),
  against: column
    .optional()
    .describe(
      'This column divided by its column X_before, over rows that have both; the two sums become metrics, too: compared_X and compared_X_before.',
    ),
  where: expression.optional().describe('Only rows for which this is true.'),
  known: expression
    .optional()
    .describe('True for rows of slices with a known figure: two periods are compared over these slices only.'),
  unit: words.describe('Unit of measure in words.'),
  format: z.enum(figureFormats).default('count').describe('Number format.'),
  synonyms,
  never_over: z
    .record(column, words)
    .optional()
    .describe('Dimensions or the time over which it does not add up, each with the reason.'),
  adds_up_over: z
    .union([z.literal('all'), z.array(name)])
    .optional()
    .describe(
      'Dimensions over which a sum is right although a value contains the others or has its own rows: nothing is in two of them.',
    ),
  whole_of: z
    .array(name)
    .optional()
    .describe(
      'Dimensions for which each row has the figure of all values together: it does not add up over them and is not compared.',
    ),
  grains: z.array(z.enum(grains)).min(1, 'at least one').optional().describe("Lengths of period; default: the subject's."),
})

/** The content of one file. A user's file with the name of a known subject extends it; then only `subject` is required. */
export const semanticSchema = z.strictObject({
  subject: name.describe('The subject. A known one is extended.'),
  about: words.optional().describe('A sentence for people.'),
  view: column.optional().describe('The table or view in bi.'),
  pipeline: name.optional().describe('The pipeline whose loads decide what is loaded, final and restated.'),
  shown_by: z.array(column).optional().describe('Other views in bi that show the same figures ready-made.'),
  grain: z.array(column).min(1, 'at least one').optional().describe('Columns that make a row unique.'),
  slice: z
    .array(column)
    .optional()
    .describe('Columns of the grain that identify a slice, for comparing periods; default: all but the time.'),
  time: z
    .strictObject({ column, grains: z.array(z.enum(calendarGrains)).min(1, 'at least one') })
    .optional()
    .describe('The column of the period and its lengths; the first is the length in the rows.'),
  dimensions: z.record(name, dimension).default({}),
  metrics: z.record(name, metric).default({}),
})

export type SemanticFile = z.infer<typeof semanticSchema>
export type MetricFile = z.infer<typeof metric>
export type DimensionFile = z.infer<typeof dimension>
