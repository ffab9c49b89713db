// The one description of a definition's YAML: zod for checking, JSON Schema for editors. Each `error` says what is expected; yaml-file.ts puts what was
// found in front of it, and lists the words of an enum by itself.
import { z } from 'zod'
import { typeNames } from '../core/column-types.ts'
import { allReadings } from '../core/data-point-counts.ts'
import { testActions } from '../core/data-test.ts'
import { roundingModes } from '../core/cast-cell.ts'
import { duration, guardSchema, limitsSchema, numberFrom, pattern, percent, whole } from '../core/limits.ts'

const name = z
  .string({ error: 'a name' })
  .regex(/^[a-z][a-z0-9_]*$/, { error: 'a name of lower-case letters, digits and _ that begins with a letter' })
const columnNames = z.array(name, { error: 'a list of column names' })
const someColumns = columnNames.min(1, { error: 'at least one column name' })

/** A text that is not empty. @param error what is expected, in a few words */
const line = (error: string) => z.string({ error }).trim().min(1, { error })
/** YAML's true or false; `yes` is a text. */
const flag = z.boolean({ error: 'true or false' })

/** compile.ts checks that the zone exists. */
const timeZone = line('a time zone such as Europe/Berlin')
/** A day of any month; the caller decides what it means in a shorter month. */
const dayOfMonth = whole('a day of the month, 1 to 31', 1, 31)

const bucket = whole('a count of values that go into one report, at least 1', 1, 1_000_000)
  .optional()
  .describe('At most this many values go into one report. Default: as many as the source accepts.')
const listValue = z.union([z.string(), z.number()], { error: 'a plain value' })
const valueList = z.array(listValue, { error: 'a list of values' })

/** A list of values, or a map with `values`, `file` or `query` and, optionally, `bucket`. */
const dimension = z
  .union(
    [
      valueList,
      z.strictObject({
        file: line('the path of a list file, one value per line').describe(
          'List file beside the YAML, one value per line; # begins a comment.',
        ),
        bucket,
      }),
      z.strictObject({
        values: valueList.describe('The values themselves.'),
        bucket,
      }),
      z.strictObject({
        query: line('a query such as "select domain from ..."').describe(
          'A query of the warehouse that returns one column, one value per row. It runs as bi_reader: read only, with a time limit.',
        ),
        shrink: percent
          .optional()
          .describe('A list that loses more than this share of its values is held until a person approves it. Default 10%.'),
        timeout: duration.optional().describe('Longest time the query may take. Default 30s.'),
        bucket,
      }),
    ],
    {
      error:
        'a list of values, { file: list.txt }, { values: [...] } or { query: "select ..." }, the last three with an optional bucket',
    },
  )
  .describe('The values: a list, { file }, { values } or { query }; the last three with an optional bucket.')

/** By when people expect a month to be loaded. Only for windows of a month. */
const expectation = z.strictObject(
  {
    month_by: dayOfMonth.describe(
      'Day of the following month by which a month must be loaded, in the time zone of window.publication; else an alarm is sent.',
    ),
  },
  { error: 'a map such as { month_by: 12 }' },
)

const tagText = 'a value of letters, digits and . _ - (at most 63)'
/** Tags by name, to which the pipeline's spending is charged. */
const tags = z
  .record(name, pattern(tagText, /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,62}$/u), { error: 'a map such as { client: acme }' })
  .describe('What the credits are charged to: `millrace quota` sums them by tag.')

const bounds = (what: string) =>
  pattern(`${what} such as 0..1, or with one end: 0.. or ..1`, /^(?=.*\d)(-?\d+(\.\d+)?)?\.\.(-?\d+(\.\d+)?)?$/)
const value = z.union([z.string(), z.number(), z.boolean()], { error: 'a plain value' })
const apartExpected = 'a share such as 1%, or an amount such as 0.5'

const dataTest = z.strictObject(
  {
    column: name
      .optional()
      .describe('The column to test. ratio and restated may omit it: then they count rows instead of adding up values.'),
    range: bounds('two numbers').optional().describe('Each value is between both, for example 0..1; either may be omitted.'),
    accepted: z
      .array(value, { error: 'a list of values' })
      .min(1, { error: 'at least one value' })
      .optional()
      .describe('Each value (in a list: each element) is one of these.'),
    not_null: percent.optional().describe('At least this share of the rows has a value: 100%, 95%.'),
    sum_of: someColumns.optional().describe('The column is the sum of these. Rows where one of them has no value are skipped.'),
    within: z
      .union([numberFrom(apartExpected, 0), percent.transform((share) => ({ share }))], { error: apartExpected })
      .optional()
      .describe("With sum_of: the allowed difference, as a share of the column's value or an amount. Default 0."),
    ratio: bounds('two factors')
      .optional()
      .describe('The sum over the unit, divided by that of the period before, is in this range, for example 0.2..5.'),
    restated: percent
      .optional()
      .describe('The sum over the unit differs by at most this share from the loaded sum: a larger restatement is reported.'),
    at_least: numberFrom('a number from 0 on', 0)
      .optional()
      .describe('With ratio and restated: smaller sums are not tested. Default 0.'),
    allow: percent.optional().describe('With range, accepted and sum_of: the share of rows that may fail. Default 0%.'),
    on_failure: z
      .enum(testActions)
      .optional()
      .describe('warn: the rows are loaded, and a message is sent. hold: the answer waits for a person. Default warn.'),
  },
  { error: 'a map such as { column: clicks, range: 0.., on_failure: hold }' },
)

