// The YAML of a definition's tests: what the rows must be before they are loaded, and what is done where they are not.
import { z } from 'zod'
import { testActions } from '../core/data-test.ts'
import { name, pattern, percent } from './schema-words.ts'

const bounds = (what: string) =>
  pattern(`${what} such as 0..1, or with one end: 0.. or ..1`, /^(?=.*\d)(-?\d+(\.\d+)?)?\.\.(-?\d+(\.\d+)?)?$/)
const value = z.union([z.string(), z.number(), z.boolean()], { error: 'a plain value' })
const apartExpected = 'a share such as 1%, or an amount such as 0.5'

const dataTest = z.strictObject(
  {
    column: name
      .optional()
      .describe('The column it is about. ratio and restated may leave it out: then they count rows instead of adding values.'),
    range: bounds('two numbers').optional().describe('Each value lies between both, for example 0..1; either may be left out.'),
    accepted: z
      .array(value, { error: 'a list of values' })
      .min(1, { error: 'at least one value' })
      .optional()
      .describe('Each value (of a list: each of its values) is one of these.'),
    not_null: percent.optional().describe('At least this share of the rows has a value: 100%, 95%.'),
    sum_of: z
      .array(name, { error: 'a list of column names' })
      .min(1, { error: 'at least one column name' })
      .optional()
      .describe('The column is the sum of these. Rows where one of them has no value are left out.'),
    within: z
      .union([z.number({ error: apartExpected }).min(0, { error: apartExpected }), percent], { error: apartExpected })
      .optional()
      .describe("Beside sum_of: by how much both may differ, a share of the column's value or an amount. Default 0."),
    ratio: bounds('two factors')
      .optional()
      .describe('The sum over the unit is so many times that of the period before, for example 0.2..5.'),
    restated: percent
      .optional()
      .describe(
        'The sum over the unit differs by at most this share from what is loaded of it: a restatement beyond is reported.',
      ),
    at_least: z
      .number({ error: 'a number from 0 on' })
      .min(0, { error: 'a number from 0 on' })
      .optional()
      .describe('Beside ratio and restated: sums below this are too small to say anything. Default 0.'),
    allow: percent.optional().describe('Beside range, accepted and sum_of: the share of rows that may be otherwise. Default 0%.'),
    on_failure: z
      .enum(testActions, { error: 'warn or hold' })
      .optional()
      .describe('warn: the rows are loaded, and a message is sent. hold: the answer waits for a person. Default warn.'),
  },
  { error: 'a map such as { column: clicks, range: 0.., on_failure: hold }' },
)

/** By name what the rows of each unit must be. */
export const dataTests = z
  .record(name, dataTest, { error: 'a map such as { no_jump: { column: clicks, ratio: 0.2..5, on_failure: hold } }' })
  .describe('What the rows of a unit must be, tested before they are loaded.')

/** A test as written. */
export type RawDataTest = z.infer<typeof dataTest>
