// The faults that can be switched on: their effect, their place, and the schema of their declaration.
import { z } from 'zod'

/** Where a fault can act. `submit` is both submissions, `any` every endpoint. */
const faultPlaces = [
  'any',
  'keywords',
  'submit',
  'submit-report',
  'submit-shopper',
  'status',
  'download',
  'validate',
  'retry',
  'history',
  'describe',
  'credits',
  'capabilities',
  'user-capabilities',
  'subscribe',
  'unsubscribe',
  'authorize',
  'webhook-test',
] as const
export type FaultPlace = (typeof faultPlaces)[number]
/** An endpoint; requests are counted by it. */
export type Endpoint = Exclude<FaultPlace, 'any' | 'submit'>

interface KindSpec {
  /** The default place. */
  readonly on: FaultPlace
  readonly does: string
}

const kind = (on: FaultPlace, does: string): KindSpec => ({ on, does })

/** Every fault by name; docs/sandbox-reference.md mirrors the table (a test compares them). */
export const faultKinds = {
  slow: kind('any', 'answers after `delayMs` (default 2000)'),
  stall: kind('any', 'takes the request and never answers'),
  'status-429': kind('any', 'HTTP 429; `retryAfter`: none (default), seconds or date; `retryAfterSeconds` (default 1)'),
  'status-500': kind('any', 'HTTP 500; the request takes no effect'),
  'status-502': kind('any', 'HTTP 502 with an HTML body'),
  'status-503': kind('any', 'HTTP 503; `retryAfter` as above'),
  'any-status': kind('any', 'HTTP `status` (default 500) with a text that says no more; the request takes no effect'),
  'drop-before': kind('any', 'the connection is reset before the request takes effect'),
  'drop-reply': kind('any', 'the request takes effect, the connection is reset instead of the reply'),
  'reset-mid-body': kind('any', 'the connection is reset in the middle of the body'),
  'truncate-body': kind(
    'any',
    'the body is cut; `mode`: length (default: Content-Length says more), chunked (no last chunk), silent (well-formed HTTP)',
  ),
  'html-200': kind('any', 'HTTP 200 with an HTML page; the request takes no effect'),
  'malformed-json': kind('any', 'HTTP 200 with JSON that does not parse'),
  'bad-gzip': kind('any', 'the body is said to be gzip and is not whole gzip'),
  'key-refused': kind('any', 'HTTP 401 as for a wrong key'),
  'quota-exhausted': kind('any', 'HTTP 403 as for used-up credits'),
  'country-refused': kind('keywords', 'HTTP 400, code 103: the country is outside what the key may ask'),
  'no-data': kind('keywords', "HTTP 401 with 'Data not found', which is the service's answer if there are no data"),
  'count-drift': kind('keywords', '`keywords_count` is off by `by` (default 1)'),
  'last-updated-drift': kind('keywords', '`meta.last_updated` is a day later'),
  'row-moves': kind(
    'keywords',
    'rows shift by one: the row before the page comes again, the last is skipped (`by` -1: the first is)',
  ),
  'repeated-page': kind('keywords', 'the page before is sent again'),
  'short-page': kind('keywords', 'half the rows of the page are sent, though more follow'),
  'clamped-limit': kind('keywords', 'the limit is lowered to `limit` (default 100) and echoed so'),
  'wrong-echo': kind('keywords', '`meta.request` speaks of another domain'),
  'report-failed': kind(
    'submit',
    'the report ends as `internal_error`; a free retry makes it again (`mends: false`: that fails, too)',
  ),
  'report-rejected': kind('submit', 'the report ends as `bad_request`'),
  'report-stuck': kind('submit', 'the report stays `processing` for ever'),
  'empty-report': kind('submit', "the report holds no row: its CSV reads 'No data returned'"),
  'bad-number': kind('submit', 'a metric of the row `row` (default 1) reads `12.3x`'),
  'short-row': kind('submit', 'the row `row` has too few cells'),
  'unclosed-quote': kind('submit', 'the row `row` opens a quote that nothing closes'),
  'nul-bytes': kind('submit', 'the row `row` holds a NUL byte in its domain'),
  'quoted-newline': kind('submit', 'a further column `note` holds quoted line breaks, commas and quotes; every row stays right'),
  'duplicate-rows': kind('submit', 'the row `row` comes twice, the same; `counted: true`: the count has it twice, too'),
  'conflicting-rows': kind('submit', 'the row `row` comes twice, with other values the second time'),
  'half-report': kind('submit', 'the file holds the first half of its rows and is well formed; the count is the whole report’s'),
  'missing-row': kind('submit', 'the file lacks the row `row`; the count is the whole report’s'),
  'extra-row': kind('submit', 'the count leaves the row `row` out; the file has it'),
  'cut-line-end': kind('submit', 'the file ends `by` bytes (default 1) early, within its last line end'),
  'wrong-content-type': kind('download', 'CSV is called JSON, and JSON CSV'),
  'key-echo': kind(
    'keywords',
    'the answer contains the key: in `meta.request` (on `submit`: in a column `asked_with` of the report)',
  ),
  'report-retry': kind('status', 'the status word is `retry`'),
  'unknown-status-word': kind('status', 'the status word is `word` (default `warming_up`)'),
  'done-without-link': kind('status', 'a finished report is announced without its link'),
  'expired-link': kind(
    'download',
    'the link is refused from now on with `status` 403 (default), 404 or 410; the next status gives a fresh one',
  ),
} as const satisfies Record<string, KindSpec>

export type FaultKind = keyof typeof faultKinds

/** Faults of the exchange count requests as they arrive. Others count how often their place in the code is reached. */
export const isExchangeFault = (kind: FaultKind): boolean => faultKinds[kind].on === 'any' || kind === 'country-refused'

const kindNames = Object.keys(faultKinds) as [FaultKind, ...FaultKind[]]

export const contentFaults: readonly FaultKind[] = kindNames.filter(
  (kind) => kind === 'key-echo' || (faultKinds[kind].on === 'submit' && !/^report-/.test(kind)),
)

export const faultSchema = z.strictObject({
  kind: z.enum(kindNames),
  /** Where; each kind has a default. */
  on: z.enum(faultPlaces).optional(),
  /** Only requests about this domain. */
  domain: z.string().optional(),
  /** Only the n-th request (from 1) at its place; or a list of such numbers. */
  nth: z.union([z.int().positive(), z.array(z.int().positive())]).optional(),
  /** Each n-th such request. */
  every: z.int().positive().optional(),
  /** This share of such requests, decided by the seed. */
  probability: z.number().min(0).max(1).optional(),
  /** At most so often. Default: no end. */
  times: z.int().positive().optional(),
  delayMs: z.int().nonnegative().optional(),
  retryAfter: z.enum(['none', 'seconds', 'date']).optional(),
  retryAfterSeconds: z.int().nonnegative().optional(),
  mode: z.enum(['length', 'chunked', 'silent']).optional(),
  /** Bytes of the body sent before it is cut. Default: half of the body; of a large body, half of its first chunk. */
  bytes: z.int().nonnegative().optional(),
  by: z.int().optional(),
  limit: z.int().positive().optional(),
  row: z.int().positive().optional(),
  counted: z.boolean().optional(),
  mends: z.boolean().optional(),
  word: z.string().optional(),
  status: z.int().min(400).max(599).optional(),
})

/** One declared fault. Without `nth`, `every` and `probability` it acts every time. */
export type Fault = Readonly<z.input<typeof faultSchema>>
