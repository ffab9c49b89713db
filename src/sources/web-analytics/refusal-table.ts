// Reads a refusal in any of the shapes seen, and decides what it means and which error it becomes: by place, status and code, and by words only where nothing
// else tells (api-facts A 6 to 11, G 53 to 71).
import { type ErrorCode, EtlError, type SplitReason } from '../../core/errors.ts'
import { aboutContent } from '../../extract/report-submit.ts'
import { z } from 'zod'
import { jsonOrNull } from '../../core/json.ts'
import { redact } from '../../core/redact.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { excerpt, oneLine } from '../../extract/http-answer.ts'

const texts = z.union([z.string(), z.array(z.unknown())]).nullish()
const coded = z.object({ code: z.unknown().optional(), error_code: z.unknown().optional(), error_message: texts })
const errorBody = coded.extend({
  errors: texts,
  message: texts,
  error: z.union([z.string(), coded.extend({ message: texts, actions: texts })]).nullish(),
  actions: texts,
  meta: coded.nullish(),
})

/** What the service says instead of an answer (interface 7). */
export type Refusal = Readonly<ReturnType<typeof readRefusal>>

const longestText = 500

const flat = (value: z.infer<typeof texts>): string[] =>
  value === null || value === undefined
    ? []
    : [value].flat().map((item) => (typeof item === 'string' ? item : JSON.stringify(item)))

/** Reads a refusal in any of the shapes seen: errors[], meta.*, error.{code,message}, flat fields, plain text. */
export const readRefusal = ({ status, bytes }: Pick<HttpAnswer, 'status' | 'bytes'>) => {
  const parsed = errorBody.safeParse(jsonOrNull(bytes.toString('utf8')))
  if (!parsed.success) return { status, code: null, text: excerpt(bytes) }
  const { errors, error_message, message, error, meta, actions } = parsed.data
  const inner = typeof error === 'string' ? { message: error } : (error ?? {})
  const said = [errors, error_message, message, inner.message, inner.error_message, meta?.error_message, inner.actions, actions]
    .flatMap(flat)
    .filter(Boolean)
  // A code at the top of an answer that is no refusal says nothing.
  const code = codeIn(meta, error, ...(status >= 400 ? [parsed.data, errors].flat() : []))
  return {
    status,
    /** In-body code (101, 102, 103, FORBIDDEN_ERROR ...), as text. */
    code: code === null ? null : String(code).toUpperCase(),
    /** What the body says, on one line. A service may repeat the key it refuses. */
    text: redact(oneLine(said.join('; '))).slice(0, longestText) || excerpt(bytes),
  }
}

/** The first there is. */
const codeIn = (...places: readonly unknown[]): unknown => {
  const found = places.flatMap((place) => coded.partial().safeParse(place).data ?? [])
  return found.map(({ code, error_code }) => error_code ?? code).find((code) => code !== undefined && code !== null) ?? null
}

/** Where it was said: `rest` a page of keywords, `batch` a report's submission or price, `free` what costs nothing and buys nothing. */
export type Place = 'rest' | 'batch' | 'free'

/** What the service says does not decide the three with a question mark; a free request does (refused-request.ts). */
export type Meaning = keyof typeof consequences

interface Row {
  readonly meaning: Meaning
  /** Default: everywhere. */
  readonly place?: Place
  readonly status?: readonly number[]
  readonly code?: string
  readonly words?: RegExp
  readonly unless?: RegExp
}

const key = /\b(api[ _-]?key|key|unauthori[sz]ed|authenti\w+|forbidden|inactive|account)\b/i
const data =
  /\b(no (data|results?|records?|keywords?)|data (was |were |is )?not (found|available)|(domain|site|website) not found|unknown (domain|site))\b/i
const credits = /\b(quota|credits?|hits?|allowance|exhausted|payment)\b/i
const country = /\bcountr(y|ies)\b/i
const refused = [401, 403]

