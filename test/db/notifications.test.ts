// What people are told of: a cause is over when its units are mended, not while they are being tried again.
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { returnRunUnits } from '../../src/ledger/held.ts'
import { markUnchanged } from '../../src/ledger/loads.ts'
import { causesInLedger, syncNotifications } from '../../src/ledger/notifications.ts'
import { failUnit, holdUnit, parkUnit } from '../../src/ledger/units.ts'
import { claimed, newRun, planned } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const k = () => db.database.kysely
const reason = { code: 'QUOTA', message: 'the budget of the month is spent' }

const look = async (): Promise<string[]> => {
  await syncNotifications(k(), await causesInLedger(k()), [])
  const open = await sql<{ cause: string }>`select cause from etl.notifications where resolved_at is null order by cause`.execute(
    k(),
  )
  return open.rows.map(({ cause }) => cause)
}

for (const [word, settle] of [
  ['held', holdUnit],
  ['failure', failUnit],
] as const)
  test(`a look in the middle of the next try does not tell that ${word} is over, and not again that it began`, async () => {
    const first = await newRun(db)
    const unitId = await planned(db, first, `${word}.com`)
    await settle(k(), await claimed(db, first, unitId), reason)
    const [cause] = await look()
    expect(cause).toMatch(new RegExp(`^${word}/`))
    const second = await newRun(db)
    await planned(db, second, `${word}.com`)
    expect(await look()).toEqual([cause])
    const again = await claimed(db, second, unitId)
    expect(await look()).toEqual([cause])
    await parkUnit(k(), again, { ...reason, state: 'waiting', notBefore: null, countsAttempt: false, final: false })
    expect(await look()).toEqual([cause])
    await markUnchanged(k(), await claimed(db, second, unitId), {
      runId: second,
      fingerprint: { lastUpdated: null, count: null },
    })
    expect(await look()).toEqual([])
  })

test('a try that was cancelled mends nothing', async () => {
  const first = await newRun(db)
  const unitId = await planned(db, first, 'cancelled.com')
  await failUnit(k(), await claimed(db, first, unitId), reason)
  const told = await look()
  expect(told).toHaveLength(1)
  const second = await newRun(db)
  await planned(db, second, 'cancelled.com')
  await returnRunUnits(k(), second)
  expect(await look()).toEqual(told)
})

test('units that are planned for the first time are no cause', async () => {
  const before = await look()
  await planned(db, await newRun(db), 'new.com')
  expect(await look()).toEqual(before)
})
