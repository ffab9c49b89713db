// What a merge refuses: rows of another unit, and times that would overlap, whatever the clock or a twin does.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition, Slice } from '../../src/core/types.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { inCountry, type MergeOptions, mergeRows, trafficRow as row } from '../support/merging.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let definition: Definition
let both: Box
let onlyA: Box
let others: Box

const boxed = (slice: Slice): Box => boxOf(definition, '2026-01', slice)

beforeAll(async () => {
  db = await createTestDatabase()
  definition = await shippedDefinition('traffic_and_engagement')
  both = boxed({ domain: ['a.com', 'b.com'], country: 'us' })
  others = boxed({ domain: ['c.com'], country: 'us' })
  onlyA = boxed({ domain: ['a.com'], country: 'us' })
})
afterAll(() => db.drop())
beforeEach(() => query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history'))

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows
const load = (rows: readonly string[], of: Box = both, options: MergeOptions = {}) => mergeRows(db, definition, of, rows, options)
const now = () =>
  query(`select domain, country, date, all_traffic_visits as v, _revision as r, _unit_id as u from data.traffic_and_engagement_v1
    order by country, domain, date`)

/** Every revision with its time, which must never be empty, backwards or beside another one of the same key. */
const badTimes = () =>
  query(`with every as (
      select domain, country, date, _revision, _valid_from as a, _valid_to as z from data.traffic_and_engagement_v1_history
      union all select domain, country, date, _revision, _loaded_at, 'infinity' from data.traffic_and_engagement_v1)
    select * from every e where a >= z or exists (select 1 from every o where (o.domain, o.country, o.date) = (e.domain, e.country, e.date)
      and o._revision <> e._revision and (o.a, o.z) overlaps (e.a, e.z))`)

describe('a row outside the unit', () => {
  test.each([
    ['of another domain', row('c.com', '7')],
    ['of another month', row('a.com', '7', '2026-02-01')],
    ['of the month before', row('a.com', '7', '2025-12-31')],
  ])('%s fails a first load, and nothing is changed', async (_, stray) => {
    await load([row('x.com', '1')], boxed({ domain: ['x.com'], country: 'us' }))
    const before = await now()
    await mergeRows(db, definition, boxOf(definition, '2026-02', others.slice), [])
    await mergeRows(db, definition, boxOf(definition, '2025-12', others.slice), [])
    await expect(load([row('a.com', '1'), stray], onlyA)).rejects.toMatchObject({
      code: 'WRONG_ECHO',
      message: expect.stringContaining('1 rows'),
    })
    expect(await now()).toEqual(before)
  })

  test('fails a later load too', async () => {
    await load([row('a.com', '1')], onlyA)
    const before = await now()
    await expect(load([row('a.com', '2'), row('c.com', '7')], onlyA)).rejects.toMatchObject({ code: 'WRONG_ECHO' })
    expect(await now()).toEqual(before)
  })

  test("that another unit has loaded keeps that unit's value", async () => {
    await load([row('c.com', '1')], others, { unitId: 2 })
    await load([row('a.com', '1')], onlyA)
    const before = await now()
    await expect(load([row('a.com', '2'), row('c.com', '7')], onlyA)).rejects.toThrow()
    expect(await now()).toEqual(before)
    expect(await query('select 1 from data.traffic_and_engagement_v1_history')).toEqual([])
  })

  test('is not ended by a unit of another country, domain or month', async () => {
    await load([row('c.com', '1')], others)
    await load(inCountry('gb', [row('a.com', '1')]), boxed({ domain: ['a.com'], country: 'gb' }))
    const february = boxOf(definition, '2026-02', both.slice)
    await load([row('a.com', '1', '2026-02-01')], february)
    await load([row('a.com', '1')])
    await load([])
    expect((await now()).map(({ domain, country, date }) => `${domain} ${country} ${date}`)).toEqual([
      'a.com gb 2026-01-01',
      'a.com us 2026-02-01',
      'c.com us 2026-01-01',
    ])
  })
})

/** As if all that is loaded had been loaded by a machine whose clock is a day ahead. */
const aheadOfTime = async (): Promise<void> => {
  await query(`update data.traffic_and_engagement_v1 set _loaded_at = _loaded_at + interval '1 day'`)
  await query(`update data.traffic_and_engagement_v1_history
    set _valid_from = _valid_from + interval '1 day', _valid_to = _valid_to + interval '1 day'`)
}

describe('times of revisions', () => {
  test('meet and never overlap where the clock goes back', async () => {
    await load([row('a.com', '1'), row('b.com', '1')])
    await load([row('a.com', '2')])
    await aheadOfTime()
    await load([row('a.com', '3'), row('b.com', '3')])
    await load([])
    await load([row('a.com', '4'), row('b.com', '4')])
    expect(await badTimes()).toEqual([])
    expect((await now()).map(({ r }) => r)).toEqual([4, 3])
  })

  test('begin again after the end where all had ended and the clock went back', async () => {
    await load([row('a.com', '1')])
    await load([])
    await aheadOfTime()
    await load([row('a.com', '2')])
    expect(await badTimes()).toEqual([])
  })
})

/** Loads `first` and keeps its transaction open until `second` is seen to wait for it or to be done. */
const interleaved = async (
  first: (hold: MergeOptions) => Promise<unknown>,
  second: () => Promise<unknown>,
): Promise<PromiseSettledResult<unknown>[]> => {
  let started: Promise<unknown> = Promise.resolve()
  const one = first({
    during: async () => {
      started = second()
      started.catch(() => undefined)
      for (let look = 0; look < 100; look += 1) {
        const waiting = await query(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        if (waiting.length > 0) break
        await sleep(20)
      }
    },
  })
  return Promise.allSettled([one, one.then(() => started)])
}

describe('two units that overlap, at the same time', () => {
  beforeEach(() => load([row('a.com', '1'), row('b.com', '1')]))

  const twin = (rows: readonly string[]) => () => load(rows, onlyA, { unitId: 2 })

  test.each([
    ['both change a row', [row('a.com', '2'), row('b.com', '2')], [row('a.com', '3')]],
    ['one changes the row that the other ends', [row('a.com', '2'), row('b.com', '2')], []],
    ['one ends the row that the other changes', [row('b.com', '2')], [row('a.com', '3')]],
    ['both end the row', [row('b.com', '2')], []],
  ])('%s: the later one is refused or comes after, no revision is lost or overlaps', async (_, rows, twins) => {
    const [first, second] = await interleaved((hold) => load(rows, both, hold), twin(twins))
    expect(first?.status).toBe('fulfilled')
    if (second?.status === 'rejected') expect(second.reason).toMatchObject({ code: 'DATABASE' })
    expect(await badTimes()).toEqual([])
    await twin(twins)()
    expect(await badTimes()).toEqual([])
    const revisions = await query<{ n: string }>(`select domain, array_agg(_revision order by _revision)::text as n from (
      select domain, _revision from data.traffic_and_engagement_v1_history union all select domain, _revision from data.traffic_and_engagement_v1) x
      group by domain`)
    for (const { n } of revisions) expect(['{1}', '{1,2}', '{1,2,3}']).toContain(n)
    const kept = await query(
      `select all_traffic_visits as v from data.traffic_and_engagement_v1_history where domain = 'a.com' and _revision = 1`,
    )
    expect(kept).toEqual([{ v: '1' }])
  })

  test.each([
    ['ends', []],
    ['changes', [row('a.com', '9'), row('b.com', '1')]],
  ])('one that %s a row written later than its own beginning is refused, and comes after when tried again', async (_, rows) => {
    const late = load(rows, both, { afterLook: () => load([row('a.com', '2')], onlyA, { unitId: 2 }) })
    await expect(late).rejects.toMatchObject({ code: 'DATABASE', message: expect.stringContaining('another load') })
    expect(await badTimes()).toEqual([])
    expect(await now()).toMatchObject([{ v: '2', u: '2' }, { v: '1' }])
    await load(rows)
    expect(await badTimes()).toEqual([])
  })

  test('one that inserts what the other has just inserted compares again', async () => {
    await load([])
    await load([row('b.com', '2')], both, { afterLook: () => load([row('a.com', '2')], onlyA, { unitId: 2 }) })
    const late = load([row('b.com', '3'), row('a.com', '3')], both, {
      afterLook: () => load([row('a.com', '4')], onlyA, { unitId: 2 }),
    })
    await expect(late).rejects.toMatchObject({ code: 'DATABASE' })
    expect(await badTimes()).toEqual([])
  })
})
