// Decides when an answer is not requested again, since the same fault twice is no accident, and when a service counts as broken. Pages are paid for: until one came in
// a shape that can be read, one is requested at a time and the others wait for it.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, raceAbort } from '../core/clock.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'

/** The fault of an error, to be remembered and compared. In the ledger it is followed by words about what happens next. */
export const faultOf = ({ fault, message }: EtlError): string => redact(fault ?? message)

/** @param before null: nothing was wrong before */
export const isSameFault = (error: EtlError, before: string | null): boolean => before?.startsWith(faultOf(error)) === true

/** The error that keeps a page from being paid for again and again. @param seen why, as a sentence without its stop */
export const unusable = (error: EtlError, seen: string): EtlError =>
  new EtlError(
    'UNUSABLE',
    `${error.message.replace(/; the next run reads it again\.$/, '.')} ${seen}, so it is not bought again automatically. ` +
      'Ask the service; to read it again: `millrace backfill … --force`.',
    { cause: error, fault: faultOf(error) },
  )

/** No page or half a page may be an accident: requests it again until the same fault comes again. Throws UNUSABLE then. */
export const untilSameFault = async <T>(ask: () => Promise<T>): Promise<T> => {
  const before: string[] = []
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isEtlError(error) || error.fault === null || error.retry !== 'now') throw error
      if (before.some((fault) => isSameFault(error, fault))) throw unusable(error, 'The same came twice')
      before.push(faultOf(error))
    }
  }
}

type Shape = ReturnType<typeof newShape>

const newShape = () => ({
  isGood: false,
  /** Units in a row whose answer cannot be read, all for the fault of the last one. */
  unread: 0,
  last: null as EtlError | null,
  badUntilMs: 0,
  trying: null as Promise<void> | null,
  /** Runs in which a person forced an attempt, and the unit that had it. */
  forcedBy: new Map<number, ShapeWaiter>(),
})

const shapes = new Map<string, Shape>()

/** One or two bad answers are their units'; a third one in a row with the same fault is the service's. */
const enough = 3
/** After this wait one more is requested; if that cannot be read either, after three times as long. */
const firstWaitMs = 10 * 60_000
const longestWaitMs = 6 * 3_600_000

interface ShapeWaiter {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The unit, for the message. */
  readonly unit: string
  /** The run in which a person forces this unit; null: no person does. */
  readonly forcedBy: number | null
}

/**
 * Calls `ask`, alone where the shape is not proved. `ask` throws UNUSABLE for an answer that cannot be read, and awaits `letOthers` before a retry, so that
 * another unit gets the turn. Throws without asking where several units in a row had an answer that cannot be read, all for the same fault, until it is time
 * for another attempt, or a person forces one: one a run.
 */
export const inProvedShape = async <T>(
  key: string,
  waiter: ShapeWaiter,
  ask: (letOthers: () => Promise<void>) => Promise<T>,
): Promise<T> => {
  const shape = shapes.get(key) ?? newShape()
  shapes.set(key, shape)
  let leave = await takeTurn(shape, waiter)
  const letOthers = async (): Promise<void> => {
    leave()
    // Those that wait take it first.
    await nextTurn()
    leave = await takeTurn(shape, waiter)
  }
  try {
    const answer = await ask(letOthers)
    Object.assign(shape, { isGood: true, unread: 0 })
    shape.forcedBy.clear()
    return answer
  } catch (error) {
    if (isEtlError(error) && error.code === 'UNUSABLE') unread(shape, error, waiter.clock)
    throw error
  } finally {
    leave()
  }
}

/** Waits for the turn: of those that wait for one attempt only the first makes the next. @returns ends the turn */
const takeTurn = async (shape: Shape, waiter: ShapeWaiter): Promise<() => void> => {
  while (!shape.isGood && shape.trying !== null) await raceAbort(shape.trying, waiter.signal)
  if (!shape.isGood && waiter.clock.now() < shape.badUntilMs) mayForce(shape, waiter)
  const over = Promise.withResolvers<void>()
  if (!shape.isGood) shape.trying = over.promise
  return () => {
    if (shape.trying === over.promise) shape.trying = null
    over.resolve()
  }
}

/** Throws where the run was not forced, or another one of its units had the attempt. */
const mayForce = (shape: Shape, waiter: ShapeWaiter): void => {
  const { unit, forcedBy } = waiter
  if (forcedBy === null || (shape.forcedBy.get(forcedBy) ?? waiter) !== waiter) throw notAsked(unit, shape)
  shape.forcedBy.set(forcedBy, waiter)
}

const unread = (shape: Shape, error: EtlError, clock: Clock): void => {
  shape.isGood = false
  shape.unread = shape.last !== null && isSameFault(error, faultOf(shape.last)) ? shape.unread + 1 : 1
  shape.last = error
  if (shape.unread >= enough) shape.badUntilMs = clock.now() + Math.min(longestWaitMs, firstWaitMs * 3 ** (shape.unread - enough))
}

const notAsked = (unit: string, { last, badUntilMs }: Shape): EtlError => {
  const until = new Date(badUntilMs).toISOString().slice(0, 16).replace('T', ' ')
  return new EtlError(
    'BAD_RESPONSE',
    `${unit}: not requested, nothing was paid: the service's answers cannot be read. A run after ${until} UTC requests one again; \`millrace backfill … --force\` does at once. ${last?.message}`,
    { follows: { next: 'retry', inMs: 60_000, isFinal: true } },
  )
}
