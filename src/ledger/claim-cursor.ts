// Where a process is in the lists it takes jobs from, so that thousands of jobs at work or waiting are not gone through for each one taken.

/** Of an entry in a run's list: entries behind it come next. */
export interface Place {
  readonly priority: number
  readonly jobId: string
}

/** Says when a question is worth asking again after it brought nothing. */
export interface Pause {
  isTime(): boolean
  found(anything: boolean): void
}

/** Where in its list a run has come to, so that the taken part is not read again. */
export interface ListCursor {
  /** null: the whole list was just gone through. */
  place(): Place | null
  /** @param last the place of the last job taken, null: none. @param toEnd the list was gone through to its end */
  went(last: Place | null, toEnd: boolean): void
  /** Entries may have come before the place. */
  restart(): void
}

/** What a process remembers from one claim to the next. */
export interface ClaimCursor {
  readonly due: Pause
  readonly list: ListCursor
  readonly orphans: Pause
  /** The runs in the order in which they are served this time: each is first in its turn. */
  turn(runIds: readonly number[]): readonly number[]
  /** Every list from its top. */
  restart(): void
  /** The cursor in one of several runs. */
  of(runId: number): Pick<ClaimCursor, 'due' | 'list'>
}

const dueEveryMs = 100
/** Jobs that came free behind the cursor wait no longer than this. */
const rescanEveryMs = 250
const orphansEveryMs = 1_000

const top: Place = { priority: -2_147_483_648, jobId: '0' }

/** @param now milliseconds of a clock that only goes forward; default the process's own */
export const createCursor = (now: () => number = () => performance.now()): ClaimCursor => {
  const runs = new Map<number, Pick<ClaimCursor, 'due' | 'list'>>()
  const list = createListCursor(now)
  let served = 0
  return {
    due: createPause(now, dueEveryMs),
    list,
    restart: () => {
      for (const one of [list, ...[...runs.values()].map((run) => run.list)]) one.restart()
    },
    orphans: createPause(now, orphansEveryMs),
    turn: (runIds) => {
      for (const known of runs.keys()) if (!runIds.includes(known)) runs.delete(known)
      if (runIds.length === 0) return runIds
      const first = served % runIds.length
      served += 1
      return [...runIds.slice(first), ...runIds.slice(0, first)]
    },
    of: (runId) => {
      const known = runs.get(runId) ?? { due: createPause(now, dueEveryMs), list: createListCursor(now) }
      runs.set(runId, known)
      return known
    },
  }
}

const createPause = (now: () => number, everyMs: number): Pause => {
  let nextAt = Number.NEGATIVE_INFINITY
  return {
    isTime: () => now() >= nextAt,
    found: (anything) => {
      nextAt = anything ? Number.NEGATIVE_INFINITY : now() + everyMs
    },
  }
}

const createListCursor = (now: () => number): ListCursor => {
  let place = top
  let nextAt = Number.NEGATIVE_INFINITY
  return {
    place: () => (now() >= nextAt ? place : null),
    went: (last, toEnd) => {
      const fromTop = place === top
      if (!toEnd && last !== null) {
        place = last
        return
      }
      place = top
      // What lies before the place it began at was not read this time.
      if (fromTop) nextAt = now() + rescanEveryMs
    },
    restart: () => {
      place = top
      nextAt = Number.NEGATIVE_INFINITY
    },
  }
}
