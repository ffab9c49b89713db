// What becomes of a job whose work threw: parked, held or failed; the one place that decides it.
import type { Clock } from '../core/clock.ts'
import { EtlError, errorCodes, isEtlError, messageOf } from '../core/errors.ts'
import type { Limits } from '../core/types.ts'
import { databaseError, isDatabaseError } from '../db/database-error.ts'
import type { ClaimedJob } from '../ledger/claim.ts'

export type Settlement =
  /** Another process has the job; nothing of it may be written. */
  | { readonly kind: 'leave' }
  /** Not yet: again so many milliseconds from now. `final` ends the job's part in the runs that wait for it. */
  | { readonly kind: 'park'; readonly notBeforeMs: number; readonly countsAttempt: boolean; readonly final: boolean }
  | { readonly kind: 'hold' }
  | { readonly kind: 'fail' }
  /** Put back as if it had not been claimed, for whoever comes next. */
  | { readonly kind: 'return' }
  /** A new job asks for the same once more, with consent. */
  | { readonly kind: 'again' }
  /** New jobs ask for its parts. */
  | { readonly kind: 'split' }

/** Waits longer than this are left to the next run. A report's own deadline ends earlier waits. */
const longestWaitMs = 12 * 3_600_000
const shortestWaitMs = 1_000
const longestBackoffMs = 30_000
const longestRefusalMs = 60_000

/** Anything thrown as an EtlError; what comes neither from us nor from the database is a defect. */
export const asEtlError = (error: unknown): EtlError => {
  if (isEtlError(error)) return error
  if (isDatabaseError(error)) return databaseError(error, 'refused a statement')
  return new EtlError('INTERNAL', `${messageOf(error)}; please report this defect.`, { cause: error })
}

/** What deciding needs of a claim. */
export type Tried = Pick<ClaimedJob, 'attempts' | 'cells' | 'kind'> & Partial<Pick<ClaimedJob, 'sliceIds'>>

/** @param limits null: the definition is not here. */
export const settle = (
  error: EtlError,
  { attempts, cells, kind, sliceIds }: Tried,
  limits: Limits | null,
  clock: Clock,
): Settlement => {
  const spec = errorCodes[error.code]
  if (error.code === 'FENCED') return { kind: 'leave' }
  if (error.code === 'INTERRUPTED' || error.code === 'CANCELLED') return { kind: 'return' }
  const { follows } = error
  if (follows?.next === 'ask again') return { kind: 'again' }
  if (follows?.next === 'fetch again') return { kind: 'park', notBeforeMs: shortestWaitMs, countsAttempt: false, final: false }
  // What is not published is so for every value of its window.
  const isWholeWindow = error.code === 'NOT_PUBLISHED' && cells === sliceIds?.length
  if (kind === 'report' && cells > 1 && follows?.next === 'split' && !isWholeWindow) return { kind: 'split' }
  // A budget of ours turns at a known time: whoever comes then goes on, and nobody waits for it.
  if (follows?.next === 'split' && follows.elseInMs !== undefined) return parkedFor(follows.elseInMs, true)
  if (follows?.next === 'retry') return parkedFor(follows.inMs, follows.isFinal)
  if (spec.state === 'held') return { kind: 'hold' }
  // The service is in trouble for all: that is no try of this job.
  if (follows?.next === 'wait for the service') return parked(error, clock)
  const isLast = attempts >= (limits?.attempts ?? defaultAttempts)
  if (follows?.next === 'count the try') return refusedAlone(error, follows.leftMs, { attempts, isLast }, clock)
  if (spec.retry === 'later') return parked(error, clock)
  if (spec.retry === 'now' && !isLast)
    return { kind: 'park', notBeforeMs: backoffMs(attempts, clock), countsAttempt: true, final: false }
  return { kind: 'fail' }
}

/** Answered 429 again and again while others are not: later from try to try, in the end by the next run: the last try, or the deadline, comes first. */
const refusedAlone = (
  error: EtlError,
  leftMs: number,
  { attempts, isLast }: { readonly attempts: number; readonly isLast: boolean },
  clock: Clock,
): Settlement => {
  const askedMs = (error.notBefore ?? 0) - clock.now()
  const ownMs = Math.min(longestRefusalMs, shortestWaitMs * 3 ** (attempts - 1))
  const notBeforeMs = Math.max(askedMs, ownMs)
  return {
    kind: 'park',
    notBeforeMs,
    countsAttempt: true,
    final: isLast || notBeforeMs >= leftMs,
  }
}

const defaultAttempts = 5

const parkedFor = (ms: number, final: boolean): Settlement => ({
  kind: 'park',
  notBeforeMs: Math.max(ms, shortestWaitMs),
  countsAttempt: false,
  final,
})

const isFinal = ({ follows }: EtlError): boolean => follows !== null && 'isFinal' in follows && follows.isFinal

const parked = (error: EtlError, clock: Clock): Settlement => {
  const waitMs = (error.notBefore ?? 0) - clock.now()
  const notBeforeMs = Math.max(waitMs, error.code === 'REPORT_PENDING' ? 0 : shortestWaitMs)
  // Without the definition each run finds out by itself that it cannot go on (see ledger/run-list.ts): another one may.
  const final = error.code === 'NOT_PUBLISHED' || notBeforeMs > longestWaitMs || isFinal(error)
  return { kind: 'park', notBeforeMs, countsAttempt: false, final }
}

/** Exponential with full jitter. */
const backoffMs = (attempt: number, clock: Clock): number =>
  Math.max(200, clock.random() * Math.min(longestBackoffMs, shortestWaitMs * 2 ** attempt))

/** Codes whose messages do not say what comes next. */
const saysNothingOfNext = ({ code, retry }: EtlError): boolean => retry === 'now' || code === 'RATE_LIMITED'

/** What follows from the decision, as a sentence to end the error's message with; empty where the message says it itself. */
export const nextStep = (error: EtlError, decision: Settlement, { attempts }: Pick<Tried, 'attempts'>): string => {
  if (!saysNothingOfNext(error)) return ''
  if (decision.kind === 'fail') return ` The next run tries again${attempts > 1 ? `, after ${attempts} tries in this one` : ''}.`
  if (decision.kind !== 'park') return ''
  if (decision.final) return ' The next run tries again.'
  return ` It is tried again in ${Math.max(1, Math.round(decision.notBeforeMs / 1000))} s.`
}
