// `millrace check` tries pending migrations only where nobody can wait for a lock of theirs.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { compareAfter } from '../../src/cli/check/check-tables.ts'
import type { Definition } from '../../src/core/types.ts'
import { datasetMigration } from '../../src/definition/dataset-migration.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let folder: string
let keywords: Definition

beforeAll(async () => {
  db = await createTestDatabase()
  keywords = await shippedDefinition('keywords')
})
afterAll(() => db.drop())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-pending-'))
  return () => rmSync(folder, { recursive: true, force: true })
})

const pending = (name: string, text: string): string => {
  writeFileSync(join(folder, `${name}.ts`), text)
  return name
}

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

test('an index on a table that is there is not tried, so that no load waits while it would be built', async () => {
  const text = `import { sql } from 'kysely'
export const up = async (database) => sql.raw('create index on data.keywords_v1 (keyword)').execute(database)
`
  const name = pending('9001_keywords_v1_index', text)
  expect(await besideALoad(() => compareAfter(db.database, [folder], [name], [keywords], false))).toBe(
    'migration 9001_keywords_v1_index changes what is there; apply it first (`millrace migrate`)',
  )
})

test('a new table with its index is tried and taken back, also beside a load', async () => {
  const lookups = { ...keywords, pipeline: 'lookups', indexes: [{ columns: ['keyword'], include: [] }] }
  const name = pending('9001_lookups_v1', datasetMigration(lookups, []))
  expect(await besideALoad(() => compareAfter(db.database, [folder], [name], [lookups], false))).toEqual([])
  const { rows } = await db.database.pool.query(`select to_regclass('data.lookups_v1') is null as gone`)
  expect(rows).toEqual([{ gone: true }])
})
