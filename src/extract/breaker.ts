// The circuit breaker of an account: once a service is found to be away, or to refuse everything, all requests wait while one at a time probes it.
import { type Clock, monotonicTime } from '../core/clock.ts'
import { type ErrorCode, type EtlError, isEtlError } from '../core/errors.ts'
import { reportAfterMs } from '../core/waiting.ts'

/** Places of a breaker: the account as a whole (no answer, or 429), and each path, for its server errors, a 429 about open reports, or any 429 that others do not get. */
export const wholeAccount = 'the account'

/** How long a run waits for a place in trouble: from the first of its requests that met the trouble, until the place answers again. */
export interface Patience {
  /** Failed probes, of all requests, after which waiting ends. */
  readonly attempts: number
  readonly deadlineMs: number
}

/** A place in trouble, for messages to people. */
export interface Trouble {
  readonly place: string
  readonly code: ErrorCode
  /** What the service says or does. */
  readonly message: string
  readonly lastedMs: number
  /** Until it is tried again. */
  readonly nextInMs: number
}

/** What a request found out about a place. */
export interface Finding {
  readonly place: string
  readonly error: EtlError
  /** How long the service asks to wait; null: it does not say. */
  readonly askedMs: number | null
  /** So many failures in a row put the place in trouble. */
  readonly opensAfter: number
  /** Failed probes do not end the wait, since the cause of the trouble takes time. */
  readonly isLasting: boolean
}

/** A request that wants to pass. */
export interface Waiter {
  readonly places: readonly string[]
  readonly signal: AbortSignal
  readonly patience: Patience
  /** Identifies the request, since it alone may be in trouble: after its probe failed it lets others probe first. Default: the same for all. */
  readonly requestId?: string | undefined
  /** The run whose patience counts: a later run waits anew. */
  readonly run: string | symbol
  /** A longer pause is not waited for here: the error says when to come back. */
  readonly longestPauseMs: number
}

/** Every request of an account passes it. */
export type Breaker = ReturnType<typeof createBreaker>

/**
 * A request between its pass and its verdict. Call `end` once with what is wrong (null: nothing), or `drop` where the request was stopped. `over` aborts as
 * soon as one of its places is in trouble: a request that was not sent by then must ask for another pass.
 */
export type Pass = Awaited<ReturnType<Breaker['pass']>>

/** Whether the error says that this place is in trouble and nothing was sent. */
export const isAwayAt = (error: unknown, place: string): boolean =>
  isEtlError(error) && error.follows?.next === 'wait for the service' && error.follows.place === place

interface BreakerOptions {
  readonly clock: Clock
  /** Called when a trouble lasts, after each further failed probe, and with null when it is over. */
  readonly tell: (place: string, trouble: Trouble | null) => void
}

/** Milliseconds; each further pause is three times as long, up to a minute. */
const firstPauseMs = 1_000
const longestPauseMs = 60_000
/** How long a request whose probe failed lets others probe first. */
const turnMs = 2_000

/** When a run met the trouble, and how many probes had failed by then. */
interface Met {
  readonly sinceMs: number
  readonly tries: number
}

type Open = ReturnType<typeof newOpen>

/** A place in trouble. */
const newOpen = ({ error, isLasting }: Finding, requestId: string | undefined, sinceMs: number, nextMs: number) => ({
  ...{ sinceMs, nextMs, error, isLasting, tries: 0, isProbed: false, isSaid: false },
  /** `requestId` of the request whose probe failed last. */
  triedBy: requestId,
  /** No other request has probed: whether the others are refused, too, is unknown. */
  isOne: requestId !== undefined,
  /** Other requests wait, too: only then the one whose probe failed gives up its turn. */
  hasOthers: false,
  met: new Map<string | symbol, Met>(),
})

type Place = ReturnType<typeof newPlace>

