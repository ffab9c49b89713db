// A Vitest that stays, for one mutant after the other: one start, one migrated template and one compilation of all that is not mutated. A child of
// run.ts, in a copy of the repository; told over its channel which tests to run, it answers whether all of them passed.
import { createVitest } from 'vitest/node'

/** Test files, and the files of a mutant, which may be put right before the next order. */
export interface Order {
  readonly tests: readonly string[]
  readonly changed: readonly string[]
}

const vitest = await createVitest('test', { watch: false, bail: 1, reporters: [{}], config: 'vitest.config.ts' })
await vitest.standalone()

/** What the last order had changed is put right since. */
let stale: readonly string[] = []

const passes = async ({ tests, changed }: Order): Promise<boolean> => {
  for (const path of [...stale, ...changed]) vitest.invalidateFile(path)
  stale = changed
  const specifications = await vitest.globTestSpecifications([...tests])
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications, false)
  const passed = testModules.filter((module) => module.state() === 'passed')
  return unhandledErrors.length === 0 && passed.length === tests.length
}

process.on('message', (order: Order) => {
  void passes(order).then((passed) => process.send?.(passed))
})
process.on('disconnect', () => void vitest.close().then(() => process.exit(0)))
process.send?.('ready')
