// The merge on a real PostgreSQL, with rows worked out by hand.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import type { LoadResult } from '../../src/run/job-work.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { inCountry, type MergeOptions, mergeRows, trafficRow as row } from '../support/merging.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let box: Box

beforeAll(async () => {
  definition = await shippedDefinition('traffic_and_engagement')
  box = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
})
beforeEach(() => query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history'))

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows

const load = (
  rows: readonly string[],
  { of = box, ...options }: MergeOptions & { readonly of?: Box } = {},
): Promise<LoadResult> => mergeRows(db, definition, of, rows, options)

const counts = ({ inserted, updated, ended, unchanged, duplicates }: LoadResult) => ({
  inserted,
  updated,
  ended,
  unchanged,
  duplicates,
})
const now = () =>
  query('select domain, all_traffic_visits as v, _revision as r from data.traffic_and_engagement_v1 order by domain, date')
const past = () =>
  query(
    'select domain, all_traffic_visits as v, _revision as r from data.traffic_and_engagement_v1_history order by domain, _revision',
  )

describe('a merge', () => {
  test('counts what it inserts, updates, ends and leaves', async () => {
    expect(counts(await load([row('a.com', '1'), row('b.com', '2')]))).toEqual({
      inserted: 2,
      updated: 0,
      ended: 0,
      unchanged: 0,
      duplicates: 0,
    })
    expect(counts(await load([row('a.com', '5')]))).toEqual({ inserted: 0, updated: 1, ended: 1, unchanged: 0, duplicates: 0 })
    expect(await now()).toEqual([{ domain: 'a.com', v: '5', r: 2 }])
    expect(await past()).toEqual([
      { domain: 'a.com', v: '1', r: 1 },
      { domain: 'b.com', v: '2', r: 1 },
    ])
  })

  test('gives three revisions to a value that goes from A to B and back, with times that meet', async () => {
    for (const visits of ['1', '2', '1']) await load([row('a.com', visits)])
    expect(await now()).toEqual([{ domain: 'a.com', v: '1', r: 3 }])
    expect(await past()).toEqual([
      { domain: 'a.com', v: '1', r: 1 },
      { domain: 'a.com', v: '2', r: 2 },
    ])
    const gaps = await query(`select 1 from data.traffic_and_engagement_v1_history a
      join (select _valid_from as at, _revision from data.traffic_and_engagement_v1_history union all
        select _loaded_at, _revision from data.traffic_and_engagement_v1) b on b._revision = a._revision + 1
      where a._valid_to <> b.at or a._valid_from >= a._valid_to`)
    expect(gaps).toEqual([])
  })

  test('goes on with the revisions of a row that ended and comes back', async () => {
    await load([row('a.com', '1'), row('b.com', '1')])
    await load([row('a.com', '1')])
    await load([row('a.com', '1'), row('b.com', '9')])
    expect(await now()).toEqual([
      { domain: 'a.com', v: '1', r: 1 },
      { domain: 'b.com', v: '9', r: 2 },
    ])
  })

  test('writes nothing when the same comes again, also as 1.00', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    const before = await query('select xmin::text, ctid::text, * from data.traffic_and_engagement_v1 order by domain')
    expect(counts(await load([row('a.com', '1.00'), row('b.com', '2')], {}))).toEqual({
      inserted: 0,
      updated: 0,
      ended: 0,
      unchanged: 2,
      duplicates: 0,
    })
    expect(await query('select xmin::text, ctid::text, * from data.traffic_and_engagement_v1 order by domain')).toEqual(before)
  })

  test('tells NULL from 0', async () => {
    await load([row('a.com', '\\N')])
    expect(counts(await load([row('a.com', '0')]))).toMatchObject({ updated: 1 })
    expect(await past()).toEqual([{ domain: 'a.com', v: null, r: 1 }])
  })

  test('touches nothing outside its window and slice', async () => {
    const others = [
      { of: boxOf(definition, '2026-01', { domain: ['c.com'], country: 'us' }), line: row('c.com', '1') },
      { of: boxOf(definition, '2026-01', { domain: ['a.com'], country: 'gb' }), line: row('a.com', '1', '2026-01-01', 'gb') },
      { of: boxOf(definition, '2026-02', { domain: ['a.com'], country: 'us' }), line: row('a.com', '1', '2026-02-01') },
    ]
    for (const { of, line } of others) await load([line], { of })
    const before = await query('select xmin::text, * from data.traffic_and_engagement_v1 order by date, country, domain')
    await load([row('a.com', '1')])
    await load([])
    expect(await query('select xmin::text, * from data.traffic_and_engagement_v1 order by date, country, domain')).toEqual(before)
  })

  test('collapses identical rows and counts them', async () => {
    expect(counts(await load([row('a.com', '1'), row('a.com', '1'), row('b.com', '2')]))).toMatchObject({
      inserted: 2,
      duplicates: 1,
    })
    expect(counts(await load([row('a.com', '1'), row('a.com', '1'), row('b.com', '2')]))).toMatchObject({
      unchanged: 2,
      duplicates: 1,
    })
  })

  test('loads no row of a key whose rows conflict, and leaves what was loaded', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    const result = await load([row('a.com', '1'), row('b.com', '7'), row('b.com', '8')])
    expect(result.quarantined).toBe(2)
    expect(counts(result)).toMatchObject({ unchanged: 1, ended: 0, inserted: 0 })
    expect(await now()).toEqual([
      { domain: 'a.com', v: '1', r: 1 },
      { domain: 'b.com', v: '2', r: 1 },
    ])
  })

  test('does not end a row whose new record was rejected', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    expect(counts(await load([row('a.com', '1'), row('b.com', 'oops')]))).toMatchObject({
      ended: 0,
      unchanged: 1,
    })
  })

  test('ends nothing when a record of the answer has a key nobody can read', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    expect(counts(await load([row('a.com', '1'), row('nobody.com', '1')]))).toMatchObject({ ended: 0, unchanged: 1 })
  })

  test('shows readers all of a unit or nothing of it', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    await load([row('a.com', '5')], {
      meanwhile: async () => {
        expect(await now()).toEqual([
          { domain: 'a.com', v: '1', r: 1 },
          { domain: 'b.com', v: '2', r: 1 },
        ])
      },
    })
    expect(await now()).toEqual([{ domain: 'a.com', v: '5', r: 2 }])
  })

  test('leaves all as it was when its transaction is rolled back', async () => {
    await load([row('a.com', '1')])
    const failing = load([row('a.com', '2')], {
      meanwhile: async () => {
        await query(`select pg_terminate_backend(pid) from pg_locks where not granted and relation = 'etl.run_jobs'::regclass`)
      },
    })
    await expect(failing).rejects.toThrow()
    expect(await now()).toEqual([{ domain: 'a.com', v: '1', r: 1 }])
    expect(await past()).toEqual([])
  })

  test('makes the partition of a month once when many units want it at the same time', async () => {
    const countries = ['us', 'gb', 'de', 'fr', 'es', 'it']
    const results = await Promise.all(
      countries.map((country) =>
        load(inCountry(country, [row('a.com', '1', '2027-05-01')]), {
          of: boxOf(definition, '2027-05', { domain: ['a.com'], country }),
        }),
      ),
    )
    expect(results.map((result) => result.inserted)).toEqual(countries.map(() => 1))
  })

  test('keeps every byte of text, lists and digits', async () => {
    const keywords = await shippedDefinition('keywords')
    const one = boxOf(keywords, '2026-01', { domain: 'a.com', country: 'us' })
    const cells = [
      '日本 "x"\\\\\\t\\n',
      'u',
      '9223372036854775807',
      '0.1234567890123456789012345678901234567890',
      '\\N',
      '\\N',
      'null',
      'NA',
      '007',
      '1',
      '1',
      '1',
      '1',
      '1',
      '{"a,b","NULL"}',
    ]
    await mergeRows(db, keywords, one, [cells.join('\t')])
    expect(
      await query('select keyword, clicks, traffic_share, primary_intent, secondary_intent, serp_features from data.keywords_v1'),
    ).toEqual([
      {
        keyword: '日本 "x"\\\t\n',
        clicks: '9223372036854775807',
        traffic_share: '0.1234567890123456789012345678901234567890',
        primary_intent: 'null',
        secondary_intent: 'NA',
        serp_features: ['a,b', 'NULL'],
      },
    ])
  })
})
