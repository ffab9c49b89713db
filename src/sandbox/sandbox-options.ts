// Everything that can be set about the sandbox: its flag, its default, and the check of what comes from outside.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'
import { faultSchema } from './fault-kinds.ts'
import { dataPoints } from './report-query.ts'
import { withoutPrototype } from './request-body.ts'

/** As commander reads it; the description is what `millrace sandbox --help` and docs/sandbox-reference.md say. */
export interface SandboxFlag {
  readonly flags: string
  readonly description: string
}

const flagOf = z.registry<SandboxFlag>()

const flag = <T extends z.ZodType>(schema: T, flags: string, description: string): z.ZodOptional<T> => {
  const option = schema.optional()
  flagOf.add(option, { flags, description })
  return option
}

const count = z.int().nonnegative()
const most = z.int().positive().nullable()
const month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/)

const csvSchema = z.strictObject({
  bom: z.boolean().optional(),
  crlf: z.boolean().optional(),
  shuffleColumns: z.boolean().optional(),
  /** A column nobody asked for, `source_version`. */
  extraColumn: z.boolean().optional(),
  /** Months as `2026-01-01` (date) or `2026-01` (month). */
  months: z.enum(['date', 'month']).optional(),
  /** How a missing value is spelled: an empty cell, the word null, or by turns. */
  nulls: z.enum(['empty', 'null', 'mixed']).optional(),
})

export const optionsSchema = z.strictObject({
  port: flag(z.int().min(0).max(65_535), '--port <port>', 'port on 127.0.0.1; 0: any free one (default 8080)'),
  apiKey: flag(z.string().min(1), '--key <key>', 'the API key it accepts (default sandbox-key)'),
  batchApiKey: flag(
    z.string().min(1).nullable(),
    '--batch-key <key>',
    'a key of its own for the batch endpoints (default: the same)',
  ),
  seed: flag(z.int(), '--seed <number>', 'another seed is another world of data (default 1)'),
  keywordsPerDomain: flag(count, '--keywords <rows>', 'keywords of a domain, country and month (default 400)'),
  keywordsByDomain: flag(
    z.record(z.string(), count),
    '--keywords-for <list>',
    'the same for single domains: a.com=5000,b.com=0 (0: no data)',
  ),
  maxLimit: flag(z.int().positive(), '--max-limit <rows>', 'largest limit of the keyword endpoint (default 2000)'),
  reportRows: flag(most, '--report-rows <rows>', 'rows of every general report, whatever it asks for'),
  reportDurationMs: flag(count, '--report-ms <ms>', 'how long a report takes (default 300)'),
  latencyMs: flag(count, '--latency <ms>', 'how long every answer waits (default 0)'),
  requestsPerSecond: flag(z.number().positive().nullable(), '--rate <requests>', 'requests a second; 0: no limit (default 10)'),
  retryAfter: flag(
    z.enum(['none', 'seconds', 'date']),
    '--retry-after <form>',
    'Retry-After with 429: none, seconds, date (default none)',
  ),
  openReports: flag(z.int().positive(), '--open-reports <count>', 'unfinished reports allowed at once (default 100)'),
  mostValues: flag(most, '--most-values <count>', 'domains, countries or categories one report may ask for (default: no limit)'),
  mostMonths: flag(most, '--most-months <count>', 'months one report may span (default: no limit)'),
  mostCells: flag(most, '--most-cells <count>', 'domains x countries x periods of one report (default: no limit)'),
  refusedDomains: flag(z.array(z.string()), '--refuse-domains <list>', 'domains no report may ask for: a.com,b.com'),
  refusedMonths: flag(z.array(month), '--refuse-months <months>', 'months no report may ask for: 2026-01,2026-02'),
  quota: flag(count.nullable(), '--quota <credits>', 'credits of the key (default: unlimited)'),
  dataPoints: flag(
    z.enum(dataPoints),
    '--data-points <what>',
    'what data_points_count counts: rows, cells, non-empty, none (default cells)',
  ),
  sparse: flag(
    z.boolean(),
    '--sparse',
    'reports have a third of their rows: the others have no value and are neither sent nor counted',
  ),
  finalWord: flag(z.enum(['completed', 'complete']), '--final-word <word>', 'completed or complete (default completed)'),
  history: flag(
    z.enum(['ids', 'requests']),
    '--history <form>',
    'what the report history tells: ids, or also the requests (default ids)',
  ),
  webhookDates: flag(z.enum(['iso', 'us']), '--webhook-dates <form>', 'dates in messages about releases: iso, us (default iso)'),
  idempotent: flag(z.boolean(), '--idempotent', 'the same submission again gives the same report'),
  extensions: flag(z.boolean(), '--no-extensions', 'exactly the interface: no endpoint, parameter, field or limit beyond it'),
  downloadHost: flag(z.boolean(), '--download-host', 'serve downloads from a second port'),
  gzip: flag(
    z.enum(['off', 'encoding', 'file']),
    '--gzip <form>',
    'downloads: off, encoding (Content-Encoding), file (.gz) (default off)',
  ),
  csv: flag(csvSchema, '--csv <quirks>', 'of bom, crlf, shuffle, extra, months; separated by commas'),
  hostile: flag(z.boolean(), '--hostile', 'values at the edge: integers beyond 2^53, 40 digits, fractions for integers'),
  /** In code also a function to milliseconds. */
  now: flag(
    z
      .union([z.iso.date(), z.iso.datetime({ offset: true }), z.custom<() => number>((value) => typeof value === 'function')])
      .nullable(),
    '--now <date>',
    'the date it is, for publication (default: the real clock)',
  ),
  restate: flag(z.array(month), '--restate <months>', 'months whose values differ from those without this flag: 2026-01,2026-02'),
  faults: flag(z.array(faultSchema), '--faults <list>', 'faults as a JSON list, or the file it is in'),
  /** Months back to the oldest one that can be asked for. */
  historyMonths: z.int().positive().optional(),
  /** Days by which the newest month appears late. */
  lateDays: z.int().min(0).max(18).optional(),
  /** Name of the id in the reply to a shopper submission. */
  shopperReply: z.enum(['report_id', 'id']).optional(),
})

