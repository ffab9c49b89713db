// A service that is away, or refuses everything, is noticed once for all requests of an account: they wait while one at a time tries it again.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import { createPlaces, firstPauseMs, type GateOptions, type Place, type Places, type Shut } from './gate-place.ts'
import { type Finding, type Gate, type Patience, type Waiter, wholeAccount } from './gate-types.ts'

/** One for each account of an API. */
export const createGate = (options: GateOptions): Gate => {
  const places = createPlaces(options)
  return {
    isShut: places.isShut,
    pass: async (waiter) => {
      const probed: Place[] = []
      const drop = (): void => {
        for (const place of probed) places.release(place, true)
      }
      try {
        for (const name of waiter.places) {
          const place = places.of(name)
          if (await enter(options.clock, places, place, waiter)) probed.push(place)
        }
      } catch (error) {
        drop()
        throw error
      }
      const shutBefore = new Map(waiter.places.map((name) => [name, places.of(name).shut]))
      const end = (finding: Finding | null): void => {
        for (const name of waiter.places) {
          const place = places.of(name)
          const isProbe = probed.includes(place)
          if (finding?.place === name) {
            if (isProbe && place.shut !== null) places.failedAgain(place, place.shut, finding)
            else places.failed(place, finding)
            // Where the whole account is in trouble nobody knows of the others.
          } else if (finding?.place === wholeAccount) places.release(place, isProbe)
          else if (isProbe || shutBefore.get(name) === place.shut) places.open(place)
        }
      }
      return { end, drop }
    },
  }
}

/** Whether the request is the one that tries; it waits where another does. */
const enter = async (clock: Clock, places: Places, place: Place, waiter: Waiter): Promise<boolean> => {
  const { patience, signal } = waiter
  for (;;) {
    signal.throwIfAborted()
    const { shut } = place
    if (shut === null) return false
    const now = clock.now()
    if (isSpent(shut, patience, now)) {
      if (now < shut.nextMs) throw away(place, shut, { now, final: true, notBefore: shut.nextMs })
      // Nobody has tried for a while: who comes now waits anew.
      shut.tries = 0
      shut.sinceMs = now
    }
    if (!shut.isProbed && now >= shut.nextMs) {
      shut.isProbed = true
      return true
    }
    const waitMs = shut.isProbed ? Math.max(firstPauseMs, shut.nextMs - now) : shut.nextMs - now
    if (waitMs > waiter.longestPauseMs) throw away(place, shut, { now, final: false, notBefore: now + waitMs })
    await wokenOr(clock, places.changed(), shut.isProbed ? null : waitMs, signal)
  }
}

/** @param ms null: until it is woken, or stopped */
const wokenOr = async (clock: Clock, changed: Promise<void>, ms: number | null, signal: AbortSignal): Promise<void> => {
  const over = new AbortController()
  const stopped = Promise.withResolvers<never>()
  const onAbort = (): void => stopped.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const waits: Promise<void>[] = [changed, stopped.promise]
  if (ms !== null) waits.push(clock.sleep(ms, over.signal))
  try {
    await Promise.race(waits)
  } finally {
    signal.removeEventListener('abort', onAbort)
    for (const wait of waits) wait.catch(() => undefined)
    over.abort()
  }
}

const isSpent = ({ tries, sinceMs, isLasting }: Shut, { attempts, deadlineMs }: Patience, now: number): boolean =>
  (!isLasting && tries >= attempts) || now - sinceMs > deadlineMs

const away = (
  { name }: Place,
  { error, sinceMs, tries }: Shut,
  { now, final, notBefore }: { now: number; final: boolean; notBefore: number },
): EtlError => {
  const lasted = tries === 0 ? '' : ` Tried ${tries + 1} times in ${Math.max(1, Math.round((now - sinceMs) / 1000))} s.`
  return new EtlError(error.code, `${error.message}${lasted}`, {
    cause: error,
    notBefore,
    context: { ...error.context, sent: false, away: true, place: name, final },
  })
}
