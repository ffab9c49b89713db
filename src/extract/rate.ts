// One budget of requests a second for everything that asks with the same key.
import type { Clock } from '../core/clock.ts'
import type { PaceMemory } from '../core/pace.ts'
import { createLateGuard, type Departure, type JudgedDeparture, type LateGuard } from './late-guard.ts'
import { createPacer, ownMemory, type Pacer } from './pacer.ts'
import { createLanes } from './rate-lanes.ts'

export interface RateBudget {
  /**
   * Resolves when the next request may leave; the caller says when that is answered, and how: an answer 429 halves the rate for
   * everybody who shares it. Lanes (runs) are served in turn, within one first come, first served. Rejects with the signal's reason as soon as it
   * aborts.
   */
  take(signal: AbortSignal, lane: string): Promise<JudgedDeparture>
  /** The service asked for a pause: nothing leaves before `untilMs` (since the epoch), also who is waiting already. */
  penalize(untilMs: number): void
}

/** Where all machines that use the same key count their departures. A window begins with the first departure in it. */
export interface SharedWindows {
  /**
   * Takes `points` of the window at hand, which may hold `pointsOfWindow` and lasts `windowMs` if it begins now. `nextMs`: how long
   * until it is worth to ask again, 0 at once.
   */
  take(points: number, pointsOfWindow: number, windowMs: number): Promise<{ readonly granted: boolean; readonly nextMs: number }>
  /** Nobody gets anything for so long; never makes an earlier pause shorter. */
  pause(ms: number): Promise<void>
  /** The window at hand, or one that begins and is full now, ends so much later. */
  extend(ms: number): Promise<void>
}

/** What a budget is made of. */
export interface RateOptions {
  /** As set: never exceeded, and less from the first answer 429 on. */
  readonly requestsPerSecond: number
  readonly clock: Clock
  /** Absent: this process is the only one that asks. */
  readonly shared?: SharedWindows | undefined
  /** Where what refusals teach is kept. Default: in this process. */
  readonly memory?: PaceMemory | undefined
}

/** Share of the allowed rate that is used: the rest is what requests may be held up on a busy machine without an eleventh in a second of ten. */
const usedShare = 0.975
/** A departure this late keeps its place in the row, so that timers that fire late cost no rate; more would make a burst. */
const forgivenShare = 0.1

/** Evenly spaced departures: a server that counts over any sliding second sees no more than it allows. */
export const createRateBudget = (options: RateOptions): RateBudget => {
  const { requestsPerSecond, clock, shared, memory = ownMemory(clock) } = options
  const pacer = createPacer({ configured: requestsPerSecond, clock, memory })
  const departures = shared === undefined ? ownDepartures(clock, pacer) : sharedDepartures(clock, pacer, shared)
  const depart = async (signal: AbortSignal): Promise<JudgedDeparture> => {
    const from = clock.now()
    await pacer.refresh()
    const departure = await departures.depart(signal)
    const leftAt = clock.now()
    pacer.left(leftAt > from)
    const judged = (isRefused: boolean): void => {
      pacer.judged(leftAt, isRefused)
      if (isRefused) departures.beginAnew()
    }
    return { answered: departure.answered, judged }
  }
  return { take: createLanes(depart).take, penalize: departures.pauseUntil }
}

interface Departures {
  depart(signal: AbortSignal): Promise<Departure>
  pauseUntil(untilMs: number): void
  /** What was granted at a former rate is not used any more. */
  beginAnew(): void
}

/** A moment to wait for. Where the clock is set back, as the database's may be, it keeps its distance: nobody waits for the difference. */
const createDeadline = (clock: Clock) => {
  let [until, seenAt] = [0, clock.now()]
  return {
    get: (): number => {
      const now = clock.now()
      if (now < seenAt) until -= seenAt - now
      seenAt = now
      return until
    },
    set: (moment: number): void => {
      until = moment
      seenAt = clock.now()
    },
  }
}

/** Half of what a second's departures take longer than a second: one may be as late as the other is early. */
const toleratedMs = (requestsPerSecond: number, spacingMs: number): number => (requestsPerSecond * spacingMs - 1000) / 2

