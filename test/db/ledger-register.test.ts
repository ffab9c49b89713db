// Units put into the ledger: editions, what stays of an unfinished unit, and several runs at once.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registerUnits, reopenLanded } from '../../src/db/ledger/register.ts'
import { newRun, unitNamed } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

describe('overlapping runs', () => {
  const names = Array.from({ length: 400 }, (_, index) => `d${String(index).padStart(3, '0')}.com`)
  const plan = (order: readonly string[]) => order.map((name) => ({ unit: unitNamed(name), newEdition: true, forced: false }))

  test('that name the same units in different orders do not lock each other out', async () => {
    const [one, other] = [await newRun(db), await newRun(db)]
    await registerUnits(db.database.kysely, one, plan(names))
    for (let round = 0; round < 8; round += 1) {
      const results = await Promise.all([
        registerUnits(db.database.kysely, one, plan(names)),
        registerUnits(db.database.kysely, other, plan([...names].reverse())),
      ])
      expect(results.map((units) => units.length)).toEqual([names.length, names.length])
      expect(results[1]?.map(({ unitId }) => unitId)).toEqual(results[0]?.map(({ unitId }) => unitId).reverse())
    }
  })

  test('nor those that open landed units again', async () => {
    const [one, other] = [await newRun(db), await newRun(db)]
    const units = await registerUnits(db.database.kysely, one, plan(names))
    const ids = units.map(({ unitId }) => unitId)
    await db.database.pool.query(`update etl.units set landing = 'somewhere'`)
    // Rows that were written last in reverse come back in reverse from a plain scan.
    for (const id of [...ids].reverse())
      await db.database.pool.query('update etl.units set attempts = 1 where unit_id = $1', [id])
    for (let round = 0; round < 8; round += 1) {
      const results = await Promise.all([
        registerUnits(db.database.kysely, one, plan(names)),
        reopenLanded(db.database.kysely, other, [...ids].reverse()),
      ])
      expect(results.map((some) => some.length)).toEqual([names.length, names.length])
    }
  })
})
