// Marts of one's own: one goes with its file, since nothing that nobody keeps up stays in bi to be read as if it were true; a summary that comes or changes
// beside a load is filled by that load as it is now.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { readSettings } from '../../src/core/env.ts'
import { type KnownMarts, refreshSummaries } from '../../src/load/summaries.ts'
import { assertSummariesMade, openMarts } from '../../src/run/open-runtime.ts'
import { newMigration } from '../../src/run/new-migration.ts'
import { migrateAndPublish } from '../../src/run/migrate-and-publish.ts'
import { shippedDefinition, unitOf } from '../support/definitions.ts'
import { createTestDatabase, testDatabase } from '../support/postgres.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase()
const folder = testFolder()

beforeAll(async () => {
  cpSync('pipelines', join(folder, 'pipelines'), { recursive: true })
  cpSync('marts', join(folder, 'marts'), { recursive: true })
})
const migrate = () =>
  migrateAndPublish({
    settings: readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: folder }, folder),
    pipelinesFolder: join(folder, 'pipelines'),
    dryRun: false,
  })
const mart = (name: string, text: string): void =>
  writeFileSync(join(folder, 'marts', `${name}.sql`), `-- purpose: p\n-- grain: g\n-- question: q?\n-- reads: ${text}`)
const views = async (): Promise<string[]> => {
  const rows = await db.query<{ name: string }>(
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

test.for(['table', 'view'])(
  'never takes the place of a %s that somebody else made, and says so before anything is changed',
  async (kind) => {
    const { pool } = db.database
    await pool.query(`create ${kind} bi.own_figures as select 1 as one`)
    mart('own_figures', 'keywords\nselect domain from bi.keywords')
    try {
      await expect(migrate()).rejects.toMatchObject({
        code: 'CONFIGURATION',
        message: expect.stringContaining('bi.own_figures: Millrace needs this name'),
      })
      expect((await pool.query('select * from bi.own_figures')).rows).toEqual([{ one: 1 }])
    } finally {
      await pool.query(`drop ${kind} bi.own_figures`)
    }
    await migrate()
    // From now on it is ours, whatever becomes of it.
    await migrate()
    rmSync(join(folder, 'marts', 'own_figures.sql'))
    await migrate()
  },
)

test.for([
  ['keyword_months', 'table'],
  ['keywords', 'view'],
  ['keywords_history', 'table'],
  ['freshness', 'view'],
  ['freshness', 'table'],
])('bi.%s, a %s that is older than the warehouse, is not replaced', async ([name, kind]) => {
  const older = await createTestDatabase()
  const { pool } = older.database
  try {
    await pool.query(`create ${kind} bi.${name} as select 1 as one`)
    const settings = readSettings({ DATABASE_URL: older.url, MILLRACE_HOME: folder }, folder)
    const done = migrateAndPublish({ settings, pipelinesFolder: join(folder, 'pipelines'), dryRun: false })
    await expect(done).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringContaining(`bi.${name}: Millrace needs this name`),
    })
    expect((await pool.query(`select * from bi.${name}`)).rows).toEqual([{ one: 1 }])
  } finally {
    await older.drop()
  }
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
  expect(await db.query(left)).toEqual([{ records: 0, made: null, published: null }])
  rmSync(join(folder, 'marts', 'own_wrong.sql'))
  expect(await migrate()).toMatchObject({ applied: ['0900_own'] })
  expect(await db.query(left)).toEqual([{ records: 1, made: 'data.own_table', published: 'bi.own_also' }])
})

test('whose header explains a column that the query does not give is not published: file and column are named', async () => {
  mart(
    'own_misnamed',
    'keywords\n-- column clikcs: Clicks of the domain.\nselect domain, sum(clicks) as clicks from bi.keywords group by domain',
  )
  await expect(migrate()).rejects.toMatchObject({
    code: 'DEFINITION',
    message: expect.stringMatching(
      /own_misnamed\.sql: the header describes 'clikcs', which the query does not return\. It returns domain, clicks\./,
    ),
  })
  expect(await views()).not.toContain('own_misnamed')
  rmSync(join(folder, 'marts', 'own_misnamed.sql'))
})

