// The places of a service at the gate: which are in trouble, when each is tried again, and what is said of it.
import type { Clock } from '../core/clock.ts'
import type { EtlError } from '../core/errors.ts'
import type { Finding, Trouble } from './gate-types.ts'

export interface GateOptions {
  readonly clock: Clock
  /** Called when a trouble lasts, at each further try in vain, and with null when it is over. */
  readonly tell: (place: string, trouble: Trouble | null) => void
}

/** Milliseconds; each further pause is three times as long, up to a minute. */
export const firstPauseMs = 1_000
const longestPauseMs = 60_000
/** How long the one that tried in vain lets others try first. */
export const turnMs = 2_000
/** A pause as long as this is said at once; a shorter one when a try after it was in vain. */
const saidFromMs = 5_000

/** When a run met the trouble, and how often it had been tried in vain by then. */
export interface Met {
  readonly sinceMs: number
  readonly tries: number
}

/** A place in trouble. */
export interface Shut {
  sinceMs: number
  error: EtlError
  tries: number
  nextMs: number
  isProbed: boolean
  isSaid: boolean
  isLasting: boolean
  /** What the last one that tried in vain asked after. */
  triedBy: string | undefined
  readonly met: Map<string | symbol, Met>
}

/** What is known of one place; `shut` null: it answers. */
export interface Place {
  readonly name: string
  failures: number
  failedAtMs: number
  shut: Shut | null
}

/** The state behind a gate. */
export interface Places {
  of(name: string): Place
  isShut(name: string): boolean
  /** Resolves when any place changes. */
  changed(): Promise<void>
  /** It answers as it should. */
  open(place: Place): void
  /** Whoever tries it gives up without knowing. */
  release(place: Place, isProbe: boolean): void
  /** The one that tried it found the same. */
  failedAgain(place: Place, shut: Shut, finding: Finding, what: string | undefined): void
  failed(place: Place, finding: Finding, what: string | undefined): void
}

/** In memory: another process finds out by itself. */
export const createPlaces = ({ clock, tell }: GateOptions): Places => {
  const places = new Map<string, Place>()
  let changed = Promise.withResolvers<void>()

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
  const failedAgain = (place: Place, shut: Shut, { error, askedMs }: Finding, what: string | undefined): void => {
    shut.tries += 1
    shut.triedBy = what
    shut.error = error
    shut.nextMs = clock.now() + pauseMs(shut.tries, askedMs)
    shut.isProbed = false
    say(place, shut)
    wake()
  }
  const failed = (place: Place, finding: Finding, what: string | undefined): void => {
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
    const isNew = { tries: 0, isProbed: false, isSaid: false, met: new Map() }
    const shut: Shut = { ...isNew, sinceMs: place.failedAtMs, error, nextMs, isLasting, triedBy: what }
    place.shut = shut
    if (nextMs - now >= saidFromMs || enough > 1) say(place, shut)
  }
  return {
    of: (name) => {
      const place = places.get(name) ?? { name, failures: 0, failedAtMs: 0, shut: null }
      places.set(name, place)
      return place
    },
    isShut: (name) => places.get(name)?.shut != null,
    changed: () => changed.promise,
    ...{ open, release, failedAgain, failed },
  }
}
