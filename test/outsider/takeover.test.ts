// Processes that die or sleep with work at hand.
import { expect, test } from 'vitest'
import { sampleDatabases } from './own-databases.ts'
import { tryKill, trySleep, tryWindows } from './takeover.ts'

test('after kill -9 the same command on the same machine goes on at once', async () => {
  expect(await tryKill(sampleDatabases)).toEqual([])
})

test('what a sleeping process held is done by workers, and it wakes to nothing left', async () => {
  expect(await trySleep(sampleDatabases)).toEqual([])
})

test('after kill -9 between two windows of an answer only the other windows are loaded', async () => {
  expect(await tryWindows(sampleDatabases)).toEqual([])
})
