// A mart goes with its file: nothing that nobody keeps up stays in bi to be read as if it were true.
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { readSettings } from '../../src/config/env.ts'
import { migrateAndPublish } from '../../src/pipeline/migrate-and-publish.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-marts-'))
  db = await createTestDatabase()
  cpSync('pipelines', join(folder, 'pipelines'), { recursive: true })
  cpSync('marts', join(folder, 'marts'), { recursive: true })
})
afterAll(async () => {
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const migrate = () =>
  migrateAndPublish({
    settings: readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: folder }, folder),
    pipelinesFolder: join(folder, 'pipelines'),
    dryRun: false,
    log: silentLog,
  })
const mart = (name: string, text: string): void =>
  writeFileSync(join(folder, 'marts', `${name}.sql`), `-- purpose: p\n-- grain: g\n-- question: q?\n-- reads: ${text}`)
const views = async (): Promise<string[]> => {
  const { rows } = await db.database.pool.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'bi'::regnamespace and relname like 'own_%' order by 1`,
  )
  return rows.map(({ name }) => name)
}

test('is removed from bi, with those that read it, and never what somebody else made', async () => {
  mart('own_first', 'keywords\nselect domain, sum(clicks) as clicks from bi.keywords group by domain')
  mart('own_second', 'own_first\nselect domain from bi.own_first')
  mart('own_third', 'own_first\nselect domain from bi.own_first')
  await migrate()
  await db.database.pool.query('create view bi.own_somebody as select 1 as one')
  rmSync(join(folder, 'marts', 'own_first.sql'))
  rmSync(join(folder, 'marts', 'own_second.sql'))
  expect(await views()).toEqual(['own_first', 'own_second', 'own_somebody', 'own_third'])

  // The third one reads the first: it is kept, and said, until its reader is gone.
  expect(await migrate()).toMatchObject({ removed: ['own_second'], kept: ['own_first'] })
  rmSync(join(folder, 'marts', 'own_third.sql'))
  expect(await migrate()).toMatchObject({ removed: ['own_third', 'own_first'], kept: [] })
  expect(await views()).toEqual(['own_somebody'])
  expect(await migrate()).toMatchObject({ removed: [], kept: [] })
})

test('that PostgreSQL refuses keeps the pending migrations from being applied, and leaves nothing behind', async () => {
  mkdirSync(join(folder, 'migrations'), { recursive: true })
  writeFileSync(
    join(folder, 'migrations', '0900_own.ts'),
    "import { sql } from 'kysely'\nexport const up = (db) => sql`create table data.own_table (one text)`.execute(db)\n",
  )
  mart('own_wrong', 'keywords\nselect nonsense from bi.keywords')
  mart('own_also', 'keywords\nselect domain from bi.keywords')
  await expect(migrate()).rejects.toMatchObject({
    code: 'DEFINITION',
    message: expect.stringMatching(/own_wrong\.sql: PostgreSQL refuses the query.*No migration was applied\.$/s),
  })
  const left = `select (select count(*)::int from etl.kysely_migration where name = '0900_own') as records,
    to_regclass('data.own_table') as made, to_regclass('bi.own_also') as published`
  expect((await db.database.pool.query(left)).rows).toEqual([{ records: 0, made: null, published: null }])
  rmSync(join(folder, 'marts', 'own_wrong.sql'))
  expect(await migrate()).toMatchObject({ applied: ['0900_own'] })
  expect((await db.database.pool.query(left)).rows).toEqual([{ records: 1, made: 'data.own_table', published: 'bi.own_also' }])
})
