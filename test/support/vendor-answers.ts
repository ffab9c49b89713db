// Answers of the service in its own words, each with its fact number (part G of the facts; A and B where it says so), and what they mean. Written from the
// facts alone, by another hand than the client's.
import type { VendorOptions } from '../../src/sandbox/vendor/vendor-options.ts'

type Reply = NonNullable<VendorOptions['replies']>[number]
type Sent = Omit<Reply, 'endpoint' | 'match' | 'times'>

/** Which month the unit is of, beside what the key may ask: within it, after its newest, before its oldest. */
export type Where = 'inside' | 'newest' | 'oldest'

export interface AnswerCase {
  /** `finding N`: it is not so yet. */
  readonly fact: string
  readonly on: 'keywords' | 'submit' | 'status' | 'download'
  readonly where: Where
  readonly means: Meaning
  readonly sent: Sent
}

/** What follows for the one unit. */
export interface Consequence {
  /** Its state once the answer has come for good. */
  readonly state: RegExp
  readonly code: RegExp
  /** The sentence that is shown, with its next step. */
  readonly says: RegExp
  /** Sent once, and asked again by the same command or the next: the unit is loaded. */
  readonly passes: boolean
  /** The night after asks the endpoint again: a refusal costs nothing (A11), an answer does. */
  readonly asksAgain: boolean
}

const noCode = /^$/
export const consequences = {
  'no data': { state: /^loaded$/, code: noCode, says: /^$/, passes: true, asksAgain: false },
  'not published': { state: /^waiting$/, code: /^NOT_PUBLISHED$/, says: /publish/, passes: true, asksAgain: true },
  'before history': {
    state: /^failed$/,
    code: /^NO_CAPABILITY$/,
    says: /before what this key may ask/,
    passes: false,
    asksAgain: true,
  },
  'plan lacks': { state: /^failed$/, code: /^NO_CAPABILITY$/, says: /plan does not have this/, passes: false, asksAgain: true },
  'key refused': { state: /^(failed|waiting|held)$/, code: /^KEY_REFUSED$/, says: /key|KEY/, passes: true, asksAgain: true },
  // One text for two causes, of which the free question tells neither (61).
  'key or credits': {
    state: /^(failed|held|waiting)$/,
    code: /^(KEY_REFUSED|QUOTA_EXHAUSTED|NO_CAPABILITY)$/,
    says: /key|credits|plan/,
    passes: true,
    asksAgain: true,
  },
  'pending cap': { state: /^waiting$/, code: /^RATE_LIMITED$/, says: /report/, passes: true, asksAgain: true },
  'rate limit': { state: /^waiting$/, code: /^RATE_LIMITED$/, says: /fewer|rate|429/, passes: true, asksAgain: true },
  'bad request': {
    state: /^failed$/,
    code: /^BAD_REQUEST$|^REPORT_REJECTED$/,
    says: /definition|request/i,
    passes: false,
    asksAgain: true,
  },
  outage: {
    state: /^(failed|waiting)$/,
    code: /^(SERVICE_ERROR|SERVICE_UNREACHABLE|SERVICE_TIMEOUT|BAD_RESPONSE|TRUNCATED|RATE_LIMITED)$/,
    says: /run|again|service/i,
    passes: true,
    asksAgain: true,
  },
  /** A submission that may have been taken: never sent again by itself. */
  uncertain: { state: /^held$/, code: /^REPORT_UNCERTAIN$/, says: /adopt|resubmit/, passes: false, asksAgain: false },
  /** An answer that may have been paid for and cannot be used: it is not bought again by itself. */
  unusable: { state: /^held$/, code: /^UNUSABLE$/, says: /not (paid|bought|asked)|--force/, passes: false, asksAgain: false },
  /** A report that cannot be made, or whose request is refused after it was taken: never bought again by itself. */
  'report failed': { state: /^(failed|held)$/, code: /^REPORT_FAILED$/, says: /--force|again/, passes: false, asksAgain: false },
  'report refused': { state: /^failed$/, code: /^REPORT_REJECTED$/, says: /--force|definition/, passes: false, asksAgain: false },
  /** A paid report that is not done, or not to be had, now: it stays open, and is never bought again. */
  'stays open': {
    state: /^(waiting|held|failed|landed)$/,
    code: /^(REPORT_PENDING|REPORT_EXPIRED|RATE_LIMITED|SERVICE_\w+|BAD_RESPONSE|KEY_REFUSED|TRUNCATED|INCOMPLETE)$/,
    says: /./,
    passes: true,
    asksAgain: false,
  },
  fine: { state: /^loaded$/, code: noCode, says: /^$/, passes: true, asksAgain: false },
} as const satisfies Readonly<Record<string, Consequence>>
export type Meaning = keyof typeof consequences

