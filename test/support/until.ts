// Waits for a state, not for a time.

/** @param what it is, for who reads that it never came @returns the milliseconds it took */
export const until = async (what: string, holds: () => boolean | Promise<boolean>, mostMs = 120_000): Promise<number> => {
  const began = performance.now()
  while (!(await holds())) {
    if (performance.now() - began > mostMs) throw new Error(`not within ${mostMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return performance.now() - began
}
