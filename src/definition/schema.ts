// The one description of a definition's YAML: zod for checking, JSON Schema for editors.
import { z } from 'zod'
import { allReadings } from '../core/data-points.ts'
import { columnTypes, roundingModes } from '../core/types.ts'
import { dimension, expectation, guard, tags } from './schema-parts.ts'
import { dataTests } from './schema-tests.ts'
import { dayOfMonth, duration, flag, line, name, pattern, percent, quota, size, timeZone, whole } from './schema-words.ts'

const rejectsExpected = "a share such as 0.1%, a count such as 10, or both as '0.1%, 100'"
const rejects = z.union(
  [
    z.int().min(0),
    z.string().regex(/^((100|\d{1,2}(\.\d+)?)%|\d+|(100|\d{1,2}(\.\d+)?)%\s*,\s*\d+)$/, { error: rejectsExpected }),
  ],
  { error: rejectsExpected },
)

const column = z.strictObject(
  {
    type: z
      .enum(columnTypes, { error: `one of ${columnTypes.join(', ')}` })
      .optional()
      .describe('SQL type. Left out: the type the source knows for the field.'),
    description: line('a sentence').optional().describe("What the column holds; becomes the column's comment."),
    unit: line('a unit of measure in words').optional().describe('Unit of measure, in words.'),
    nullable: flag.optional().describe('Whether the value may be missing. Key columns never may. Default true.'),
    if_absent: z
      .union([z.string(), z.number(), z.boolean(), z.null()], { error: 'a plain value' })
      .optional()
      .describe('Value where the record lacks the field altogether. A present null stays NULL.'),
    from: z
      .union([line('a field name'), z.array(line('a field name')).min(1)], { error: 'a field name or a list of them' })
      .optional()
      .describe("The response's field, or several spellings of it, first match wins. Default: the column's own name."),
    normalize: z
      .string({ error: 'period_start, or the name of a spelling that the source knows' })
      .optional()
      .describe(
        'Brings the spelling to the one the warehouse uses: period_start, or one that the source knows (country, domain).',
      ),
    rounding: z
      .enum(roundingModes, { error: `one of ${roundingModes.join(', ')}` })
      .optional()
      .describe(
        'How a fraction becomes a whole number, in columns of type bigint and integer: half_up (1.5 is 2, 2.5 is 3), half_even (2.5 is 2) or down (2.9 is 2). Left out: a row with a fraction is rejected.',
      ),
  },
  { error: 'a map such as { type: bigint, description: ... }, or {} where the source knows the field' },
)

const publication = z.strictObject(
  {
    published_on: dayOfMonth.optional().describe('Day of the following month on which a month is published. Default 10.'),
    restated_on: z
      .array(dayOfMonth, { error: 'a list of days of the month' })
      .optional()
      .describe('Days of a month on which published values may change. Default [10, 15].'),
    time_zone: timeZone.optional().describe('Time zone of these days. Default Etc/GMT+5 (Eastern time without daylight saving).'),
  },
  { error: 'a map with published_on, restated_on, time_zone' },
)

