// Which requests are sent again, after how long, and what a service that asks for a pause gets.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import { type Asked, type Progress, classify } from './http-failure.ts'
import type { HttpRequest, ServiceOptions, UnitHttpOptions } from './http-types.ts'

export interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

/** The unit has tries of its own (limits.attempts); a request takes few of them by itself, so that nobody waits for their product. */
const maxRequestTries = 3
/** A longer pause is not slept through: the unit is parked and its slot goes to another. */
const longestPauseMs = 60_000

/**
 * An answer of any status but 429. Harmless requests are sent again after connection errors, 5xx and 429; any other is sent once, and
 * what it throws says in `context.sent` whether it can have reached the service. Throws RATE_LIMITED with `notBefore`.
 */
export const withRetries = async <A extends Answered>(
  service: ServiceOptions,
  options: UnitHttpOptions,
  request: HttpRequest,
  once: (attempt: number, progress: Progress) => Promise<A>,
): Promise<A> => {
  const { clock, rate, log, addressSetting } = service
  const { signal, lane } = options
  const asked: Asked = { request, signal, addressSetting }
  const tries = request.idempotent ? Math.max(1, Math.min(options.attempts, maxRequestTries)) : 1
  for (let attempt = 1; ; attempt += 1) {
    const progress: Progress = { connected: false, answered: false }
    let pause: number
    try {
      const departure = await rate.take(signal, lane ?? 'others')
      progress.heard = departure.answered
      const answer = await once(attempt, progress).finally(departure.answered)
      const wait = askedPause(answer, clock)
      if (wait === null) return answer
      pause = wait.ms ?? backoffMs(clock, attempt)
      if (answer.status === 429) rate.penalize(clock.now() + Math.min(pause, longestPauseMs))
      if (attempt >= tries || pause > longestPauseMs) return givenUp(answer, wait.ms, clock.now() + pause, request)
    } catch (error) {
      const failure = classify(error, asked, progress)
      if (attempt >= tries || failure.retry !== 'now') throw failure
      log.info({ endpoint: request.endpoint, attempt, error: failure.message }, 'asking again')
      pause = backoffMs(clock, attempt)
    }
    await sleep(clock, pause, asked)
  }
}

const sleep = async (clock: Clock, ms: number, asked: Asked): Promise<void> => {
  try {
    await clock.sleep(ms, asked.signal)
  } catch (error) {
    throw classify(error, asked, { connected: true, answered: false })
  }
}

/** null: the answer is to be looked at. `ms` is null where the service names no time. */
const askedPause = ({ status, headers }: Answered, clock: Clock): { readonly ms: number | null } | null => {
  if (status !== 429 && (status < 500 || status === 501)) return null
  return { ms: retryAfterMs(headers['retry-after'], clock.now()) }
}

/** A 429 was not taken, nor what a 503 asks to come back for at a named time. Any other server error is the caller's to judge. */
const givenUp = <A extends Answered>(answer: A, askedMs: number | null, notBefore: number, request: HttpRequest): A => {
  const asksToWait = answer.status === 503 && askedMs !== null && (!request.idempotent || askedMs > longestPauseMs)
  if (answer.status !== 429 && !asksToWait) return answer
  throw new EtlError(
    'RATE_LIMITED',
    `${request.url.origin} ${request.endpoint} answers ${answer.status}: too many requests or open reports. It is asked again later; nothing is lost.`,
    { notBefore, context: { sent: false, status: answer.status } },
  )
}

/** Exponential with full jitter; never at once. */
const backoffMs = (clock: Clock, attempt: number): number => 50 + clock.random() * Math.min(5_000, 500 * 2 ** attempt)

/** Milliseconds to wait, or null where the header is absent or means nothing. */
const retryAfterMs = (header: string | undefined, nowMs: number): number | null => {
  if (header === undefined) return null
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Math.ceil(Number(header) * 1000)
  const date = Date.parse(header)
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs)
}
