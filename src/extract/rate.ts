// One budget of requests a second for all requests with the same key: evenly spaced, in turn, and slower once the service refuses.
import { type Clock, raceAbort, monotonicTime } from '../core/clock.ts'
import { type AccountRow, slotToleranceMs, type LearnedRate, rateOf, rateAfterRefusal } from '../core/pace.ts'
import { reportAfterMs } from '../core/waiting.ts'

/** Call with the service's verdict on a request: for how long it refuses more of them; null: it took this one. Do not call without an answer. */
export type Verdict = (refusedForMs: number | null) => void

export type RateBudget = ReturnType<typeof createRateBudget>

/** What a budget is made of. */
interface RateOptions {
  /** As set: never exceeded, and less from the first answer 429 on. */
  readonly requestsPerSecond: number
  readonly clock: Clock
  /** Where all processes count. Default: in this process, as the only one that sends requests. */
  readonly account?: AccountRow | undefined
  /** Called before a wait of seconds, with its milliseconds and the reason: the service asked for fewer requests, or (false) the configured rate. */
  readonly onPause?: (ms: number, isAsked: boolean) => void
}

/** Share of the allowed rate that is used, so that a request which was held up is not the eleventh within a second of ten. */
const usedShare = 0.965
/** The row is asked no more often than this; a high rate reserves several departures at once. */
const turnsPerSecond = 40
const secondMs = 1_000
/** No pause that the service asked for is longer. */
const longestPauseMs = 60_000
/** If at least this share of a second's departures had to wait, the budget is fully used. */
const heldBackShare = 0.5

const isAsked = (learnt: LearnedRate | null, configured: number): boolean =>
  learnt !== null && (learnt.refusedMsAgo < longestPauseMs || rateOf(learnt, configured) < configured)

const aged = (learnt: LearnedRate | null, ms: number): LearnedRate | null =>
  learnt && { ...learnt, changedMsAgo: learnt.changedMsAgo + ms, refusedMsAgo: learnt.refusedMsAgo + ms }

/** The account of a process that shares it with no other. */
export const ownAccount = (clock: Clock): AccountRow => {
  const now = monotonicTime(clock)
  let [nextAt, learntAt] = [0, 0]
  let learnt: LearnedRate | null = null
  const current = (): LearnedRate | null => aged(learnt, now() - learntAt)
  return {
    reserve: async (ms) => {
      const at = Math.max(nextAt, now() - slotToleranceMs)
      nextAt = at + ms
      return { waitMs: at - now(), learnt: current() }
    },
    refused: async (refusal, pauseMs) => {
      const found = rateAfterRefusal(current(), refusal)
      nextAt = Math.max(nextAt, now() + pauseMs)
      learnt = found
      learntAt = now()
      return found
    },
  }
}

/** Departures of the last second. */
const lastSecond = (now: () => number) => {
  const recent: { readonly at: number; readonly waited: boolean }[] = []
  return {
    left: (waited: boolean): void => {
      const at = now()
      while ((recent[0]?.at ?? at) < at - secondMs) recent.shift()
      recent.push({ at, waited })
    },
    /** How many requests left; null: the budget was fully used, so their number says nothing. */
    used: (): number | null =>
      recent.filter(({ waited }) => waited).length >= recent.length * heldBackShare ? null : recent.length,
  }
}

/**
 * A server that counts over any sliding second sees no more than it allows, whatever number of processes asks. `take` resolves when the next request may leave.
 * Lanes (runs) are served in turn, within one first come, first served. It rejects with the signal's reason as soon as that aborts.
 */
