// What can be set about the service as its documentation and others' measurements describe it.
import { docPage } from '../../core/shipped.ts'
import { z } from 'zod'
import { settingError } from '../../core/errors.ts'
import { month, problems } from '../sandbox-options.ts'
import { priceSchema } from './vendor-prices.ts'

const credits = z.number().nonnegative().nullable()
const values = z.array(z.string()).nullable()

/** A reply that stands in for the real one, for requests that `match` names: at most `times` times. */
const replacedSchema = z.strictObject({
  endpoint: z.enum(['keywords', 'submit', 'shopper', 'status', 'download', 'free']),
  /** Part of the path, the query or the body (of a status or a file: of the report) that must be there, each of them. Default: any. */
  match: z.array(z.string()).default([]),
  /** Answers so many such requests. Default: all. */
  times: z.int().positive().default(Number.MAX_SAFE_INTEGER),
  status: z.int().min(100).max(599).default(200),
  type: z.string().default('application/json'),
  body: z.string().default(''),
  /** Fields of the real answer to replace, instead of the whole; null takes one away, `"$report_id"` is the real answer's own. */
  merge: z.record(z.string(), z.unknown()).optional(),
  headers: z.record(z.string(), z.string()).default({}),
})

const vendorSchema = z.strictObject({
  port: z.int().min(0).max(65_535).default(0),
  /** REST and batch had a key each in this version (fact 16). */
  restKey: z.string().min(1).default('vendor-key'),
  batchKey: z.string().min(1).default('vendor-key'),
  seed: z.int().default(1),
  /** Newest and oldest month there is (facts 66, 74). */
  newestMonth: month.default('2026-09'),
  oldestMonth: month.default('2020-07'),
  /** Keywords of a domain, country and month; 0 in `keywordsByDomain`: the service has no data for it. */
  keywords: z.int().nonnegative().default(250),
  keywordsByDomain: z.record(z.string(), z.int().nonnegative()).default({}),
  /** Months one keyword request may span (fact 56). */
  keywordMonths: z.int().positive().default(1),
  /** By `keywords`, `shopper_category`, `shopper_brand` or a table's name; the rest keep their own. Default for keywords: 13 credits for 100 rows (fact 44). */
  prices: z.record(z.string(), priceSchema).default({}),
  /** Where the bill of an answer stands: in its meta, under the old or the new name, or only in the balance (facts 46, 50, 51). */
  bill: z.enum(['data_credits_charged', 'sw_coins', 'balance']).default('data_credits_charged'),
  /** Credits of each purse; null: no end (fact 49). */
  purses: z.strictObject({ rest: credits.default(null), batch: credits.default(null) }).default({ rest: null, batch: null }),
  /** The user's own cap within the batch purse; null: none, and both values of the answer are null (fact 50). */
  userCap: credits.default(null),
  /** What the plan has; null: everything. */
  plan: z
    .strictObject({ tables: values.default(null), countries: values.default(null), domains: values.default(null) })
    .default({ tables: null, countries: null, domains: null }),
  pendingReports: z.int().positive().default(100),
  reportMs: z.int().nonnegative().default(300),
  /** A week that was asked for is answered, and charged, as three (fact 52); months grow to the quarter they lie in. */
  widens: z.boolean().default(false),
  /** Where the shopper reply holds the id. */
  shopperReply: z.enum(['report_id', 'id', 'reportId', 'data.report_id']).default('report_id'),
  requestsPerSecond: z.number().positive().nullable().default(10),
  replies: z.array(replacedSchema).default([]),
})

export type VendorOptions = z.input<typeof vendorSchema>
export type VendorSettings = z.output<typeof vendorSchema>

/** Throws CONFIGURATION naming every wrong option. */
export const readVendorOptions = (given: unknown): VendorSettings => {
  const checked = vendorSchema.safeParse(given)
  if (checked.success) return checked.data
  throw settingError(`Options of the vendor sandbox: ${problems(checked.error)}. See ${docPage('sandbox-reference.md')}.`)
}
