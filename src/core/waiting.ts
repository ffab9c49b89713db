// The one place where waiting is told: what waits for more than seconds says what for and how long, and the command that runs shows it.

/** A pause that is known to last so long is told at once; what may end any moment once it has lasted so long. */
export const toldPauseMs = 5_000
const againMs = 60_000

type Show = (message: string) => void

let show: Show = () => undefined
const toldAt = new Map<string, number>()

/** From now on waits are told there; returns where they were told before. Default: nowhere. */
export const showWaits = (listener: Show): Show => {
  const before = show
  show = listener
  toldAt.clear()
  return before
}

/** Told again after a minute. @param what the same for all that wait for the same */
export const tellWait = (what: string, message: string): void => {
  const now = performance.now()
  if (now - (toldAt.get(what) ?? Number.NEGATIVE_INFINITY) < againMs) return
  toldAt.set(what, now)
  show(message)
}

/** Tells that a wait lasts, until what it returns is called. @param words told the seconds it has lasted */
export const watchWait = (what: string, words: (seconds: number) => string): (() => void) => {
  const begun = performance.now()
  const tell = (): void => tellWait(what, words(Math.round((performance.now() - begun) / 1_000)))
  const timer = setInterval(tell, toldPauseMs).unref()
  return () => clearInterval(timer)
}