export const createRateBudget = (options: RateOptions) => {
  const { requestsPerSecond: configured, clock, account = ownAccount(clock), onPause = () => undefined } = options
  const now = monotonicTime(clock)
  let learnt: LearnedRate | null = null
  let learntAt: number | null = null
  let succeededAt: number | null = null
  /** Departures reserved and not used yet. */
  let inHand = { count: 0, nextAt: 0, spacingMs: 0 }
  /** Refusals that are being written to the row, one at a time. No caller waits for them, but a failure is thrown to the next one that reserves. */
  let telling: Promise<unknown> = Promise.resolve()
  const { left, used } = lastSecond(now)

  const keep = (found: LearnedRate | null): void => {
    learnt = found
    learntAt = now()
  }
  const current = (): LearnedRate | null => aged(learnt, now() - (learntAt ?? 0))
  const reserve = async (): Promise<void> => {
    const told = telling
    telling = Promise.resolve()
    await told
    if (learntAt === null) keep((await account.reserve(0)).learnt)
    const perSecond = rateOf(current(), configured)
    const count = Math.max(1, Math.floor(perSecond / turnsPerSecond))
    const spacingMs = secondMs / (perSecond * usedShare)
    const turn = await account.reserve(count * spacingMs)
    keep(turn.learnt)
    inHand = { count, nextAt: now() + Math.max(0, turn.waitMs), spacingMs }
  }
  /** Missed departures are not made up for: that would be a burst. */
  const dropMissed = (): void => {
    const { count, nextAt, spacingMs } = inHand
    const missed = count === 0 ? 0 : Math.min(count, Math.max(0, Math.ceil((now() - slotToleranceMs - nextAt) / spacingMs)))
    inHand = { count: count - missed, nextAt: nextAt + missed * spacingMs, spacingMs }
  }
  const refused = (leftAt: number, pauseMs: number): void => {
    const succeededMsAgo = succeededAt === null ? null : now() - succeededAt
    const refusal = { leftMsAgo: now() - leftAt, succeededMsAgo, perSecond: used(), configured }
    // Applied here at once; what other processes have learned comes with the reply.
    keep(rateAfterRefusal(current(), refusal))
    inHand = { ...inHand, count: 0 }
    telling = telling.then(() => account.refused(refusal, pauseMs)).then(keep)
    telling.catch(() => undefined)
  }
  const depart = async (signal: AbortSignal): Promise<Verdict> => {
    let waited = false
    for (;;) {
      signal.throwIfAborted()
      dropMissed()
      const waitMs = inHand.nextAt - now()
      if (inHand.count === 0) await reserve()
      else if (waitMs > 0) {
        waited = true
        if (waitMs >= reportAfterMs) onPause(waitMs, isAsked(current(), configured))
        await clock.sleep(waitMs, signal)
      } else break
    }
    inHand = { ...inHand, count: inHand.count - 1, nextAt: inHand.nextAt + inHand.spacingMs }
    left(waited)
    const leftAt = now()
    return (refusedForMs) => {
      if (refusedForMs === null) succeededAt = now()
      else refused(leftAt, refusedForMs)
    }
  }
  return { take: inTurn(depart) }
}

interface Waiting<T> {
  readonly signal: AbortSignal
  readonly settle: PromiseWithResolvers<T>
}

/** One departure at a time, from each lane in turn, however many requests a lane has waiting: so a large run does not hold up a small one. */
const inTurn = <T>(depart: (signal: AbortSignal) => Promise<T>): ((signal: AbortSignal, lane: string) => Promise<T>) => {
  /** In the order of their turns: a lane that was served goes to the end. */
  const lanes = new Map<string, Waiting<T>[]>()
  let busy = false

  const next = (): Waiting<T> | null => {
    for (const [lane, all] of lanes) {
      lanes.delete(lane)
      const [first, ...rest] = all.filter(({ signal }) => !signal.aborted)
      if (rest.length > 0) lanes.set(lane, rest)
      if (first !== undefined) return first
    }
    return null
  }
  const serve = async (): Promise<void> => {
    if (busy) return
    busy = true
    for (let one = next(); one !== null; one = next()) await depart(one.signal).then(one.settle.resolve, one.settle.reject)
    busy = false
  }
  return async (signal, lane) => {
    signal.throwIfAborted()
    const settle = Promise.withResolvers<T>()
    const waiting = lanes.get(lane) ?? []
    waiting.push({ signal, settle })
    lanes.set(lane, waiting)
    void serve()
    // A request that is stopped does not wait for its turn.
    return raceAbort(settle.promise, signal)
  }
}
