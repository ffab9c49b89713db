// Small samples of two runs at once, and of a small run beside a large one; the whole: `node test/outsider/run.ts --only twins,beside`.
import { expect, test } from 'vitest'
import { tryBeside } from './beside.ts'
import { sampleDatabases } from './own-databases.ts'
import { tryTwins } from './twins.ts'

test('two nightly runs over the same 100 refreshes both end, each unit refreshed once', async () => {
  expect((await tryTwins(sampleDatabases, { refreshes: 100, times: 1, seed: 1 })).wrong).toEqual([])
})

test('a report beside a backfill of 400 walks has its share of the requests and works on none of them', async () => {
  expect((await tryBeside(sampleDatabases, 400)).wrong).toEqual([])
})
