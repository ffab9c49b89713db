// Readers and loads side by side: a long reading transaction holds up no load, and no reader sees half of one.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import type { Mart } from '../../src/core/mart.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { readMart } from '../../src/definition/marts.ts'
import { publish } from '../../src/publish/publish.ts'
import { exportView } from '../../src/semantic/export/export-view.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { everyRow } from '../support/every-row.ts'
import { mergeRows, trafficRow } from '../support/merging.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let mart: Mart

beforeAll(async () => {
  definition = await shippedDefinition('traffic_and_engagement')
  const read = readMart(
    'marts/visits.sql',
    'visits',
    `-- kind: summary of traffic_and_engagement
-- purpose: Visits of all domains.
-- grain: One row a date, domain and country.
-- question: How many?
-- key: date, granularity, domain, country, include_subdomains
select date, granularity, domain, country, include_subdomains, sum(all_traffic_visits) as visits from {{facts}} group by 1, 2, 3, 4, 5`,
  )
  if (read.mart === null) throw new Error(JSON.stringify(read.problems))
  mart = read.mart
  await load('2026-01', ['a.com 1', 'b.com 2'])
  await publish(db.database, [definition], [mart])
})

const boxIn = (month: string): Box => boxOf(definition, month, { domain: ['a.com', 'b.com'], country: 'us' })

/** @param rows `a.com 5`: domain and visits. @param meanwhile called when all is written and nothing committed */
const load = (month: string, rows: readonly string[], meanwhile?: () => Promise<void>, bytes = 1_000) =>
  mergeRows(
    db,
    definition,
    boxIn(month),
    rows.map((row) => trafficRow(row.split(' ')[0] ?? '', row.split(' ')[1] ?? '', `${month}-01`)),
    { marts: [mart], bytes, ...(meanwhile === undefined ? {} : { meanwhile }) },
  )

const question = `select (select coalesce(sum(all_traffic_visits), 0)::int from bi.traffic_and_engagement) as rows,
  (select coalesce(sum(visits), 0)::int from bi.visits) as summary`

test('a reader who began before loads sees what was, holds none of them up, and others see each load whole', async () => {
  const reader = await db.database.pool.connect()
  const ask = async (client: { query: typeof reader.query } = reader) => (await client.query(question)).rows[0]
  try {
    await reader.query('begin isolation level repeatable read')
    expect(await ask()).toEqual({ rows: 3, summary: 3 })
    // A restatement, an ending and a month that was not there; each would wait for the reader if it took a lock that matters.
    await load('2026-01', ['a.com 10'], async () => {
      expect(await db.query(question)).toEqual([{ rows: 3, summary: 3 }])
    })
    expect(await db.query(question)).toEqual([{ rows: 10, summary: 10 }])
    await load('2026-02', ['a.com 100', 'b.com 200'])
    expect(await db.query(question)).toEqual([{ rows: 310, summary: 310 }])
    await publish(db.database, [definition], [mart])
    expect(await ask()).toEqual({ rows: 3, summary: 3 })
  } finally {
    await reader.query('rollback')
    reader.release()
  }
})

test('a summary that takes long to fill, and another version, lock no reader out', async () => {
  const slow: Mart = { ...mart, sql: mart.sql.replace('{{facts}}', '{{facts}} cross join (select pg_sleep(4)) as slow') }
  for (const suffix of ['', '_history'])
    await db.database.pool.query(`create table data.traffic_and_engagement_v2${suffix} (like data.traffic_and_engagement_v1${suffix} including all)
      ${suffix === '' ? 'partition by range (date)' : ''}`)
  const reader = await db.database.pool.connect()
  await reader.query(`set lock_timeout = '3s'`)
  try {
    let published = false
    const publishing = publish(db.database, [{ ...definition, version: 2 }], [slow]).then(() => {
      published = true
    })
    let asked = 0
    for (; !published; asked += 1) {
      expect((await reader.query(question)).rows).toEqual([{ rows: 310, summary: 310 }])
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await publishing
    expect(asked).toBeGreaterThan(15)
  } finally {
    await reader.query('reset lock_timeout')
    reader.release()
    await publish(db.database, [definition], [mart])
  }
})

test('a summary that lacks what its loads are told apart by is refused when it is published, before a load fails on it', async () => {
  const narrow = { ...mart, name: 'narrow', file: 'marts/narrow.sql', key: ['date', 'domain', 'country'] }
  await expect(publish(db.database, [definition], [narrow])).rejects.toThrow(
    /narrow\.sql: the key lacks granularity, include_subdomains/,
  )
})

test('an export beside a first load that makes its month, and beside a reload, has what was before or all that came', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-readers-'))
  const exported = async (): Promise<string[]> => {
    const file = join(folder, 'rows.csv')
    await exportView(db.database, { view: 'traffic_and_engagement', format: 'csv', file, filter: everyRow })
    return readFileSync(file, 'utf8').match(/^2026-03-01.*$/gm) ?? []
  }
  try {
    for (const [rows, before] of [
      [['a.com 1', 'b.com 2'], 0],
      [['a.com 5'], 2],
    ] as const) {
      const beside = async () => expect(await exported()).toHaveLength(before)
      await load('2026-03', rows, beside, 2_000_000)
      expect(await exported()).toHaveLength(rows.length)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
