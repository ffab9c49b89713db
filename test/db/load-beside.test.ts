// What stands beside a table while it is loaded: readers of one moment, subscribers, triggers, row security, a DEFAULT partition, dumps. All have the same rows as everybody.
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { boxOf } from '../support/definitions.ts'
import { installedVersions, startInstalled } from '../support/installed-server.ts'
import {
  emptyTraffic,
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  workOn,
} from '../support/loading.ts'
import { stoppedAtItsEnd } from '../support/merging.ts'
import { asTestDatabase, dropRole, testDatabase } from '../support/postgres.ts'
import { createOwnDatabase } from '../storm/own-database.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit
/** Of which no test has made a partition yet. */
let month = '2026-01'

const nextMonth = (): string => {
  month = addWindows(`${month}-01`, 'month', 1).slice(0, 7)
  return month
}

beforeAll(async () => {
  definition = await lenientTraffic()
})
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
  nextMonth()
})

const table = 'data.traffic_and_engagement_v1'
const domains = Array.from({ length: 40 }, (_, at) => `d${at}.com`)
const boxIn = (of: string): Box => boxOf(definition, of, { domain: domains, country: 'us' })
const bodyIn = (of: string, visits = '1'): string => csv(...domains.map((domain) => line(of, domain, visits)))
const load = async (on: LoadKit, of: string, bytes: number, visits = '1') =>
  loadBody(on, await workOn(on, boxIn(of)), { body: bodyIn(of, visits), bytes })
/** A month whose rows fill it before it is attached, and one that is there before its rows. */
const [large, small] = [2_000_000, 1_000]
const isThere = async (of: string): Promise<boolean> =>
  (await db.query<{ is: boolean }>(`select to_regclass('${table}_p' || $1) is not null as is`, [of.replace('-', '')]))[0]?.is ===
  true

const asAnother = async <T>(options: string, work: (database: Database) => Promise<T>): Promise<T> => {
  const url = new URL(db.url)
  if (options !== '') url.searchParams.set('options', options)
  const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  try {
    return await work(database)
  } finally {
    await database.close()
  }
}

const onDatabase = (database: Database): Promise<LoadKit> => openLoading({ ...db, database }, definition)

test.each(['repeatable read', 'serializable'])(
  'a reader in %s sees all or nothing of a first load that makes its month',
  async (level) => {
    const ask = `select count(*)::int as n from ${table}`
    const before = await db.database.pool.connect()
    const amid = await db.database.pool.connect()
    try {
      await before.query(`begin isolation level ${level}`)
      expect((await before.query(ask)).rows).toEqual([{ n: 0 }])
      const work = await workOn(kit, boxIn(month))
      await stoppedAtItsEnd(
        db,
        () => loadBody(kit, work, { body: bodyIn(month), bytes: large }),
        async () => {
          expect(await isThere(month)).toBe(false)
          await amid.query(`begin isolation level ${level}`)
          expect((await amid.query(ask)).rows).toEqual([{ n: 0 }])
          expect((await before.query(ask)).rows).toEqual([{ n: 0 }])
        },
      )
      expect((await before.query(ask)).rows).toEqual([{ n: 0 }])
      expect((await amid.query(ask)).rows).toEqual([{ n: 0 }])
      expect(await db.query(ask)).toEqual([{ n: domains.length }])
    } finally {
      for (const reader of [before, amid]) {
        await reader.query('rollback')
        reader.release()
      }
    }
  },
)

test('transactions that are serializable by the server’s order change nothing: two answers at once are both done', async () => {
  await db.query(
    `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`,
  )
  try {
    await asAnother('', async (database) => {
      const own = await onDatabase(database)
      for (const bytes of [small, large]) {
        const works = [await workOn(own, boxIn(nextMonth())), await workOn(own, boxIn(month))] as const
        await Promise.all(works.map((work, at) => loadBody(own, work, { body: bodyIn(month, String(at + 1)), bytes })))
        expect(
          await db.query(`select all_traffic_visits as v, count(*)::int as n from ${table} where date = $1 group by 1`, [
            `${month}-01`,
          ]),
        ).toEqual([{ v: '2', n: domains.length }])
      }
    })
  } finally {
    await db.query(
      `do $$ begin execute format('alter database %I reset default_transaction_isolation', current_database()); end $$`,
    )
  }
})