test('whose grain names a column that the query does not give is not published; words after its colon are prose', async () => {
  const grain = (words: string): void =>
    writeFileSync(
      join(folder, 'marts', 'own_grain.sql'),
      `-- purpose: p\n-- grain: One row per ${words}.\n-- question: q?\n-- reads: traffic_and_engagement
select date, country, max(domain) as domain from bi.traffic_and_engagement group by date, country`,
    )
  grain('month and country')
  await expect(migrate()).rejects.toMatchObject({
    code: 'DEFINITION',
    message: expect.stringMatching(
      /own_grain\.sql: the grain names 'month', which the query does not return; write other words after a colon\. It returns date, country, domain\. Correct the header or the query;/,
    ),
  })
  expect(await views()).not.toContain('own_grain')
  grain('date and country: not one a month')
  await migrate()
  expect(await views()).toContain('own_grain')
  rmSync(join(folder, 'marts', 'own_grain.sql'))
})

test('migrating renews statistics of what changed enough', async () => {
  const client = await db.database.pool.connect()
  await client.query(`insert into bi.dim_keyword (keyword) select 'keyword ' || n from generate_series(1, 5000) n`)
  await client.query('select pg_stat_force_next_flush()')
  client.release()
  await migrate()
  expect(
    await db.query(`select count(*)::int as columns from pg_stats where schemaname = 'bi' and tablename = 'dim_keyword'`),
  ).toEqual([{ columns: 3 }])
})