const json = (status: number, body: unknown): Sent => ({ status, body: JSON.stringify(body) })
const errors = (...texts: string[]): Sent => json(400, { errors: texts })
const meta = (status: number, text: string, code?: number): Sent =>
  json(status, { meta: { status: 'Error', ...(code === undefined ? {} : { error_code: code }), error_message: text } })
const coded = (status: number, code: string, text: string, more: object = {}): Sent =>
  json(status, { error: { code, error_message: text }, ...more })
const flat = (status: number, text: string): Sent => json(status, { error_message: text })
const message = (status: number, text: string): Sent => json(status, { message: text })
const plain = (status: number, body: string): Sent => ({ status, type: 'text/plain', body })
const html = (status: number): Sent => ({
  status,
  type: 'text/html',
  body: `<HTML><HEAD><TITLE>ERROR: The request could not be satisfied</TITLE></HEAD><BODY><H1>${status} ERROR</H1>Generated by cloudfront (CloudFront)</BODY></HTML>`,
  headers: { 'x-amz-cf-id': 'kH2x', server: 'CloudFront' },
})
const merge = (fields: Readonly<Record<string, unknown>>): Sent => ({ merge: fields })
const after = (sent: Sent, seconds: number): Sent => ({ ...sent, headers: { ...sent.headers, 'retry-after': String(seconds) } })

const claims = 'Access denied. The user might be missing the required claims'
const upgrade = 'Access forbidden. Upgrade your account.'
const actions = { actions: ['Contact your account manager to add this dataset'] }
const keyOrCredits = 'Invalid API Key or out of data credits'
const records = [{ keyword: 'a', clicks: 1, top_url: 'u' }]
const v5 = { meta: { status: 'Success', last_updated: '2026-10-10', data_credits_charged: 13 }, data: [{ term: 'a', clicks: 1 }] }

/** The answer is for another span than the one asked for, and charged so. */
const echoing = (from: string, to: string): Readonly<Record<string, unknown>> => ({
  meta: { status: 'Success', data_credits_charged: 39, request: { country: 'us', start_date: from, end_date: to } },
})

type Row = readonly [fact: string, means: Meaning, ...sent: Sent[]]
const casesOf = (on: AnswerCase['on'], where: Where, rows: readonly Row[]): AnswerCase[] =>
  rows.flatMap(([fact, means, ...all]) => all.map((sent) => ({ fact, on, where, means, sent })))

