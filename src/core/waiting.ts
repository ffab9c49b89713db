// The one place that reports waits: code that waits for more than seconds says for what and how long; the command shows it.

/** A pause known to last this long is reported at once; a wait of unknown length once it has lasted this long. */
export const reportAfterMs = 5_000
const againMs = 60_000

type Show = (message: string) => void

let show: Show = () => undefined
const toldAt = new Map<string, number>()

/** From now on waits are reported to `listener`; returns the former listener. At first no listener is set. */
export const setWaitListener = (listener: Show): Show => {
  const before = show
  show = listener
  toldAt.clear()
  return before
}

/** Shows the message, at most once a minute for the same `what`. @param what equal for all waits with the same cause */
export const reportWait = (what: string, message: string): void => {
  const now = performance.now()
  if (now - (toldAt.get(what) ?? Number.NEGATIVE_INFINITY) < againMs) return
  toldAt.set(what, now)
  show(message)
}

/** Reports a wait while it lasts; the returned function ends that. @param words makes the message from the seconds so far */
export const reportLongWait = (what: string, words: (seconds: number) => string): (() => void) => {
  const begun = performance.now()
  const tell = (): void => reportWait(what, words(Math.round((performance.now() - begun) / 1_000)))
  const timer = setInterval(tell, reportAfterMs).unref()
  return () => clearInterval(timer)
}
