// What a process does while the database is away: it waits for it, and what was paid for waits with it.
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { tellWait } from '../core/waiting.ts'
import { databaseError, isDatabaseError, isPassing } from './database-error.ts'

interface Waiting {
  readonly clock: Clock
  readonly log: Log
}

/** How long the database may stay away before what waits for it gives up. */
const databasePatienceMs = 120_000

/** What was waited for in vain. */
const givenUp = new WeakSet<object>()

/** The database has stayed away for as long as it is waited for: who only tidies up need not wait as long once more. */
export const wasOutlasted = (error: unknown): boolean => error instanceof Error && givenUp.has(error)

/** A database that restarts is waited for; one that stays away ends the loop with its own error. */
export const createPatience = ({ clock, log }: Waiting) => {
  let since: number | null = null
  let pause = 200
  return {
    reset: (): void => {
      since = null
      pause = 200
    },
    spend: async (error: unknown, signal: AbortSignal): Promise<void> => {
      since ??= performance.now()
      const leftMs = since + databasePatienceMs - performance.now()
      if (leftMs < 0) {
        if (error instanceof Error) givenUp.add(error)
        throw error
      }
      const { message } = isDatabaseError(error) ? databaseError(error, 'refused a statement') : { message: messageOf(error) }
      tellWait('the ledger', `${message} It is tried again for ${Math.round(leftMs / 1_000)} s.`)
      log.warn({ error: messageOf(error) }, 'the ledger does not answer; trying again')
      await clock.sleep(pause, signal).catch(() => undefined)
      pause = Math.min(pause * 2, 5_000)
    },
  }
}

/** Tries again while the database is away, or refuses all logins, unless the signal has aborted. @param act may have been carried out although its answer was lost */
export const outlast = async <T>(runtime: Waiting, signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
  const patience = createPatience(runtime)
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (signal.aborted || !isPassing(error)) throw error
      await patience.spend(error, signal)
    }
  }
}
