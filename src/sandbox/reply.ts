// A request as the endpoints see it, and replies in the shapes of the service.
import type { KeyFlag } from './books.ts'
import type { TakeFault } from './faults.ts'

export interface Exchange {
  readonly url: URL
  /** The part of the path in the route's braces, if it has one. */
  readonly id: string
  /** Parsed JSON of the body; undefined where it is not JSON. */
  readonly body: unknown
  readonly isJson: boolean
  readonly acceptsGzip: boolean
  readonly key: KeyFlag
  readonly caller: string | null
  /** Header X-sw-authorization; empty: the request has none. */
  readonly proof: string
  readonly fault: TakeFault
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Iterable<Buffer> | AsyncIterable<Buffer>
  readonly onSent?: () => void
}

const written = (status: number, type: string, text: string, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status,
  headers: { 'content-type': `${type}; charset=utf-8`, ...headers },
  body: [Buffer.from(text)],
})

export const jsonText = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): Reply =>
  written(status, 'application/json', text, headers)

export const json = (status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): Reply =>
  jsonText(status, JSON.stringify(value), headers)

export const plainText = (status: number, text: string): Reply => written(status, 'text/plain', text)

export const html = (status: number, title: string): Reply =>
  written(
    status,
    'text/html',
    `<!doctype html>\n<html><head><title>${title}</title></head><body><h1>${title}</h1></body></html>\n`,
  )

/** Refusals come in two families: the keyword endpoint and its sisters (`rest`), and the batch endpoints. */
export type Family = 'rest' | 'batch'

export const refusal = (
  family: Family,
  status: number,
  code: number,
  messages: readonly string[],
  headers: Readonly<Record<string, string>> = {},
): Reply =>
  family === 'batch'
    ? json(status, { errors: messages }, headers)
    : json(status, { meta: { status: 'Error', error_code: code, error_message: messages.join('; ') } }, headers)

/** The two meanings of 401: this one is the key. */
export const keyRefused = (family: Family): Reply =>
  family === 'rest' ? plainText(401, 'invalid API key') : json(401, { errors: ['Invalid API key or inactive account'] })

/** The other meaning of 401: no data. */
export const dataNotFound = (): Reply => refusal('rest', 401, 401, ['Data not found'])

export const quotaExhausted = (family: Family): Reply =>
  refusal(family, 403, 403, ['Quota exceeded: no credits left for this key'])

/** Retry-After as a header of either form, or none. */
export const retryAfter = (form: 'none' | 'seconds' | 'date', seconds: number, nowMs: number): Record<string, string> => {
  const whole = Math.max(0, Math.ceil(seconds))
  if (form === 'none') return {}
  // A date has whole seconds; rounded up, so that it is never before the end of the wait.
  const date = new Date(Math.ceil((nowMs + whole * 1000) / 1000) * 1000).toUTCString()
  return { 'retry-after': form === 'seconds' ? String(whole) : date }
}
