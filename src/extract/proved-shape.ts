// Pages are paid for: where nobody knows yet whether they come in a shape that can be read, one is asked for and the others wait for it.
import type { Clock } from '../core/clock.ts'
import { EtlError, isEtlError } from '../core/errors.ts'

interface Shape {
  isGood: boolean
  /** Units in a row whose answer nobody can read. */
  unread: number
  badUntilMs: number
  said: string
  trying: Promise<void> | null
}

const shapes = new Map<string, Shape>()

/** One bad answer is one unit's; a second one in the same words is the service's. */
const enough = 2
/** By then another night tries again. */
const badForMs = 6 * 3_600_000

export interface ShapeWaiter {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The unit, for the message. */
  readonly unit: string
}

/** Asks, alone where the shape is not proved; `ask` throws UNUSABLE for an answer that cannot be read. Throws without asking where two units had such a one. */
export const inProvedShape = async <T>(key: string, waiter: ShapeWaiter, ask: () => Promise<T>): Promise<T> => {
  const { clock, signal, unit } = waiter
  const shape = shapes.get(key) ?? { isGood: false, unread: 0, badUntilMs: 0, said: '', trying: null }
  shapes.set(key, shape)
  while (!shape.isGood) {
    if (clock.now() < shape.badUntilMs) throw notAsked(unit, shape)
    if (shape.trying === null) break
    await orAborted(shape.trying, signal)
  }
  const over = Promise.withResolvers<void>()
  if (!shape.isGood) shape.trying = over.promise
  try {
    const answer = await ask()
    Object.assign(shape, { isGood: true, unread: 0 })
    return answer
  } catch (error) {
    if (isEtlError(error) && error.code === 'UNUSABLE') unread(shape, error.message, clock)
    throw error
  } finally {
    if (shape.trying === over.promise) shape.trying = null
    over.resolve()
  }
}

const unread = (shape: Shape, said: string, clock: Clock): void => {
  shape.isGood = false
  shape.unread += 1
  shape.said = said
  if (shape.unread >= enough) shape.badUntilMs = clock.now() + badForMs
}

const notAsked = (unit: string, { said }: Shape): EtlError =>
  new EtlError('BAD_RESPONSE', `${unit}: not asked for, nothing was paid: answers come in a shape that cannot be read. ${said}`, {
    follows: { next: 'retry', inMs: 60_000, isFinal: true },
  })

const orAborted = async (waited: Promise<void>, signal: AbortSignal): Promise<void> => {
  signal.throwIfAborted()
  const stopped = Promise.withResolvers<never>()
  const onAbort = (): void => stopped.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    await Promise.race([waited, stopped.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