/** The first row that fits decides. Batch answers 401 to a bad key alone; REST also to a domain it has no data of (8, 60). */
const table: readonly Row[] = [
  // (62): the words changed between releases, the code did not.
  { code: 'FORBIDDEN_ERROR', meaning: 'plan lacks' },
  // (62, 68): a price that is refused names no code.
  { status: [400], words: /\bupgrade your account\b|\brequired claims\b/i, meaning: 'plan lacks' },
  { code: '102', meaning: 'wrong everywhere' },
  { code: '103', meaning: 'plan lacks' },
  // (66): the oldest month is named, whatever the code.
  { status: [400, 422], words: /\bavailable (as of|from|since)\b.*\brequested\b/i, meaning: 'before history' },
  { code: '101', meaning: 'dates?' },
  // (58): the page of the proxy in front.
  { status: refused, words: /^\s*<(!doctype|html|head)/i, meaning: 'outage' },
  { status: [402], meaning: 'out of credits' },
  // (61): one text for two causes.
  { place: 'rest', status: refused, words: /\bkey\b.*\b(or|and)\b.*\bcredits?\b/i, meaning: 'key or credits?' },
  { place: 'batch', status: refused, words: /\bkey\b.*\b(or|and)\b.*\bcredits?\b/i, meaning: 'key or credits?' },
  { place: 'free', status: refused, words: /\bkey\b.*\b(or|and)\b.*\bcredits?\b/i, meaning: 'key refused' },
  // (65): also where "no data" alone would be an answer.
  {
    place: 'rest',
    status: [401, 404],
    words: /\bno (data|coverage) for (the )?(requested )?country\b|\bcountry (is )?not (available|covered)\b/i,
    meaning: 'plan lacks',
  },
  // (60), and a bare "not found": with 404 it is also what any web server says of an address it does not have.
  { place: 'rest', status: [401, 404], words: data, unless: /\bkey\b/i, meaning: 'no data' },
  { place: 'rest', status: [401], words: /\bnot found\b/i, unless: key, meaning: 'no data' },
  { place: 'free', status: [404], words: data, unless: /\bkey\b/i, meaning: 'no data' },
  // (65)
  { status: [400, 401, 403, 422], words: country, unless: /\bkey\b/i, meaning: 'plan lacks' },
  // (67)
  {
    status: [400, 422],
    words: /\binterval of\b|\b(only|at most|maximum( of)?|up to) \d+ (month|week|day)/i,
    meaning: 'span too long',
  },
  // (63), and other words for a date: a withdrawn category is "not available" too, and no month will bring it back.
  {
    status: [400, 401, 422],
    words:
      /\bdates? (is |are )?(not in|out of) range\b|\bout of range\b|\bnot yet (available|published|released)\b|\b(date|month|period)\b.*\bnot (available|published|released)\b|\blatest available\b|\bavailable (until|till|up to|through)\b.*\b20[1-9]\d\b|\bno data (yet )?for (this|the) (date|month|period)\b|\bnot (published|released)\b/i,
    meaning: 'dates?',
  },
  // (68, 70): about what is asked for, however it is cut.
  {
    status: [400, 422],
    words: /\b(metrics?|granularity|response_format)\b/i,
    unless: /\bdomains?\b/i,
    meaning: 'wrong everywhere',
  },
  {
    status: [400, 422],
    words: /\b(v?table|dataset)\b.*\b(not|no longer|ended|withdrawn)\b|\b(no|unknown) (such )?(v?table|dataset)\b/i,
    meaning: 'no such table',
  },
  { status: refused, words: credits, meaning: 'out of credits' },
  { status: [400], words: /\b(enough|insufficient|exceed\w*|no)\b.*\bcredits?\b/i, meaning: 'out of credits' },
  { place: 'rest', status: [401], unless: key, meaning: 'key or data?' },
  { status: refused, meaning: 'key refused' },
]

const fits = ({ status, code, text }: Refusal, place: Place, row: Row): boolean =>
  (row.place ?? place) === place &&
  (row.status?.includes(status) ?? true) &&
  (row.code ?? code) === code &&
  (row.words?.test(text) ?? true) &&
  row.unless?.test(text) !== true

/**
 * What a refusal means at its place. Where no row fits: an outage after a server error; a bad request where the status is about content and the request had
 * parameters (a poll has none); else it is about the path or the moment (409), and the same for every part.
 */
export const meaningOf = (refusal: Refusal, place: Place): Meaning =>
  table.find((row) => fits(refusal, place, row))?.meaning ??
  (refusal.status >= 500 ? 'outage' : place !== 'free' && aboutContent.has(refusal.status) ? 'bad request' : 'path or moment')

interface Consequence {
  readonly code: ErrorCode
  /** The right next step; empty where the message says it itself. */
  readonly next: string
  /** What of the request was refused, so that a smaller one may be taken; null: none would be. */
  readonly parts: SplitReason | null
}

