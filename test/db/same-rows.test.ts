// The same bytes again: every row is compared, by its hash, and whatever differs is found as ever.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import type { MergeResult } from '../../src/load/merge-context.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { inCountry, mergeRows, trafficRow } from '../support/merging.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const count = 5_100
const domains = Array.from({ length: count }, (_, row) => `d${row}.com`)
const loaded = domains.map((domain, row) => trafficRow(domain, String(row)))

let db: TestDatabase
let definition: Definition
let box: Box

beforeAll(async () => {
  db = await createTestDatabase()
  definition = { ...(await shippedDefinition('traffic_and_engagement')), tests: [] }
  box = boxOf(definition, '2026-01', { domain: domains, country: 'us' })
})
afterAll(() => db.drop())
beforeEach(async () => {
  await db.database.pool.query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history')
  await mergeRows(db, definition, box, loaded)
  const british = boxOf(definition, '2026-01', { domain: domains, country: 'gb' })
  await mergeRows(db, definition, british, inCountry('gb', loaded.slice(0, 10)))
})

/** The answer again, and whether the rows were joined to find out. */
const again = async (rows: readonly string[]): Promise<{ result: MergeResult; isJoined: boolean }> => {
  let isJoined = false
  const result = await mergeRows(db, definition, box, rows, {
    repeatsLoaded: true,
    afterLook: async () => {
      isJoined = true
    },
  })
  return { result, isJoined }
}

const none = { inserted: 0, updated: 0, ended: 0, duplicates: 0, conflicts: [], held: [], failures: [], withoutRows: [] }
const changed = (at: number, row: string): readonly string[] => loaded.with(at, row)

describe('bytes that were loaded last', () => {
  test('change nothing where every row stands, in whatever order, and need no join', async () => {
    const { result, isJoined } = await again(loaded.toReversed())
    expect(result).toEqual({ ...none, unchanged: count, previousRows: count, loadedAt: null })
    expect(isJoined).toBe(false)
  })

  test('need none where numbers are only spelled otherwise', async () => {
    await db.database.pool.query(`update data.traffic_and_engagement_v1 set all_traffic_visits = all_traffic_visits + 0.000`)
    expect(await again(changed(3, trafficRow('d3.com', '3')))).toMatchObject({ isJoined: false, result: { unchanged: count } })
  })

  test.each([
    [
      'a value was changed by hand',
      `update data.traffic_and_engagement_v1 set mobile_visits = 9 where domain = 'd7.com' and country = 'us'`,
      { updated: 1, unchanged: count - 1 },
    ],
    [
      'a value became NULL',
      `update data.traffic_and_engagement_v1 set all_traffic_visits = null where domain = 'd0.com' and country = 'us'`,
      { updated: 1, unchanged: count - 1 },
    ],
    [
      'a row was taken away',
      `delete from data.traffic_and_engagement_v1 where domain = 'd7.com' and country = 'us'`,
      { inserted: 1, unchanged: count - 1 },
    ],
    [
      'two rows changed places',
      `update data.traffic_and_engagement_v1 set all_traffic_visits = 3 - all_traffic_visits where domain in ('d1.com', 'd2.com') and country = 'us'`,
      { updated: 2, unchanged: count - 2 },
    ],
  ])('mend the table where %s', async (_, statement, counts) => {
    await db.database.pool.query(statement)
    const { result, isJoined } = await again(loaded)
    expect(result).toMatchObject({ ...none, ...counts })
    expect(isJoined).toBe(true)
  })

  test('are looked at for repeated keys as ever', async () => {
    const { result } = await again([...loaded, trafficRow('d5.com', '5')])
    expect(result).toMatchObject({ ...none, duplicates: 1, unchanged: count })
    // One row more, one less: the numbers are those of the table.
    const { result: other } = await again([...loaded.slice(1), trafficRow('d5.com', '5')])
    expect(other).toMatchObject({ ...none, duplicates: 1, unchanged: count - 1, ended: 1, withoutRows: [1] })
  })
})
