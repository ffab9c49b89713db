// Answers of tens of thousands of rows: exactly what conflicts is kept out.
import { beforeAll, describe, expect, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { boxOf } from '../support/definitions.ts'
import {
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  workOn,
} from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit

beforeAll(async () => {
  definition = await lenientTraffic()
  kit = await openLoading(db, definition)
})

describe('large answers', () => {
  test('of 20,000 rows with 19 conflicting keys put exactly those rows into quarantine', async () => {
    const domains = Array.from({ length: 20_000 }, (_, at) => `d${at}.com`)
    const box = boxOf(definition, '2026-01', { domain: domains, country: 'us' })
    const twice = Array.from({ length: 19 }, (_, at) => at * 1_000 + 7)
    const lines = domains.map((domain, at) => line('2026-01', domain, String(at)))
    const more = twice.map((at) => line('2026-01', domains[at] ?? '', 'x'.replace('x', String(at + 1))))
    // Among the others, as they come.
    for (const [place, at] of twice.entries()) lines.splice(at + 500, 0, more[place] ?? '')
    const work = await workOn(kit, box)
    const result = await loadBody(kit, work, { body: csv(...lines) })
    expect(result).toMatchObject({ inserted: 19_981, unitsHeld: 19, duplicates: 0 })
    const kept = await db.query<{ raw: string }>('select raw from etl.quarantine')
    const expected = twice.flatMap((at) => [
      line('2026-01', domains[at] ?? '', String(at)),
      line('2026-01', domains[at] ?? '', String(at + 1)),
    ])
    expect(kept.map(({ raw }) => raw).sort()).toEqual(expected.sort())
  })
})
