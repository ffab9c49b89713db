// Rejected rows in the ledger: kept whole, listed newest first, counted, and answered for by the next load of their unit.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  insertQuarantine,
  listQuarantine,
  quarantinedUnits,
  showQuarantine,
  supersedeQuarantine,
} from '../../src/ledger/quarantine.ts'
import { newRun, planned } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let runId: number
beforeAll(async () => {
  db = await createTestDatabase()
  runId = await newRun(db)
})
afterAll(() => db.drop())

const k = () => db.database.kysely
const entry = (line: number, reason = 'not a number', raw = `a,${line}`) => ({ part: 1, line, column: 'visits', reason, raw })
const put = (unitId: number, pipeline: string, entries: ReturnType<typeof entry>[], edition = 1) =>
  insertQuarantine(k(), { unitId, edition, runId, pipeline, landing: 'here/1', entries })
const everything = { pipelines: [], limit: 10_000, all: false }

describe('quarantine', () => {
  test('keeps each row with its record, landing, place, reason, unit and run', async () => {
    const unitId = await planned(db, runId, 'one.com')
    await put(unitId, 'p1', [entry(7, 'not a \u0000 number', 'a\u0000,\ud800,ü')])
    const { rows, total } = await listQuarantine(k(), { ...everything, pipelines: ['p1'] })
    expect(total).toBe(1)
    expect(rows).toEqual([
      {
        quarantine_id: expect.any(Number),
        unit_key: 'traffic/v1/2026-01/domain=one.com',
        pipeline: 'p1',
        state: 'open',
        landing: 'here/1',
        part: 1,
        line: 7,
        column_name: 'visits',
        reason: 'not a \\u0000 number',
        raw: 'a\\u0000,\ufffd,ü',
        run_id: runId,
        created_at: expect.stringMatching(/Z$/),
      },
    ])
    expect(await showQuarantine(k(), rows[0]?.quarantine_id ?? 0)).toEqual(rows[0])
    expect(await showQuarantine(k(), 999_999)).toBeNull()
  })

  test('takes more rows than one statement may have parameters, and none', async () => {
    const unitId = await planned(db, runId, 'many.com')
    await put(unitId, 'p2', [])
    await put(
      unitId,
      'p2',
      Array.from({ length: 2_501 }, (_, index) => entry(index + 1)),
    )
    const { rows, total } = await listQuarantine(k(), { ...everything, pipelines: ['p2'] })
    expect([rows.length, total]).toEqual([2_501, 2_501])
    expect(new Set(rows.map(({ line }) => line)).size).toBe(2_501)
  })

  test('lists the newest first, of the pipelines asked for, up to a limit, and counts all of them', async () => {
    const unitId = await planned(db, runId, 'list.com')
    await put(unitId, 'p3', [entry(1), entry(2)])
    await put(unitId, 'p4', [entry(3)])
    await put(unitId, 'p5', [entry(4)])
    const { rows, total } = await listQuarantine(k(), { pipelines: ['p3', 'p4'], limit: 2, all: false })
    expect([rows.map(({ line }) => line), total]).toEqual([[3, 2], 3])
    const all = await listQuarantine(k(), everything)
    expect(all.rows.slice(0, 4).map(({ line }) => line)).toEqual([4, 3, 2, 1])
    expect(all.total).toBe(all.rows.length)
  })

  test('is answered for by the next load of the unit, of all editions or of one; other units are not', async () => {
    const [one, other] = [await planned(db, runId, 'sup1.com'), await planned(db, runId, 'sup2.com')]
    await put(one, 'p6', [entry(1)], 1)
    await put(one, 'p6', [entry(2)], 2)
    await put(other, 'p6', [entry(3)], 2)
    const lines = async (all: boolean) =>
      (await listQuarantine(k(), { pipelines: ['p6'], limit: 9, all })).rows.map(({ line, state }) => `${line} ${state}`)
    await supersedeQuarantine(k(), one, 2)
    expect(await lines(false)).toEqual(['3 open', '1 open'])
    expect(await quarantinedUnits(k(), ['p6'])).toEqual([one, other])
    await supersedeQuarantine(k(), one)
    expect(await lines(true)).toEqual(['3 open', '2 superseded', '1 superseded'])
    expect(await quarantinedUnits(k(), ['p6'])).toEqual([other])
    expect(await quarantinedUnits(k(), ['p7'])).toEqual([])
    const { rows } = await db.database.pool.query(
      `select resolved_at is not null as resolved from etl.quarantine where pipeline = 'p6' order by line`,
    )
    expect(rows).toEqual([{ resolved: true }, { resolved: true }, { resolved: false }])
    const before = await db.database.pool.query(`select resolved_at from etl.quarantine where pipeline = 'p6' and line = 2`)
    await supersedeQuarantine(k(), one)
    expect(
      await db.database.pool.query(`select resolved_at from etl.quarantine where pipeline = 'p6' and line = 2`),
    ).toMatchObject({ rows: before.rows })
  })

  test('names each unit once', async () => {
    const unitId = await planned(db, runId, 'twice.com')
    await put(unitId, 'p8', [entry(1), entry(2)])
    expect(await quarantinedUnits(k(), ['p8'])).toEqual([unitId])
  })
})
