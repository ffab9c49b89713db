// What becomes of a unit whose work threw: parked, held or failed; the one place that decides it.
import type { Clock } from '../core/clock.ts'
import { EtlError, errorCodes, isEtlError, messageOf } from '../core/errors.ts'
import type { Limits } from '../core/types.ts'
import { databaseError, isDatabaseError } from '../db/database-error.ts'

export type Settlement =
  /** Another process has the unit; nothing may be written. */
  | { readonly kind: 'leave' }
  /** Not yet: again at `notBefore`. `final` ends the unit's part in this run. */
  | { readonly kind: 'park'; readonly notBefore: number; readonly countsAttempt: boolean; readonly final: boolean }
  | { readonly kind: 'hold' }
  | { readonly kind: 'fail' }
  /** Put back as planned, for whoever comes next. */
  | { readonly kind: 'return' }

/** Waits longer than this are left to the next run. A report's own deadline ends earlier waits. */
const longestWaitMs = 12 * 3_600_000
const shortestWaitMs = 1_000
const longestBackoffMs = 30_000

/** Anything thrown as an EtlError; what comes neither from us nor from the database is a defect. */
export const asEtlError = (error: unknown): EtlError => {
  if (isEtlError(error)) return error
  if (isDatabaseError(error)) return databaseError(error, 'refused a statement')
  return new EtlError('INTERNAL', `${messageOf(error)}; please report this defect.`, { cause: error })
}

/** @param attempt number of the try that failed, from 1. */
export const settle = (error: EtlError, attempt: number, limits: Limits, clock: Clock): Settlement => {
  const spec = errorCodes[error.code]
  if (error.code === 'FENCED') return { kind: 'leave' }
  if (error.code === 'INTERRUPTED' || error.code === 'CANCELLED') return { kind: 'return' }
  if (spec.state === 'held') return { kind: 'hold' }
  if (spec.retry === 'later') return parked(error, clock)
  if (spec.retry === 'now' && attempt < limits.attempts) {
    return { kind: 'park', notBefore: clock.now() + backoffMs(attempt, clock), countsAttempt: true, final: false }
  }
  return { kind: 'fail' }
}

const parked = (error: EtlError, clock: Clock): Settlement => {
  const now = clock.now()
  const notBefore = Math.max(error.notBefore ?? 0, now + (error.code === 'REPORT_PENDING' ? 0 : shortestWaitMs))
  const final = error.code === 'NOT_PUBLISHED' || notBefore - now > longestWaitMs || error.context['final'] === true
  return { kind: 'park', notBefore, countsAttempt: false, final }
}

/** Exponential with full jitter. */
const backoffMs = (attempt: number, clock: Clock): number =>
  Math.max(200, clock.random() * Math.min(longestBackoffMs, shortestWaitMs * 2 ** attempt))
