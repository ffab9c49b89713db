// Jobs for the slots of a process: where jobs take milliseconds several are claimed at once, since a claim takes milliseconds too.
import type { Clock } from '../core/clock.ts'
import type { ClaimedJob } from '../ledger/claim.ts'

export interface JobSupply {
  /** At most `room` jobs; none where there are none to take now. */
  take(room: number): Promise<ClaimedJob[]>
  /** How long a job took, from which the number to claim ahead follows. */
  took(milliseconds: number): void
  /** Claimed and not handed on. */
  waiting(): readonly ClaimedJob[]
  /** Somebody else has them by now. */
  forget(jobs: readonly ClaimedJob[]): void
  /** Gives those back that waited longer than `longerThanMs`, for whoever is free. */
  giveBack(longerThanMs: number): Promise<void>
}

/** Where jobs come from. */
export interface JobSource {
  claim(count: number): Promise<ClaimedJob[]>
  giveBack(jobs: readonly ClaimedJob[]): Promise<void>
}

/** Claimed beyond what there is room for. */
const mostAhead = 16
/** A job that takes longer than this is worth a claim of its own, so that no other process goes without meanwhile. */
const shortJobMs = 250

export const createJobSupply = (source: JobSource, clock: Pick<Clock, 'now'>): JobSupply => {
  let ahead: ClaimedJob[] = []
  let claimedAt = 0
  let lastTook = Number.POSITIVE_INFINITY
  return {
    take: async (room) => {
      if (ahead.length === 0) {
        ahead = await source.claim(lastTook < shortJobMs ? room + mostAhead : room)
        claimedAt = clock.now()
      }
      return ahead.splice(0, room)
    },
    took: (milliseconds) => {
      lastTook = milliseconds
    },
    waiting: () => ahead,
    forget: (jobs) => {
      ahead = ahead.filter((job) => !jobs.includes(job))
    },
    giveBack: async (longerThanMs) => {
      if (ahead.length === 0 || clock.now() - claimedAt < longerThanMs) return
      // From here on a slow job is assumed until a short one has been seen.
      lastTook = Number.POSITIVE_INFINITY
      await source.giveBack(ahead.splice(0))
    },
  }
}
