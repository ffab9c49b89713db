// What is wrong in the same way twice is a fact and no moment: when an answer is not asked for again, and when a service is thought broken. Pages are paid for: where
// it is not known yet whether they come in a shape that can be read, one is asked for and the others wait for it.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, orAborted } from '../core/clock.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'

/** To be remembered, or read from the ledger, where words that say what comes next follow it. */
export const faultOf = ({ fault, message }: EtlError): string => redact(fault ?? message)

/** @param before null: nothing was wrong before */
export const isSameFault = (error: EtlError, before: string | null): boolean => before?.startsWith(faultOf(error)) === true

/** Pages are not paid for again and again. @param seen why not, as a sentence without its stop */
export const unusable = (error: EtlError, seen: string): EtlError =>
  new EtlError(
    'UNUSABLE',
    `${error.message.replace(/; the next run reads it again\.$/, '.')} ${seen} and is not paid for again by itself. ` +
      'Ask the service; to read it again: `millrace backfill … --force`.',
    { cause: error, fault: faultOf(error) },
  )

/** Nothing, or half a page, may be a moment's: it is asked for again until it is wrong as it was before. Throws UNUSABLE then. */
export const untilSameFault = async <T>(ask: () => Promise<T>): Promise<T> => {
  const before: string[] = []
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isEtlError(error) || error.fault === null || error.retry !== 'now') throw error
      if (before.some((fault) => isSameFault(error, fault))) throw unusable(error, 'It came so twice')
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
  /** Runs in which a person asked for one all the same, and which one that was. */
  forcedBy: new Map<number, ShapeWaiter>(),
})

const shapes = new Map<string, Shape>()

/** One or two bad answers are their units'; a third one in a row with the same fault is the service's. */
const enough = 3
/** Then one more is asked for; where that cannot be read either, after three times as long. */
const firstWaitMs = 10 * 60_000
const longestWaitMs = 6 * 3_600_000

interface ShapeWaiter {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** The unit, for the message. */
  readonly unit: string
  /** The run in which a person said that it is to be asked for whatever came before; null: no person did. */
  readonly forcedBy: number | null
}

/**
 * Asks, alone where the shape is not proved; `ask` throws UNUSABLE for an answer that cannot be read, and awaits `letOthers` before it tries again what
 * came to nothing: then another one has the turn. Throws without asking where several units in a row had an answer that cannot be read, all for the same
 * fault, until it is time for another try, or a person forces one: one a run.
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

/** Of those that wait for one try only the first makes the next. @returns ends the turn */
const takeTurn = async (shape: Shape, waiter: ShapeWaiter): Promise<() => void> => {
  while (!shape.isGood && shape.trying !== null) await orAborted(shape.trying, waiter.signal)
  if (!shape.isGood && waiter.clock.now() < shape.badUntilMs) mayForce(shape, waiter)
  const over = Promise.withResolvers<void>()
  if (!shape.isGood) shape.trying = over.promise
  return () => {
    if (shape.trying === over.promise) shape.trying = null
    over.resolve()
  }
}

/** Throws where the run was not forced, or another one of it had its try. */
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
    `${unit}: not asked for, nothing was paid: answers come in a shape that cannot be read. A run after ${until} UTC asks for one again; \`millrace backfill … --force\` does at once. ${last?.message}`,
    { follows: { next: 'retry', inMs: 60_000, isFinal: true } },
  )
}
