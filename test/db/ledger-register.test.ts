// Units put into the ledger: editions, what stays of an unfinished unit, and several runs at once.
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { registerUnits, reopenLanded } from '../../src/ledger/register.ts'
import { claimed, newRun, outcomeOf, planned, unitNamed, unitRow } from '../support/ledger.ts'
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

describe('a unit that is planned', () => {
  let run: number
  let count = 0
  beforeEach(async () => {
    run = await newRun(db)
    count += 1
  })
  const name = (): string => `plan${count}.com`
  const set = (unitId: number, values: string): Promise<unknown> =>
    db.database.pool.query(`update etl.units set ${values} where unit_id = ${unitId}`)
  const report = (unitId: number, edition: number, state: string): Promise<unknown> =>
    sql`insert into etl.reports (unit_id, edition, account, pipeline, endpoint, request_hash, request, state)
      values (${unitId}, ${edition}, 'a', 'p', '/e', 'h', '{}', ${state})`.execute(db.database.kysely)

  test('anew is on record with its window, slice and run, in its first edition', async () => {
    const unitId = await planned(db, run, name())
    const { rows } = await db.database.pool.query('select *, slice from etl.units where unit_id = $1', [unitId])
    expect(rows[0]).toMatchObject({
      unit_key: unitNamed(name()).key,
      pipeline: 'traffic',
      version: 1,
      window_from: '2026-01-01',
      window_to: '2026-02-01',
      slice: { domain: name() },
      state: 'planned',
      edition: 1,
      attempts: 0,
      fence: '0',
      run_id: String(run),
      forced: false,
    })
    const joined = await db.database.pool.query('select edition, outcome from etl.run_units where run_id = $1 and unit_id = $2', [
      run,
      unitId,
    ])
    expect(joined.rows).toEqual([{ edition: 1, outcome: null }])
  })

  test('nothing is nothing', async () => {
    expect(await registerUnits(db.database.kysely, run, [])).toEqual([])
  })

  test.each([
    ['loaded, asked for anew', 'loaded', { newEdition: true }, null, 2],
    ['loaded, not asked for anew', 'loaded', { newEdition: false }, null, 1],
    ['failed', 'failed', { newEdition: true }, null, 1],
    ['failed for good, not forced', 'failed', { newEdition: true }, 'expired', 1],
    ['failed for good, forced', 'failed', { newEdition: false, forced: true }, 'expired', 2],
    ['rejected, forced', 'failed', { newEdition: false, forced: true }, 'rejected', 2],
    ['not made, forced', 'held', { newEdition: false, forced: true }, 'failed', 2],
    ['uncertain, forced', 'held', { newEdition: true, forced: true }, 'uncertain', 1],
    ['open, forced', 'failed', { newEdition: true, forced: true }, 'submitted', 1],
    ['waiting for what failed, forced', 'waiting', { newEdition: true, forced: true }, 'failed', 1],
  ] as const)(
    '%s: the edition is what it must be, so that nothing paid for is lost or bought again',
    async (_, state, how, reportState, edition) => {
      const unitId = await planned(db, run, name())
      await set(unitId, `state = '${state}'`)
      if (reportState !== null) await report(unitId, 1, reportState)
      const later = await newRun(db)
      expect(await planned(db, later, name(), how)).toBe(unitId)
      expect(await unitRow(db, unitId)).toMatchObject({
        state: 'planned',
        edition,
        run_id: String(later),
        forced: 'forced' in how,
      })
      expect(await outcomeOf(db, run, unitId)).toBeNull()
    },
  )

  test('by force goes by the report of its own edition and no earlier one', async () => {
    const unitId = await planned(db, run, name())
    await report(unitId, 1, 'expired')
    await set(unitId, `state = 'failed', edition = 2`)
    await planned(db, run, name(), { forced: true })
    expect(await unitRow(db, unitId)).toMatchObject({ edition: 2 })
  })

  test('by force is forced alone', async () => {
    const unitId = await planned(db, run, name())
    await registerUnits(db.database.kysely, run, [
      { unit: unitNamed(name()), newEdition: false, forced: false },
      { unit: unitNamed(`x${name()}`), newEdition: true, forced: true },
    ])
    expect(await unitRow(db, unitId)).toMatchObject({ forced: false, edition: 1 })
  })

  test('while it is at work stays as it is, and counts for this run too', async () => {
    const unitId = await planned(db, run, name())
    await claimed(db, run, unitId)
    const later = await newRun(db)
    await planned(db, later, name())
    expect(await unitRow(db, unitId)).toMatchObject({ state: 'running', attempts: 1, lease_owner: 'one:1', fence: '1' })
    const { rows } = await db.database.pool.query('select 1 from etl.run_units where run_id = $1 and unit_id = $2', [
      later,
      unitId,
    ])
    expect(rows).toHaveLength(1)
  })

  test('keeps a landing that is not loaded yet, and lets go of one that is', async () => {
    const unitId = await planned(db, run, name())
    await set(unitId, `state = 'failed', landing = 'here', attempts = 4, not_before = now()`)
    await planned(db, run, name())
    expect(await unitRow(db, unitId)).toMatchObject({ state: 'planned', landing: 'here', attempts: 0, not_before: null })
    await set(unitId, `state = 'landed'`)
    await planned(db, run, name())
    expect(await unitRow(db, unitId)).toMatchObject({ state: 'landed', landing: 'here' })
    await set(unitId, `state = 'loaded'`)
    await planned(db, run, name())
    expect(await unitRow(db, unitId)).toMatchObject({ state: 'planned', landing: null })
  })

  test.each([
    ['a loaded one, whatever its reports', `state = 'loaded', loaded_landing = 'old'`, 'downloaded', 'old'],
    [
      'one whose own landing is here, whatever its reports',
      `state = 'failed', landing = 'new', loaded_landing = 'old'`,
      'downloaded',
      'new',
    ],
    ['one without a report, from what is loaded', `state = 'failed', loaded_landing = 'old'`, null, 'old'],
    ['not one whose report is to come', `state = 'waiting', loaded_landing = 'old'`, 'submitted', null],
  ] as const)('from its landing: %s', async (_, values, reportState, opened) => {
    const unitId = await planned(db, run, name())
    await set(unitId, values)
    if (reportState !== null) await report(unitId, 1, reportState)
    const other = await planned(db, run, `other${name()}`)
    await report(other, 1, 'submitted')
    expect(await reopenLanded(db.database.kysely, run, [unitId])).toEqual(opened === null ? [] : [{ unitId }])
    expect((await unitRow(db, unitId)).landing).toBe(opened)
  })

  test('from its landing goes by reports of its own edition', async () => {
    const unitId = await planned(db, run, name())
    await set(unitId, `state = 'failed', loaded_landing = 'old', edition = 2`)
    await report(unitId, 1, 'downloaded')
    expect(await reopenLanded(db.database.kysely, run, [unitId])).toEqual([{ unitId }])
  })
})
