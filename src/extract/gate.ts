// A service that is away, or refuses everything, is noticed once for all requests of an account: they wait while one at a time tries it again.
import type { Clock } from '../core/clock.ts'
import type { EtlError } from '../core/errors.ts'
import {
  createPlaces,
  firstPauseMs,
  type GateOptions,
  type Met,
  type Place,
  type Places,
  type Shut,
  turnMs,
} from './gate-place.ts'
import { type Finding, type Gate, type Waiter, wholeAccount } from './gate-types.ts'

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
            if (isProbe && place.shut !== null) places.failedAgain(place, place.shut, finding, waiter.what)
            else places.failed(place, finding, waiter.what)
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
    const met = metBy(shut, waiter, now)
    const nextMs = shut.nextMs + (waiter.what !== undefined && shut.triedBy === waiter.what ? turnMs : 0)
    const leftMs = met.sinceMs + patience.deadlineMs - now
    if (leftMs <= 0 || (!shut.isLasting && shut.tries - met.tries >= patience.attempts))
      throw away(place, shut, met, { now, final: true, notBefore: Math.max(now, nextMs) })
    if (!shut.isProbed && now >= nextMs) {
      shut.isProbed = true
      return true
    }
    const waitMs = shut.isProbed ? Math.max(firstPauseMs, nextMs - now) : nextMs - now
    if (waitMs > waiter.longestPauseMs) throw away(place, shut, met, { now, final: waitMs >= leftMs, notBefore: now + waitMs })
    await wokenOr(clock, places.changed(), Math.min(leftMs, longestSleepMs, shut.isProbed ? longestSleepMs : waitMs), signal)
  }
}

/** Timers of a month fire at once. */
const longestSleepMs = 3_600_000

/** A run that comes first, and one that comes while the first pause lasts, has met the trouble when it began. */
const metBy = (shut: Shut, { run }: Waiter, now: number): Met => {
  const known = shut.met.get(run)
  if (known !== undefined) return known
  const isFresh = shut.tries === 0 && now <= shut.nextMs
  const met = { sinceMs: isFresh ? shut.sinceMs : now, tries: shut.tries }
  shut.met.set(run, met)
  return met
}

const wokenOr = async (clock: Clock, changed: Promise<void>, ms: number, signal: AbortSignal): Promise<void> => {
  const over = new AbortController()
  const stopped = Promise.withResolvers<never>()
  const onAbort = (): void => stopped.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const waits: Promise<void>[] = [changed, stopped.promise, clock.sleep(ms, over.signal)]
  try {
    await Promise.race(waits)
  } finally {
    signal.removeEventListener('abort', onAbort)
    for (const wait of waits) wait.catch(() => undefined)
    over.abort()
  }
}

const away = (
  { name }: Place,
  { error, tries }: Shut,
  met: Met,
  { now, final, notBefore }: { now: number; final: boolean; notBefore: number },
): EtlError => {
  const own = tries - met.tries + (met.tries === 0 ? 1 : 0)
  const lasted = own < 2 ? '' : ` Tried ${own} times in ${Math.max(1, Math.round((now - met.sinceMs) / 1000))} s.`
  const follows = { next: 'wait for the service', place: name, isFinal: final } as const
  return error.with(`${error.message}${lasted}`, { notBefore, sent: false, follows })
}