const window = z.strictObject(
  {
    every: z
      .enum(['month', 'week', 'day'], { error: 'month, week or day' })
      .optional()
      .describe('Span loaded as one truth. Default month.'),
    from: pattern('a month such as 2024-01 (or a day such as 2024-01-15)', /^\d{4}-(0[1-9]|1[0-2])(-\d{2})?$/).describe(
      'The earliest window the nightly run loads.',
    ),
    look_back: whole('a count of windows, 0 to 60', 0, 60)
      .optional()
      .describe('How many of the newest published windows are checked again for restated values. Default 2.'),
    full_check: pattern('a number of days such as 30d, or off', /^([1-9]\d{0,3}d|off)$/)
      .optional()
      .describe(
        'How long a loaded answer is trusted before it is checked again whatever the calendar says, spread over as many nights; reports only within the look-back. Default 30d; off: never.',
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
    overlap: z
      .enum(['queue', 'skip'], { error: 'queue or skip' })
      .optional()
      .describe('When the last run still runs. Default queue.'),
    catch_up: z
      .enum(['last', 'all', 'none'], { error: 'last, all or none' })
      .optional()
      .describe('Ticks missed while down. Default last.'),
  },
  { error: 'a map such as { cron: "30 2 * * *", time_zone: Europe/Berlin }' },
)

const limits = z.strictObject(
  {
    page_size: whole('a count of records, 1 to 100000', 1, 100_000).default(1000).describe('Records asked for in one page.'),
    max_pages: whole('a count of pages, at least 1', 1, 10_000_000).default(10_000).describe('Pages a unit may ask for.'),
    concurrency: whole('a count, 1 to 256', 1, 256).default(4).describe('Units or pages in flight at once in one process.'),
    timeout: duration.default('30s').describe('Longest wait for an answer to one request.'),
    attempts: whole('a count, 1 to 100', 1, 100).default(5).describe('Tries of a unit within a run.'),
    rejects: rejects
      .default('0.1%')
      .describe('Rejected rows allowed: a share (0.1%), a count (10), or both ("0.1%, 100": neither may be exceeded).'),
    shrink: percent.default('50%').describe('A unit that loses more than this share of its rows is held.'),
    walks: whole('a count, 1 to 100', 1, 100)
      .default(3)
      .describe('How often the pages are read from the start when the answer changes meanwhile.'),
    poll_every: duration.default('5s').describe('First wait between two polls of a report; grows up to poll_max.'),
    poll_max: duration
      .optional()
      .describe('Longest wait between two polls of a report. Default 60s (poll_every where that is longer).'),
    deadline: duration.default('6h').describe('How long one run waits for a report; it stays open for the next run.'),
    quota_per_month: quota
      .optional()
      .describe('Credits this pipeline may spend in a calendar month. Default: no limit of its own.'),
    quota_per_day: quota.optional().describe('Credits this pipeline may spend in a day. Default: no limit of its own.'),
    max_body: size.default('2GB').describe('Largest body accepted for one answer or report.'),
  },
  { error: 'a map of limits' },
)

const report = z.strictObject(
  {
    resubmit_uncertain: flag
      .optional()
      .describe('Send a submission again whose answer was lost; it may be paid twice. Default false.'),
    resubmit_failed: flag.optional().describe('Buy a report again that the service could not make. Default false.'),
    data_points: z
      .enum(['learn', ...allReadings, 'ignore'], { error: `one of learn, ${allReadings.join(', ')}, ignore` })
      .optional()
      .describe(
        "What the service's data_points_count counts: a report that disagrees with it is held. Default learn: rows, cells or non_empty_cells, from reports that agree. With _with_duplicates each of identical rows counts. ignore: the count is not compared.",
      ),
    final_newline: z
      .enum(['required', 'optional'], { error: 'required or optional' })
      .optional()
      .describe(
        'Whether the last line of a report ends as the others do. Default required: one that does not is taken for cut off. optional: for a service that never ends it.',
      ),
  },
  { error: 'a map with resubmit_uncertain, resubmit_failed, data_points, final_newline' },
)

const tableIndex = z.strictObject(
  {
    columns: z
      .array(name, { error: 'a list of column names' })
      .min(1, { error: 'at least one column name' })
      .describe('Columns of the index, in order: first what questions ask for one value of.'),
    include: z
      .array(name, { error: 'a list of column names' })
      .optional()
      .describe('Columns carried along, so that such a question is answered from the index alone.'),
  },
  { error: 'a map such as { columns: [keyword, country, month], include: [clicks] }' },
)

const table = z.strictObject(
  {
    key: z
      .array(name, { error: 'a list of column names' })
      .min(1, { error: 'at least one column name' })
      .describe('Columns of the primary key, in order.'),
    columns: z
      .record(name, column, { error: 'a map of columns' })
      .describe('The other columns, and words about those of the key.'),
    indexes: z
      .array(tableIndex, { error: 'a list of indexes' })
      .optional()
      .describe('Indexes of the table besides its key. Each slows the load of new or changed rows.'),
  },
  { error: 'a map with key, columns and, where wanted, indexes' },
)

/** The YAML of a pipeline. `millrace docs` writes it as pipelines/schema.json, from which editors complete and explain. */
export const definitionSchema = z.strictObject(
  {
    pipeline: name.describe("The pipeline's name: the view bi.<pipeline>."),
    version: whole('a whole number from 1', 1, 9999).describe('Version of the table: data.<pipeline>_v<version>.'),
    description: line('a sentence').describe("What the rows are; becomes the table's comment."),
    source: pattern('a source such as web-analytics.keywords', /^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$/).describe('API and dataset.'),
    account: name.optional().describe('Name of the key and account. Default: default.'),
    params: z
      .record(z.string(), z.unknown(), { error: 'a map of parameters' })
      .optional()
      .describe("The source's parameters, the same for every unit."),
    for_each: z
      .record(name, dimension, { error: 'a map such as { domain: { file: domains.txt }, country: [us, gb] }' })
      .optional()
      .describe('What to run for: each combination of the values is a unit.'),
    window: window.describe('Calendar spans that are loaded as one truth.'),
    schedule: schedule.optional().describe('When `millrace schedule` runs the pipeline.'),
    table: table.describe('The table the rows go to.'),
    limits: limits.prefault({}).describe('Everything that has a bound.'),
    report: report.optional().describe('What to do by itself when the choice costs money.'),
    guard: guard.optional(),
    tags: tags.optional(),
    expect: expectation.optional().describe('By when the data must be there.'),
    tests: dataTests.optional(),
    publish: flag.optional().describe('Whether bi.<pipeline> shows this version. Default true.'),
  },
  { error: 'a map that begins with pipeline:' },
)

/** A definition as it stands in the YAML, its form checked and nothing else. */
export type RawDefinition = z.infer<typeof definitionSchema>
/** An index as written. */
export type RawIndex = z.infer<typeof tableIndex>
/** A column as written; what it leaves out comes from the source. */
export type RawColumn = z.infer<typeof column>
/** An entry of for_each as written. */
export type RawDimension = z.infer<typeof dimension>

/** The JSON Schema kept in `pipelines/schema.json`, for completion and checks in editors. */
export const definitionJsonSchema = (): Record<string, unknown> => ({
  ...z.toJSONSchema(definitionSchema, { io: 'input', target: 'draft-7' }),
  title: 'Millrace pipeline definition',
})
