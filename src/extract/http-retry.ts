// Decides which requests are retried, after how long, and how a service that asks for a pause gets it.
import { createHash } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { type Finding, type Pass, type Waiter, wholeAccount } from './breaker.ts'
import { excerpt } from './http-answer.ts'
import { type Asked, classify, type Progress } from './http-failure.ts'
import type { HttpRequest, OpenService, UnitHttpOptions } from './http-types.ts'
import type { Verdict } from './rate.ts'

/** The parts of an answer that decide about a retry. */
export interface Answered {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Absent of a body that was not read. */
  readonly bytes?: Uint8Array
}

/** Attempts of one request. The unit has attempts of its own (limits.attempts), so this stays small: the two multiply. */
const maxRequestTries = 3
/** For a longer pause the job is parked and its slot goes to another, except where earlier pages would be lost. */
const longestPauseMs = 60_000
/** So many failures in a row, of any requests, put a place in trouble. */
const enoughFailures = 3
/** For requests beside the jobs: they wait for seconds. */
const shortPatience = { attempts: 2, deadlineMs: 60_000 }
const shortestPauseMs = 1_000
/** A request that gets 429 again and again while others do not is given up after so many times `limits.attempts`. */
const ownRefusalsShare = 2

/**
 * Returns an answer of any status but 429. Idempotent requests are retried after connection errors, server errors and 429, and wait while a
 * place is in trouble for all. Any other request is sent once, and `sent` of its error says whether it can have reached the service.
 * Throws RATE_LIMITED on 429 with `notBefore`, and the place's own trouble once waiting for it has ended.
 */
export const withRetries = async <A extends Answered>(
  service: OpenService,
  options: UnitHttpOptions,
  request: HttpRequest,
  once: (attempt: number, progress: Progress) => Promise<A>,
): Promise<A> => {
  const { clock, breaker, log, addressSetting } = service
  const { lane } = options
  const refusedBy = `${lane} ${request.endpoint}`
  const asked: Asked = { request, signal: options.signal, addressSetting }
  const tries = request.idempotent ? Math.max(1, Math.min(options.attempts, maxRequestTries)) : 1
  const waiter = waiterOf(options, request)
  const isPatient = options.patience !== undefined && request.optional !== true
  const mostRefusals = isPatient ? ownRefusalsShare * options.attempts : tries - 1
  let refusals = 0
  for (let attempt = 1; ; attempt += 1) {
    if (attempt > 1) await request.letOthers?.()
    const departed = await departure(service, options, asked, waiter)
    // The endpoint refused this run, and since then others of the account were answered: so only the endpoint refuses.
    const isRefusedAlone = service.refusedSince.has(refusedBy) && !breaker.isOpen(wholeAccount)
    const sent = await sendOnce(clock, { ...asked, isRefusedAlone }, departed, (progress) => once(attempt, progress))
    if (sent.trouble === null) {
      service.refusedSince.delete(refusedBy)
      return sent.answer
    }
    const { place, error, askedMs, opensAfter } = sent.trouble
    if (error.code === 'RATE_LIMITED') {
      refusals += 1
      const since = service.refusedSince.get(refusedBy) ?? clock.now()
      // A request without a lane has a few attempts and no deadline.
      if (lane !== undefined) service.refusedSince.set(refusedBy, since)
      const leftMs = since + waiter.patience.deadlineMs - clock.now()
      const isPatienceOver = refusals > mostRefusals || leftMs <= 0
      if (!request.idempotent || isPatienceOver || opensAfter > 1) throw counted(sent.trouble, clock, leftMs)
      continue
    }
    if (attempt >= tries && !(isPatient && request.idempotent && breaker.isOpen(place))) return settled(sent)
    log.info({ endpoint: request.endpoint, attempt, error: error.message }, 'asking again')
    // A request that waits at the breaker anyway needs no pause of its own.
    if (!breaker.isOpen(place))
      await sleep(clock, Math.max(backoffMs(clock, attempt), Math.min(askedMs ?? 0, longestPauseMs)), asked)
  }
}

