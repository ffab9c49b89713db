// What becomes of a job whose work threw: one decision for each code, and how long "not yet" is.
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { type ErrorCode, type ErrorDetails, EtlError, errorCodes } from '../../../src/core/errors.ts'
import type { Limits } from '../../../src/core/limits.ts'
import { asEtlError, settle, type Tried } from '../../../src/run/settle.ts'

const now = 5_000_000
const clockOf = (random: number): Clock => ({ now: () => now, random: () => random, sleep: async () => undefined })
const limits: Limits = {
  pageSize: 1,
  maxPages: 1,
  concurrency: 1,
  timeoutMs: 1,
  attempts: 3,
  rejectShare: 0,
  rejectCount: null,
  shrink: 0.5,
  walks: 1,
  pollEveryMs: 1,
  pollMaxMs: 1,
  deadlineMs: 1,
  quotaPerMonth: null,
  quotaPerDay: null,
  maxBodyBytes: 1,
}
const tried = (attempts: number): Tried => ({ attempts, kind: 'walk', cells: 1 })
const decide = (error: EtlError, attempts = 1, random = 0.5) => settle(error, tried(attempts), limits, clockOf(random))
const codes = Object.keys(errorCodes) as ErrorCode[]

describe('a decision', () => {
  test.each(codes)('%s is settled as its row of the table says', (code) => {
    const { kind } = decide(new EtlError(code, 'x'))
    const last = decide(new EtlError(code, 'x'), 3).kind
    const { retry, state } = errorCodes[code]
    const special: Partial<Record<ErrorCode, string>> = { FENCED: 'leave', INTERRUPTED: 'return', CANCELLED: 'return' }
    const usual = state === 'held' ? 'hold' : retry === 'never' ? 'fail' : 'park'
    expect(kind).toBe(special[code] ?? usual)
    expect(last).toBe(special[code] ?? (state === 'failed' && retry === 'now' ? 'fail' : usual))
  })

  test('every code is decided in one of the ways there are', () => {
    expect(new Set(codes.map((code) => decide(new EtlError(code, 'x')).kind))).toEqual(
      new Set(['leave', 'park', 'hold', 'fail', 'return']),
    )
  })
})

describe('a try that counts', () => {
  test('waits longer each time, spread over the whole wait, never under a fifth of a second nor over half a minute', () => {
    const wait = (attempt: number, random: number): number => {
      const decision = settle(new EtlError('SERVICE_ERROR', 'x'), tried(attempt), { ...limits, attempts: 99 }, clockOf(random))
      if (decision.kind !== 'park') throw new Error(decision.kind)
      expect(decision).toMatchObject({ countsAttempt: true, final: false })
      return decision.notBeforeMs
    }
    expect([1, 2, 3, 4, 5, 50].map((attempt) => wait(attempt, 0.5))).toEqual([1_000, 2_000, 4_000, 8_000, 15_000, 15_000])
    expect([wait(1, 0), wait(1, 0.99), wait(9, 1)]).toEqual([200, 1_980, 30_000])
  })

  test('is the last of five where the definition with its limit is not here', () => {
    const kinds = [1, 4, 5, 6].map(
      (attempts) => settle(new EtlError('SERVICE_ERROR', 'x'), tried(attempts), null, clockOf(0.5)).kind,
    )
    expect(kinds).toEqual(['park', 'park', 'fail', 'fail'])
  })
})

