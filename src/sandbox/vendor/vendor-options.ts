// The options of the vendor sandbox, which follows the service's documentation and measurements of other users.
import { docPage } from '../../core/shipped.ts'
import { z } from 'zod'
import { settingError } from '../../core/errors.ts'
import { month, problems } from '../sandbox-options.ts'
import { priceSchema } from './vendor-prices.ts'

const credits = z.number().nonnegative().nullable()
const values = z.array(z.string()).nullable()

/** A reply that replaces the real one for requests that fit `match`, at most `times` times. */
const replacedSchema = z.strictObject({
  endpoint: z.enum(['keywords', 'submit', 'shopper', 'status', 'download', 'free']),
  /** Texts that must all be in the path, query or body (for a status or download: the report's body). Default: any request. */
  match: z.array(z.string()).default([]),
  /** Answers so many such requests. Default: all. */
  times: z.int().positive().default(Number.MAX_SAFE_INTEGER),
  status: z.int().min(100).max(599).default(200),
  type: z.string().default('application/json'),
  body: z.string().default(''),
  /** Replaces only these fields of the real reply; null removes a field, `"$report_id"` stands for the real reply's value. */
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
  /** Where an answer tells its price: in its meta under the old or the new name, or only through the balance (facts 46, 50, 51). */
  bill: z.enum(['data_credits_charged', 'sw_coins', 'balance']).default('data_credits_charged'),
  /** Credits of each purse (REST and batch have separate ones); null: unlimited (fact 49). */
  purses: z.strictObject({ rest: credits.default(null), batch: credits.default(null) }).default({ rest: null, batch: null }),
  /** The user's own cap within the batch purse; null: none, and both values of the answer are null (fact 50). */
  userCap: credits.default(null),
  /** The content of the plan; null: everything. */
  plan: z
    .strictObject({ tables: values.default(null), countries: values.default(null), domains: values.default(null) })
    .default({ tables: null, countries: null, domains: null }),
  pendingReports: z.int().positive().default(100),
  reportMs: z.int().nonnegative().default(300),
  /** Whether a requested week is answered and charged as three (fact 52), and months as their whole quarters. */
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
