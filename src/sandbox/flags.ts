// The flags of the `sandbox` command, and how they become options.
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'
import { faultSchema } from './fault-kinds.ts'
import { problems, type SandboxOptions } from './options.ts'
import { dataPoints } from './report-query.ts'
import { withoutPrototype } from './request-body.ts'

export interface SandboxFlag {
  /** As commander reads them. */
  readonly flags: string
  readonly description: string
}

type Read = (text: string, flag: string) => SandboxOptions

interface Entry extends SandboxFlag {
  /** The option's text, or 'true' for a flag without a value, as sandbox options. */
  readonly read: Read
}

const entry = (flags: string, description: string, read: Read): Entry => ({ flags, description, read })

const wrong = (flag: string, text: string, expected: string): EtlError =>
  new EtlError('USAGE', `${flag} is '${text}'; expected ${expected}. See docs/sandbox.md.`)

const number =
  (make: (value: number) => SandboxOptions): Read =>
  (text, flag) => {
    if (!/^-?\d+(\.\d+)?$/.test(text)) throw wrong(flag, text, 'a number')
    return make(Number(text))
  }

const word =
  <T extends string>(allowed: readonly T[], make: (value: T) => SandboxOptions): Read =>
  (text, flag) => {
    const value = allowed.find((candidate) => candidate === text)
    if (value === undefined) throw wrong(flag, text, allowed.join(', '))
    return make(value)
  }

const listOf = (text: string): string[] => text.split(',').map((part) => part.trim())

const monthsOf = (text: string, flag: string): string[] => {
  const list = listOf(text)
  if (!list.every((month) => /^\d{4}-(0[1-9]|1[0-2])$/.test(month)))
    throw wrong(flag, text, 'months as YYYY-MM, separated by commas')
  return list
}

const byDomain: Read = (text, flag) => {
  const pairs = text.split(',').map((pair) => /^([^=]+)=(\d+)$/.exec(pair.trim()))
  const entries = pairs.map((pair) => {
    if (pair === null) throw wrong(flag, text, 'pairs such as a.com=5000,b.com=0')
    return [pair[1] ?? '', Number(pair[2])] as const
  })
  return { keywordsByDomain: Object.fromEntries(entries) }
}

/** A list of faults as JSON, or the file it is in. */
const faults: Read = (text, flag) => {
  const parsed = z.array(faultSchema).safeParse(parseJson(/^\s*\[/.test(text) ? text : readText(text, flag), flag))
  if (!parsed.success) throw wrong(flag, text, `a list of faults; ${problems(parsed.error)}`)
  return { faults: parsed.data }
}

const readText = (file: string, flag: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new EtlError('USAGE', `${flag}: ${file} cannot be read (${messageOf(cause)}). Give a file, or the JSON list itself.`, {
      cause,
    })
  }
}

const parseJson = (text: string, flag: string): unknown => {
  try {
    return JSON.parse(text, withoutPrototype)
  } catch (cause) {
    throw new EtlError(
      'USAGE',
      `${flag}: not JSON (${messageOf(cause)}). Expected a list such as [{"kind":"status-500","nth":3}].`,
      { cause },
    )
  }
}

