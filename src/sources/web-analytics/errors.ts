// What the service's refusals mean (api-facts A 7 to 11): status, in-body codes and texts to error codes.
import { z } from 'zod'
import { type ErrorCode, EtlError } from '../../core/errors.ts'
import { redact } from '../../core/redact.ts'
import type { HttpAnswer } from '../../extract/http-types.ts'
import { excerpt } from '../../extract/http-answer.ts'

const texts = z.union([z.string(), z.array(z.unknown())]).nullish()
const errorBody = z.object({
  errors: texts,
  error_message: texts,
  message: texts,
  error: z.union([z.string(), z.object({ code: z.unknown().optional(), message: texts })]).nullish(),
  meta: z.object({ error_code: z.unknown().optional(), error_message: texts }).nullish(),
})

/** What the service says instead of an answer (interface 7). */
export interface Refusal {
  readonly status: number
  /** In-body code (101, 102, 103 ...), as text. */
  readonly code: string | null
  /** What the body says, on one line. */
  readonly text: string
}

const longestText = 500

const flat = (value: z.infer<typeof texts>): string[] =>
  value === null || value === undefined
    ? []
    : [value].flat().map((item) => (typeof item === 'string' ? item : JSON.stringify(item)))

/** Reads a refusal in any of the shapes seen: errors[], meta.*, error.{code,message}, flat fields, plain text. */
export const readRefusal = (answer: HttpAnswer): Refusal => {
  const parsed = errorBody.safeParse(tryJson(answer))
  if (!parsed.success) return { status: answer.status, code: null, text: excerpt(answer.bytes) }
  const { errors, error_message, message, error, meta } = parsed.data
  const nested = typeof error === 'string' ? [error] : flat(error?.message)
  const said = [...flat(errors), ...flat(error_message), ...flat(message), ...nested, ...flat(meta?.error_message)].filter(
    Boolean,
  )
  const code = meta?.error_code ?? (typeof error === 'object' ? error?.code : undefined)
  return {
    status: answer.status,
    code: code === undefined || code === null ? null : String(code),
    // A service may repeat the key it refuses.
    text: redact(said.join('; ')).slice(0, longestText) || excerpt(answer.bytes),
  }
}

const tryJson = (answer: HttpAnswer): unknown => {
  try {
    return JSON.parse(answer.bytes.toString('utf8'))
  } catch {
    return null
  }
}

const aboutKey = /\b(api[ _-]?key|key|unauthori[sz]ed|authenti\w+|forbidden|inactive|account)\b/i
const aboutData =
  /\b(no (data|results?|records?|keywords?)|data (was |were |is )?not (found|available)|(domain|site|website) not found|unknown (domain|site))\b/i
const aboutAnything = /\bnot found\b/i
const aboutQuota = /\b(quota|credits?|hits?|allowance|exhausted|payment)\b/i
const aboutDates =
  /\b(out of range|not (yet )?(available|published|released)|latest available|no data (yet )?for (this|the) (date|month|period))\b/i
const aboutCountry = /\bcountr(y|ies)\b/i

/** Codes that say what is wrong with the request. */
const requestCodes = new Set(['101', '102', '103'])

/**
 * Whether a refusal says that there is nothing to give: the answer is empty, not wrong. A bare "not found" means that only with 401;
 * with 404 it is also what any web server says of an address it does not have.
 */
export const isNoData = ({ status, code, text }: Refusal): boolean => {
  if ((status !== 401 && status !== 404) || requestCodes.has(code ?? '') || /\bkey\b/i.test(text)) return false
  return aboutData.test(text) || (status === 401 && aboutAnything.test(text) && !aboutKey.test(text))
}

/** A 401 that says neither "key" nor "data" nor anything else we know: another look must decide. */
export const isUnclear401 = (refusal: Refusal): boolean =>
  refusal.status === 401 &&
  !isNoData(refusal) &&
  !requestCodes.has(refusal.code ?? '') &&
  ![aboutKey, aboutQuota, aboutDates, aboutCountry].some((pattern) => pattern.test(refusal.text))

/** Whether a refusal is about the dates that were asked for. */
export const isAboutDates = (text: string): boolean => aboutDates.test(text)

const codeOf = (refusal: Refusal): ErrorCode => {
  const { status, code, text } = refusal
  if (code === '101') return 'NOT_PUBLISHED'
  if (code === '102') return 'BAD_REQUEST'
  if (code === '103' || (status === 400 && aboutCountry.test(text))) return 'NO_CAPABILITY'
  if (status === 400 && aboutDates.test(text)) return 'NOT_PUBLISHED'
  const refused = status === 401 || status === 403
  if (status === 402 || (refused && aboutQuota.test(text))) return 'QUOTA_EXHAUSTED'
  if (refused && aboutCountry.test(text) && !/\bkey\b/i.test(text)) return 'NO_CAPABILITY'
  if (refused) return 'KEY_REFUSED'
  if (status >= 500) return 'SERVICE_ERROR'
  return 'BAD_REQUEST'
}

const advice: Partial<Record<ErrorCode, string>> = {
  NOT_PUBLISHED: 'The month is not published yet; the next run asks again.',
  NO_CAPABILITY: 'See `millrace capabilities` for what this key may ask; then correct the definition.',
  QUOTA_EXHAUSTED: 'The credits are used up (see `millrace quota`); it resumes when they are refilled.',
  KEY_REFUSED: 'Check WEB_ANALYTICS_API_KEY (and WEB_ANALYTICS_BATCH_API_KEY), and that the account is active.',
  SERVICE_ERROR: 'If it lasts, ask the service.',
  BAD_REQUEST: 'Correct the parameters in the definition; `millrace check` and `millrace describe` show what is allowed.',
}

/** What a person can do about a refusal with this code; empty where there is nothing to say. */
export const adviceOf = (code: ErrorCode): string => advice[code] ?? ''

/** A server error after which the service itself says that nothing was bought. */
const declined = /\b(not|never) (been )?(accepted|created|queued|submitted)\b|\bno report (was|has been) (created|made|queued)\b/i

/** A 4xx was not taken; after a server error a submission may have been, unless the body says otherwise. */
const mayBeTaken = ({ status, text }: Refusal): boolean => (status >= 500 || status === 408) && !declined.test(text)

/** @param where the unit or command, for the message. `context.sent` says whether a submission may have been taken. */
export const refusalError = (refusal: Refusal, endpoint: string, where: string): EtlError => {
  const code = codeOf(refusal)
  const hint = refusal.status === 404 ? 'Check WEB_ANALYTICS_BASE_URL: this path is not there.' : adviceOf(code)
  return new EtlError(
    code,
    `${where}: ${endpoint} answers ${refusal.status}${refusal.code === null ? '' : ` (code ${refusal.code})`}: "${refusal.text}". ${hint}`,
    { context: { status: refusal.status, sent: mayBeTaken(refusal) } },
  )
}