const waiterOf = ({ signal, lane, patience = shortPatience }: UnitHttpOptions, request: HttpRequest): Waiter => ({
  requestId: whatOf(request),
  places: request.place === undefined ? [wholeAccount, request.endpoint] : [request.place],
  signal,
  patience,
  // A lane is a run. A request without one has a patience of its own.
  run: lane ?? Symbol(request.endpoint),
  longestPauseMs: longestPauseOf(request),
})

/** Identifies a request. A submission differs by its body, which may name a million domains; a download keeps only its path. */
const whatOf = ({ endpoint, url, body }: HttpRequest): string =>
  endpoint +
  url.pathname +
  url.search +
  (body === undefined ? '' : createHash('sha256').update(JSON.stringify(body)).digest('hex'))

/** A submission does not wait here: its intent was just committed, so it comes back later. Nor does an optional request. */
const longestPauseOf = ({ idempotent, optional, part = 1 }: HttpRequest): number =>
  !idempotent || optional === true ? 0 : part > 1 ? Number.POSITIVE_INFINITY : longestPauseMs

const stoppedOr = (error: unknown, asked: Asked): never => {
  throw asked.signal.aborted ? classify(error, asked, { connected: false, answered: false }) : error
}

/** The rate is counted in the database, which may be away: the caller of a submission must learn that nothing was sent. */
const unsent = (error: unknown): EtlError =>
  isEtlError(error)
    ? error.with(error.message, { sent: false })
    : new EtlError('INTERNAL', messageOf(error), { cause: error, sent: false })

interface Tried extends Asked {
  readonly isRefusedAlone: boolean
}

/** What came of one try: an answer to be read, or a trouble, with the answer where there was one. */
type Sent<A> = { readonly trouble: null; readonly answer: A } | { readonly trouble: Finding; readonly answer: A | null }

const settled = <A>({ trouble, answer }: Extract<Sent<A>, { trouble: Finding }>): A => {
  if (answer === null) throw trouble.error
  return answer
}

interface Departed {
  readonly pass: Pass
  readonly judged: Verdict
}

/** Waits for the turn of the request. If one of its places gets in trouble meanwhile, it waits at the breaker again, like a new request. */
const departure = async (
  { breaker, rate }: OpenService,
  { signal, lane }: UnitHttpOptions,
  asked: Asked,
  waiter: Waiter,
): Promise<Departed> => {
  for (;;) {
    const pass = await breaker.pass(waiter).catch((error: unknown) => stoppedOr(error, asked))
    try {
      return { pass, judged: await rate.take(AbortSignal.any([signal, pass.over]), lane ?? 'others') }
    } catch (error) {
      pass.drop()
      if (signal.aborted || !pass.over.aborted) return stoppedOr(signal.aborted ? error : unsent(error), asked)
    }
  }
}

const sendOnce = async <A extends Answered>(
  clock: Clock,
  asked: Tried,
  { pass, judged }: Departed,
  once: (progress: Progress) => Promise<A>,
): Promise<Sent<A>> => {
  const { request } = asked
  const progress: Progress = { connected: false, answered: false }
  await request.onTurn?.().catch((error: unknown) => {
    pass.drop()
    judged(null)
    throw error
  })
  try {
    const answer = await once(progress)
    const trouble = troubleOf(answer, asked, clock)
    const isTooMany = answer.status === 429 && trouble?.place === wholeAccount
    pass.end(trouble)
    // All processes of the account hear of a trouble of the whole account; each finds out by itself about a place within it.
    judged(isTooMany ? Math.min(trouble.askedMs ?? shortestPauseMs, longestPauseMs) : null)
    return trouble === null ? { trouble, answer } : { trouble, answer }
  } catch (error) {
    const failure = classify(error, asked, progress)
    const trouble = networkTrouble(failure, request, progress)
    if (trouble === null) {
      pass.drop()
      throw failure
    }
    pass.end(trouble)
    return { trouble, answer: null }
  }
}

/** null: the failure is not the service's. An answer that broke off counts against its path alone. */
const networkTrouble = (error: EtlError, { place, endpoint }: HttpRequest, { answered }: Progress): Finding | null =>
  error.retry === 'now'
    ? { place: place ?? (answered ? endpoint : wholeAccount), error, askedMs: null, opensAfter: enoughFailures, isLasting: false }
    : null

