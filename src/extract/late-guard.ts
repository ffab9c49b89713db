// What a request that reaches the service late costs those behind it, so that no second sees more of them than is allowed.
import type { Clock } from '../core/clock.ts'

/** A request on its way. */
export interface Departure {
  /** The service has counted the request by now, whatever it said, or will not any more. Only the first call matters. */
  answered(): void
}

/** A request on its way, of which the budget learns how fast it may go. */
export interface JudgedDeparture extends Departure {
  /** What the service said: that there are too many requests, or anything else. Not to be called where it said nothing. */
  judged(isRefused: boolean): void
}

/** Sees that requests which left late are not counted by the service in a second too full. */
export interface LateGuard {
  /** @param plannedAt its place in the row; it leaves now. */
  departed(plannedAt: number): Departure
}

/** Milliseconds throughout. */
export interface LateGuardOptions {
  readonly clock: Clock
  /** Between two places in the row, as of now. */
  readonly spacingMs: () => number
  /** Requests may leave or be counted this much too late without harm, as of now. */
  readonly toleratedMs: () => number
  /** Moves everything behind by so much. */
  readonly standStill: (ms: number) => void
}

/** Requests that tell how long one takes when nothing delays it. */
const remembered = 16
/** Where lateness is the service's own way, it must not cost more of the rate than this share: with `usedShare` some 95 % of it are left. */
const mostSpentShare = 0.02
const mostSavedMs = 1_000
/** What was counted longer ago than the service looks back harms nobody. */
const secondMs = 1_000

interface Trip {
  readonly plannedAt: number
  paidMs: number
}

/**
 * A request that left at its time and was held up on the way is counted in a second that is full without it. Nobody tells when it was
 * counted, but its answer says that it was; what the answer took longer than the quickest of late is how late it may have been. One
 * place of the row is then left empty, or a part of one: enough, whenever it was counted since. Requests that are less late than a place is long keep
 * their order: what everything behind was moved since they were due serves all of them.
 */
export const createLateGuard = ({ clock, spacingMs, toleratedMs, standStill }: LateGuardOptions): LateGuard => {
  const spend = savings(clock)
  let moved: { readonly at: number; readonly ms: number }[] = []
  const movedSince = (from: number): number => moved.reduce((sum, { at, ms }) => (at >= from ? sum + ms : sum), 0)
  const owe = (trip: Trip, lateMs: number): void => {
    const [now, spacing] = [clock.now(), spacingMs()]
    const isInOrder = lateMs < spacing
    moved = moved.filter(({ at }) => at > now - 2 * secondMs)
    const paid = isInOrder ? movedSince(trip.plannedAt) : trip.paidMs
    const ms = spend(Math.min(lateMs - toleratedMs(), spacing) - paid)
    if (ms === 0) return
    trip.paidMs += ms
    if (isInOrder) moved.push({ at: now, ms })
    standStill(ms)
  }
  const [left, answered] = [overQuickest(clock, owe), overQuickest(clock, owe)]
  return {
    departed: (plannedAt) => {
      const trip = { plannedAt, paidMs: 0 }
      left(trip)
      let isAnswered = false
      return {
        answered: () => {
          if (isAnswered) return
          isAnswered = true
          answered(trip)
        },
      }
    },
  }
}

/** Says how much longer each took until now than the quickest of late; again when a quicker one shows that others were late. */
const overQuickest = (clock: Clock, owe: (trip: Trip, lateMs: number) => void): ((trip: Trip) => void) => {
  const recent: { readonly trip: Trip; readonly tookMs: number }[] = []
  return (trip) => {
    const now = clock.now()
    // A clock may be set back.
    recent.push({ trip, tookMs: Math.max(0, now - trip.plannedAt) })
    if (recent.length > remembered) recent.shift()
    const quickest = Math.min(...recent.map(({ tookMs }) => tookMs))
    for (const other of recent)
      if (other.trip.plannedAt > now - secondMs || other.trip === trip) owe(other.trip, other.tookMs - quickest)
  }
}

/** Grants as much of what is asked for as was saved; less than a millisecond is not worth a word to the others. */
const savings = (clock: Clock): ((ms: number) => number) => {
  let saved = mostSavedMs
  let at = clock.now()
  return (ms) => {
    const now = clock.now()
    saved = Math.min(mostSavedMs, saved + Math.max(0, now - at) * mostSpentShare)
    at = now
    const granted = Math.min(ms, saved)
    if (granted < 1) return 0
    saved -= granted
    return granted
  }
}
