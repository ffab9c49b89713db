// Indexes that a definition asks for: in every month, however it was made, and enough to answer share of voice without the table.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { migrate } from '../../src/db/migrate.ts'
import { datasetMigration } from '../../src/run/new-migration.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { compareTables } from '../../src/load/drift.ts'
import { parsedColumns } from '../../src/load/table-columns.ts'
import { publish } from '../../src/publish/publish.ts'
import { boxOf, shippedDefinition, shippedDefinitions } from '../support/definitions.ts'
import { mergeRows } from '../support/merging.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let keywords: Definition

beforeAll(async () => {
  keywords = await shippedDefinition('keywords')
})

const numbered = (number: number): string => `keyword ${number}`

const rowOf = (definition: Definition, number: number, keyword: string): string =>
  parsedColumns(definition)
    .map(({ name }) => ({ keyword, top_url: 'u', clicks: String(number) })[name] ?? '\\N')
    .join('\t')

/** @param filled whether the month's table is filled before it is attached. */
const load = (
  definition: Definition,
  box: Box,
  rows: number,
  filled: boolean,
  keywordOf: (number: number) => string = numbered,
): Promise<unknown> => {
  const lines = Array.from({ length: rows }, (_, number) => rowOf(definition, number, keywordOf(number)))
  return mergeRows(db, definition, box, lines, { bytes: filled ? 2_000_000 : 1_000 })
}

const unitFor = (definition: Definition, month: string, domain: string): Box =>
  boxOf(definition, month, { domain, country: 'us' })

/** Every index of a month but its key, with the index of the whole table it is part of. */
const indexesOf = (partition: string) =>
  db.query<{ definition: string; parent: string | null; whole: boolean }>(
    `select regexp_replace(pg_get_indexdef(i.indexrelid), '.* USING ', '') as definition, h.inhparent::regclass::text as parent, i.indisvalid as whole
      from pg_index i left join pg_inherits h on h.inhrelid = i.indexrelid where i.indrelid = '${partition}'::regclass and not i.indisprimary`,
  )

describe('an index of a dataset of one’s own', () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-indexes-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  let lookups: Definition

  beforeAll(async () => {
    const indexes = [
      { columns: ['keyword'], include: ['clicks', 'position'] },
      { columns: ['top_url', 'month'], include: [] },
    ]
    lookups = { ...keywords, pipeline: 'lookups', indexes }
    writeFileSync(join(folder, '9001_lookups_v1.ts'), datasetMigration(lookups, []))
    await migrate(db.database, { folders: [folder] })
  })

  const wanted = ['brin (_unit_id)', 'btree (keyword) INCLUDE (clicks, "position")', 'btree (top_url, month)']

  test('comes with its migration, and with each month, filled first or made empty', async () => {
    expect(await compareTables(db.database.kysely, [lookups])).toEqual([])
    await load(lookups, unitFor(lookups, '2026-01', 'a.com'), 3, true)
    await load(lookups, unitFor(lookups, '2026-02', 'a.com'), 3, false)
    for (const month of ['202601', '202602']) {
      const found = await indexesOf(`data.lookups_v1_p${month}`)
      expect(found.map(({ definition }) => definition).sort()).toEqual(wanted)
      expect(found.map(({ parent, whole }) => [parent?.startsWith('data.lookups_v1_'), whole])).toEqual([
        [true, true],
        [true, true],
        [true, true],
      ])
    }
  })

  test('that the table lacks is told by name and remedy, stops no load, and is in the months filled meanwhile', async () => {
    const [first] = await db.query<{ name: string }>(
      `select i.indexrelid::regclass::text as name from pg_index i where i.indrelid = 'data.lookups_v1'::regclass
        and pg_get_indexdef(i.indexrelid) like '%(keyword)%'`,
    )
    await db.query(`drop index ${first?.name}`)
    expect(await compareTables(db.database.kysely, [lookups])).toEqual([
      {
        pipeline: 'lookups',
        table: 'lookups_v1',
        column: null,
        level: 'warning',
        message:
          'data.lookups_v1 has no index (keyword) include (clicks, position), which the definition asks for; add it in a migration, or remove it from the definition.',
      },
    ])
    await load(lookups, unitFor(lookups, '2026-03', 'a.com'), 3, true)
    expect((await indexesOf('data.lookups_v1_p202603')).map(({ definition }) => definition).sort()).toEqual(wanted)
    // Made again for the whole table it takes over what a month has already; more carried along, or an index of one's own, is no difference.
    await db.query('create index on data.lookups_v1 (keyword) include (clicks, "position", volume)')
    await db.query('create index on data.lookups_v1 (volume)')
    expect(await compareTables(db.database.kysely, [lookups])).toEqual([])
  })

  test('that not every month has is told apart from one that is not there', async () => {
    await db.query('create index on only data.lookups_v1 (country)')
    const [difference] = await compareTables(db.database.kysely, [
      { ...lookups, indexes: [{ columns: ['country'], include: [] }] },
    ])
    expect(difference?.message).toContain('lacks the index (country) in some months')
  })

  test('that lacks what should be carried along is not the one asked for', async () => {
    const [difference] = await compareTables(db.database.kysely, [
      { ...lookups, indexes: [{ columns: ['top_url', 'month'], include: ['clicks'] }] },
    ])
    expect(difference?.message).toContain('has no index (top_url, month) include (clicks)')
  })

  test('in another order, descending or partial, is not the one asked for', async () => {
    await db.query('create index on data.lookups_v1 (month, top_url)')
    await db.query('create index on data.lookups_v1 (difficulty desc)')
    await db.query('create index on data.lookups_v1 (cpc) where clicks > 0')
    const asked = [['difficulty'], ['cpc'], ['top_url', 'keyword']].map((columns) => ({ columns, include: [] }))
    expect(await compareTables(db.database.kysely, [{ ...lookups, indexes: asked }])).toHaveLength(3)
  })
})

