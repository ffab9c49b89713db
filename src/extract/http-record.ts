// One request as the ledger keeps it: where, how long, how much, with what outcome.
import { hash } from 'node:crypto'
import type { ErrorCode } from '../core/errors.ts'
import type { HttpRequest, UnitHttpOptions } from './http-types.ts'

export interface Outcome {
  /** null: no answer came. */
  readonly status: number | null
  /** Of the body, without its content encoding. */
  readonly bytes: number
  /** The body where it was read whole; its SHA-256 is kept. */
  readonly body?: Uint8Array
  readonly errorCode?: ErrorCode
}

const refusalOf = (status: number | null): ErrorCode | null => {
  if (status === 429) return 'RATE_LIMITED'
  return status !== null && status >= 500 ? 'SERVICE_ERROR' : null
}

/** @param nowMs by the clock of all times in the ledger. Begins the record; the function it returns ends it and hands it over, once. */
export const recorder = (options: UnitHttpOptions, request: HttpRequest, attempt: number, nowMs: number) => {
  const started = performance.now()
  let ended = false
  return ({ status, bytes, body, errorCode }: Outcome): void => {
    if (ended) return
    ended = true
    options.record({
      account: options.account,
      method: request.method,
      endpoint: request.endpoint,
      parameters: {
        ...Object.fromEntries(request.url.searchParams),
        ...(request.body === undefined ? {} : { body: request.body }),
      },
      part: request.part ?? null,
      attempt,
      status,
      errorCode: errorCode ?? refusalOf(status),
      bytes,
      sha256: body === undefined ? null : hash('sha256', body, 'hex'),
      startedAt: new Date(nowMs).toISOString(),
      milliseconds: performance.now() - started,
    })
  }
}
