// One request as the ledger keeps it: where, how long, how much, with what outcome.
import { hash } from 'node:crypto'
import { once } from '../core/clock.ts'
import type { ErrorCode } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { SentRequest } from '../core/sent-request.ts'
import type { HttpAnswer, HttpRequest, UnitHttpOptions } from './http-types.ts'

/** What came of one attempt. */
export interface Outcome {
  /** null: no answer came. */
  readonly status: number | null
  /** Of the body, without its content encoding. */
  readonly bytes: number
  /** The body where it was read whole; its SHA-256 is kept. */
  readonly body?: Uint8Array
  readonly contentType?: string
  readonly errorCode?: ErrorCode
  /** It certainly never reached the service. Default false. */
  readonly neverLeft?: boolean
}

/** A service charges what it answers: not a refusal, nor the page of a proxy. What broke off on its way may have been charged. */
const chargeOf = ({ paidFor }: HttpRequest, outcome: Outcome): Pick<SentRequest, 'credits' | 'paidFor' | 'isUncertain'> => {
  const free = { credits: null, paidFor: null, isUncertain: false }
  if (paidFor === undefined) return free
  const { status, errorCode, contentType = '', neverLeft = false } = outcome
  if (neverLeft || (status !== null && (status < 200 || status > 299))) return { ...free, credits: 0 }
  if (status === null || errorCode !== undefined) return { credits: null, paidFor, isUncertain: true }
  return /html/i.test(contentType) ? { ...free, credits: 0 } : { credits: null, paidFor, isUncertain: false }
}

/** What an answer costs stands in it, and is known when it has been read: a number that is none says nothing. */
const billing = (record: SentRequest): NonNullable<HttpAnswer['billed']> =>
  once(async (rows, said, byBalance = null) => {
    record.isOpen = false
    if (record.paidFor === null) return
    record.paidFor = { ...record.paidFor, rows }
    const credits = said ?? byBalance
    if (credits === null || !(credits >= 0) || !Number.isFinite(credits)) return
    record.credits = credits
    record.saidIn = said === null ? 'balance' : 'answer'
  })

const refusalOf = (status: number | null): ErrorCode | null => {
  if (status === 429) return 'RATE_LIMITED'
  return status !== null && status >= 500 ? 'SERVICE_ERROR' : null
}

/** @param nowMs by the clock of all times in the ledger. Begins the record; the function it returns ends it and hands it over, once. */
export const recorder = (options: UnitHttpOptions, request: HttpRequest, attempt: number, nowMs: number) => {
  const started = performance.now()
  return once((outcome: Outcome): HttpAnswer['billed'] => {
    const { status, bytes, body, errorCode } = outcome
    const charge = chargeOf(request, outcome)
    const record: SentRequest = {
      account: options.account,
      method: request.method,
      endpoint: request.endpoint,
      parameters: {
        // An address that the service redirected to may hold the key, under whatever name.
        ...Object.fromEntries([...request.url.searchParams].map(([name, value]) => [redact(name), redact(value)])),
        ...(request.body === undefined ? {} : { body: request.body }),
      },
      part: request.part ?? null,
      attempt,
      status,
      errorCode: errorCode ?? refusalOf(status),
      bytes,
      sha256: body === undefined ? null : hash('sha256', body, 'hex'),
      ...charge,
      isOpen: charge.paidFor !== null && !charge.isUncertain,
      startedAt: new Date(nowMs).toISOString(),
      milliseconds: performance.now() - started,
      saidIn: null,
    }
    options.record(record)
    return record.paidFor === null ? undefined : billing(record)
  })
}