const keywords = casesOf('keywords', 'inside', [
  [
    '60',
    'no data',
    meta(401, 'Data not found'),
    flat(401, 'Data not found'),
    message(401, 'Data not found'),
    plain(401, 'Data not found'),
  ],
  ['60, A10', 'no data', coded(401, 'NOT_FOUND', 'Data not found'), meta(404, 'Data not found')],
  ['11, 60', 'no data', json(200, { meta: { status: 'Success' }, keywords: [], keywords_count: 0 })],
  ['65', 'plan lacks', coded(400, 'VALIDATION_ERROR', 'no data for requested country'), meta(400, 'country not available')],
  ['65', 'plan lacks', coded(400, 'VALIDATION_ERROR', 'Country not covered'), flat(400, 'no coverage for country')],
  [
    '65, finding 5',
    'plan lacks',
    json(200, { meta: { status: 'Success', error_message: 'no data for requested country' }, keywords: [], keywords_count: 0 }),
  ],
  ['A8', 'plan lacks', meta(400, 'Country is not in range', 103)],
  ['62', 'plan lacks', coded(403, 'FORBIDDEN_ERROR', claims), coded(403, 'FORBIDDEN_ERROR', upgrade, actions)],
  ['62', 'plan lacks', coded(403, 'FORBIDDEN_ERROR', 'Sorry.'), json(403, { error: { code: 'FORBIDDEN_ERROR' }, ...actions })],
  ['59', 'key refused', plain(401, 'invalid API key'), plain(401, 'Invalid API Key')],
  ['71', 'key refused', message(401, 'Unauthorized')],
  ['61', 'key or credits', meta(403, keyOrCredits), flat(403, keyOrCredits), plain(403, keyOrCredits)],
  ['71', 'key or credits', message(403, 'Forbidden')],
  [
    '67',
    'bad request',
    errors('supports only an interval of 3 month(s) of data'),
    coded(400, 'VALIDATION_ERROR', 'supports only an interval of 3 month(s) of data'),
  ],
  [
    '68, A8',
    'bad request',
    meta(400, 'Granularity is not supported', 102),
    errors('granularity should be one of the following - monthly.'),
  ],
  ['70', 'bad request', errors('Metrics are not available in table keywords')],
  [
    'A10',
    'bad request',
    coded(400, 'VALIDATION_ERROR', 'web_source is not valid'),
    json(400, {}),
    plain(400, ''),
    message(422, 'Unprocessable'),
  ],
  ['58', 'outage', html(403), html(502), html(503), html(200)],
  ['71', 'outage', message(504, 'Endpoint request timed out'), message(500, 'An error has occurred.'), plain(500, '')],
  ['A7', 'outage', after(message(503, 'Service Unavailable'), 1)],
  ['A8, 71', 'rate limit', message(429, 'Too Many Requests'), plain(429, ''), after(html(429), 1)],
  ['52', 'unusable', merge(echoing('2026-07-01', '2026-09-30'))],
  ['73', 'unusable', json(200, v5), json(200, { meta: { status: 'Success' }, response: { keywords: records } })],
  [
    '83',
    'unusable',
    json(200, {}),
    json(200, []),
    json(200, { meta: { status: 'Success' }, keywords: 'none', keywords_count: 3 }),
  ],
  ['A11, 60', 'unusable', json(200, { meta: { status: 'Success' }, keywords: records, keywords_count: 3_000 })],
])

const newest: readonly Row[] = [
  ['63', 'not published', coded(400, 'VALIDATION_ERROR', 'Dates not in range')],
  ['64, A8', 'not published', meta(400, 'Dates out of range', 101)],
  ['64', 'not published', meta(400, 'Dates out of range. Data is available from 2020-07-01 to 2026-09-30', 101)],
  ['64', 'not published', coded(400, 'VALIDATION_ERROR', 'Dates not in range. Data is available from 2020-07 to 2026-09')],
]
const oldest: readonly Row[] = [
  ['63', 'before history', coded(400, 'VALIDATION_ERROR', 'Dates not in range')],
  ['64, A8', 'before history', meta(400, 'Dates out of range', 101)],
  ['64', 'before history', meta(400, 'Dates out of range. Data is available from 2020-07-01 to 2026-09-30', 101)],
  [
    '66',
    'before history',
    errors('Historical data for monthly granularity is available as of 2020-07. You have requested 2020-06.'),
  ],
  [
    '66',
    'before history',
    errors('Historical data for monthly granularity is available as of - 2020-07. You have requested - 2020-06'),
  ],
]

