// Small samples of packing, splitting and changing lists; the whole: `node test/outsider/run.ts --only packed,split,lists`.
import { expect, test } from 'vitest'
import { trySequence } from './lists.ts'
import { sampleDatabases } from './own-databases.ts'
import { tryPacked, trySplit } from './packed.ts'

test('540 units are one report at the price of its cells', async () => {
  const options = { domains: 30, months: 6, reportSeconds: 0.2, mostReports: 1 }
  expect((await tryPacked(sampleDatabases, options)).wrong).toEqual([])
})

test('a report that is too large, or asks for what is not there, is split until what is refused stands alone', async () => {
  expect(await trySplit(sampleDatabases)).toEqual([])
})

test.each([1, 2])('lists that change under reports: sequence %i', async (seed) => {
  const { story, wrong } = await trySequence(sampleDatabases, 100_000 + seed)
  expect(wrong, story.join('\n')).toEqual([])
})