/** null: the answer is to be read. */
const troubleOf = (answer: Answered, { request, addressSetting, isRefusedAlone }: Tried, clock: Clock): Finding | null => {
  const { status, headers } = answer
  const askedMs = retryAfterMs(headers, clock.now())
  const own = request.place ?? request.endpoint
  // Retry-After of one download counts for that file; only several in a row count for all downloads.
  const isForAll = status === 429 || (askedMs !== null && request.place === undefined)
  const opensAfter = isForAll ? 1 : enoughFailures
  // A service that answers 503 with Retry-After has not taken the request.
  const asksToWait = status === 503 && askedMs !== null && (!request.idempotent || askedMs > longestPauseMs)
  if (status === 429 || asksToWait) {
    const isLasting = status === 429 && request.isAboutOpenWork === true
    const place = status === 429 && !isLasting && !isRefusedAlone ? (request.place ?? wholeAccount) : own
    return { place, error: rateLimited(request, status, isLasting), askedMs, opensAfter, isLasting }
  }
  const error = awayError(answer, request, addressSetting)
  return error === null ? null : { place: own, error, askedMs, opensAfter, isLasting: false }
}

const rateLimited = ({ url, endpoint }: HttpRequest, status: number, isLasting: boolean): EtlError =>
  new EtlError(
    'RATE_LIMITED',
    `${url.origin} ${endpoint} answers ${status}: ${isLasting ? 'too many reports are open at the service' : status === 429 ? 'too many requests' : 'it asks to come back later'}.`,
    { sent: false, status },
  )

const said = ({ bytes }: Answered): string => (bytes === undefined || bytes.length === 0 ? '' : `: "${excerpt(bytes)}"`)

/** A server error, a time-out given as a status, or the page of a proxy in the service's place; null: none of them. */
const awayError = (answer: Answered, request: HttpRequest, addressSetting: string): EtlError | null => {
  const { status, headers } = answer
  const where = `${request.url.origin} ${request.endpoint}`
  if ((status >= 500 && status !== 501) || status === 408)
    return new EtlError('SERVICE_ERROR', `${where} answers ${status}${said(answer)}.`, { status })
  // With 403, too: then the proxy in front refuses, not the service (58).
  const isPage = (status === 200 || status === 403) && /\bhtml\b/i.test(headers['content-type'] ?? '')
  if (!isPage || answer.bytes === undefined || request.optional === true || !request.idempotent) return null
  return new EtlError(
    'BAD_RESPONSE',
    `${where} answers ${status} with a web page instead of JSON: "${excerpt(answer.bytes)}". A proxy may answer for the service; check ${addressSetting}.`,
    { status },
  )
}

/** Costs the job an attempt, since others are answered meanwhile; but not while the job waits for open reports, which take their time. */
const counted = ({ error, askedMs, isLasting }: Finding, clock: Clock, leftMs: number): EtlError =>
  error.with(error.message, {
    notBefore: clock.now() + (askedMs ?? shortestPauseMs),
    ...(isLasting ? {} : { follows: { next: 'count the try', leftMs } }),
  })

const sleep = async (clock: Clock, ms: number, asked: Asked): Promise<void> => {
  try {
    await clock.sleep(ms, asked.signal)
  } catch (error) {
    throw classify(error, asked, { connected: true, answered: false })
  }
}

/** Exponential with full jitter; never at once. */
const backoffMs = (clock: Clock, attempt: number): number => 50 + clock.random() * Math.min(5_000, 500 * 2 ** attempt)

/** A longer Retry-After is cut to this: after a day the request is tried again. */
const longestAskedMs = 86_400_000

/** Milliseconds to wait, or null where the header is absent or means nothing. A date is by the server's clock, which the header `date` tells. */
const retryAfterMs = ({ 'retry-after': header, date = '' }: Answered['headers'], nowMs: number): number | null => {
  if (header === undefined) return null
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Math.min(longestAskedMs, Math.ceil(Number(header) * 1000))
  const [until, sent] = [Date.parse(header), Date.parse(date)]
  return Number.isNaN(until) ? null : Math.min(longestAskedMs, Math.max(0, until - (Number.isNaN(sent) ? nowMs : sent)))
}
