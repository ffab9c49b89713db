// Retries while the database is unreachable, so that a process does not lose what it has already paid for.
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { reportWait } from '../core/waiting.ts'
import { databaseError, isDatabaseError, isTransient } from './database-error.ts'

interface Waiting {
  readonly clock: Clock
  readonly log: Log
}

/** How long the database may be unreachable before a retry loop gives up. */
const databasePatienceMs = 120_000

/** Errors after which a retry loop gave up. */
const givenUp = new WeakSet<object>()

/** Whether a retry loop already gave up with this error: clean-up code then need not wait as long again. */
export const gaveUpRetrying = (error: unknown): boolean => error instanceof Error && givenUp.has(error)

/** Backoff for a retry loop: waits while the database restarts; throws its error once it has been unreachable for too long. */
export const createBackoff = ({ clock, log }: Waiting) => {
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
      reportWait('the ledger', `${message} Millrace keeps trying for another ${Math.round(leftMs / 1_000)} s.`)
      log.warn({ error: messageOf(error) }, 'the ledger does not answer; trying again')
      await clock.sleep(pause, signal).catch(() => undefined)
      pause = Math.min(pause * 2, 5_000)
    },
  }
}

/** Retries `act` while the database is away or refuses all logins, until the signal aborts. @param act must be safe to repeat: its answer may have been lost */
export const retryWhileAway = async <T>(runtime: Waiting, signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
  const patience = createBackoff(runtime)
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (signal.aborted || !isTransient(error)) throw error
      await patience.spend(error, signal)
    }
  }
}
