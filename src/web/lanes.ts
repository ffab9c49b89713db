// Questions to the ledger a few at a time: each connection more takes longer to open than the questions that it would answer.

/** Runs the work when a lane is free, in the order given. */
export type Lanes = <Found>(work: () => Promise<Found>) => Promise<Found>

/** @param most works at once */
export const lanesFor = (most: number): Lanes => {
  const waiting: (() => void)[] = []
  let free = most
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