test('a trigger for each row, before and after, sees every row of a large first load as of a small one', async () => {
  await db.query(`create table public.seen (timing text, month date)`)
  await db.query(`create function public.see() returns trigger language plpgsql as
    'begin insert into public.seen values (tg_when, new.date); return new; end'`)
  for (const timing of ['before', 'after'])
    await db.query(`create trigger see_${timing} ${timing} insert on ${table} for each row execute function public.see()`)
  try {
    for (const bytes of [small, large]) {
      await load(kit, nextMonth(), bytes)
      expect(
        await db.query('select timing, count(*)::int as n from public.seen where month = $1 group by 1 order by 1', [
          `${month}-01`,
        ]),
      ).toEqual([
        { timing: 'AFTER', n: domains.length },
        { timing: 'BEFORE', n: domains.length },
      ])
    }
  } finally {
    for (const timing of ['before', 'after']) await db.query(`drop trigger see_${timing} on ${table}`)
  }
})

test('a table with a DEFAULT partition keeps the rows of a month that are in it there, and makes other months', async () => {
  await db.query(`create table data.others partition of ${table} default`)
  try {
    const first = month
    await db.query(
      `insert into ${table} (date, granularity, domain, country, include_subdomains, _unit_id, _run_id) values ($1, $2, 'd0.com', 'us', $3, 0, 1)`,
      [`${first}-01`, definition.params['granularity'], definition.params['include_subdomains']],
    )
    expect(await load(kit, first, large)).toMatchObject({ inserted: domains.length - 1, updated: 1 })
    expect(await db.query('select count(*)::int as n from data.others')).toEqual([{ n: domains.length }])
    expect(await load(kit, nextMonth(), large)).toMatchObject({ inserted: domains.length })
    expect(await db.query(`select count(*)::int as n from ${table}_p${month.replace('-', '')}`)).toEqual([{ n: domains.length }])
  } finally {
    await db.query('drop table data.others')
  }
})

test('a month in a partition that somebody renamed, moved or made for more months is loaded into it', async () => {
  const [first, second] = [month, nextMonth()]
  await db.query(`create schema archive`)
  await db.query(
    `create table data.two_months partition of ${table} for values from ('${first}-01') to ('${addWindows(`${second}-01`, 'month', 1)}')`,
  )
  try {
    for (const visits of ['1', '2']) {
      expect(await load(kit, first, small, visits)).toMatchObject(
        visits === '1' ? { inserted: domains.length } : { updated: domains.length },
      )
      await db.query(`alter table ${visits === '1' ? 'data' : 'archive'}.two_months set schema archive`)
      const other = await openLoading(db, definition)
      expect(await load(other, second, large, visits)).toMatchObject(
        visits === '1' ? { inserted: domains.length } : { updated: domains.length },
      )
    }
    expect(await db.query('select count(*)::int as n from archive.two_months')).toEqual([{ n: 2 * domains.length }])
  } finally {
    await db.query('drop schema archive cascade')
  }
})

test('a month that somebody detached and kept is named, and nothing is tried in vain', async () => {
  for (const bytes of [small, large]) {
    const of = nextMonth()
    const name = `${table}_p${of.replace('-', '')}`
    await load(kit, of, bytes)
    await db.query(`alter table ${table} detach partition ${name}`)
    const other = await openLoading(db, definition)
    await expect(load(other, of, bytes)).rejects.toMatchObject({ code: 'TABLE_DRIFT', message: expect.stringContaining(name) })
    await db.query(`drop table ${name}`)
    expect(await load(other, of, bytes, '2')).toMatchObject({ inserted: domains.length })
  }
})

