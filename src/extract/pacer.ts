// The rate at which this process lets requests leave: as set, or as the account's refusals have taught it, here or on another machine.
import type { Clock } from '../core/clock.ts'
import { type LearntPace, type PaceMemory, rateOf, slowerBy } from '../core/pace.ts'

/** One for each account. */
export interface Pacer {
  /** Requests a second that may leave now. */
  rate(): number
  /** Looks again at what other machines have learnt, at most once a second; the first time it is waited for. Throws what the memory throws. */
  refresh(): Promise<void>
  /** A request leaves. @param waited the budget held it back */
  left(waited: boolean): void
  /** The service said what it thinks of a request that left then. */
  judged(leftAtMs: number, isRefused: boolean): void
}

/** `configured`: requests a second, as set. */
export interface PacerOptions {
  readonly configured: number
  readonly clock: Clock
  readonly memory: PaceMemory
}

const refreshEveryMs = 1_000
const secondMs = 1_000
/** Where at least this share of a second's departures was held back, the budget is used wholly. */
const heldBackShare = 0.5

/** Begins at the configured rate. */
export const createPacer = ({ configured, clock, memory }: PacerOptions): Pacer => {
  let learnt: LearntPace | null = null
  let learntAt = Number.NEGATIVE_INFINITY
  let askedAt = Number.NEGATIVE_INFINITY
  let succeededAt: number | null = null
  let reading: Promise<void> | null = null
  const recent: { readonly at: number; readonly waited: boolean }[] = []

  /** What was asked before a refusal does not undo what that has taught. */
  let refusals = 0

  const keep = (found: LearntPace | null): void => {
    learnt = found
    learntAt = clock.now()
  }
  const now = (): LearntPace | null => {
    if (learnt === null) return null
    const passed = Math.max(0, clock.now() - learntAt)
    return { ...learnt, changedMsAgo: learnt.changedMsAgo + passed, refusedMsAgo: learnt.refusedMsAgo + passed }
  }
  const forget = (): void => {
    const from = clock.now() - secondMs
    while (recent[0] !== undefined && recent[0].at < from) recent.shift()
  }
  /** Departures of the last second; null: the budget held them back. */
  const used = (): number | null => {
    forget()
    return recent.filter(({ waited }) => waited).length >= recent.length * heldBackShare ? null : Math.max(1, recent.length)
  }
  const slowDown = (leftAtMs: number): void => {
    const succeededMsAgo = succeededAt === null ? null : clock.now() - succeededAt
    const refusal = { leftMsAgo: clock.now() - leftAtMs, succeededMsAgo, perSecond: used(), configured }
    // Here at once; what the others know besides comes with the answer.
    keep(slowerBy(now(), refusal))
    refusals += 1
    const mine = refusals
    memory.refused(refusal).then(
      (found) => mine === refusals && keep(found),
      () => undefined,
    )
  }
  return {
    rate: () => rateOf(now(), configured),
    refresh: async () => {
      if (clock.now() - askedAt < refreshEveryMs) return
      const isFirst = askedAt === Number.NEGATIVE_INFINITY
      askedAt = clock.now()
      const before = refusals
      reading ??= memory
        .read()
        .then((found) => {
          if (before === refusals) keep(found)
        })
        .finally(() => {
          reading = null
        })
      if (isFirst) await reading
      // Later it is as good a second later.
      else reading.catch(() => undefined)
    },
    left: (waited) => {
      forget()
      recent.push({ at: clock.now(), waited })
    },
    judged: (leftAtMs, isRefused) => {
      if (isRefused) slowDown(leftAtMs)
      else succeededAt = clock.now()
    },
  }
}

/** Of a process that asks alone. */
export const ownMemory = (clock: Clock): PaceMemory => {
  let kept: { readonly learnt: LearntPace; readonly at: number } | null = null
  const current = (): LearntPace | null => {
    if (kept === null) return null
    const passed = Math.max(0, clock.now() - kept.at)
    const { learnt } = kept
    return { ...learnt, changedMsAgo: learnt.changedMsAgo + passed, refusedMsAgo: learnt.refusedMsAgo + passed }
  }
  return {
    read: async () => current(),
    refused: async (refusal) => {
      const learnt = slowerBy(current(), refusal)
      kept = { learnt, at: clock.now() }
      return learnt
    },
  }
}
