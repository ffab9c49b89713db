// How long one that is to stop goes on waiting for an answer that only it can hear: of the service, and of the ledger.
import { type Clock, orAborted } from '../core/clock.ts'

/**
 * A signal that aborts like `stop`, but later while an answer is on its way; `end` is to be called when it is here. @param isOnItsWay before that nothing was
 * sent, so that nothing needs to be heard
 */
export const withPatience = (
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

/** Most databases take it in milliseconds. */
const lastMs = 2_000

/** What `inTime` throws: the server may still carry the statement out by itself. */
export const leftBehind = new Error('the ledger has not answered yet')

/** Waits for the ledger, also when stopped, but then not for as long as somebody locks the job's row. Throws `leftBehind`. */
export const inTime = async <T>(
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
  written: Promise<T>,
): Promise<T> => {
  const patience = withPatience(signal, clock, lastMs)
  written.catch(() => undefined)
  try {
    return await orAborted(written, patience.signal)
  } catch (error) {
    throw patience.signal.aborted ? leftBehind : error
  } finally {
    patience.end()
  }
}
