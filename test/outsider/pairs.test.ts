// A few pairs; all of them: `node test/outsider/run.ts --only pairs`.
import { expect, test } from 'vitest'
import { sampleDatabases } from './own-databases.ts'
import { describePair, type Pair, tryPair } from './pairs.ts'

const base = { gapMs: 400, ending: 'by itself', killAfterMs: 900, force: false, button: 'cancel' } as const
const sample: readonly Pair[] = [
  { ...base, first: 'backfill keywords', second: 'backfill traffic_and_engagement' },
  { ...base, first: 'backfill keywords', second: 'run', ending: 'kill -9' },
  { ...base, first: 'run', second: 'replay', ending: 'closed pipe' },
  { ...base, first: 'tick', second: 'worker' },
  { ...base, first: 'run', second: 'page' },
]

test.each(sample.map((pair) => [describePair(pair), pair] as const))('%s', async (_, pair) => {
  expect(await tryPair(sampleDatabases, pair)).toEqual([])
})
