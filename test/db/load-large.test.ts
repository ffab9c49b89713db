// Answers of tens of thousands of rows: exactly what conflicts is kept out, and each window finds its own rows.
import { beforeAll, describe, expect, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
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

const query = async <T extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<T[]> =>
  (await db.database.pool.query<T>(text, values)).rows

/** How often all rows of the table were read, by every session of the pool. */
const passesOver = async (table: string, rows: number): Promise<number> => {
  const sessions = Array.from({ length: db.database.pool.totalCount }, () =>
    query('select pg_stat_force_next_flush(), pg_sleep(0.2)'),
  )
  await Promise.all(sessions)
  const [found] = await query<{ read: string }>('select seq_tup_read as read from pg_stat_user_tables where relname = $1', [
    table,
  ])
  return Math.round(Number(found?.read) / rows)
}

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
    const kept = await query<{ raw: string }>('select raw from etl.quarantine')
    const expected = twice.flatMap((at) => [
      line('2026-01', domains[at] ?? '', String(at)),
      line('2026-01', domains[at] ?? '', String(at + 1)),
    ])
    expect(kept.map(({ raw }) => raw).sort()).toEqual(expected.sort())
  })

  test('over many windows find the rows of each by an index', async () => {
    const domains = Array.from({ length: 600 }, (_, at) => `d${at}.com`)
    const months = Array.from({ length: 36 }, (_, at) => addWindows('2021-01-01', 'month', at).slice(0, 7))
    const box = boxOf(definition, '2021-01', { domain: domains, country: 'us' }, '2023-12')
    const lines = months.flatMap((month, at) => domains.map((domain, place) => line(month, domain, String(at * 1_000 + place))))
    const work = await workOn(kit, box)
    expect(await loadBody(kit, work, { body: csv(...lines) })).toMatchObject({ inserted: 21_600, unitsLoaded: 21_600 })
    const second = await workOn(kit, box)
    expect(await loadBody(kit, second, { body: csv(...lines) })).toMatchObject({ unchanged: 21_600, unitsLoaded: 21_600 })
  })

  test('that change a few rows of a month write them without reading the others once more for it', async () => {
    const domains = Array.from({ length: 300 }, (_, at) => `d${at}.com`)
    const countries = Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => `${letter}a`)
    const box = boxOf(definition, '2025-03', { domain: domains, country: countries })
    const cells = domains.flatMap((domain) => countries.map((country) => [domain, country] as const))
    const lineOf = (at: number, visits: number): string => line('2025-03', cells[at]?.[0] ?? '', String(visits), cells[at]?.[1])
    const lines = cells.map((_, at) => lineOf(at, at))
    await loadBody(kit, await workOn(kit, box), { body: csv(...lines) })
    await query('vacuum analyze data.traffic_and_engagement_v1_p202503')
    const passesOf = async (body: string, counts: object): Promise<number> => {
      const before = await passesOver('traffic_and_engagement_v1_p202503', cells.length)
      expect(await loadBody(kit, await workOn(kit, box), { body })).toMatchObject(counts)
      return (await passesOver('traffic_and_engagement_v1_p202503', cells.length)) - before
    }
    const same = await passesOf(csv(...lines), { unchanged: 7_800 })
    const others = lines.map((text, at) => (at % 100 === 7 ? lineOf(at, at + 1) : text))
    expect(await passesOf(csv(...others), { updated: 78, unchanged: 7_722 })).toBe(same)
  })
})
