// Migrations, the live tables against the definitions, and the views people read.
import { beforeAll, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import type { Definition } from '../../src/core/types.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { assertMigrated, migrate } from '../../src/db/migrate.ts'
import { readMart } from '../../src/definition/marts.ts'
import { compareTables } from '../../src/load/drift.ts'
import { publish } from '../../src/publish/publish.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { createTestDatabase, testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definitions: readonly Definition[]

beforeAll(async () => {
  definitions = await shippedDefinitions()
})

describe('migrations', () => {
  test('two that start at once on an empty database both end well', async () => {
    const empty = await createTestDatabase({ empty: true })
    const twin = await openDatabase({ databaseUrl: secret('test database', empty.url), home: '/nowhere' })
    try {
      const results = await Promise.all([migrate(empty.database, { folders: [] }), migrate(twin, { folders: [] })])
      expect(results.flatMap((result) => result.applied).filter((name) => name === '0001_ledger')).toHaveLength(1)
    } finally {
      await twin.close()
      await empty.drop()
    }
  })

  test('a warehouse that lacks them says so, and a dry run changes nothing', async () => {
    const empty = await createTestDatabase({ empty: true })
    try {
      const { applied } = await migrate(empty.database, { folders: [], dryRun: true })
      expect(applied).toContain('0002_keywords_v1')
      await expect(assertMigrated(empty.database, { folders: [] })).rejects.toThrow(/millrace migrate/)
    } finally {
      await empty.drop()
    }
  })

  test('a schema newer than the program is refused by name', async () => {
    await db.query(`insert into etl.kysely_migration (name, timestamp) values ('9999_from_the_future', 'now')`)
    try {
      await expect(migrate(db.database, { folders: [] })).rejects.toMatchObject({
        code: 'SCHEMA_AHEAD',
        message: expect.stringContaining('9999_from_the_future'),
      })
    } finally {
      await db.query(`delete from etl.kysely_migration where name = '9999_from_the_future'`)
    }
  })
})

describe('the live tables', () => {
  test('are what every shipped definition says', async () => {
    expect(await compareTables(db.database.kysely, definitions)).toEqual([])
  })

  test('are named where they differ', async () => {
    const other = await createTestDatabase()
    const run = (text: string) => other.database.pool.query(text)
    try {
      await run('alter table data.keywords_v1 drop column cpc')
      await run('alter table data.keywords_v1 add column extra text')
      await run('alter table data.keywords_v1 alter column volume type integer')
      await run('drop table data.shopper_category_performance_v1_history')
      const found = (await compareTables(other.database.kysely, definitions)).map((difference) => difference.message)
      expect(found.find((message) => message.startsWith('data.keywords_v1.cpc '))).toMatch(/not in the table/)
      expect(found.find((message) => message.startsWith('data.keywords_v1.extra '))).toMatch(/not in the definition/)
      expect(found.find((message) => message.startsWith('data.keywords_v1.volume '))).toMatch(/integer.*numeric/)
      expect(found.find((message) => message.startsWith('data.shopper_category_performance_v1_history '))).toMatch(
        /does not exist/,
      )
    } finally {
      await other.drop()
    }
  })
})

describe('what is published', () => {
  test('is the same after publishing twice, also by twins at once', async () => {
    await Promise.all([publish(db.database, definitions), publish(db.database, definitions)])
    await publish(db.database, definitions)
    const views = await db.query(`select table_name as name from information_schema.views where table_schema = 'bi' order by 1`)
    expect(views.map((view) => view['name'])).toEqual([
      'freshness',
      ...definitions.flatMap(({ pipeline }) => [pipeline, `${pipeline}_history`]).sort(),
    ])
  })

  test('says how fresh each pipeline is without reading a fact', async () => {
    const read = await db.query(`with recursive read (oid) as (
        select 'bi.freshness'::regclass::oid
        union select d.refobjid from read join pg_rewrite r on r.ev_class = read.oid
          join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass)
      select distinct relnamespace::regnamespace::text as schema from read join pg_class using (oid) order by 1`)
    expect(read).toEqual([{ schema: 'bi' }, { schema: 'etl' }])
  })

  test('is all there or as it was before: a mart that cannot be made takes everything back', async () => {
    const said = `select obj_description('bi.keywords'::regclass) as about`
    const before = await db.query(said)
    const changed = definitions.map((one) => ({ ...one, description: `${one.description} Again.` }))
    const { mart } = readMart(
      'marts/broken.sql',
      'broken',
      '-- purpose: p.\n-- grain: g.\n-- question: q?\nselect no_such_column',
    )
    if (mart === null) throw new Error('the mart is well formed')
    await expect(publish(db.database, changed, [mart])).rejects.toThrow(/broken\.sql: PostgreSQL refuses the query/)
    expect(await db.query(said)).toEqual(before)
  })

  test('tells each column in words, with its unit and what NULL means', async () => {
    const [comment] = await db.query(`select col_description('bi.keywords'::regclass, attnum) as text from pg_attribute
      where attrelid = 'bi.keywords'::regclass and attname = 'traffic_share'`)
    expect(comment?.['text']).toMatch(/Unit: fraction.*0 where the record lacks the field, NULL where it is null/)
    const bare =
      await db.query(`select c.relname, a.attname from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
      where n.nspname = 'bi' and c.relkind in ('r', 'v') and a.attnum > 0 and col_description(c.oid, a.attnum) is null`)
    expect(bare).toEqual([])
  })

  test('answers what was believed at a moment', async () => {
    await db.query(
      `create table data.traffic_and_engagement_v1_p202603 partition of data.traffic_and_engagement_v1 for values from ('2026-03-01') to ('2026-04-01')`,
    )
    await db.query(
      `insert into data.traffic_and_engagement_v1 values ('2026-03-01', 'monthly', 'a.com', 'us', true, 2, null, null, null, null, null, 1, 2, 2, '2026-05-10')`,
    )
    await db.query(
      `insert into data.traffic_and_engagement_v1_history values ('2026-03-01', 'monthly', 'a.com', 'us', true, 1, null, null, null, null, null, 1, 1, 1, '2026-04-10', '2026-04-10', '2026-05-10', 2)`,
    )
    const believed = async (at: string) =>
      (await db.query(`select all_traffic_visits as v from bi.traffic_and_engagement_as_of('${at}')`)).map((one) => one['v'])
    expect([await believed('2026-04-01'), await believed('2026-05-01'), await believed('2026-06-01')]).toEqual([[], ['1'], ['2']])
    expect(
      await db.query('select all_traffic_visits as v, is_current from bi.traffic_and_engagement_history order by _revision'),
    ).toEqual([
      { v: '1', is_current: false },
      { v: '2', is_current: true },
    ])
  })

  /** What holds for the login in this database, in order. */
  const settingsOf = async (login = ''): Promise<unknown[]> =>
    (
      await db.query(`select c from pg_db_role_setting s join pg_roles r on r.oid = s.setrole and r.rolname = '${login}', unnest(s.setconfig) c
        where s.setdatabase in (0, (select oid from pg_database where datname = current_database())) order by 1`)
    ).map(({ c }) => c)

  test('limits each login of bi_reader, because a role’s settings are not inherited by its members', async () => {
    const login = `reader_${process.pid}`
    await db.query(`create role ${login} login in role bi_reader`)
    try {
      await db.query(`alter role ${login} set statement_timeout = '5s'`)
      await publish(db.database, definitions)
      expect(await settingsOf(login)).toEqual([
        'default_transaction_read_only=on',
        'idle_in_transaction_session_timeout=5min',
        'jit=off',
        'lock_timeout=30s',
        'statement_timeout=5s',
      ])
    } finally {
      await db.query(`drop role ${login}`)
    }
  })

  test('limits a login that reads through a group of its own, and nobody who works in etl or hands out the role', async () => {
    const [group, reader, loader, maker] = ['group', 'member', 'loads', 'maker'].map((word) => `${word}_${process.pid}`)
    await db.query(`create role ${group} in role bi_reader; create role ${reader} login in role ${group}; create role ${loader} login in role bi_reader;
      create role ${maker} login; grant bi_reader to ${maker} with admin option; grant usage on schema etl to ${loader}`)
    try {
      await publish(db.database, definitions)
      expect(await settingsOf(reader)).toContain('jit=off')
      expect([await settingsOf(loader), await settingsOf(maker)]).toEqual([[], []])
    } finally {
      await db.query(`drop owned by ${loader}; drop role ${group}, ${reader}, ${loader}, ${maker}`)
    }
  })

  test('turns jit off for the database, for logins made later, and leaves a choice of somebody else alone', async () => {
    const setting = async () =>
      (await db.query(`select c from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase and d.datname = current_database(), unnest(s.setconfig) c
        where s.setrole = 0`)).map(({ c }) => c) // biome-ignore format: one look
    expect(await setting()).toEqual(['jit=off'])
    const [{ name = '' } = {}] = await db.query<{ name: string }>('select current_database() as name')
    await db.query(`alter database "${name}" set jit = on`)
    await publish(db.database, definitions)
    expect(await setting()).toEqual(['jit=on'])
  })

  test('can be read by bi_reader, who sees nothing else and writes nothing', async () => {
    const client = await db.database.pool.connect()
    try {
      await client.query('set role bi_reader')
      await client.query('select * from bi.keywords limit 1')
      await client.query(`select * from bi.keywords_as_of(now()) limit 1`)
      for (const forbidden of [
        'select * from data.keywords_v1',
        'select * from etl.runs',
        'delete from bi.keywords',
        'create table bi.x ()',
      ]) {
        await expect(client.query(forbidden), forbidden).rejects.toThrow(/permission denied|cannot/)
      }
    } finally {
      client.release(true)
    }
  })
})

test.each(['day', 'week', 'month'] as const)(
  'windows of a %s are published like others, and are final when nobody asks for them again',
  async (every) => {
    const own = await createTestDatabase()
    try {
      const changed = definitions.map((one) => ({ ...one, window: { ...one.window, every } }))
      await publish(own.database, changed, [])
      expect((await own.database.pool.query('select is_final from bi.traffic_and_engagement')).rows).toEqual([])
    } finally {
      await own.drop()
    }
  },
)
