// Parts of a definition's YAML that stand for themselves: what to run for, what a night may buy, tags, by when data are expected.
import { z } from 'zod'
import { dayOfMonth, duration, line, name, pattern, percent, quota, whole } from './schema-words.ts'

const bucket = whole('a count of values that go into one report, at least 1', 1, 1_000_000)
const value = z.union([z.string(), z.number()], { error: 'a plain value' })
const valueList = z.array(value, { error: 'a list of values' })

/** A list of values, or a map with `values` or `file` and, if wanted, `bucket`. */
export const dimension = z
  .union(
    [
      valueList,
      z.strictObject({
        file: line('the path of a list file, one value a line').describe(
          'List file beside the YAML, one value a line; # begins a comment.',
        ),
        bucket: bucket.optional().describe('At most this many values go into one report. Default: as many as the source takes.'),
      }),
      z.strictObject({
        values: valueList.describe('The values themselves.'),
        bucket: bucket.optional().describe('At most this many values go into one report. Default: as many as the source takes.'),
      }),
      z.strictObject({
        query: line('a query such as "select domain from ..."').describe(
          'A query of the warehouse that gives one column, one value a row. It is read as bi_reader: read only, within a time limit.',
        ),
        shrink: percent
          .optional()
          .describe('A list that loses more than this share of its values is held until a person approves it. Default 10%.'),
        timeout: duration.optional().describe('Longest time the query may take. Default 30s.'),
        bucket: bucket.optional().describe('At most this many values go into one report. Default: as many as the source takes.'),
      }),
    ],
    {
      error:
        'a list of values, { file: list.txt }, { values: [...] } or { query: "select ..." }, the last three with an optional bucket',
    },
  )
  .describe('What to run for: a list, { file }, { values } or { query }, each with an optional bucket.')

/** `off`, or a map; absent: twice what nights cost of late. */
export const guard = z
  .union(
    [
      z.literal('off', { error: 'off' }),
      z.strictObject({
        credits_per_night: quota
          .optional()
          .describe(
            'Credits a night may cost; all that is new beyond it waits for approval. Default: from what nights cost of late.',
          ),
        factor: z
          .number({ error: 'a number from 1 on' })
          .min(1, { error: 'a number from 1 on' })
          .max(1000, { error: 'a number up to 1000' })
          .optional()
          .describe('How many times the usual a night may cost. Default 2.'),
      }),
    ],
    { error: 'off, or a map such as { credits_per_night: 500 } or { factor: 3 }' },
  )
  .describe('What a night may buy by itself. Default: twice what nights cost of late, and at least one report.')

/** By when people expect a month to be loaded. Only for windows of a month. */
export const expectation = z.strictObject(
  {
    month_by: dayOfMonth.describe(
      'Day of the following month on which a month must be loaded, in the time zone of window.publication; an alarm is sent when it is not.',
    ),
  },
  { error: 'a map such as { month_by: 12 }' },
)

const tagText = 'a value of letters, digits and . _ - (at most 63)'
/** By name what the spending of the pipeline is charged to. */
export const tags = z
  .record(name, pattern(tagText, /^[\p{L}\p{N}][\p{L}\p{N}._-]{0,62}$/u), { error: 'a map such as { client: acme }' })
  .describe('What the credits are charged to: `millrace quota` adds them up by tag.')
