// The options of the sandbox with their defaults, and the check of options from outside.
import { docPage } from '../core/shipped.ts'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { messageOf, settingError, usageError } from '../core/errors.ts'
import { faultSchema } from './fault-kinds.ts'
import { dataPoints } from './report-query.ts'
import { withoutPrototype } from './request-body.ts'

const count = z.int().nonnegative()
const most = z.int().positive().nullable().default(null)
export const month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected YYYY-MM')
const off = z.boolean().default(false)

const csvSchema = z.strictObject({
  bom: off,
  crlf: off,
  shuffleColumns: off,
  /** Adds a column that was not requested, `source_version`. */
  extraColumn: off,
  /** Months as `2026-01-01` (date) or `2026-01` (month). */
  months: z.enum(['date', 'month']).default('date'),
  /** How a missing value is spelled: an empty cell, the word null, or by turns. */
  nulls: z.enum(['empty', 'null', 'mixed']).default('mixed'),
})

/** docs/sandbox-reference.md lists them by these descriptions. */
export const optionsSchema = z.strictObject({
  port: z.int().min(0).max(65_535).default(0).describe('port on 127.0.0.1; 0: any free one'),
  apiKey: z.string().min(1).default('sandbox-key').describe('the API key it accepts'),
  batchApiKey: z.string().min(1).nullable().default(null).describe('a key of its own for the batch endpoints'),
  seed: z.int().default(1).describe('another seed gives other data'),
  keywordsPerDomain: count.default(400).describe('keywords of a domain, country and month'),
  keywordsByDomain: z.record(z.string(), count).default({}).describe('the same for single domains; 0: no data'),
  maxLimit: z.int().positive().default(2000).describe('largest limit of the keyword endpoint'),
  reportRows: most.describe('rows of every general report, whatever it asks for'),
  reportDurationMs: count.default(300).describe('how long a report takes'),
  latencyMs: count.default(0).describe('how long every answer waits'),
  requestsPerSecond: z.number().positive().nullable().default(10).describe('null: no limit'),
  retryAfter: z.enum(['none', 'seconds', 'date']).default('none').describe('Retry-After with 429: none, seconds, date'),
  openReports: z.int().positive().default(100).describe('unfinished reports allowed at once'),
  mostValues: most.describe('the most domains, countries or categories of one report'),
  mostMonths: most.describe('the most months of one report'),
  mostCells: most.describe('the most cells of one report: domains x countries x periods'),
  refusedDomains: z.array(z.string()).default([]).describe('domains no report may ask for'),
  refusedMonths: z.array(month).default([]).describe('months no report may ask for'),
  quota: count.nullable().default(null).describe('credits of the key; null: unlimited'),
  dataPoints: z.enum(dataPoints).default('cells').describe('what data_points_count counts: rows, cells, non-empty, none'),
  sparse: off.describe('reports have a third of their rows: the others have no value and are neither sent nor counted'),
  dataVersion: z.string().nullable().default(null).describe('the data version that answers name; null: none'),
  finalWord: z.enum(['completed', 'complete']).default('completed').describe('the status of a finished report'),
  history: z.enum(['ids', 'requests']).default('ids').describe('what the report history tells: ids, or also the requests'),
  webhookDates: z.enum(['iso', 'us']).default('iso').describe('dates in messages about releases: iso, us'),
  idempotent: off.describe('the same submission again gives the same report'),
  extensions: z
    .boolean()
    .default(true)
    .describe('endpoints, parameters, fields and limits that the service itself does not have'),
  downloadHost: off.describe('serve downloads from a second port'),
  gzip: z.enum(['off', 'encoding', 'file']).default('off').describe('downloads: off, encoding (Content-Encoding), file (.gz)'),
  csv: csvSchema.prefault({}).describe('how CSV is written; months: date, month; nulls: empty, null, mixed'),
  hostile: off.describe('values at the edge: integers beyond 2^53, 40 digits, fractions for integers'),
  now: z
    .union([z.iso.date(), z.iso.datetime({ offset: true }), z.custom<() => number>((value) => typeof value === 'function')])
    .nullable()
    .default(null)
    .describe(
      "today's date, which decides what is published; in code also a function that returns milliseconds; null: the real clock",
    ),
  restate: z.array(month).default([]).describe('months that answer with restated values'),
  faults: z.array(faultSchema).default([]).describe('the [faults](#faults) that act'),
  historyMonths: z.int().positive().default(61).describe('months back to the oldest one that can be requested'),
  lateDays: z.int().min(0).max(18).default(0).describe('days by which the newest month appears late'),
  shopperReply: z.enum(['report_id', 'id']).default('report_id').describe('name of the id in the reply to a shopper submission'),
})

export type SandboxOptions = Readonly<z.input<typeof optionsSchema>>
export type Settings = Readonly<z.output<typeof optionsSchema>>

/** Without extensions the sandbox is exactly the interface: limits beyond it apply only if they are set. */
const unlimited = { maxLimit: Number.MAX_SAFE_INTEGER, requestsPerSecond: null, openReports: Number.MAX_SAFE_INTEGER }

/** Throws CONFIGURATION naming every wrong option. */
export const parseOptions = (given: object): Settings => {
  const isBare = 'extensions' in given && given.extensions === false
  const checked = optionsSchema.safeParse(isBare ? { ...unlimited, ...given } : given)
  if (checked.success) return Object.freeze(checked.data)
  throw settingError(`Sandbox options: ${problems(checked.error)}. See ${docPage('sandbox-reference.md')}.`)
}

/** Merges `patch` into the former options; options of `csv` one by one. */
export const mergeOptions = (given: object, patch: object): object => {
  const csvOf = (options: object): object => ('csv' in options && typeof options.csv === 'object' ? { ...options.csv } : {})
  return { ...given, ...patch, csv: { ...csvOf(given), ...csvOf(patch) } }
}

export const problems = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`).join('; ')

/** Options of the command `sandbox` and the sandbox's own names for them; all others go through `--options`. */
const typed = {
  port: 'port',
  key: 'apiKey',
  seed: 'seed',
  keywords: 'keywordsPerDomain',
  now: 'now',
  restate: 'restate',
  hostile: 'hostile',
  extensions: 'extensions',
} as const

/** Commander's options as options of the sandbox. Throws USAGE where --options cannot be read. */
export const sandboxOptionsFrom = (options: Readonly<Record<string, unknown>>): object => {
  const given = Object.entries(typed).flatMap(([name, option]) => {
    const value = options[name]
    if (value === undefined) return []
    const isNumber = optionsSchema.shape[option].safeParse(0).success
    if (isNumber && !Number.isFinite(Number(value))) throw usageError(`--${name} is '${String(value)}'; write a number.`)
    return [[option, option === 'restate' ? String(value).split(',') : isNumber ? Number(value) : value]]
  })
  return { ...Object.fromEntries(given), ...jsonOptions(options['options']), port: Number(options['port'] ?? 8080) }
}

/** Parses the JSON of --options. Throws USAGE. */
export const jsonOptions = (given: unknown): object => {
  if (given === undefined) return {}
  const text = String(given)
  try {
    const value: unknown = JSON.parse(/^\s*[{[]/.test(text) ? text : readFileSync(text, 'utf8'), withoutPrototype)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
    throw new Error('expected an object such as {"seed":7}')
  } catch (cause) {
    throw usageError(`--options: ${messageOf(cause)}. Give JSON or a file: ${docPage('sandbox-reference.md')}.`, cause)
  }
}
