// Everything that can be set about the sandbox, with its default, and the check of what comes from outside.
import { z } from 'zod'
import { EtlError } from '../core/errors.ts'
import { faultSchema } from './fault-kinds.ts'
import { dataPoints } from './report-query.ts'

const count = z.int().nonnegative()
const month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/)

const csvSchema = z.strictObject({
  /** Begin with a byte order mark. Default false. */
  bom: z.boolean().optional(),
  /** End lines with CR LF. Default false. */
  crlf: z.boolean().optional(),
  /** Columns in another order than asked for. Default false. */
  shuffleColumns: z.boolean().optional(),
  /** A column nobody asked for, `source_version`. Default false. */
  extraColumn: z.boolean().optional(),
  /** Months as `2026-01-01` (date, the default) or `2026-01` (month). */
  months: z.enum(['date', 'month']).optional(),
  /** How a missing value is spelled: an empty cell, the word null, or by turns (mixed, the default). */
  nulls: z.enum(['empty', 'null', 'mixed']).optional(),
})

export const optionsSchema = z.strictObject({
  /** Port on 127.0.0.1. Default 0: any free one. */
  port: z.int().min(0).max(65_535).optional(),
  /** The key. Default `sandbox-key`. */
  apiKey: z.string().min(1).optional(),
  /** A key of its own for the batch endpoints. Default null: the same key. */
  batchApiKey: z.string().min(1).nullable().optional(),
  /** Another seed is another world of data. Default 1. */
  seed: z.int().optional(),
  /** Keywords of a domain, country and month (All, Total, All). Default 400. */
  keywordsPerDomain: count.optional(),
  /** The same for single domains; 0 means the service has no data for it, in keywords and reports. Default {}. */
  keywordsByDomain: z.record(z.string(), count).optional(),
  /** Largest `limit` of the keyword endpoint. Default 2000. */
  maxLimit: z.int().positive().optional(),
  /** Rows of every general report, however little it asks for (for benchmarks). Default null: what was asked. */
  reportRows: z.int().positive().nullable().optional(),
  /** Every answer waits so long. Default 0. */
  latencyMs: count.optional(),
  /** Rate limit of the account, as a bucket of so many tokens. Default 10; null: no limit. */
  requestsPerSecond: z.number().positive().nullable().optional(),
  /** Retry-After on the rate limit's 429: none (default), seconds or date. */
  retryAfter: z.enum(['none', 'seconds', 'date']).optional(),
  /** Unfinished reports an account may have. Default 100. */
  openReports: z.int().positive().optional(),
  /** Domains, countries and categories one report may ask for, each of them. Default null: no limit. */
  mostValues: z.int().positive().nullable().optional(),
  /** Months one report may span. Default null: no limit. */
  mostMonths: z.int().positive().nullable().optional(),
  /** Cells of one report: domains x countries (or categories) x periods. Default null: no limit. */
  mostCells: z.int().positive().nullable().optional(),
  /** Domains no report may ask for: refused for certain, nothing is bought. Default []. */
  refusedDomains: z.array(z.string()).optional(),
  /** Months no report may ask for, though they lie within the history. Default []. */
  refusedMonths: z.array(month).optional(),
  /** Credits: a report costs domains x metrics x periods x countries, a keyword answer one. Default null: unlimited. */
  quota: count.nullable().optional(),
  /** What `data_points_count` counts: rows, cells (rows x metrics, the default), non-empty (cells with a value), none (no count is given). */
  dataPoints: z.enum(dataPoints).optional(),
  /** Reports have a third of their rows alone, as where the others have no value: neither sent nor counted. Default false. */
  sparse: z.boolean().optional(),
  /** From submission to the final word, of which the first third is `pending`. Default 300. */
  reportDurationMs: count.optional(),
  /** The final word: completed (default) or complete. */
  finalWord: z.enum(['completed', 'complete']).optional(),
  /** What the report history tells of each report: its id alone (ids, the default), or also what was asked for (requests). */
  history: z.enum(['ids', 'requests']).optional(),
  /** The same body again gives the same report. Default false: it is another purchase. */
  idempotent: z.boolean().optional(),
  /** The endpoints the interface names without showing them. Default true; false: they answer 404. */
  extensions: z.boolean().optional(),
  /** Months back to the oldest one that can be asked for. Default 61. */
  historyMonths: z.int().positive().optional(),
  /** Days by which the newest month appears late. Default 0. */
  lateDays: z.int().min(0).max(18).optional(),
  /** Serve downloads from a second port, as the real service does from another host. Default false. */
  downloadHost: z.boolean().optional(),
  /** Downloads as they are (off, the default), with Content-Encoding gzip (encoding), or as a .gz file (file). */
  gzip: z.enum(['off', 'encoding', 'file']).optional(),
  csv: csvSchema.optional(),
  /** How messages about releases write a date: 2026-10-31 with `created` as text (iso, the default), or 10/31/2026 with a number (us). */
  webhookDates: z.enum(['iso', 'us']).optional(),
  /** Name of the id in the reply to a shopper submission. Default report_id. */
  shopperReply: z.enum(['report_id', 'id']).optional(),
  /** Values at the edge of what JSON and CSV can hold: integers beyond 2^53, 40 digits, fractions for integers. Default false. */
  hostile: z.boolean().optional(),
  /** Months restated from the start. Default []. */
  restate: z.array(month).optional(),
  /** What goes wrong. Default []. */
  faults: z.array(faultSchema).optional(),
  /** The moment it is, for publication dates: ISO date or time, in code also a function to milliseconds. Default: the clock. */
  now: z
    .union([z.iso.date(), z.iso.datetime({ offset: true })])
    .nullable()
    .optional(),
})

