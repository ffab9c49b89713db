// Each statement of a merge, by what it leaves in the table and its history, row by row.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { inCountry, type MergeOptions, mergeRows, trafficRow as row } from '../support/merging.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let definition: Definition
let us: Box
let gb: Box

beforeAll(async () => {
  db = await createTestDatabase()
  definition = { ...(await shippedDefinition('traffic_and_engagement')), tests: [] }
  us = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
  gb = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'gb' })
})
afterAll(() => db.drop())
beforeEach(() => query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history'))

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows
const load = (rows: readonly string[], box = us, options: MergeOptions = {}) =>
  mergeRows(db, definition, box, inCountry(box === gb ? 'gb' : 'us', rows), options)
const now = () =>
  query(`select country, domain, all_traffic_visits as v, _unit_id as unit, _run_id as run, _revision as r, _loaded_at as at
    from data.traffic_and_engagement_v1 order by country, domain`)
const past = () =>
  query(`select country, domain, all_traffic_visits as v, _unit_id as unit, _run_id as run, _revision as r, _loaded_at as at, _valid_from as a, _valid_to as z,
    _ended_run_id as ended from data.traffic_and_engagement_v1_history order by country, domain, _revision`)

describe('where a row comes from', () => {
  test('is on each row and each ended revision: unit, run, time, and the run that ended it', async () => {
    await load([row('a.com', '1'), row('b.com', '1')], us, { unitId: 7, runId: 70 })
    const [a1, b1] = await now()
    expect([a1, b1]).toMatchObject([
      { unit: '7', run: '70', r: 1 },
      { unit: '1007', run: '70', r: 1 },
    ])
    await load([row('a.com', '2')], us, { unitId: 8, runId: 80 })
    const [a2] = await now()
    expect(a2).toMatchObject({ v: '2', unit: '8', run: '80', r: 2 })
    expect(await past()).toEqual([
      {
        country: 'us',
        domain: 'a.com',
        v: '1',
        unit: '7',
        run: '70',
        r: 1,
        at: a1?.['at'],
        a: a1?.['at'],
        z: a2?.['at'],
        ended: '80',
      },
      {
        country: 'us',
        domain: 'b.com',
        v: '1',
        unit: '1007',
        run: '70',
        r: 1,
        at: b1?.['at'],
        a: b1?.['at'],
        z: a2?.['at'],
        ended: '80',
      },
    ])
    await load([row('a.com', '2'), row('b.com', '5')], us, { unitId: 9, runId: 90 })
    expect(await now()).toMatchObject([
      { domain: 'a.com', unit: '8', run: '80', r: 2 },
      { domain: 'b.com', v: '5', unit: '1009', run: '90', r: 2 },
    ])
  })
})

describe('a unit of another slice with the same keys', () => {
  beforeEach(async () => {
    await load([row('a.com', '1'), row('b.com', '1')], gb)
    await load([row('a.com', '2'), row('b.com', '2')], us)
  })
  const theirs = async () => (await now()).filter(({ country }) => country === 'gb')

  test('is not changed, ended or counted by this one', async () => {
    const before = await theirs()
    expect(await load([row('a.com', '3')])).toMatchObject({ updated: 1, ended: 1, previousRows: 2 })
    expect(await theirs()).toEqual(before)
    expect((await past()).filter(({ country }) => country === 'gb')).toEqual([])
  })

  test('lends it no revisions', async () => {
    await load([], gb)
    await load([row('a.com', '2')])
    await load([row('a.com', '2'), row('b.com', '9')])
    expect((await now()).map(({ domain, r }) => `${domain} ${r}`)).toEqual(['a.com 1', 'b.com 2'])
    await load([row('a.com', '1')], gb)
    expect((await theirs()).map(({ r }) => r)).toEqual([2])
  })
})

describe('revisions that come back', () => {
  test('go on from the highest, each key its own', async () => {
    for (const visits of ['1', '2', '3']) await load([row('a.com', visits), row('b.com', '1')])
    await load([])
    await load([row('a.com', '4'), row('b.com', '4')])
    expect((await now()).map(({ r }) => r)).toEqual([4, 2])
  })
})

describe('a load of exactly what is there', () => {
  test('writes nothing, counts all as unchanged', async () => {
    await load([row('a.com', '1'), row('b.com', '1')])
    const before = [await now(), await past()]
    expect(await load([row('b.com', '1'), row('a.com', '1')], us, { unitId: 9 })).toEqual({
      inserted: 0,
      updated: 0,
      ended: 0,
      unchanged: 2,
      previousRows: 2,
      duplicates: 0,
      conflicts: [],
      held: [],
      failures: [],
      withoutRows: [],
      loadedAt: expect.any(String),
    })
    expect([await now(), await past()]).toEqual(before)
  })

  test('of nothing into nothing is nothing', async () => {
    expect(await load([])).toMatchObject({ inserted: 0, previousRows: 0, unchanged: 0 })
  })
})

describe('a value that is absent', () => {
  test('differs from every value and equals itself', async () => {
    const absent = row('a.com', '\\N')
    await load([absent])
    expect(await load([absent])).toMatchObject({ unchanged: 1, updated: 0 })
    expect(await load([row('a.com', '0')])).toMatchObject({ updated: 1 })
    expect(await load([absent])).toMatchObject({ updated: 1 })
    expect((await past()).map(({ v }) => v)).toEqual([null, '0'])
  })
})

describe('keys that come twice', () => {
  test('beside rows that are loaded already: identical ones count once, others are kept out, and their row stays', async () => {
    await load([row('a.com', '1'), row('b.com', '1')])
    const result = await load([row('a.com', '5'), row('a.com', '5'), row('b.com', '7'), row('b.com', '8'), row('b.com', '8')])
    expect(result).toMatchObject({
      inserted: 0,
      updated: 1,
      ended: 0,
      unchanged: 0,
      duplicates: 1,
      previousRows: 2,
      conflicts: [{ ordinals: [3, 4, 5] }],
    })
    expect((await now()).map(({ domain, v }) => `${domain} ${v}`)).toEqual(['a.com 5', 'b.com 1'])
  })

  test('where some of them are new', async () => {
    await load([row('a.com', '1')])
    expect(await load([row('a.com', '1'), row('b.com', '2'), row('b.com', '2')])).toMatchObject({
      inserted: 1,
      unchanged: 1,
      duplicates: 1,
      ended: 0,
    })
  })

  test('and a rejected record protects its row while others end', async () => {
    await load([row('a.com', '1'), row('b.com', '1')])
    const result = await load([row('a.com', '2'), row('a.com', '2')], us, { rejectedKeys: [['2026-01-01', 'b.com', 'us']] })
    expect(result).toMatchObject({ updated: 1, ended: 0, duplicates: 1 })
    expect(await load([], us, { rejectedKeys: [['2026-01-01', 'b.com', 'us']] })).toMatchObject({ ended: 1, unchanged: 0 })
    expect((await now()).map(({ domain }) => domain)).toEqual(['b.com'])
  })
})

describe('a unit of one row, whose key is all its own', () => {
  let single: Definition
  let one: Box
  beforeAll(() => {
    const origins: Readonly<Record<string, 'window' | 'slice'>> = { date: 'window', domain: 'slice', country: 'slice' }
    single = {
      ...definition,
      columns: definition.columns.map((column) => ({ ...column, origin: origins[column.name] ?? column.origin })),
    }
    one = boxOf(single, '2026-01', { domain: 'a.com', country: 'us' })
  })
  const only = (visits: string): string => [visits, '1', '2', '3', '4', '\\N'].join('\t')
  const merge = (rows: readonly string[]) => mergeRows(db, single, one, rows)

  test('is inserted, changed, ended and comes back with its revisions', async () => {
    expect(await merge([only('1')])).toMatchObject({ inserted: 1 })
    expect(await merge([only('1')])).toMatchObject({ unchanged: 1 })
    expect(await merge([only('2')])).toMatchObject({ updated: 1 })
    expect(await merge([])).toMatchObject({ ended: 1 })
    expect(await merge([only('3')])).toMatchObject({ inserted: 1 })
    expect(await now()).toMatchObject([{ domain: 'a.com', country: 'us', v: '3', r: 3 }])
    expect(await merge([only('3'), only('3')])).toMatchObject({ unchanged: 1, duplicates: 1 })
    expect(await merge([only('4'), only('5')])).toMatchObject({ conflicts: [{ ordinals: [1, 2] }] })
  })
})
