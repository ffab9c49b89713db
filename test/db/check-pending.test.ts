// `millrace check` tries pending migrations and takes them back; no load waits long for a lock of theirs.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { compareAfterMigrations } from '../../src/cli/check/check-warehouse.ts'
import type { Definition } from '../../src/core/types.ts'
import { datasetMigration } from '../../src/run/new-migration.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let folder: string
let keywords: Definition

beforeAll(async () => {
  keywords = await shippedDefinition('keywords')
})
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-pending-'))
  return () => rmSync(folder, { recursive: true, force: true })
})

const pending = (name: string, text: string): void => writeFileSync(join(folder, `${name}.ts`), text)

/** As `work` runs, a load writes to the table: nobody gets more than its readers' lock. */
const besideALoad = async <T>(work: () => Promise<T>): Promise<T> => {
  const client = await db.database.pool.connect()
  try {
    await client.query('begin; lock table data.keywords_v1 in row exclusive mode')
    return await work()
  } finally {
    await client.query('rollback')
    client.release()
  }
}

test('an index on a table that a load writes to is given up at once', async () => {
  const text = `import { sql } from 'kysely'
export const up = async (database) => sql.raw('create index on data.keywords_v1 (keyword)').execute(database)
`
  pending('9001_keywords_v1_index', text)
  const began = performance.now()
  const found = await besideALoad(() => compareAfterMigrations(db.database, [folder], [keywords]))
  expect(found).toContain('Run `millrace migrate` first')
  expect(performance.now() - began).toBeLessThan(2_000)
})

test('what takes long keeps a load waiting for a second at most', async () => {
  const text = `import { sql } from 'kysely'
export const up = async (database) => {
  await sql.raw('lock table data.keywords_v1 in share mode').execute(database)
  await sql.raw('select pg_sleep(30)').execute(database)
}
`
  pending('9001_keywords_v1_slow', text)
  const tried = compareAfterMigrations(db.database, [folder], [keywords])
  const began = performance.now()
  await besideALoad(async () => undefined)
  expect(performance.now() - began).toBeLessThan(5_000)
  expect(await tried).toContain('Run `millrace migrate` first')
})

test('a new table with its index is tried and taken back, also beside a load', async () => {
  const lookups = { ...keywords, pipeline: 'lookups', indexes: [{ columns: ['keyword'], include: [] }] }
  pending('9001_lookups_v1', datasetMigration(lookups, []))
  expect(await besideALoad(() => compareAfterMigrations(db.database, [folder], [lookups]))).toEqual([])
  expect(await db.query(`select to_regclass('data.lookups_v1') is null as gone`)).toEqual([{ gone: true }])
})

test('one that PostgreSQL refuses is named', async () => {
  pending('9001_wrong', "import { sql } from 'kysely'\nexport const up = (database) => sql`select nonsense`.execute(database)\n")
  const found = await compareAfterMigrations(db.database, [folder], [keywords])
  expect(found).toMatch(
    /^Migration 9001_wrong \(.*9001_wrong\.ts\) failed: column "nonsense" does not exist\. .*again\. Run `millrace migrate` first$/,
  )
})