/** What is known of one place; `open` null: it answers. */
const newPlace = (name: string) => ({
  name,
  failures: 0,
  failedAtMs: 0,
  open: null as Open | null,
  trouble: new AbortController(),
})

/** Aborts `over` of every request that has passed and has not left yet. */
const openPlace = (place: Place, open: Open): Open => {
  place.open = open
  place.trouble.abort()
  return open
}

const pauseMs = (clock: Clock, tries: number, askedMs: number | null): number => {
  const own = Math.min(longestPauseMs, firstPauseMs * 3 ** tries) * (0.9 + clock.random() * 0.2)
  return askedMs === null ? own : tries === 0 ? Math.max(50, askedMs) : Math.max(own, askedMs)
}

/** In memory: each process finds troubles by itself, except those of the whole account (`rate.ts`). */
const createPlaces = ({ clock, tell }: BreakerOptions) => {
  const steadyNow = monotonicTime(clock)
  const places = new Map<string, Place>()
  let changed = Promise.withResolvers<void>()

  const wake = (): void => {
    changed.resolve()
    changed = Promise.withResolvers<void>()
  }
  const say = (place: Place, open: Open): void => {
    open.isSaid = true
    const { error, sinceMs, nextMs } = open
    const spans = { lastedMs: steadyNow() - sinceMs, nextInMs: Math.max(0, nextMs - steadyNow()) }
    tell(place.name, { place: place.name, code: error.code, message: error.message, ...spans })
  }
  /** The place answers as it should. */
  const close = (place: Place): void => {
    const { open } = place
    place.failures = 0
    if (open === null) return
    Object.assign(place, newPlace(place.name))
    if (open.isSaid) tell(place.name, null)
    wake()
  }
  /** The probe ends without a result. */
  const giveUp = ({ open }: Place, isProbe: boolean): void => {
    if (open === null || !isProbe) return
    open.isProbed = false
    wake()
  }
  /** The probe failed, too. */
  const failedAgain = (place: Place, open: Open, { error, askedMs }: Finding, requestId: string | undefined): void => {
    open.tries += 1
    open.isOne &&= requestId === open.triedBy
    open.triedBy = requestId
    open.error = error
    open.nextMs = steadyNow() + pauseMs(clock, open.tries, askedMs)
    open.isProbed = false
    say(place, open)
    wake()
  }
  const failed = (place: Place, finding: Finding, requestId: string | undefined): void => {
    const { askedMs, opensAfter } = finding
    const now = steadyNow()
    if (place.open !== null) {
      if (askedMs === null) return
      place.open.nextMs = Math.max(place.open.nextMs, now + askedMs)
      if (askedMs >= reportAfterMs && !place.open.isSaid) say(place, place.open)
      return
    }
    if (place.failures === 0) place.failedAtMs = now
    place.failures += 1
    if (place.failures < opensAfter) return
    const nextMs = now + pauseMs(clock, 0, askedMs)
    const open = openPlace(place, newOpen(finding, requestId, place.failedAtMs, nextMs))
    if (nextMs - now >= reportAfterMs || opensAfter > 1) say(place, open)
  }
  return {
    of: (name: string): Place => {
      const place = places.get(name) ?? newPlace(name)
      places.set(name, place)
      return place
    },
    isOpen: (name: string): boolean => places.get(name)?.open != null,
    now: steadyNow,
    /** Resolves when any place changes. */
    changed: (): Promise<void> => changed.promise,
    ...{ say, close, giveUp, failedAgain, failed },
  }
}

type Places = ReturnType<typeof createPlaces>

