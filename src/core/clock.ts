// Time and chance as arguments, so that tests can decide both.
import { addAbortListener } from 'node:events'
import { setTimeout } from 'node:timers/promises'

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
  /** A number in [0, 1). */
  random(): number
}

export const systemClock: Clock = {
  now: () => Date.now(),
  random: () => Math.random(),
  sleep: async (ms, signal) => {
    await setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
      throw signal?.reason ?? error
    })
  },
}

/** A clock for spans within a process: it pauses where the system clock is set back, so that no timer waits for the difference. */
export const monotonicTime = ({ now }: Pick<Clock, 'now'>): (() => number) => {
  let [seenAt, setBackMs] = [now(), 0]
  return () => {
    const at = now()
    setBackMs += Math.max(0, seenAt - at)
    seenAt = at
    return at + setBackMs
  }
}

/** Runs work one after another; an error of earlier work does not stop later work. */
export const createSerialQueue = () => {
  let last: Promise<unknown> = Promise.resolve()
  return <T>(work: () => Promise<T>): Promise<T> => {
    const mine = last.then(work)
    last = mine.catch(() => undefined)
    return mine
  }
}

/** The first call does the work; every later call gets its result, whatever its arguments. */
export const once = <A extends readonly unknown[], T>(work: (...given: A) => T): ((...given: A) => T) => {
  let done: { readonly result: T } | null = null
  return (...given) => {
    done ??= { result: work(...given) }
    return done.result
  }
}

/** Resolves as `waited`, or rejects with the signal's reason as soon as it aborts. */
export const raceAbort = async <T>(waited: Promise<T>, signal: AbortSignal): Promise<T> => {
  signal.throwIfAborted()
  const stopped = Promise.withResolvers<never>()
  const listening = addAbortListener(signal, () => stopped.reject(signal.reason))
  try {
    return await Promise.race([waited, stopped.promise])
  } finally {
    listening[Symbol.dispose]()
  }
}