test('a month that somebody locks keeps no other from being loaded; one that somebody cut in two is loaded into both', async () => {
  await load(kit, month, small)
  const locked = `${table}_p${month.replace('-', '')}`
  // Data tests read the months before.
  month = addWindows(`${month}-01`, 'month', 12).slice(0, 7)
  const other = await db.database.pool.connect()
  try {
    await other.query('begin')
    await other.query(`lock table ${locked} in access exclusive mode`)
    await asAnother('-c lock_timeout=2s', async (database) => {
      const own = await onDatabase(database)
      for (const bytes of [small, large]) expect(await load(own, nextMonth(), bytes)).toMatchObject({ inserted: domains.length })
    })
  } finally {
    await other.query('rollback')
    other.release()
  }
  const name = `${table}_p${nextMonth().replace('-', '')}`
  const end = addWindows(`${month}-01`, 'month', 1)
  await db.query(`create table ${name} partition of ${table} for values from ('${month}-01') to ('${month}-15')`)
  await db.query(`create table ${name}_second partition of ${table} for values from ('${month}-15') to ('${end}')`)
  expect(await load(kit, month, large)).toMatchObject({ inserted: domains.length })
})

test('row security, for which PostgreSQL refuses COPY, gives the same rows', async () => {
  const role = `secured_${process.pid}`
  await db.query(`create role ${role}`)
  const owned = async (who: string): Promise<void> => {
    for (const name of [table, `${table}_history`]) await db.query(`alter table ${name} owner to ${who}`)
  }
  try {
    await db.query(`grant usage, create on schema data, etl, bi, public to ${role}`)
    await db.query(`grant all on all tables in schema etl, bi, data to ${role}`)
    await db.query(`grant usage, update on all sequences in schema etl to ${role}`)
    await owned(role)
    await db.query(`alter table ${table} enable row level security, force row level security`)
    await db.query(`create policy everything on ${table} using (true) with check (true)`)
    await asAnother(`-c role=${role}`, async (database) => {
      const own = await onDatabase(database)
      for (const bytes of [small, large]) {
        expect(await load(own, nextMonth(), bytes)).toMatchObject({ inserted: domains.length })
        expect(await load(own, month, bytes, '2')).toMatchObject({ updated: domains.length })
      }
    })
  } finally {
    await db.query(`drop policy if exists everything on ${table}`)
    await db.query(`alter table ${table} disable row level security, no force row level security`)
    await db.query(`reassign owned by ${role} to current_user`)
    await db.query(`drop owned by ${role}`)
    await dropRole(role)
  }
})

test('many windows in one answer load in one transaction, which makes their months, and are not searched for repeated keys: no temporary file is written', async () => {
  const months = Array.from({ length: 36 }, (_, at) => addWindows('2021-01-01', 'month', at).slice(0, 7))
  const many = Array.from({ length: 600 }, (_, at) => `${'d'.repeat(250)}${at}.com`)
  const box = boxOf(definition, '2021-01', { domain: many, country: 'us' }, '2023-12')
  const lines = months.flatMap((of) => many.map((domain) => line(of, domain, '1')))
  const job = await asAnother('', async (database) => workOn({ ...kit, db: { ...db, database } }, box))
  // A row for each unit that a test warns of is more than the server sorts in memory.
  const untested = { ...kit, definition: { ...definition, tests: [] } }
  const written = await filesOf((database) => {
    const runtime = { ...kit.runtime, database }
    return loadBody({ ...untested, runtime }, { ...job, runtime, definition: untested.definition }, { body: csv(...lines) })
  })
  const loaded = await db.query(
    `select count(distinct xmin::text)::int as transactions, count(*)::int as rows from ${table} where domain like 'ddd%'`,
  )
  const made =
    await db.query(`select count(*)::int as months from pg_class where relkind = 'r' and relname ~ '_v1_p202[123]\\d\\d$'
    and xmin = (select xmin from ${table} where domain like 'ddd%' limit 1)`)
  const left = await db.query(`select relname from pg_class where relname ~ '^(months|beside)_'`)
  expect([written, loaded, made, left]).toEqual([0, [{ transactions: 1, rows: lines.length }], [{ months: 36 }], []])
})