/** One for each account of an API. */
export const createBreaker = (options: BreakerOptions) => {
  const places = createPlaces(options)
  return {
    isOpen: places.isOpen,
    /** Resolves when the request may be sent. Throws the place's trouble with `notBefore`; `isFinal` where the patience of the run is spent. */
    pass: async (waiter: Waiter) => {
      const probed: Place[] = []
      const drop = (): void => {
        for (const place of probed) places.giveUp(place, true)
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
      const openBefore = new Map(waiter.places.map((name) => [name, places.of(name).open]))
      const well = waiter.places.map(places.of).filter(({ open }) => open === null)
      const end = (finding: Finding | null): void => {
        for (const name of waiter.places) {
          const place = places.of(name)
          const isProbe = probed.includes(place)
          if (finding?.place === name) {
            if (isProbe && place.open !== null) places.failedAgain(place, place.open, finding, waiter.requestId)
            else places.failed(place, finding, waiter.requestId)
            // If the whole account is in trouble, nothing is known of the other places.
          } else if (finding?.place === wholeAccount) places.giveUp(place, isProbe)
          else if (isProbe || openBefore.get(name) === place.open) places.close(place)
        }
      }
      return { end, drop, over: AbortSignal.any(well.map(({ trouble }) => trouble.signal)) }
    },
  }
}

/** Waits until the request may pass. True: it is the probe, so other requests wait for it. */
const enter = async (clock: Clock, places: Places, place: Place, waiter: Waiter): Promise<boolean> => {
  const { patience, signal } = waiter
  for (;;) {
    signal.throwIfAborted()
    const { open } = place
    if (open === null) return false
    const now = places.now()
    const met = metBy(open, waiter, now)
    const hasTried = waiter.requestId !== undefined && open.triedBy === waiter.requestId
    open.hasOthers ||= !hasTried
    const nextMs = open.nextMs + (hasTried && open.hasOthers ? turnMs : 0)
    const leftMs = met.sinceMs + patience.deadlineMs - now
    if (leftMs <= 0 || (!open.isLasting && (hasTried || !open.isOne) && open.tries - met.tries >= patience.attempts))
      throw away(place, open, met, { now, final: true, notBefore: clock.now() + Math.max(0, nextMs - now) })
    if (!open.isProbed && now >= nextMs) {
      open.isProbed = true
      return true
    }
    const waitMs = open.isProbed ? Math.max(firstPauseMs, nextMs - now) : nextMs - now
    if (waitMs > waiter.longestPauseMs)
      throw away(place, open, met, { now, final: waitMs >= leftMs, notBefore: clock.now() + waitMs })
    if (waitMs >= reportAfterMs && !open.isSaid) places.say(place, open)
    await wokenOr(clock, places.changed(), Math.min(leftMs, longestSleepMs, open.isProbed ? longestSleepMs : waitMs), signal)
  }
}

/** A timer of more than 24 days fires at once in Node. */
const longestSleepMs = 3_600_000

/** A run that comes first, or during the first pause, has met the trouble when it began. */
const metBy = (open: Open, { run }: Waiter, now: number): Met => {
  const known = open.met.get(run)
  if (known !== undefined) return known
  const isFresh = open.tries === 0 && now <= open.nextMs
  const met = { sinceMs: isFresh ? open.sinceMs : now, tries: open.tries }
  open.met.set(run, met)
  return met
}

const wokenOr = async (clock: Clock, changed: Promise<void>, ms: number, signal: AbortSignal): Promise<void> => {
  const over = new AbortController()
  const slept = clock.sleep(ms, AbortSignal.any([signal, over.signal]))
  slept.catch(() => undefined)
  try {
    await Promise.race([changed, slept])
  } finally {
    over.abort()
  }
}

const away = (
  { name }: Place,
  { error, tries }: Open,
  met: Met,
  { now, final, notBefore }: { now: number; final: boolean; notBefore: number },
): EtlError => {
  const own = tries - met.tries + (met.tries === 0 ? 1 : 0)
  const lasted = own < 2 ? '' : ` Tried ${own} times in ${Math.max(1, Math.round((now - met.sinceMs) / 1000))} s.`
  const follows = { next: 'wait for the service', place: name, isFinal: final } as const
  return error.with(`${error.message}${lasted}`, { notBefore, sent: false, follows })
}