/** Every option may be left out; `defaults` holds then. */
export type SandboxOptions = Readonly<z.input<typeof optionsSchema>>

type Settled<T> = { readonly [K in keyof T]-?: Exclude<T[K], undefined> }
export type Settings = Settled<Omit<SandboxOptions, 'csv'>> & { readonly csv: Settled<z.input<typeof csvSchema>> }

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
    ? { ...defaults, maxLimit: Number.MAX_SAFE_INTEGER, requestsPerSecond: null, openReports: Number.MAX_SAFE_INTEGER }
    : defaults

/** `patch` over `settings`, checked. Throws CONFIGURATION naming every wrong option. */
export const settle = (settings: Settings, patch: SandboxOptions): Settings => {
  const checked = optionsSchema.safeParse(patch)
  if (!checked.success)
    throw new EtlError('CONFIGURATION', `Sandbox options: ${problems(checked.error)}. See docs/sandbox-reference.md.`)
  const { csv, ...given } = checked.data
  return Object.freeze({ ...over(settings, given), csv: over(settings.csv, csv ?? {}) })
}

/** What is undefined in `given` stays as it is. */
const over = <T extends object>(settings: T, given: { readonly [K in keyof T]?: T[K] | undefined }): T => ({
  ...settings,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
})

export const problems = (error: z.ZodError): string =>
  error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`).join('; ')

/** Flags that choose another sandbox; src/cli/sandbox.ts reads them. */
const otherFlags: readonly SandboxFlag[] = [
  {
    flags: '--like <service>',
    description: "own: this sandbox (default); vendor: prices, limits and refusals as the service's documentation has them",
  },
  { flags: '--vendor <options>', description: 'options of --like vendor as JSON' },
]

const known = Object.entries(optionsSchema.shape).flatMap(([name, schema]) => {
  const said = flagOf.get(schema)
  return said === undefined ? [] : [{ name, schema, ...said }]
})

/** What `millrace sandbox --help` lists. */
export const sandboxFlags: readonly SandboxFlag[] = [
  ...known.map(({ flags, description }) => ({ flags, description })),
  ...otherFlags,
]

/** Commander's options, by camel-case name, as sandbox options. Throws USAGE naming the flag. */
export const sandboxOptionsFrom = (options: Readonly<Record<string, unknown>>): SandboxOptions => {
  const given: Record<string, unknown> = { port: 8080 }
  for (const { name, schema, flags, description } of known) {
    const [word = ''] = flags.split(' ')
    const value = options[word.replace(/^--(no-)?/, '').replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())]
    // A --no- flag is true unless it was given.
    if (value === undefined || value === word.startsWith('--no-')) continue
    const read = readings(String(value), word).find((one) => schema.safeParse(one).success)
    if (read === undefined)
      throw new EtlError('USAGE', `${word} is '${value}'; expected ${description}. See docs/sandbox-reference.md.`)
    given[name] = read
  }
  return optionsSchema.parse(given)
}

const quirks: Readonly<Record<string, object>> = {
  bom: { bom: true },
  crlf: { crlf: true },
  shuffle: { shuffleColumns: true },
  extra: { extraColumn: true },
  months: { months: 'month' },
}

/** What a text may stand for; the option's schema takes the first that fits it. */
const readings = (text: string, word: string): unknown[] => {
  if (word === '--faults') return [parseJson(/^\s*\[/.test(text) ? text : readText(text, word), word)]
  const list = text.split(',').map((part) => part.trim())
  if (word === '--csv')
    return list.every((one) => Object.hasOwn(quirks, one)) ? [Object.assign({}, ...list.map((one) => quirks[one]))] : []
  const pairs = list.map((pair) => pair.split('='))
  const byName = pairs.every(([, number = '']) => /^\d+$/.test(number))
    ? [Object.fromEntries(pairs.map(([name, number]) => [name, Number(number)]))]
    : []
  const numbers = /^-?\d+(\.\d+)?$/.test(text) ? [Number(text), ...(text === '0' ? [null] : [])] : []
  return [text, ...numbers, ...(text === 'true' ? [true] : text === 'false' ? [false] : []), ...byName, list]
}

const readText = (file: string, word: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new EtlError('USAGE', `${word}: ${file} cannot be read (${messageOf(cause)}). Give a file, or the JSON list itself.`, {
      cause,
    })
  }
}

/** Throws USAGE naming the flag. */
export const parseJson = (text: string, word: string): unknown => {
  try {
    return JSON.parse(text, withoutPrototype)
  } catch (cause) {
    throw new EtlError('USAGE', `${word}: not JSON (${messageOf(cause)}). See docs/sandbox-reference.md.`, { cause })
  }
}
