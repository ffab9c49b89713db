// The merge on a real PostgreSQL: what the oracle of loads does not look at.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import type { LoadResult } from '../../src/run/job-work.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { type MergeOptions, mergeRows, trafficRow as row } from '../support/merging.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let box: Box

beforeAll(async () => {
  definition = await shippedDefinition('traffic_and_engagement')
  box = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
})
beforeEach(() => db.query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history'))

const load = (rows: readonly string[], options: MergeOptions = {}): Promise<LoadResult> =>
  mergeRows(db, definition, box, rows, options)

const now = () =>
  db.query('select domain, all_traffic_visits as v, _revision as r from data.traffic_and_engagement_v1 order by domain, date')
const past = () =>
  db.query(
    'select domain, all_traffic_visits as v, _revision as r from data.traffic_and_engagement_v1_history order by domain, _revision',
  )

describe('a merge', () => {
  test('gives three revisions to a value that goes from A to B and back, with times that meet', async () => {
    for (const visits of ['1', '2', '1']) await load([row('a.com', visits)])
    expect(await now()).toEqual([{ domain: 'a.com', v: '1', r: 3 }])
    expect(await past()).toEqual([
      { domain: 'a.com', v: '1', r: 1 },
      { domain: 'a.com', v: '2', r: 2 },
    ])
    const gaps = await db.query(`select 1 from data.traffic_and_engagement_v1_history a
      join (select _valid_from as at, _revision from data.traffic_and_engagement_v1_history union all
        select _loaded_at, _revision from data.traffic_and_engagement_v1) b on b._revision = a._revision + 1
      where a._valid_to <> b.at or a._valid_from >= a._valid_to`)
    expect(gaps).toEqual([])
  })

  test('writes nothing when the same comes again, also as 1.00', async () => {
    await load([row('a.com', '1'), row('b.com', '2')])
    const before = await db.query('select xmin::text, ctid::text, * from data.traffic_and_engagement_v1 order by domain')
    expect(await load([row('a.com', '1.00'), row('b.com', '2')])).toMatchObject({
      inserted: 0,
      updated: 0,
      ended: 0,
      unchanged: 2,
    })
    expect(await db.query('select xmin::text, ctid::text, * from data.traffic_and_engagement_v1 order by domain')).toEqual(before)
  })

  test('tells NULL from 0', async () => {
    await load([row('a.com', '\\N')])
    expect(await load([row('a.com', '0')])).toMatchObject({ updated: 1 })
    expect(await past()).toEqual([{ domain: 'a.com', v: null, r: 1 }])
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
      await db.query(
        'select keyword, clicks, traffic_share, primary_intent, secondary_intent, serp_features from data.keywords_v1',
      ),
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
