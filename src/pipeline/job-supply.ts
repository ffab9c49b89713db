// Jobs for the slots of a process: where units take milliseconds several are fetched at once, since a fetch takes milliseconds too.
import type { Clock } from '../core/clock.ts'
import type { Queue, UnitJob } from './queue.ts'

export interface JobSupply {
  /** At most `room` jobs; none where the queue has none. */
  take(room: number): Promise<UnitJob[]>
  /** How long a unit took, from which the number to fetch ahead follows. */
  took(milliseconds: number): void
  /** Fetched and not handed on: to be kept alive like those at work. */
  waiting(): readonly UnitJob[]
  /** Somebody else has them by now. */
  forget(jobs: readonly UnitJob[]): void
  /** Puts those back that waited longer than `longerThanMs`, for whoever is free. */
  giveBack(longerThanMs: number): Promise<void>
}

/** Fetched beyond what there is room for. */
const mostAhead = 16
/** A unit that takes longer than this is worth a fetch of its own, so that no other process goes without meanwhile. */
const shortUnitMs = 250

export const createJobSupply = (queue: Pick<Queue, 'fetch' | 'giveBack'>, clock: Pick<Clock, 'now'>): JobSupply => {
  let ahead: UnitJob[] = []
  let fetchedAt = 0
  let lastTook = Number.POSITIVE_INFINITY
  return {
    take: async (room) => {
      if (ahead.length === 0) {
        ahead = await queue.fetch(lastTook < shortUnitMs ? room + mostAhead : room)
        fetchedAt = clock.now()
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
      if (ahead.length === 0 || clock.now() - fetchedAt < longerThanMs) return
      // From here on a slow unit is assumed until a short one has been seen.
      lastTook = Number.POSITIVE_INFINITY
      await queue.giveBack(ahead.splice(0))
    },
  }
}