const submissions = casesOf('submit', 'inside', [
  [
    '65',
    'plan lacks',
    coded(400, 'VALIDATION_ERROR', 'no data for requested country'),
    errors('country not available'),
    errors('no coverage for country'),
  ],
  ['62', 'plan lacks', coded(403, 'FORBIDDEN_ERROR', claims), coded(403, 'FORBIDDEN_ERROR', upgrade, actions)],
  ['59', 'key refused', plain(401, 'invalid API key')],
  ['71', 'key refused', message(401, 'Unauthorized')],
  ['61', 'key or credits', meta(403, keyOrCredits)],
  ['68', 'bad request', errors('granularity should be one of the following - daily, weekly, monthly.')],
  [
    '68',
    'bad request',
    json(400, {
      is_valid: false,
      errors: ['granularity should be one of the following - daily, weekly, monthly.'],
      warnings: [],
    }),
  ],
  ['70', 'bad request', errors('Metrics are not available in table traffic_and_engagement')],
  ['A7', 'bad request', errors('domains: c.com is not valid'), plain(400, 'Bad Request')],
  ['67', 'bad request', errors('supports only an interval of 3 month(s) of data')],
  [
    '53, 71',
    'pending cap',
    message(429, 'Too Many Requests'),
    json(429, { errors: ['The request limit per user is 100 pending requests.'] }),
  ],
  ['A7', 'uncertain', message(500, 'An error has occurred.'), plain(500, '')],
  ['58, 71', 'uncertain', html(502), html(503), message(504, 'Endpoint request timed out')],
  ['58', 'uncertain', html(200), json(200, {}), json(200, { status: 'pending' })],
  ['58', 'outage', html(403), after(message(503, 'Service Unavailable'), 1)],
  ['83, A41', 'fine', merge({ status: null }), merge({ extra: { request: 1 }, warnings: [] })],
])

const statuses = casesOf('status', 'inside', [
  [
    'A1, 69',
    'report refused',
    json(200, { status: 'bad request', errors: ['incorrect dates, unavailable countries, unavailable metrics, etc'] }),
  ],
  [
    'A1, 69',
    'report refused',
    json(200, { status: 'bad_request', error_message: 'unavailable metrics' }),
    json(200, { status: 'Bad Request' }),
  ],
  ['A1', 'report failed', json(200, { status: 'internal error' }), json(200, { status: 'internal_error', errors: ['oops'] })],
  ['A3', 'report failed', json(200, { status: 'failed', error_message: 'oops' }), json(200, { status: 'error' })],
  ['A1', 'stays open', json(200, { status: 'processing' }), json(200, { status: 'retry' }), json(200, { status: 'in_progress' })],
  ['A3', 'stays open', json(200, { status: 'queued' }), json(200, { status: 'warming up' })],
  ['A4', 'stays open', merge({ download_url: null }), merge({ download_url: null, S3_path: 's3://bucket/file.csv' })],
  ['A23', 'stays open', json(404, { errors: ['request id not found'] })],
  [
    '58, 71',
    'stays open',
    html(502),
    html(403),
    message(500, 'oops'),
    after(message(503, 'Service Unavailable'), 1),
    message(429, 'Too Many Requests'),
  ],
  ['59', 'stays open', plain(401, 'invalid API key')],
  ['58', 'stays open', html(200), json(200, {})],
  ['A3', 'fine', merge({ status: 'complete' }), merge({ status: 'SUCCESS' }), merge({ status: 'ready' })],
  ['A4', 'fine', merge({ data_points_count: null }), merge({ user_id: 7 })],
  ['A4', 'fine', merge({ used_quota: null })],
])

const csv = (body: string): Sent => ({ status: 200, type: 'text/csv', body })
const header = 'domain,country,date,all_traffic_visits,desktop_visits'
const downloads = casesOf('download', 'inside', [
  [
    '58',
    'stays open',
    { status: 403, type: 'application/xml', body: '<Error><Code>AccessDenied</Code></Error>' },
    html(403),
    html(502),
  ],
  ['A25', 'stays open', plain(404, 'Not Found'), plain(410, 'Gone'), message(500, 'oops'), message(429, 'Too Many Requests')],
  ['58', 'stays open', html(200), csv(''), csv(`${header}\n`)],
  ['72', 'stays open', csv(`${header}\nNo data returned\n`)],
])

/** Every case, at least a hundred. */
export const answerCases: readonly AnswerCase[] = [
  ...keywords,
  ...casesOf('keywords', 'newest', newest),
  ...casesOf('keywords', 'oldest', oldest),
  ...submissions,
  ...casesOf('submit', 'newest', newest),
  ...casesOf('submit', 'oldest', oldest),
  ...statuses,
  ...downloads,
]