const ownDepartures = (clock: Clock, pacer: Pacer): Departures => {
  const spacingMs = (): number => 1000 / (pacer.rate() * usedShare)
  const next = createDeadline(clock)
  const guard = createLateGuard({
    clock,
    spacingMs,
    toleratedMs: () => toleratedMs(pacer.rate(), spacingMs()),
    standStill: (ms) => {
      next.set(Math.max(next.get(), clock.now()) + ms)
    },
  })
  return {
    depart: async (signal) => {
      signal.throwIfAborted()
      // Looked at again after each sleep: a pause may have been asked for meanwhile, and timers may fire early.
      for (let wait = next.get() - clock.now(); wait > 0; wait = next.get() - clock.now()) await clock.sleep(wait, signal)
      const spacing = spacingMs()
      const plannedAt = Math.max(next.get(), clock.now() - spacing * forgivenShare)
      next.set(plannedAt + spacing)
      return guard.departed(plannedAt)
    },
    pauseUntil: (untilMs) => {
      next.set(Math.max(next.get(), untilMs))
    },
    beginAnew: () => undefined,
  }
}

interface WindowShape {
  readonly points: number
  readonly windowMs: number
  /** Points taken with one question. */
  readonly portion: number
}

/** From this many a second on nobody waits for a place, but everybody for the question: it is asked four times a second, not twenty. */
const fastFrom = 1_000

/**
 * One departure a window where few are allowed, so that they are evenly spaced; more where a question for each would cost more than the
 * request. Any sliding second touches one window more than fits into it, hence the points taken off the rate.
 */
export const windowShape = (requestsPerSecond: number): WindowShape => {
  if (requestsPerSecond >= fastFrom) {
    const points = Math.floor(requestsPerSecond / 5)
    return { points, windowMs: 250, portion: Math.floor(points / 8) }
  }
  const points = Math.max(1, Math.floor(requestsPerSecond / 20))
  if (points === 1) return { points, windowMs: Math.ceil(1000 / (requestsPerSecond * usedShare)), portion: 1 }
  return {
    points,
    windowMs: Math.ceil(1000 / (Math.floor(requestsPerSecond / points) - 1)),
    portion: Math.max(1, Math.floor(points / 8)),
  }
}

/** Where many leave with one question, their lateness is lost among them. */
const unguarded: LateGuard = { departed: () => ({ answered: () => undefined }) }

/** Words to the other machines, one after the other. Nobody waits for them, but a failure is thrown to whoever asks next. */
const createTelling = () => {
  let last: Promise<unknown> = Promise.resolve()
  return {
    tell: (what: () => Promise<void>): void => {
      last = last.then(what)
      last.catch(() => undefined)
    },
    settled: async (): Promise<void> => {
      const saying = last
      last = Promise.resolve()
      await saying
    },
  }
}

const sharedDepartures = (clock: Clock, pacer: Pacer, shared: SharedWindows): Departures => {
  /** Of the window asked for last. */
  let shape = windowShape(pacer.rate())
  let inHand = 0
  let inHandUntil = 0
  let plannedAt = 0
  const expected = createDeadline(clock)
  const pausedUntil = createDeadline(clock)
  const { tell, settled } = createTelling()
  const standStill = (ms: number): void => {
    expected.set(Math.max(expected.get(), clock.now()) + ms)
    tell(() => shared.extend(ms))
  }
  const spaced = createLateGuard({
    clock,
    spacingMs: () => shape.windowMs,
    toleratedMs: () => toleratedMs(pacer.rate(), shape.windowMs),
    standStill,
  })
  /** Lateness since the window's end that nobody else can have used. */
  const forgiven = (): number => {
    const late = clock.now() - Math.max(expected.get(), pausedUntil.get())
    return late < shape.windowMs / 2 ? Math.max(0, Math.min(late, shape.windowMs * forgivenShare)) : 0
  }
  const ask = async (): Promise<boolean> => {
    await settled()
    shape = windowShape(pacer.rate())
    const { points, windowMs, portion } = shape
    const early = points === 1 ? forgiven() : 0
    const from = clock.now() - early
    const { granted, nextMs } = await shared.take(portion, points, windowMs - early)
    expected.set(clock.now() + nextMs)
    if (granted) {
      inHand = portion
      inHandUntil = clock.now() + windowMs
      plannedAt = from
    }
    return granted
  }
  return {
    depart: async (signal) => {
      for (;;) {
        signal.throwIfAborted()
        const now = clock.now()
        const allowed = inHand > 0 && now < inHandUntil && now >= pausedUntil.get()
        const wait = allowed ? 0 : Math.max(expected.get(), pausedUntil.get()) - now
        if (wait > 0) await clock.sleep(wait, signal)
        else if (allowed || (await ask())) {
          inHand -= 1
          return (shape.points > 1 ? unguarded : spaced).departed(plannedAt)
        }
      }
    },
    pauseUntil: (untilMs) => {
      pausedUntil.set(Math.max(pausedUntil.get(), untilMs))
      tell(() => shared.pause(untilMs - clock.now()))
    },
    beginAnew: () => {
      inHand = 0
    },
  }
}
