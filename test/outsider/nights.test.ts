// Nights that follow others which were not whole, and a held answer that is asked for anew.
import { expect, test } from 'vitest'
import { tryHeld } from './held.ts'
import { sampleDatabases } from './own-databases.ts'
import { tryPartlyRefreshed, tryStoppedNight } from './refreshes.ts'

test('a night that was cancelled half way is made up for by the next', async () => {
  expect(await tryStoppedNight(sampleDatabases, 'keywords', 'cancel')).toEqual([])
})

test('what the service corrected is refreshed though most of the month was asked for by hand since', async () => {
  expect(await tryPartlyRefreshed(sampleDatabases)).toEqual([])
})

test('a unit whose answer is held is asked for anew by force', async () => {
  expect(await tryHeld(sampleDatabases)).toEqual([])
})
