// A refusal as an error: its meaning's one consequence.
import { EtlError } from '../../core/errors.ts'
import { consequences, type Meaning, meaningOf } from './refusal-table.ts'
import type { Refusal } from './refusal-text.ts'

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
export const saidBy = (endpoint: string, { status, code, text }: Refusal): string =>
  `${endpoint} answers ${status}${code === null ? '' : ` (code ${code})`}: "${text}".`

/** @param said who said what, a sentence. `sent` says whether a submission may have been taken. */
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
 * Of a question that costs nothing and is about no window: nothing is cut for it. A report that is asked after has been bought as it is.
 * @param where the command or the report, for the message
 */
export const refusalError = (refusal: Refusal, endpoint: string, where: string): EtlError =>
  errorOf(refusal, `${where}: ${saidBy(endpoint, refusal)}`, { meaning: meaningOf(refusal, 'free'), hasParts: false })