test('changes its shape with all that read it, keeps the rights on them, and never drops what somebody else made', async () => {
  const { pool } = db.database
  mart('own_base', 'keywords\nselect domain, sum(clicks) as clicks from bi.keywords group by domain')
  mart('own_reader', 'own_base, keyword_months\nselect b.domain from bi.own_base b join bi.keyword_months m using (domain)')
  mart('own_last', 'own_reader\nselect domain from bi.own_reader')
  await migrate()
  await pool.query(
    `do $$ begin create role analyst_test nologin; exception when duplicate_object then null; end $$; grant select on bi.own_last to analyst_test`,
  )
  const seen = () =>
    pool.query(`select has_table_privilege('analyst_test', 'bi.own_last', 'select') as may, to_regclass('bi.own_reader') is not null as there,
      (select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = 'bi.own_base'::regclass and attnum > 0) as columns`)
  mart('own_base', 'keywords\nselect count(*) as keywords, domain, sum(clicks) as clicks from bi.keywords group by domain')
  await migrate()
  expect((await seen()).rows).toEqual([{ may: true, there: true, columns: 'keywords domain clicks' }])

  // A pipeline's own view: its columns in another order, with every mart that reads it, and a summary made anew with those that read it.
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace(/( {4}clicks: .*\n)( {4}traffic_share: .*\n)/, '$2$1'))
  await pool.query(`comment on table bi.keyword_months is 'made from another query'`)
  expect((await migrate()).removed).toEqual([])
  expect((await seen()).rows).toEqual([{ may: true, there: true, columns: 'keywords domain clicks' }])
  const { rows } = await pool.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = 'bi.keywords'::regclass and attname in ('clicks', 'traffic_share') order by attnum`,
  )
  expect(rows.map(({ name }) => name)).toEqual(['traffic_share', 'clicks'])

  await pool.query('create view bi.own_somebodys as select domain from bi.keyword_domains')
  await pool.query(`comment on table bi.keyword_months is 'made from another query'`)
  await expect(migrate()).rejects.toMatchObject({
    code: 'CONFIGURATION',
    message: expect.stringContaining(
      'bi.keyword_domains must be replaced with other columns, but bi.own_somebodys reads it, which is not a mart of these files',
    ),
  })
  expect(await views()).toContain('own_somebodys')
  await pool.query('drop view bi.own_somebodys')
  writeFileSync(file, text)
  for (const name of ['own_base', 'own_reader', 'own_last']) rmSync(join(folder, 'marts', `${name}.sql`))
  await migrate()
})

describe('a summary of one’s own', () => {
  const summary = (name: string, columns: string): void =>
    writeFileSync(
      join(folder, 'marts', `${name}.sql`),
      `-- kind: summary of keywords\n-- key: month, domain, country, traffic_source, web_source, branded_type\n-- purpose: p\n-- grain: g\n-- question: q?
select month, domain, country, traffic_source, web_source, branded_type, ${columns} from {{facts}} group by 1, 2, 3, 4, 5, 6`,
    )
  const asFirst = 'count(*) as keywords, sum(clicks)::bigint as clicks'
  const turned = 'sum(clicks)::bigint as clicks, count(*) as keywords'
  const read = (name: string) => db.query(`select domain, keywords::int, clicks::int from bi.${name} order by 1`)

  test('that comes or changes while a process loads is filled by that process as it is now; a file that is not migrated stops the next one before it asks', async () => {
    const keywords = await shippedDefinition('keywords')
    const load = (domain: string, known: KnownMarts): Promise<void> =>
      db.database.kysely.transaction().execute(async (trx) => {
        const unit = unitOf(keywords, '2026-08', { domain, country: 'us' })
        await sql`insert into bi.dim_domain (domain) values (${domain})`.execute(trx)
        await sql`insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks,
          _unit_id, _run_id, _revision, _loaded_at) values ('2026-08-01', ${domain}, 'us', 'All', 'Total', 'All', 'k', 'u', 70, 1, 1, 1, now())`.execute(
          trx,
        )
        await refreshSummaries(trx, keywords, { ...unit, leftOut: [], units: sql`false` }, known)
      })
    summary('own_sums', asFirst)
    await migrate()
    await db.database.pool.query(
      `create table data.own_month partition of data.keywords_v1 for values from ('2026-08-01') to ('2026-09-01');
       insert into bi.dim_country (country) values ('us')`,
    )
    const known = await openMarts(join(folder, 'pipelines'))
    await load('first.com', known)
    summary('own_sums', turned)
    summary('own_later', turned)
    await migrate()
    await load('second.com', known)
    const both = ['first.com', 'second.com'].map((domain) => ({ domain, keywords: 1, clicks: 70 }))
    expect(await read('own_sums')).toEqual(both)
    expect(await read('own_later')).toEqual(both)

    // Not migrated yet: what runs goes on with the table as it is; what starts says so.
    summary('own_sums', asFirst)
    await load('third.com', known)
    expect(await read('own_sums')).toHaveLength(3)
    const next = await openMarts(join(folder, 'pipelines'))
    const behind = {
      code: 'SCHEMA_BEHIND',
      message: expect.stringMatching(/bi\.own_sums was made from another query than .*own_sums\.sql has\. Run/),
    }
    await expect(load('fourth.com', next)).rejects.toMatchObject(behind)
    await expect(assertSummariesMade(db.database, [keywords], next.current())).rejects.toMatchObject(behind)
    await migrate()
    await load('fourth.com', next)
    expect(await read('own_sums')).toEqual(await read('own_later'))
  })

  test('with the query of one that is there is made beside it', async () => {
    for (const name of ['own_former', 'own_latter']) {
      summary(name, asFirst)
      await migrate()
    }
    expect(await read('own_latter')).toEqual(await read('own_former'))
    for (const name of ['own_former', 'own_latter']) rmSync(join(folder, 'marts', `${name}.sql`))
    await migrate()
  })

  test('takes the place of a view of its name, and a view that of a summary, with those that read it and the rights on both', async () => {
    const { pool } = db.database
    const view = () => mart('own_turned', `keywords\nselect month, domain, ${asFirst} from bi.keywords group by 1, 2`)
    mart('own_reader', 'own_turned\nselect domain, clicks from bi.own_turned')
    await pool.query(`do $$ begin create role analyst_test nologin; exception when duplicate_object then null; end $$`)
    const seen = async () =>
      (
        await pool.query(`select c.relkind::text as kind, has_table_privilege('analyst_test', c.oid, 'select') as may, to_regclass('bi.own_reader') is not null as is_read
          from pg_class c where c.oid = to_regclass('bi.own_turned')`)
      ).rows
    view()
    await migrate()
    await pool.query('grant select on bi.own_turned to analyst_test')
    summary('own_turned', asFirst)
    await migrate()
    expect(await seen()).toEqual([{ kind: 'r', may: true, is_read: true }])
    view()
    await migrate()
    expect(await seen()).toEqual([{ kind: 'v', may: true, is_read: true }])
    for (const name of ['own_turned', 'own_reader']) rmSync(join(folder, 'marts', `${name}.sql`))
    await migrate()
    expect(await seen()).toEqual([])
  })

  test('that sums up another pipeline from now on holds its rows and no others', async () => {
    const [pipelinesFolder, settings] = [
      join(folder, 'pipelines'),
      readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: folder }, folder),
    ]
    const yaml = readFileSync(join(pipelinesFolder, 'keywords.yaml'), 'utf8')
    writeFileSync(join(pipelinesFolder, 'words.yaml'), yaml.replace('pipeline: keywords', 'pipeline: words'))
    await newMigration({ pipeline: 'words', pipelinesFolder, settings: () => settings })
    summary('own_words', asFirst)
    await migrate()
    expect(await read('own_words')).not.toEqual([])
    const file = join(folder, 'marts', 'own_words.sql')
    writeFileSync(file, readFileSync(file, 'utf8').replace('summary of keywords', 'summary of words'))
    await migrate()
    expect(await read('own_words')).toEqual([])
    for (const one of [file, join(pipelinesFolder, 'words.yaml')]) rmSync(one)
    await migrate()
  })

  test('of a pipeline that is defined no more stays as it is, whatever its file says by now, and a new one is not made', async () => {
    const pipeline = join(folder, 'pipelines', 'keywords.yaml')
    const [yaml, file] = [readFileSync(pipeline, 'utf8'), join(folder, 'marts', 'own_left.sql')]
    const explained = (column: string): void =>
      writeFileSync(file, readFileSync(file, 'utf8').replace('-- question', `-- column ${column}: What it is.\n-- question`))
    summary('own_left', asFirst)
    explained('clicks')
    await migrate()
    const before = await read('own_left')
    rmSync(pipeline)
    summary('own_left', `${asFirst}, max(volume) as most`)
    explained('most')
    summary('own_new', asFirst)
    expect((await migrate()).leftOut).toEqual([])
    expect(await read('own_left')).toEqual(before)
    expect(await views()).not.toContain('own_new')
    writeFileSync(pipeline, yaml)
    await migrate()
    expect(await views()).toContain('own_new')
    for (const name of ['own_left', 'own_new']) rmSync(join(folder, 'marts', `${name}.sql`))
    await migrate()
  })

  test('that sums up over more than the windows of its pipeline is refused at the next load: it would keep the last window alone', async () => {
    const keywords = await shippedDefinition('keywords')
    const file = join(folder, 'marts', 'own_quarters.sql')
    summary('own_quarters', asFirst)
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace('\nselect month,', "\nselect date_trunc('quarter', month)::date as month,"),
    )
    const { pool } = db.database
    await pool.query('create table public.kept as select * from data.keywords_v1; delete from data.keywords_v1')
    await migrate()
    await pool.query('insert into data.keywords_v1 select * from public.kept')
    const known = await openMarts(join(folder, 'pipelines'))
    const unit = unitOf(keywords, '2026-08', { domain: 'first.com', country: 'us' })
    const load = db.database.kysely
      .transaction()
      .execute((trx) => refreshSummaries(trx, keywords, { ...unit, leftOut: [], units: sql`false` }, known))
    await expect(load).rejects.toMatchObject({
      code: 'DEFINITION',
      message: expect.stringMatching(/own_quarters\.sql: .*2026-07-01/),
    })
    // Where rows tell it already it is not made.
    cpSync(file, join(folder, 'marts', 'own_years.sql'))
    await expect(migrate()).rejects.toMatchObject({
      code: 'DEFINITION',
      message: expect.stringMatching(/own_years\.sql: .*2026-07-01/),
    })
    rmSync(join(folder, 'marts', 'own_years.sql'))
    rmSync(file)
    await migrate()
  })
})