describe('not yet', () => {
  const parked = (code: ErrorCode, details: ConstructorParameters<typeof EtlError>[2] = {}) =>
    decide(new EtlError(code, 'x', details), 99)

  test('costs no try, however many there were', () => {
    for (const code of ['RATE_LIMITED', 'REPORT_PENDING', 'NOT_PUBLISHED', 'NO_DEFINITION'] as const)
      expect(parked(code)).toMatchObject({ kind: 'park', countsAttempt: false })
  })

  test('lasts until it was told, at least a second, but for a report, which says itself when to look', () => {
    expect(parked('RATE_LIMITED', { notBefore: now + 9_000 })).toMatchObject({ notBeforeMs: 9_000, final: false })
    expect(parked('RATE_LIMITED', { notBefore: now - 9_000 })).toMatchObject({ notBeforeMs: 1_000 })
    expect(parked('RATE_LIMITED')).toMatchObject({ notBeforeMs: 1_000 })
    expect(parked('REPORT_PENDING', { notBefore: now + 10 })).toMatchObject({ notBeforeMs: 10 })
    expect(parked('REPORT_PENDING')).toMatchObject({ notBeforeMs: 0 })
    expect(parked('REPORT_PENDING', { notBefore: now - 9_000 })).toMatchObject({ notBeforeMs: 0 })
  })

  test('longer than half a day, or said to be, is left to the next run', () => {
    const half = 12 * 3_600_000
    expect(parked('RATE_LIMITED', { notBefore: now + half })).toMatchObject({ final: false })
    expect(parked('RATE_LIMITED', { notBefore: now + half + 1 })).toMatchObject({ final: true })
    expect(parked('REPORT_PENDING', { notBefore: now + 1, follows: { next: 'wait', isFinal: true } })).toMatchObject({
      final: true,
    })
    expect(parked('REPORT_PENDING', { notBefore: now + 1, follows: { next: 'wait', isFinal: false } })).toMatchObject({
      final: false,
    })
    expect(parked('NOT_PUBLISHED', { notBefore: now + 1 })).toMatchObject({ kind: 'park', final: true })
    // Another run that waits for the same job may have the definition.
    expect(parked('NO_DEFINITION', { notBefore: now + 1 })).toMatchObject({ kind: 'park', final: false })
  })
})

describe('a request that was refused for certain', () => {
  const refused = (
    code: ErrorCode,
    of: Partial<Tried>,
    details: ErrorDetails = { follows: { next: 'split', about: 'values' } },
  ) => settle(new EtlError(code, 'x', details), { ...tried(1), kind: 'report', cells: 12, ...of }, limits, clockOf(0.5)).kind

  test('is split where it asks for several units, however often it was tried', () => {
    for (const code of ['BAD_REQUEST', 'NOT_PUBLISHED', 'NO_CAPABILITY', 'TOO_LARGE', 'QUOTA_EXHAUSTED'] as const)
      expect([refused(code, {}), refused(code, { cells: 2, attempts: 99 })]).toEqual(['split', 'split'])
  })

  test('is settled by its code where it asks for one', () => {
    const alone = (code: ErrorCode) => refused(code, { cells: 1 })
    expect([alone('BAD_REQUEST'), alone('NO_CAPABILITY'), alone('TOO_LARGE')]).toEqual(['fail', 'fail', 'fail'])
    expect([alone('NOT_PUBLISHED'), alone('QUOTA_EXHAUSTED')]).toEqual(['park', 'hold'])
  })

  test('is never split where it was bought, or is no report', () => {
    expect(refused('REPORT_REJECTED', {}, {})).toBe('fail')
    expect(refused('BAD_REQUEST', {}, {})).toBe('fail')
    expect(refused('BAD_REQUEST', { kind: 'walk' })).toBe('fail')
  })

  test('is left to whoever has the job by now, or comes back', () => {
    expect([refused('FENCED', {}), refused('CANCELLED', {}), refused('INTERRUPTED', {})]).toEqual(['leave', 'return', 'return'])
  })
})

describe('a submission whose answer was lost', () => {
  const lost = (askAgain: boolean, of: Partial<Tried> = {}) =>
    settle(
      new EtlError('REPORT_UNCERTAIN', 'x', askAgain ? { follows: { next: 'ask again' } } : {}),
      { ...tried(1), kind: 'report', ...of },
      limits,
      clockOf(0.5),
    )

  test('is asked for again as a whole, with consent alone', () => {
    for (const of of [{}, { cells: 12, attempts: 99 }]) expect(lost(true, of)).toEqual({ kind: 'again', notBeforeMs: 0 })
    expect(lost(false)).toEqual({ kind: 'hold' })
  })
})

describe('anything thrown', () => {
  test('is taken as what it is: ours, the database’s, or a defect with its cause', () => {
    const own = new EtlError('SHRUNK', 'x')
    expect(asEtlError(own)).toBe(own)
    expect(asEtlError(Object.assign(new Error('deadlock detected'), { code: '40P01' }))).toMatchObject({ code: 'DATABASE' })
    expect(asEtlError(Object.assign(new Error('no'), { code: 'ECONNREFUSED' }))).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
    const bug = new TypeError('x is undefined')
    expect(asEtlError(bug)).toMatchObject({ code: 'INTERNAL', message: 'x is undefined; please report this defect.', cause: bug })
    expect(asEtlError('text')).toMatchObject({ code: 'INTERNAL', message: expect.stringContaining('text') })
  })
})
