// How long a process that must stop still waits for an answer that only it can receive: of the service, and of the ledger.
import { type Clock, raceAbort } from '../core/clock.ts'

/**
 * A signal that aborts like `stop`, but later while an answer is in flight; call `end` when it is here. @param isOnItsWay false: nothing was sent yet, so
 * there is nothing to wait for
 */
export const withGracePeriod = (
  stop: AbortSignal,
  clock: Clock,
  ms: number,
  isOnItsWay = (): boolean => true,
): { readonly signal: AbortSignal; readonly end: () => void } => {
  const [late, over] = [new AbortController(), new AbortController()]
  const abort = (): void => late.abort(stop.reason)
  const onStop = (): void => {
    // Where the sleep is ended the answer came first.
    if (isOnItsWay()) void clock.sleep(ms, over.signal).then(abort, () => undefined)
    else abort()
  }
  if (stop.aborted) onStop()
  else stop.addEventListener('abort', onStop, { once: true })
  return {
    signal: late.signal,
    end: (): void => {
      stop.removeEventListener('abort', onStop)
      over.abort()
    },
  }
}

/** How long the ledger has after a stop; most databases take milliseconds. */
const lastMs = 2_000

/** What `withinGracePeriod` throws: the server may still carry the statement out by itself. */
export const ledgerUnanswered = new Error('the ledger has not answered yet')

/** Waits for the ledger, also after a stop, but then not for as long as a lock on the job's row may last. Throws `ledgerUnanswered`. */
export const withinGracePeriod = async <T>(
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
  written: Promise<T>,
): Promise<T> => {
  const patience = withGracePeriod(signal, clock, lastMs)
  written.catch(() => undefined)
  try {
    return await raceAbort(written, patience.signal)
  } catch (error) {
    throw patience.signal.aborted ? ledgerUnanswered : error
  } finally {
    patience.end()
  }
}
