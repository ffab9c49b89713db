// Who is next: requests of several runs leave in turn, one of each, however many any of them has waiting.

/** A place in the row; the row moves on when it is resolved or rejected. */
export type Depart<T> = (signal: AbortSignal) => Promise<T>

/** Queues that are served in turn, so that a small run is small beside a large one. */
export interface Lanes<T> {
  /** Waits for the lane's turn and departs. Rejects with the signal's reason as soon as it aborts. */
  take(signal: AbortSignal, lane: string): Promise<T>
}

interface Waiting<T> {
  readonly signal: AbortSignal
  readonly resolve: (departed: T) => void
  readonly reject: (reason: unknown) => void
}

/** One departs at a time; within a lane first come, first served. */
export const createLanes = <T>(depart: Depart<T>): Lanes<T> => {
  /** Lanes in the order of their turns: who was served goes to the end. */
  const lanes = new Map<string, Waiting<T>[]>()
  let busy = false

  const next = (): Waiting<T> | null => {
    for (const [lane, waiting] of lanes) {
      lanes.delete(lane)
      const first = waiting.shift()
      if (waiting.length > 0) lanes.set(lane, waiting)
      if (first !== undefined) return first
    }
    return null
  }
  const serve = async (): Promise<void> => {
    if (busy) return
    busy = true
    for (let one = next(); one !== null; one = next()) await depart(one.signal).then(one.resolve, one.reject)
    busy = false
  }
  const leave = (lane: string, one: Waiting<T>): void => {
    const rest = (lanes.get(lane) ?? []).filter((other) => other !== one)
    if (rest.length > 0) lanes.set(lane, rest)
    else lanes.delete(lane)
  }
  return {
    take: (signal, lane) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason)
        // Who is stopped does not wait for its turn.
        const onAbort = (): void => {
          leave(lane, one)
          reject(signal.reason)
        }
        const ended = (): void => signal.removeEventListener('abort', onAbort)
        const one: Waiting<T> = {
          signal,
          resolve: (departed) => {
            ended()
            resolve(departed)
          },
          reject: (reason) => {
            ended()
            reject(reason)
          },
        }
        signal.addEventListener('abort', onAbort, { once: true })
        const waiting = lanes.get(lane)
        if (waiting === undefined) lanes.set(lane, [one])
        else waiting.push(one)
        void serve()
      }),
  }
}
