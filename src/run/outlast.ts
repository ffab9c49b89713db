// What a process does while the database is away: it waits for it, and what was paid for waits with it.
import { messageOf } from '../core/errors.ts'
import { tellWait } from '../core/waiting.ts'
import { isPassing } from '../db/database-error.ts'
import type { Runtime } from './runtime.ts'
import { asEtlError } from './settle.ts'

/** How long the database may stay away before what waits for it gives up. */
const databasePatienceMs = 120_000

/** A database that restarts is waited for; one that stays away ends the loop with its own error. */
export const createPatience = (
  runtime: Pick<Runtime, 'clock' | 'log'>,
): { reset: () => void; spend: (error: unknown, signal: AbortSignal) => Promise<void> } => {
  let since: number | null = null
  let pause = 200
  return {
    reset: () => {
      since = null
      pause = 200
    },
    spend: async (error, signal) => {
      since ??= performance.now()
      const leftMs = since + databasePatienceMs - performance.now()
      if (leftMs < 0) throw error
      const { message } = asEtlError(error)
      tellWait('the ledger', `${message} It is tried again for ${Math.round(leftMs / 1_000)} s.`)
      runtime.log.warn({ error: messageOf(error) }, 'the ledger does not answer; trying again')
      await runtime.clock.sleep(pause, signal).catch(() => undefined)
      pause = Math.min(pause * 2, 5_000)
    },
  }
}

/** Tries again while the database is away, or refuses whoever asks, unless the signal has aborted. @param act may have been carried out although its answer was lost */
export const outlast = async <T>(
  runtime: Pick<Runtime, 'clock' | 'log'>,
  signal: AbortSignal,
  act: () => Promise<T>,
): Promise<T> => {
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
