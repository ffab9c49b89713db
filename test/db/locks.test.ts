// Locks of others: what a reader may take stops nobody, what an operator takes is named and does not keep a command from ending.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { lockByName } from '../../src/db/named-lock.ts'
import { cancelOn } from '../../src/db/stoppable.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { publish } from '../../src/publish/publish.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { createTestDatabase, testDatabase } from '../support/postgres.ts'

const sources = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))

test('no statement of ours takes an advisory lock: whoever may connect could take the same', () => {
  const root = resolve(import.meta.dirname, '../..')
  const taking = [...sources(join(root, 'src')), ...sources(join(root, 'migrations'))].filter((file) =>
    /pg_(try_)?advisory/.test(readFileSync(file, 'utf8')),
  )
  expect(taking).toEqual([])
})

const db = testDatabase()
let database: Database

beforeAll(async () => {
  database = db.database
  await publish(database, await shippedDefinitions(), await loadMarts([]))
})

const connected = async (name: string, url = db.url): Promise<pg.Client> => {
  const client = new pg.Client({ connectionString: url, application_name: name })
  await client.connect()
  return client
}

describe('locks by name', () => {
  test('a second transaction waits for the first, also when both make the row', async () => {
    const order: string[] = []
    let letGo = (): void => undefined
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const first = database.kysely.transaction().execute(async (trx) => {
      await lockByName(trx, 'twins')
      order.push('first')
      await held
      order.push('first ends')
    })
    await expect.poll(() => order).toEqual(['first'])
    const second = database.kysely.transaction().execute(async (trx) => {
      await lockByName(trx, 'twins')
      order.push('second')
    })
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(order).toEqual(['first'])
    letGo()
    await Promise.all([first, second])
    expect(order).toEqual(['first', 'first ends', 'second'])
  })

  test("a reader's login cannot hold one", async () => {
    await database.kysely.transaction().execute((trx) => lockByName(trx, 'budget/x'))
    await database.pool.query(`create role lock_guest login password 'guest' in role bi_reader`)
    const url = new URL(db.url)
    url.username = 'lock_guest'
    url.password = 'guest'
    const reader = await connected('guest', url.href)
    try {
      await reader.query('begin')
      await expect(reader.query(`select * from etl.locks where name = 'budget/x' for update`)).rejects.toThrow(
        /permission denied/,
      )
    } finally {
      await reader.end()
      await database.pool.query(`drop role lock_guest`)
    }
  })
})

test('a migration locks the views of a table before the table, as readers do: no reader ends in a deadlock', async () => {
  await database.pool.query('create table data.slow_v1 (a integer); create view bi.slow as select a from data.slow_v1')
  const folder = mkdtempSync(join(tmpdir(), 'millrace-locks-'))
  // It asks for the view within the second after which PostgreSQL ends the reader.
  const up = `import { sql } from 'kysely'
    export const up = async (db) => {
      await db.schema.withSchema('data').alterTable('slow_v1').addColumn('b', 'integer').execute()
      await sql\`select pg_sleep(0.7)\`.execute(db)
    }`
  writeFileSync(join(folder, '9000_slow.mjs'), up)
  const reader = await connected('reader')
  try {
    const changing = migrate(database, { folders: [folder] }, async (trx) => {
      await sql`drop view bi.slow`.execute(trx)
      await sql`create view bi.slow as select b from data.slow_v1`.execute(trx)
    })
    const held = `select from pg_locks where mode = 'AccessExclusiveLock' and granted and relation = 'data.slow_v1'::regclass`
    await expect.poll(async () => (await database.pool.query(held)).rowCount).toBe(1)
    await Promise.all([reader.query('select * from bi.slow'), changing])
  } finally {
    await reader.end()
    await database.pool.query(`drop table data.slow_v1 cascade; delete from etl.kysely_migration where name = '9000_slow'`)
    rmSync(folder, { recursive: true })
  }
})

