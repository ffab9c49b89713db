// What a purchase whose answer is on its way gets when its run is told to stop: the time to hear whether it was made.
import type { Clock } from '../core/clock.ts'

/** A run that is cancelled ends within five seconds; a service that has not answered by then may have taken it or not. */
const patienceMs = 3_000

export interface Patience {
  /** Aborts like the signal it was made from, but later while the request is on its way. */
  readonly signal: AbortSignal
  /** To be called when the request is over. */
  end(): void
}

/** @param isOnItsWay before that nothing was sent, so that nothing needs to be heard */
export const withPatience = (stop: AbortSignal, clock: Clock, isOnItsWay: () => boolean): Patience => {
  const [late, over] = [new AbortController(), new AbortController()]
  const onStop = (): void => {
    if (isOnItsWay()) void clock.sleep(patienceMs, over.signal).then(abort, isOver)
    else abort()
  }
  const abort = (): void => late.abort(stop.reason)
  // The answer came first.
  const isOver = (): void => undefined
  if (stop.aborted) abort()
  else stop.addEventListener('abort', onStop, { once: true })
  return {
    signal: late.signal,
    end: () => {
      stop.removeEventListener('abort', onStop)
      over.abort()
    },
  }
}