const entries: readonly Entry[] = [
  entry(
    '--port <port>',
    'port on 127.0.0.1; 0: any free one (default 8080)',
    number((port) => ({ port })),
  ),
  entry('--key <key>', 'the API key it accepts (default sandbox-key)', (apiKey) => ({ apiKey })),
  entry('--batch-key <key>', 'a key of its own for the batch endpoints (default: the same)', (batchApiKey) => ({ batchApiKey })),
  entry(
    '--seed <number>',
    'another seed is another world of data (default 1)',
    number((seed) => ({ seed })),
  ),
  entry(
    '--keywords <rows>',
    'keywords of a domain, country and month (default 400)',
    number((rows) => ({ keywordsPerDomain: rows })),
  ),
  entry('--keywords-for <list>', 'the same for single domains: a.com=5000,b.com=0 (0: no data)', byDomain),
  entry(
    '--max-limit <rows>',
    'largest limit of the keyword endpoint (default 2000)',
    number((maxLimit) => ({ maxLimit })),
  ),
  entry(
    '--report-rows <rows>',
    'rows of every general report, whatever it asks for',
    number((reportRows) => ({ reportRows })),
  ),
  entry(
    '--report-ms <ms>',
    'how long a report takes (default 300)',
    number((ms) => ({ reportDurationMs: ms })),
  ),
  entry(
    '--latency <ms>',
    'how long every answer waits (default 0)',
    number((latencyMs) => ({ latencyMs })),
  ),
  entry(
    '--rate <requests>',
    'requests a second; 0: no limit (default 10)',
    number((rate) => ({ requestsPerSecond: rate === 0 ? null : rate })),
  ),
  entry(
    '--retry-after <form>',
    'Retry-After with 429: none, seconds, date (default none)',
    word(['none', 'seconds', 'date'], (retryAfter) => ({ retryAfter })),
  ),
  entry(
    '--open-reports <count>',
    'unfinished reports allowed at once (default 100)',
    number((openReports) => ({ openReports })),
  ),
  entry(
    '--most-values <count>',
    'domains, countries or categories one report may ask for (default: no limit)',
    number((mostValues) => ({ mostValues })),
  ),
  entry(
    '--most-months <count>',
    'months one report may span (default: no limit)',
    number((mostMonths) => ({ mostMonths })),
  ),
  entry(
    '--most-cells <count>',
    'domains x countries x periods of one report (default: no limit)',
    number((mostCells) => ({ mostCells })),
  ),
  entry('--refuse-domains <list>', 'domains no report may ask for: a.com,b.com', (text) => ({ refusedDomains: listOf(text) })),
  entry('--refuse-months <months>', 'months no report may ask for: 2026-01,2026-02', (text, flag) => ({
    refusedMonths: monthsOf(text, flag),
  })),
  entry(
    '--quota <credits>',
    'credits of the key (default: unlimited)',
    number((quota) => ({ quota })),
  ),
  entry(
    '--data-points <what>',
    'what data_points_count counts: rows, cells, non-empty, none (default cells)',
    word(dataPoints, (counted) => ({ dataPoints: counted })),
  ),
  entry('--sparse', 'reports have a third of their rows: the others have no value and are neither sent nor counted', () => ({
    sparse: true,
  })),
  entry(
    '--final-word <word>',
    'completed or complete (default completed)',
    word(['completed', 'complete'], (finalWord) => ({ finalWord })),
  ),
  entry(
    '--history <form>',
    'what the report history tells: ids, or also the requests (default ids)',
    word(['ids', 'requests'], (history) => ({ history })),
  ),
  entry(
    '--webhook-dates <form>',
    'dates in messages about releases: iso, us (default iso)',
    word(['iso', 'us'], (webhookDates) => ({ webhookDates })),
  ),
  entry('--idempotent', 'the same submission again gives the same report', () => ({ idempotent: true })),
  entry('--no-extensions', 'exactly the interface: no endpoint, parameter, field or limit beyond it', () => ({
    extensions: false,
  })),
  entry('--download-host', 'serve downloads from a second port', () => ({ downloadHost: true })),
  entry(
    '--gzip <form>',
    'downloads: off, encoding (Content-Encoding), file (.gz) (default off)',
    word(['off', 'encoding', 'file'], (gzip) => ({ gzip })),
  ),
  entry('--csv <quirks>', 'of bom, crlf, shuffle, extra, months; separated by commas', (text, flag) => ({
    csv: quirks(text, flag),
  })),
  entry('--hostile', 'values at the edge: integers beyond 2^53, 40 digits, fractions for integers', () => ({ hostile: true })),
  entry('--now <date>', 'the date it is, for publication (default: the real clock)', (now) => ({ now })),
  entry('--restate <months>', 'months whose values differ from those without this flag: 2026-01,2026-02', (text, flag) => ({
    restate: monthsOf(text, flag),
  })),
  entry('--faults <list>', 'faults as a JSON list, or the file it is in', faults),
]

const quirks = (text: string, flag: string): NonNullable<SandboxOptions['csv']> => {
  const names = text.split(',').map((name) => name.trim())
  const known = ['bom', 'crlf', 'shuffle', 'extra', 'months']
  if (!names.every((name) => known.includes(name))) throw wrong(flag, text, known.join(', '))
  const has = (name: string): boolean => names.includes(name)
  return {
    bom: has('bom'),
    crlf: has('crlf'),
    shuffleColumns: has('shuffle'),
    extraColumn: has('extra'),
    months: has('months') ? 'month' : 'date',
  }
}

/** What `millrace sandbox --help` lists. */
export const sandboxFlags: readonly SandboxFlag[] = entries.map(({ flags, description }) => ({ flags, description }))

const camelCase = (flags: string): string =>
  (flags.split(/[ ,]/)[0] ?? '').replace(/^--(no-)?/, '').replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

/** Commander's options, by camel-case name, as sandbox options. Throws USAGE naming the flag. */
export const sandboxOptionsFrom = (options: Readonly<Record<string, unknown>>): SandboxOptions => {
  let result: SandboxOptions = { port: 8080 }
  for (const { flags, read } of entries) {
    const value = options[camelCase(flags)]
    const flag = flags.split(' ')[0] ?? flags
    // A --no- flag is true unless it was given.
    const isGiven = flag.startsWith('--no-') ? value === false : value !== undefined && value !== false
    if (isGiven) result = { ...result, ...read(String(value), flag) }
  }
  return result
}
