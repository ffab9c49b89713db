// Where a process is in the lists it claims jobs from: so a claim need not read past thousands of jobs that are held or waiting.

/** The place of an entry in a run's list: entries after it come next. */
export interface Place {
  readonly priority: number
  readonly jobId: string
}

const dueEveryMs = 100
/** Jobs that came free behind the cursor wait no longer than this. */
const rescanEveryMs = 250
const orphansEveryMs = 1_000

const top: Place = { priority: -2_147_483_648, jobId: '0' }

/** What a process remembers from one claim to the next. @param now milliseconds of a clock that only goes forward; default the process's own */
export const createCursor = (now: () => number = () => performance.now()) => {
  const ofRun = () => ({ due: createPause(now, dueEveryMs), list: createListCursor(now) })
  const runs = new Map<number, ReturnType<typeof ofRun>>()
  let served = 0
  return {
    orphans: createPause(now, orphansEveryMs),
    /** Starts every list from its top. */
    restart: (): void => {
      for (const { list } of runs.values()) list.restart()
    },
    /** The runs in the order in which they are served this time: each is first in its turn. */
    turn: (runIds: readonly number[]): readonly number[] => {
      for (const known of runs.keys()) if (!runIds.includes(known)) runs.delete(known)
      if (runIds.length === 0) return runIds
      const first = served % runIds.length
      served += 1
      return [...runIds.slice(first), ...runIds.slice(0, first)]
    },
    /** The cursor in a run's list. */
    of: (runId: number) => {
      const known = runs.get(runId) ?? ofRun()
      runs.set(runId, known)
      return known
    },
  }
}

export type ClaimCursor = ReturnType<typeof createCursor>

/** Pauses a query for `everyMs` after it found nothing. */
const createPause = (now: () => number, everyMs: number) => {
  let nextAt = Number.NEGATIVE_INFINITY
  return {
    isTime: (): boolean => now() >= nextAt,
    found: (anything: boolean): void => {
      nextAt = anything ? Number.NEGATIVE_INFINITY : now() + everyMs
    },
  }
}

/** Where in its list a run has come to, so that the taken part is not read again. */
const createListCursor = (now: () => number) => {
  let place = top
  let nextAt = Number.NEGATIVE_INFINITY
  return {
    /** null: the whole list was just read. */
    place: (): Place | null => (now() >= nextAt ? place : null),
    /** @param last the place of the last job taken, null: none. @param toEnd the list was read to its end */
    went: (last: Place | null, toEnd: boolean): void => {
      const fromTop = place === top
      if (!toEnd && last !== null) {
        place = last
        return
      }
      place = top
      // A pass that began further down has not read the entries before its start.
      if (fromTop) nextAt = now() + rescanEveryMs
    },
    /** For new entries, which may come before the place. */
    restart: (): void => {
      place = top
      nextAt = Number.NEGATIVE_INFINITY
    },
  }
}
