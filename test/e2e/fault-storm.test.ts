// A sample of the fault storm: nothing lost, doubled or wrong while everything goes wrong. The whole: node test/storm/run.ts.
import { expect, test } from 'vitest'
import { faultKinds } from '../../src/sandbox/fault-kinds.ts'
import { faultClasses } from '../storm/fault-mix.ts'
import { runStorm } from '../storm/fault-storm.ts'
import { createTestDatabase } from '../support/postgres.ts'

test('the storm knows every fault of the sandbox', () => {
  expect(Object.keys(faultClasses).sort()).toEqual(Object.keys(faultKinds).sort())
})

test('twenty walks and reports under every fault end equal to a run without one, and are right after every command on the way', async () => {
  const [calm, stormy] = [await createTestDatabase(), await createTestDatabase()]
  const figures = await runStorm({
    jobs: 20,
    seed: 20_261_121,
    rounds: 1,
    phases: [['passing', 'bought']],
    calm: { url: calm.url, pool: calm.database.pool },
    stormy: { url: stormy.url, pool: stormy.database.pool },
    note: () => undefined,
  })
  expect(figures.wrong).toEqual([])
  expect(figures.faults).toBeGreaterThan(10)
  await Promise.all([calm.drop(), stormy.drop()])
})