/** Sessions tell what they wrote when they end. */
const filesOf = async (work: (database: Database) => Promise<unknown>): Promise<number> => {
  const sessions = async (): Promise<number> =>
    (await db.query<{ n: number }>('select count(*)::int as n from pg_stat_activity where datname = current_database()'))[0]?.n ??
    0
  const files = async (): Promise<number> =>
    Number(
      (await db.query<{ n: string }>('select temp_files as n from pg_stat_database where datname = current_database()'))[0]?.n,
    )
  const others = async (): Promise<void> => {
    while ((await sessions()) > db.database.pool.totalCount) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await others()
  const before = await files()
  await asAnother('-c work_mem=4MB', work)
  await others()
  return (await files()) - before
}

describe('on a server of its own', () => {
  const withDatabase = async (serverUrl: string, work: (own: LoadKit, database: Database) => Promise<void>): Promise<void> => {
    const { url, close } = await createOwnDatabase(serverUrl, 'loaded')
    await close()
    const database = await openDatabase({ databaseUrl: secret('test database', url), home: '/nowhere' })
    const own = asTestDatabase({ url, database, drop: async () => undefined })
    await work(await openLoading(own, definition), database).finally(() => database.close())
  }

  const [version = ''] = installedVersions()

  test.runIf(version !== '')(
    'a subscriber is told every row of a large first load, by the whole table’s name or by its months',
    async () => {
      const server = await startInstalled(version, ['wal_level=logical'])
      try {
        await withDatabase(server.url, async (own, { pool }) => {
          for (const viaRoot of [true, false]) {
            await pool.query(`create publication p for table ${table} with (publish_via_partition_root = ${viaRoot})`)
            await pool.query(`select pg_create_logical_replication_slot('s', 'pgoutput')`)
            for (const bytes of [small, large]) await load(own, nextMonth(), bytes)
            const { rows } = await pool.query(`select count(*)::int as n from pg_logical_slot_get_binary_changes('s', null, null,
            'proto_version', '1', 'publication_names', 'p') where get_byte(data, 0) = ascii('I')`)
            expect(rows).toEqual([{ n: 2 * domains.length }])
            await pool.query(`select pg_drop_replication_slot('s')`)
            await pool.query('drop publication p')
          }
        })
      } finally {
        server.remove()
      }
    },
  )

  test.runIf(version !== '')('pg_dump beside first loads of new months does not fail, and holds whole answers', async () => {
    const server = await startInstalled(version)
    try {
      await withDatabase(server.url, async (own, { pool }) => {
        let isOver = false
        const loading = (async () => {
          for (let of = '1990-01'; !isOver; of = addWindows(`${of}-01`, 'month', 1).slice(0, 7)) await load(own, of, large)
        })()
        const dump = join(server.folder, 'dump')
        for (let time = 1; time <= 10; time += 1) await server.runBeside('pg_dump', '-Fc', '-f', dump, 'loaded')
        isOver = true
        await loading
        await pool.query('create database restored')
        await server.runBeside('pg_restore', '-d', 'restored', dump)
        const url = new URL(server.url)
        url.pathname = '/restored'
        const restored = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
        const { rows } = await restored.pool.query(
          `select count(*)::int as n from ${table} group by date having count(*) <> ${domains.length}`,
        )
        expect(rows).toEqual([])
        const whole = await restored.pool.query<{ n: number }>(`select count(distinct date)::int as n from ${table}`)
        expect(whole.rows[0]?.n).toBeGreaterThan(0)
        await restored.close()
      })
    } finally {
      server.remove()
    }
  })
})
