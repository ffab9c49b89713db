// Releases on record: what a service cannot have published yet is no release, and what it takes back is corrected by its next word.
import { expect, test } from 'vitest'
import { addWindows, dateIn } from '../../src/core/window.ts'
import { newestRelease, recordRelease } from '../../src/ledger/data-releases.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const day = (ahead: number): string => addWindows(dateIn(Date.now(), 'UTC'), 'day', ahead)
const newest = async (account: string) => (await newestRelease(db.database.kysely, account, 'day'))?.availableTo ?? null
const heard = (account: string, availableTo: string, heardBy: 'message' | 'poll') =>
  recordRelease(db.database.kysely, { account, every: 'day', availableTo, heardBy })

test('a date beyond tomorrow that is on record counts for nothing: messages are heard beside it', async () => {
  await heard('future', day(-9), 'poll')
  await heard('future', day(300), 'poll')
  expect(await newest('future')).toBe(day(-9))
  expect(await heard('future', day(-8), 'message')).toBe('new')
  expect(await newest('future')).toBe(day(-8))
})

test('a poll that names an earlier day takes back what polls said, and nothing that a message proved', async () => {
  await heard('corrected', day(-30), 'poll')
  await heard('corrected', day(-20), 'message')
  await heard('corrected', day(-1), 'poll')
  expect(await heard('corrected', day(-25), 'poll')).toBe('known')
  expect(await newest('corrected')).toBe(day(-20))
  expect(await heard('corrected', day(-10), 'message')).toBe('new')
})