/** Tests of each unit's rows, by name. */
const dataTests = z
  .record(name, dataTest, { error: 'a map such as { no_jump: { column: clicks, ratio: 0.2..5, on_failure: hold } }' })
  .describe('Tests of the rows of a unit before they are loaded.')

export type RawDataTest = z.infer<typeof dataTest>

const column = z.strictObject(
  {
    type: z.enum(typeNames).optional().describe('SQL type. Default: the type the source knows for the field.'),
    description: line('a sentence').optional().describe("What the column holds; becomes the column's comment."),
    unit: line('a unit of measure in words').optional().describe('Unit of measure, in words.'),
    nullable: flag.optional().describe('Whether the value may be missing; never in key columns. Default true.'),
    if_absent: z
      .union([z.string(), z.number(), z.boolean(), z.null()], { error: 'a plain value' })
      .optional()
      .describe('Value if the record lacks the field. A null in the record stays NULL.'),
    may_vanish: flag
      .optional()
      .describe(
        'Whether an answer may lack the field in all records although earlier loads had it. Default false: such an answer is held.',
      ),
    from: z
      .union([line('a field name'), z.array(line('a field name')).min(1)], { error: 'a field name or a list of them' })
      .optional()
      .describe("Field of the response, or several spellings of it: the first match is used. Default: the column's own name."),
    normalize: z
      .string({ error: 'period_start, or the name of a spelling that the source knows' })
      .optional()
      .describe(
        'Converts values to the spelling of the warehouse: period_start, or one that the source knows (country, domain).',
      ),
    rounding: z
      .enum(roundingModes)
      .optional()
      .describe(
        'How a fraction becomes a whole number, in columns of type bigint and integer: half_up (1.5 is 2, 2.5 is 3), half_even (2.5 is 2) or down (2.9 is 2). Default: a row with a fraction is rejected.',
      ),
  },
  { error: 'a map such as { type: bigint, description: ... }, or {} where the source knows the field' },
)

const publication = z.strictObject(
  {
    published_on: dayOfMonth.optional().describe('Day of the following month on which a month is published. Default 10.'),
    after_days: whole('a count of days, 0 to 60', 0, 60)
      .optional()
      .describe(
        'Days from the end of a window to its publication; after that it may change on any day. Instead of published_on and restated_on.',
      ),
    restated_on: z
      .array(dayOfMonth, { error: 'a list of days of the month' })
      .optional()
      .describe('Days of a month on which published values may change. Default [10, 15].'),
    time_zone: timeZone.optional().describe('Time zone of these days. Default Etc/GMT+5 (Eastern time without daylight saving).'),
  },
  { error: 'a map with published_on, restated_on, after_days, time_zone' },
)

const window = z.strictObject(
  {
    every: z.enum(['month', 'week', 'day']).optional().describe('Period that is loaded as a whole. Default month.'),
    from: pattern(
      'a month such as 2024-01 (or a day such as 2024-01-15), from 2015 on',
      /^(201[5-9]|20[2-9]\d|2[1-9]\d\d)-(0[1-9]|1[0-2])(-\d{2})?$/,
    ).describe('The earliest window the nightly run loads.'),
    look_back: whole('a count of windows, 0 to 60', 0, 60)
      .optional()
      .describe('How many of the newest published windows are checked again for restated values. Default 2.'),
    full_check: pattern('a number of days such as 30d, or off', /^([1-9]\d{0,3}d|off)$/)
      .optional()
      .describe(
        'Age at which a loaded answer is checked again outside the publication calendar, spread over as many nights; reports only within look_back. Default 30d; off: never.',
      ),
    publication: publication.optional().describe('When the service publishes and restates.'),
  },
  { error: 'a map such as { every: month, from: 2024-01, look_back: 2 }' },
)