describe('work that is told to stop', () => {
  test('is freed of the lock it waits for', async () => {
    const operator = await connected('operator')
    const stop = new AbortController()
    await operator.query('begin; lock table etl.events in access exclusive mode')
    const started = performance.now()
    const waiting = cancelOn(stop.signal, () => database.pool.query('select count(*) from etl.events'))
    setTimeout(() => stop.abort(), 300)
    await expect(waiting).rejects.toMatchObject({ code: '57014' })
    expect(performance.now() - started).toBeLessThan(3_000)
    await operator.end()
  })

  test('is freed also where the statement before it has just failed on the same connection', async () => {
    const operator = await connected('operator')
    await operator.query('begin; lock table etl.events in access exclusive mode')
    const client = await database.pool.connect()
    const stop = new AbortController()
    // Told of the failure before the server says that it is ready for the next.
    const waiting = new Promise((resolve, reject) => {
      client.query('select 1 / 0', () => {
        cancelOn(stop.signal, () => client.query('select count(*) from etl.events')).then(resolve, reject)
        stop.abort()
      })
    })
    await expect(waiting).rejects.toMatchObject({ code: '57014' })
    client.release()
    await operator.end()
  })

  test('finishes a statement that is at work, and what others sent is left alone', async () => {
    const operator = await connected('operator')
    const stop = new AbortController()
    await operator.query('begin; lock table etl.events in access exclusive mode')
    const others = database.pool.query('select count(*) from etl.events')
    const atWork = cancelOn(stop.signal, () => database.pool.query('select pg_sleep(2)'))
    stop.abort()
    await atWork
    await operator.query('commit')
    await others
    await operator.end()
  })
})

describe('a change of shape behind a reader', () => {
  const narrowed = async () => (await shippedDefinitions()).map((one) => ({ ...one, description: `${one.description} Again.` }))

  test('publishing what only says other words waits for nobody', async () => {
    const reader = await connected('dashboard')
    await reader.query('begin; select count(*) from bi.keywords; select count(*) from bi.freshness')
    const started = performance.now()
    await publish(database, await narrowed(), await loadMarts([]), { waitMs: 2_000 })
    expect(performance.now() - started).toBeLessThan(20_000)
    await reader.end()
  })

  test('names the reader, gives up in order, and lets others pass meanwhile', async () => {
    const reader = await connected('weekly dashboard')
    await reader.query('begin; select count(*) from bi.keywords')
    const fewer = (await shippedDefinitions()).map((one) =>
      one.pipeline === 'keywords' ? { ...one, columns: one.columns.filter(({ name }) => name !== 'serp_features') } : one,
    )
    const said: string[] = []
    let slowest = 0
    const giving = publish(database, fewer, [], { waitMs: 4_000, onWait: (message) => said.push(message) })
    giving.catch(() => undefined)
    const other = await connected('another reader')
    const until = performance.now() + 3_500
    while (performance.now() < until) {
      const begun = performance.now()
      await other.query('select count(*) from bi.keywords')
      slowest = Math.max(slowest, performance.now() - begun)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await expect(giving).rejects.toThrow(
      /Could not publish the views of bi within 4 seconds: .*application weekly dashboard, in a transaction since 2.*Nothing was changed/s,
    )
    expect(said.join()).toMatch(/Waiting to publish the views of bi: .*weekly dashboard/)
    expect(slowest).toBeLessThan(2_500)
    const { rows } = await other.query(
      `select 1 from information_schema.columns where table_schema = 'bi' and table_name = 'keywords' and column_name = 'serp_features'`,
    )
    expect(rows).toHaveLength(1)
    await reader.end()
    await other.end()
  })

  test('a migration that waits says for whom, and succeeds once they end', async () => {
    const empty = await createTestDatabase({ empty: true })
    try {
      await migrate(empty.database, { folders: [] })
      const holder = await connected('forgotten psql', empty.url)
      await holder.query('begin; select * from etl.kysely_migration_lock for update')
      await empty.database.pool.query(`delete from etl.kysely_migration where name like '0005%'`)
      const said: string[] = []
      const failed = await migrate(empty.database, {
        folders: [],
        patience: { waitMs: 2_000, onWait: (line) => said.push(line) },
      }).catch((error: unknown) => error)
      expect(String(failed)).toMatch(/Could not migrate within 2 seconds: .*forgotten psql/)
      expect(said[0]).toMatch(/Waiting to migrate: .*forgotten psql, in a transaction since/)
      await holder.end()
    } finally {
      await empty.drop()
    }
  })
})
