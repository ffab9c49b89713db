// What stopped the work on a job, told by what it threw and by the signal.
import { describe, expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import { interruptedBy } from '../../../src/run/settle.ts'

describe('work that was stopped', () => {
  const stopped = (reason: unknown, error: unknown): unknown => {
    const abort = new AbortController()
    abort.abort(reason)
    return interruptedBy(abort.signal, error)
  }
  const error = new Error('body cut')

  test('is cancelled, lost to another or interrupted, by what stopped it', () => {
    const cancelled = new EtlError('CANCELLED', 'x')
    const taken = new EtlError('FENCED', 'x')
    expect(stopped(cancelled, error)).toBe(cancelled)
    expect(stopped(taken, error)).toBe(taken)
    expect(stopped(new EtlError('INTERRUPTED', 'x'), error)).toMatchObject({ code: 'INTERRUPTED', cause: error })
    expect(stopped(new Error('why not'), error)).toMatchObject({ code: 'INTERRUPTED' })
  })

  test('that found its job taken over is left, whatever stopped it', () => {
    const taken = new EtlError('FENCED', 'x')
    expect(stopped(new EtlError('CANCELLED', 'x'), taken)).toBe(taken)
  })
})