const schedule = z.strictObject(
  {
    cron: line('five fields: minute hour day month weekday, such as "30 2 * * *"').describe(
      'Minute hour day-of-month month weekday.',
    ),
    time_zone: timeZone.optional().describe('IANA time zone of the cron fields. Default UTC.'),
    overlap: z.enum(['queue', 'skip']).optional().describe('If the last run is still running. Default queue.'),
    catch_up: z.enum(['last', 'all', 'none']).optional().describe('Runs missed while the scheduler was down. Default last.'),
  },
  { error: 'a map such as { cron: "30 2 * * *", time_zone: Europe/Berlin }' },
)

const report = z.strictObject(
  {
    resubmit_uncertain: flag
      .optional()
      .describe('Resend a submission whose answer was lost; it may be paid twice. Default false.'),
    resubmit_failed: flag.optional().describe('Buy a report again if the service could not make it. Default false.'),
    data_points: z
      .enum(['learn', ...allReadings, 'ignore'])
      .optional()
      .describe(
        "Unit of the service's data_points_count: a report that disagrees is held. Default learn: rows, cells or non_empty_cells, from reports that agree. With _with_duplicates, identical rows count each. ignore: no comparison.",
      ),
    final_newline: z
      .enum(['required', 'optional'])
      .optional()
      .describe(
        'Whether the last line of a report ends with a line break. Default required: without one, the report counts as cut off. optional: for a service that never writes it.',
      ),
    section: z
      .union([whole('the place of a table in the answer, at least 1', 1, 1_000), z.string().min(1).max(200)])
      .optional()
      .describe(
        'The table to read if an answer contains several: its place (1 is the first), or the name of its file or JSON list, or the vtable of its JSON records. Default: an answer with several tables is held.',
      ),
  },
  { error: 'a map with resubmit_uncertain, resubmit_failed, data_points, final_newline, section' },
)

const tableIndex = z.strictObject(
  {
    columns: someColumns.describe('Columns of the index, in order: first those that queries filter by one value.'),
    include: columnNames.optional().describe('Columns stored in the index, so that such a query reads only the index.'),
  },
  { error: 'a map such as { columns: [keyword, country, month], include: [clicks] }' },
)

const table = z.strictObject(
  {
    key: someColumns.describe('Columns of the primary key, in order.'),
    columns: z
      .record(name, column, { error: 'a map of columns' })
      .describe('The other columns, and descriptions of those of the key.'),
    indexes: z
      .array(tableIndex, { error: 'a list of indexes' })
      .optional()
      .describe('Indexes of the table besides its key. Each slows the load of new or changed rows.'),
  },
  { error: 'a map with key, columns and, optionally, indexes' },
)

/** The YAML of a pipeline. test/contract/pipelines.test.ts writes it to pipelines/schema.json, which editors use for completion and help. */
export const definitionSchema = z.strictObject(
  {
    pipeline: name.describe("The pipeline's name: the view bi.<pipeline>."),
    version: whole('a whole number from 1', 1, 9999).describe('Version of the table: data.<pipeline>_v<version>.'),
    description: line('a sentence').describe("What a row is; becomes the table's comment."),
    source: pattern('a source such as web-analytics.keywords', /^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$/).describe('API and dataset.'),
    account: name.optional().describe('Name of the API key. Default: default.'),
    params: z
      .record(z.string(), z.unknown(), { error: 'a map of parameters' })
      .optional()
      .describe("The source's parameters, the same for every unit."),
    for_each: z
      .record(name, dimension, { error: 'a map such as { domain: { file: domains.txt }, country: [us, gb] }' })
      .optional()
      .describe('Dimensions and their values: each combination is a unit.'),
    window: window.describe('Calendar periods that are loaded as a whole.'),
    until: pattern('a month such as 2026-11', /^\d{4}-(0[1-9]|1[0-2])$/)
      .optional()
      .describe('The last month of a table that ends: no later month is planned. Default: no end.'),
    successor: name.optional().describe('The pipeline that continues it after `until`.'),
    schedule: schedule.optional().describe('When `millrace schedule` runs the pipeline.'),
    table: table.describe('The table of the rows.'),
    limits: limitsSchema.prefault({}).describe('Limits.'),
    report: report.optional().describe('How reports are bought and read.'),
    guard: guardSchema,
    tags: tags.optional(),
    expect: expectation.optional().describe('When the data must be loaded.'),
    tests: dataTests.optional(),
    publish: flag.optional().describe('Whether bi.<pipeline> shows this version. Default true.'),
  },
  { error: 'a map that begins with pipeline:' },
)

/** A definition as written in the YAML; only its form is checked. */
export type RawDefinition = z.infer<typeof definitionSchema>
export type RawIndex = z.infer<typeof tableIndex>
/** A column as written; what it leaves out comes from the source. */
export type RawColumn = z.infer<typeof column>
export type RawDimension = z.infer<typeof dimension>