type FromOutside = z.input<typeof optionsSchema>
/** Every option may be left out; the comments of `optionsSchema` state the defaults. */
export type SandboxOptions = Readonly<Omit<FromOutside, 'now'>> & { readonly now?: string | (() => number) | null | undefined }

type Settled<T> = { readonly [K in keyof T]-?: Exclude<T[K], undefined> }
export type Settings = Settled<Omit<SandboxOptions, 'now' | 'csv'>> & {
  readonly now: string | (() => number) | null
  readonly csv: Settled<z.input<typeof csvSchema>>
}

export const defaults: Settings = {
  port: 0,
  apiKey: 'sandbox-key',
  batchApiKey: null,
  seed: 1,
  keywordsPerDomain: 400,
  keywordsByDomain: {},
  maxLimit: 2000,
  reportRows: null,
  latencyMs: 0,
  requestsPerSecond: 10,
  retryAfter: 'none',
  openReports: 100,
  mostValues: null,
  mostMonths: null,
  mostCells: null,
  refusedDomains: [],
  refusedMonths: [],
  quota: null,
  dataPoints: 'cells',
  sparse: false,
  reportDurationMs: 300,
  finalWord: 'completed',
  history: 'ids',
  idempotent: false,
  extensions: true,
  historyMonths: 61,
  lateDays: 0,
  downloadHost: false,
  gzip: 'off',
  csv: { bom: false, crlf: false, shuffleColumns: false, extraColumn: false, months: 'date', nulls: 'mixed' },
  webhookDates: 'iso',
  shopperReply: 'report_id',
  hostile: false,
  restate: [],
  faults: [],
  now: null,
}

/** Limits of our own do not hold where the sandbox is exactly the interface, unless they are set. */
export const defaultsFor = ({ extensions }: SandboxOptions): Settings =>
  extensions === false
    ? {
        ...defaults,
        extensions,
        maxLimit: Number.MAX_SAFE_INTEGER,
        requestsPerSecond: null,
        openReports: Number.MAX_SAFE_INTEGER,
      }
    : defaults

/** `patch` over `settings`, checked. Throws CONFIGURATION naming every wrong option. */
export const settle = (settings: Settings, patch: SandboxOptions): Settings => {
  const { now, ...rest } = patch
  const checked = optionsSchema.safeParse(typeof now === 'function' || now === undefined ? rest : patch)
  if (!checked.success) throw new EtlError('CONFIGURATION', `Sandbox options: ${problems(checked.error)}. See docs/sandbox.md.`)
  const { csv, now: text, ...given } = checked.data
  const said = <T extends object>(values: T): Partial<T> =>
    Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>
  return Object.freeze({
    ...settings,
    ...(said(given) as Partial<Settings>),
    csv: { ...settings.csv, ...(said(csv ?? {}) as Partial<Settings['csv']>) },
    now: typeof now === 'function' ? now : text === undefined ? settings.now : text,
  })
}

export const problems = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`).join('; ')