interface Plan {
  readonly 'Node Type': string
  readonly 'Heap Fetches'?: number
  readonly Plans?: readonly Plan[]
}
const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

/** What autovacuum does within a minute of a load; once more where that one was at it and kept rows from being seen by all. */
const vacuum = async (partition: string): Promise<void> => {
  for (let time = 1; time <= 50; time += 1) {
    await db.query(`vacuum (analyze) ${partition}`)
    const [seen] = await db.query<{ whole: boolean }>(
      `select relallvisible = relpages as whole from pg_class where oid = '${partition}'::regclass`,
    )
    if (seen?.whole === true) return
    await sleep(100)
  }
}

describe('share of voice', () => {
  test.each([
    ['filled first', '2026-05', true],
    ['made empty', '2026-06', false],
  ])('is answered from the index alone in a month that was %s, and nothing is sorted for it', async (_, month, filled) => {
    await publish(db.database, await shippedDefinitions(), await loadMarts([]))
    await load(keywords, unitFor(keywords, month, 'a.com'), 4_000, filled)
    await load(keywords, unitFor(keywords, month, 'b.com'), 4_000, false)
    const partition = `data.keywords_v1_p${month.replace('-', '')}`
    await vacuum(partition)
    const asked = Array.from({ length: 50 }, (_one, at) => `'keyword ${at * 70}'`).join(', ')
    const question = `select month, keyword, domain, clicks, clicks_all from bi.keyword_share_of_voice
      where month = '${month}-01' and country = 'us' and keyword in (${asked})`
    expect(await db.query(question)).toHaveLength(100)
    const [explained] = await db.query<{ 'QUERY PLAN': readonly { Plan: Plan }[] }>(`explain (analyze, format json) ${question}`)
    const nodes = explained?.['QUERY PLAN'].flatMap(({ Plan: plan }) => nodesOf(plan)) ?? []
    expect(nodes.map((node) => node['Node Type']).filter((type) => /Scan|Sort/.test(type))).toEqual(
      expect.arrayContaining(['Index Only Scan']),
    )
    expect(nodes.map((node) => node['Node Type'])).not.toContain('Sort')
    expect(nodes.map((node) => node['Heap Fetches']).filter((fetches) => fetches !== undefined)).toEqual([0])
  })

  test('leaves the gap between two domains alone, which is read quicker from the key than by a lookup for each keyword', async () => {
    const client = await db.database.pool.connect()
    // With few rows any plan will do; nothing but lookups would be left here, and even then the index must not serve.
    await client.query('begin; set local enable_hashjoin = off; set local enable_mergejoin = off')
    const { rows } = await client.query<{ 'QUERY PLAN': unknown }>(`explain (format json) select keyword from bi.keyword_gap
      where month = '2026-05-01' and country = 'us' and domain = 'a.com' and other_domain = 'b.com'`)
    await client.query('rollback')
    client.release()
    const plan = JSON.stringify(rows)
    expect(plan).toContain('keywords_v1_p202605')
    expect(plan).not.toContain('keyword_country_month')
  })

  test('finds its months cleaned: autovacuum is told to follow each load, in months of every making', async () => {
    const found = await db.query<{ name: string; options: string[] | null }>(
      `select relname as name, reloptions as options from pg_class where relnamespace = 'data'::regnamespace and relispartition and relkind = 'r'`,
    )
    expect(found.length).toBeGreaterThan(3)
    for (const { name, options } of found)
      expect(options, name).toEqual([
        'autovacuum_vacuum_insert_scale_factor=0',
        'autovacuum_vacuum_scale_factor=0.002',
        'autovacuum_vacuum_threshold=1000',
      ])
  })
})
