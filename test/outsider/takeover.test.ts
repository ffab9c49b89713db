// Processes that die or sleep with work at hand.
import { expect, test } from 'vitest'
import { sampleDatabases } from './own-databases.ts'
import { tryKill, trySleep, tryMidLoad } from './takeover.ts'

test('after kill -9 the same command on the same machine goes on at once', async () => {
  expect(await tryKill(sampleDatabases)).toEqual([])
})

test('what a sleeping process held is done by workers, and it wakes to nothing left', async () => {
  expect(await trySleep(sampleDatabases)).toEqual([])
})

test('after kill -9 in the middle of the load of an answer nothing of it is there, and the next command loads it whole', async () => {
  expect(await tryMidLoad(sampleDatabases)).toEqual([])
})