const notPublished: Consequence = {
  code: 'NOT_PUBLISHED',
  next: 'The month is not published yet; the next run asks again.',
  parts: 'dates',
}
const keyRefused: Consequence = {
  code: 'KEY_REFUSED',
  next: 'Check WEB_ANALYTICS_API_KEY (and WEB_ANALYTICS_BATCH_API_KEY), and that the account is active.',
  parts: null,
}
const outOfCredits: Consequence = {
  code: 'QUOTA_EXHAUSTED',
  next: 'The credits are used up (see `millrace quota`); it resumes when they are refilled.',
  parts: null,
}
const badRequest: Consequence = {
  code: 'BAD_REQUEST',
  next: 'Correct the parameters in the definition; `millrace check` and `millrace describe` show what is allowed.',
  parts: 'values',
}

/** One consequence each. Until a free request has decided, the harmless meaning holds. */
export const consequences = {
  'no data': { code: 'BAD_REQUEST', next: '', parts: null },
  'not published': notPublished,
  'dates?': notPublished,
  'before history': {
    code: 'NO_CAPABILITY',
    next: 'It is older than what this key may request; see `millrace capabilities`, then move window.from.',
    parts: 'dates',
  },
  'span too long': {
    code: 'BAD_REQUEST',
    next: 'The service takes fewer months in one request; they are requested separately.',
    parts: 'size',
  },
  'plan lacks': {
    code: 'NO_CAPABILITY',
    next: "The account's plan does not have this. Ask the service to add it, or remove it from the definition; see `millrace capabilities` for what this key may request.",
    parts: 'values',
  },
  'no such table': {
    code: 'NO_CAPABILITY',
    next: 'The service does not offer this dataset, or not any more; see `millrace describe`, then change the definition.',
    parts: null,
  },
  'key refused': keyRefused,
  'key or data?': keyRefused,
  'out of credits': outOfCredits,
  'key or credits?': outOfCredits,
  outage: { code: 'SERVICE_ERROR', next: 'If it lasts, ask the service.', parts: null },
  'wrong everywhere': { ...badRequest, parts: null },
  'bad request': badRequest,
  'path or moment': {
    code: 'BAD_REQUEST',
    next: 'No parameter is at fault. Try again later; if it lasts, ask the service.',
    parts: null,
  },
} satisfies Readonly<Record<string, Consequence>>

/** What is decided about a refusal. */
export interface Verdict {
  readonly meaning: Meaning
  /** Whether a part of the request may be taken; default: as the meaning has it. */
  readonly hasParts?: boolean
}

/** A server error after which the service itself says that nothing was bought. */
const declined = /\b(not|never) (been )?(accepted|created|queued|submitted)\b|\bno report (was|has been) (created|made|queued)\b/i

/** A 4xx was not taken; after a server error a submission may have been, unless the body says otherwise. */
const mayBeTaken = ({ status, text }: Refusal): boolean => (status >= 500 || status === 408) && !declined.test(text)

/** "/v4/x answers 403 (code 5): …" */
export const refusalText = (endpoint: string, { status, code, text }: Refusal): string =>
  `${endpoint} answers ${status}${code === null ? '' : ` (code ${code})`}: "${text}".`

/** @param said a sentence with the endpoint and its answer. `sent` says whether a submission may have been taken. */
export const errorOf = (refusal: Refusal, said: string, { meaning, hasParts }: Verdict, notBefore?: number): EtlError => {
  const { code, next, parts: usually } = consequences[meaning]
  const parts = hasParts === false ? null : (usually ?? (hasParts === true ? 'values' : null))
  const hint = refusal.status === 404 && meaning !== 'no data' ? 'Check WEB_ANALYTICS_BASE_URL: this path is not there.' : next
  return new EtlError(code, `${said} ${hint}`, {
    status: refusal.status,
    sent: mayBeTaken(refusal),
    follows: parts === null ? { next: 'as its code says' } : { next: 'split', about: parts },
    ...(notBefore === undefined ? {} : { notBefore }),
  })
}

/**
 * The error of a free request that is about no window: no job is split for it. A report that is polled was bought as it is.
 * @param where the command or the report, for the message
 */
export const refusalError = (refusal: Refusal, endpoint: string, where: string): EtlError =>
  errorOf(refusal, `${where}: ${refusalText(endpoint, refusal)}`, { meaning: meaningOf(refusal, 'free'), hasParts: false })
