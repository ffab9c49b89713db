// A service that is away, or refuses everything, is noticed once for all requests of an account: they wait while one at a time tries it again.
import type { Clock } from '../core/clock.ts'
import { EtlError } from '../core/errors.ts'
import { type Finding, type Gate, type Patience, type Trouble, type Waiter, wholeAccount } from './gate-types.ts'

export interface GateOptions {
  readonly clock: Clock
  /** Told when a trouble lasts, at each further try in vain, and with null when it is over. */
  readonly tell: (place: string, trouble: Trouble | null) => void
}

const firstPauseMs = 1_000
const longestPauseMs = 60_000
/** A pause as long as this is said at once; a shorter one when a try after it was in vain. */
const saidFromMs = 5_000

interface Shut {
  sinceMs: number
  error: EtlError
  tries: number
  nextMs: number
  isProbed: boolean
  isSaid: boolean
  isLasting: boolean
}

interface Place {
  readonly name: string
  failures: number
  failedAtMs: number
  shut: Shut | null
}

export const createGate = ({ clock, tell }: GateOptions): Gate => {
  const places = new Map<string, Place>()
  let changed = Promise.withResolvers<void>()

  const placeOf = (name: string): Place => {
    const place = places.get(name) ?? { name, failures: 0, failedAtMs: 0, shut: null }
    places.set(name, place)
    return place
  }
  const wake = (): void => {
    changed.resolve()
    changed = Promise.withResolvers<void>()
  }
  const pauseMs = (tries: number, askedMs: number | null): number => {
    const own = Math.min(longestPauseMs, firstPauseMs * 3 ** tries) * (0.9 + clock.random() * 0.2)
    return askedMs === null ? own : tries === 0 ? Math.max(50, askedMs) : Math.max(own, askedMs)
  }
  const say = (place: Place, shut: Shut): void => {
    shut.isSaid = true
    const { error, sinceMs, nextMs } = shut
    tell(place.name, { place: place.name, code: error.code, message: error.message, sinceMs, nextMs })
  }
  const open = (place: Place): void => {
    const { shut } = place
    place.shut = null
    place.failures = 0
    if (shut === null) return
    if (shut.isSaid) tell(place.name, null)
    wake()
  }
  const release = ({ shut }: Place, isProbe: boolean): void => {
    if (shut === null || !isProbe) return
    shut.isProbed = false
    wake()
  }
  const failedAgain = (place: Place, shut: Shut, { error, askedMs }: Finding): void => {
    shut.tries += 1
    shut.error = error
    shut.nextMs = clock.now() + pauseMs(shut.tries, askedMs)
    shut.isProbed = false
    say(place, shut)
    wake()
  }
  const failed = (place: Place, finding: Finding): void => {
    const { error, askedMs, enough, isLasting } = finding
    const now = clock.now()
    if (place.shut !== null) {
      if (askedMs !== null) place.shut.nextMs = Math.max(place.shut.nextMs, now + askedMs)
      return
    }
    if (place.failures === 0) place.failedAtMs = now
    place.failures += 1
    if (place.failures < enough) return
    const nextMs = now + pauseMs(0, askedMs)
    const shut = { sinceMs: place.failedAtMs, error, tries: 0, nextMs, isProbed: false, isSaid: false, isLasting }
    place.shut = shut
    if (nextMs - now >= saidFromMs || enough > 1) say(place, shut)
  }

  /** Whether the request is the one that tries; it waits where another does. */
  const enter = async (place: Place, waiter: Waiter): Promise<boolean> => {
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
      await wokenOr(shut.isProbed ? null : waitMs, signal)
    }
  }
  /** @param ms null: until it is woken, or stopped */
  const wokenOr = async (ms: number | null, signal: AbortSignal): Promise<void> => {
    const over = new AbortController()
    const stopped = Promise.withResolvers<never>()
    const onAbort = (): void => stopped.reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const waits: Promise<void>[] = [changed.promise, stopped.promise]
    if (ms !== null) waits.push(clock.sleep(ms, over.signal))
    try {
      await Promise.race(waits)
    } finally {
      signal.removeEventListener('abort', onAbort)
      for (const wait of waits) wait.catch(() => undefined)
      over.abort()
    }
  }
  return {
    isShut: (name) => places.get(name)?.shut != null,
    pass: async (waiter) => {
      const probed: Place[] = []
      const drop = (): void => {
        for (const place of probed) release(place, true)
      }
      try {
        for (const name of waiter.places) {
          const place = placeOf(name)
          if (await enter(place, waiter)) probed.push(place)
        }
      } catch (error) {
        drop()
        throw error
      }
      const shutBefore = new Map(waiter.places.map((name) => [name, placeOf(name).shut]))
      const end = (finding: Finding | null): void => {
        for (const name of waiter.places) {
          const place = placeOf(name)
          const isProbe = probed.includes(place)
          if (finding?.place === name) {
            if (isProbe && place.shut !== null) failedAgain(place, place.shut, finding)
            else failed(place, finding)
            // Where the whole account is in trouble nobody knows of the others.
          } else if (finding?.place === wholeAccount) release(place, isProbe)
          else if (isProbe || shutBefore.get(name) === place.shut) open(place)
        }
      }
      return { end, drop }
    },
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
