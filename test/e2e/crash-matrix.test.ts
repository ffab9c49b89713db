// A seeded sample of the crash matrix; `npm run crash-matrix` takes every boundary.
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { runMatrix } from '../crash-matrix/matrix.ts'
import { createWorld, type World } from '../crash-matrix/world.ts'

let world: World

beforeAll(async () => {
  world = await createWorld(inject('postgresUrl'))
})
afterAll(() => world.close())

test('killed at any boundary of its effects, and once more while it recovers, the same command ends as if nothing had been', async () => {
  const { calm, singles, pairs } = await runMatrix({
    world,
    seed: 20_261_121,
    sample: 4,
    // All of a load is sent and nothing of it is committed; and committed, which the process does not know.
    always: /^packed commit (?:sent|answered): load #1$/,
    pairs: 1,
    lanes: 2,
    progress: () => undefined,
  })
  const effects = calm.flatMap(({ boundaries }) => boundaries)
  for (const kind of [
    'request sent',
    'answer whole',
    'file write',
    'file fsync',
    'file rename',
    'commit sent',
    'commit answered',
    'load sent',
    'commit answered: load',
  ])
    expect(effects.filter((name) => name.startsWith(kind)).length, kind).toBeGreaterThan(0)
  expect(singles.filter(({ outcome }) => outcome.reached).length).toBeGreaterThan(singles.length / 2)
  const wrong = [...singles, ...pairs].filter(({ outcome }) => outcome.wrong.length > 0)
  expect(
    wrong.map(({ calm: { subject, load }, first, second, outcome }) => ({
      subject: subject.name,
      load,
      first,
      second,
      wrong: outcome.wrong,
    })),
  ).toEqual([])
})
