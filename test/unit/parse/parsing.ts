// What the tests of parsing share: small definitions, bodies cut anywhere, and a reader of COPY text.
import type { Box, Column, Definition, Payload } from '../../../src/core/types.ts'
import type { ParsedChunk } from '../../../src/parse/copy-text.ts'
import { createAnswerParser } from '../../../src/parse/parse.ts'
import { compileParsePlan, type ParsePlan } from '../../../src/parse/parse-plan.ts'
import { createParseReport, type ParseReport } from '../../../src/parse/parse-report.ts'
import { keywords } from '../../../src/sources/web-analytics/keywords.ts'

export const column = (name: string, type: Column['type'], more: Partial<Column> = {}): Column => ({
  name,
  type,
  isKey: false,
  nullable: more.isKey !== true,
  description: name,
  unit: null,
  origin: 'response',
  from: [name],
  ifAbsent: null,
  normalize: null,
  rounding: null,
  ...more,
})

export interface PlanOptions {
  readonly slice?: Box['slice']
  readonly params?: Definition['params']
  readonly every?: Definition['window']['every']
  /** The span of one row. Default: the window. */
  readonly rows?: Definition['period']['every']
  readonly window?: Box['window']
  readonly maxBytes?: number
}

export const definitionOf = (columns: readonly Column[], options: PlanOptions = {}): Definition => ({
  file: 'test.yaml',
  pipeline: 'test',
  version: 1,
  description: 'Test',
  source: 'test.report',
  params: options.params ?? {},
  account: 'default',
  dimensions: [],
  window: {
    every: options.every ?? 'month',
    from: '2024-01-01',
    lookBack: 2,
    fullCheckDays: null,
    publication: { publishedOn: 10, restatedOn: [], timeZone: 'UTC' },
  },
  schedule: null,
  columns,
  key: columns.filter((one) => one.isKey).map((one) => one.name),
  indexes: [],
  limits: {
    pageSize: 100,
    maxPages: 100,
    concurrency: 1,
    timeoutMs: 1000,
    attempts: 1,
    rejectShare: 0,
    rejectCount: null,
    shrink: 0.5,
    walks: 3,
    pollEveryMs: 1000,
    pollMaxMs: 1000,
    deadlineMs: 1000,
    quotaPerMonth: null,
    quotaPerDay: null,
    maxBodyBytes: options.maxBytes ?? 1_000_000_000,
  },
  report: { resubmitUncertain: false, resubmitFailed: false },
  guard: null,
  tags: {},
  expect: null,
  tests: [],
  publish: true,
  period: { every: options.rows ?? options.every ?? 'month', isInKey: false },
  dimensionTables: [],
})

export const planOf = (columns: readonly Column[], options: PlanOptions = {}): ParsePlan =>
  compileParsePlan(
    definitionOf(columns, options),
    {
      key: 'test',
      pipeline: 'test',
      version: 1,
      window: options.window ?? { from: '2026-01-01', to: '2026-02-01' },
      slice: options.slice ?? {},
    },
    keywords,
  )

async function* chunked(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** @param size bytes of a chunk */
export const payloadOf = (format: Payload['format'], body: string | Uint8Array, size = 1 << 20): Payload => ({
  format,
  part: 1,
  body: chunked(typeof body === 'string' ? Buffer.from(body) : body, size),
})

export interface Parsed {
  readonly rows: (string | null)[][]
  readonly copy: string
  readonly report: ParseReport
}

export const parseBody = async (plan: ParsePlan, payload: Payload): Promise<Parsed> => {
  const report = createParseReport()
  let copy = ''
  let rows = 0
  for await (const chunk of parsePayload(payload, plan, report)) {
    copy += chunk.copy.toString('utf8')
    rows += chunk.rows
  }
  if (rows !== report.rows) throw new Error(`${rows} rows in chunks, ${report.rows} in the report`)
  return { rows: decodeCopy(copy), copy, report }
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', '\\': '\\' }

/** PostgreSQL's COPY text format, read back. */
export const decodeCopy = (copy: string): (string | null)[][] =>
  copy === ''
    ? []
    : copy
        .replace(/\n$/, '')
        .split('\n')
        .map((line) =>
          line
            .split('\t')
            .map((cell) =>
              cell === '\\N' ? null : cell.replaceAll(/\\(.)/gs, (_all, letter: string) => escapes[letter] ?? letter),
            ),
        )

/** Elements of a PostgreSQL array literal as `arrayLiteral` writes it. */
export const decodeArray = (literal: string): (string | null)[] =>
  [...literal.slice(1, -1).matchAll(/NULL|"((?:[^"\\]|\\.)*)"/gs)].map((found) =>
    found[1] === undefined ? null : found[1].replaceAll(/\\(.)/gs, '$1'),
  )

/** The code and message of what parsing throws. */
export const failureOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
  } catch (error) {
    if (error instanceof Error && 'code' in error) return `${String(error.code)}: ${error.message}`
    throw error
  }
  return 'no failure'
}

/** Rows of an answer that is one part; see `createAnswerParser`. */
export async function* parsePayload(
  payload: Payload,
  plan: ParsePlan,
  report: ParseReport,
): AsyncGenerator<ParsedChunk, void, void> {
  const parser = createAnswerParser(plan, report)
  yield* parser.parse(payload)
  const chunk = parser.rest()
  if (chunk !== null) yield chunk
}
