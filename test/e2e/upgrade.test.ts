// A warehouse that an earlier version left behind, from its stored dump: migrated whole, and worked on as if nothing had happened.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CommandResult, pipelinesOfRepository, runCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type Bought, monthsAsked, type StrictService, startStrictService } from '../support/strict-service.ts'
import { succeeded } from '../support/test-world.ts'

const dumps = resolve(import.meta.dirname, '..', 'dumps')
const key = 'upgrade-key-0123456789'
const domains = ['example.com', 'example.net', 'example.org']

const commandsThatNeedTheSchema = [
  ['migrate'],
  ['run'],
  ['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08'],
  ['worker'],
]

interface Table {
  readonly name: string
  /** As they were when the dump was made; what a migration adds is not compared. */
  readonly columns: readonly string[]
  readonly rows: readonly unknown[]
}

/** One session of its own: a dump empties the search path of the session that restores it. */
const restore = async (url: string, name: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(gunzipSync(readFileSync(join(dumps, name))).toString('utf8'))
  } finally {
    await client.end()
  }
}

/** Body of a report as the service would have made it: every metric of a row is its place. */
const reportOf = (request: Bought['body']): string => {
  const table = (request as { report_query: { tables: [Record<string, unknown>] } }).report_query.tables[0]
  const names = table['metrics'] as string[]
  const { domains: asked = [], countries = [] } = table['filters'] as Record<string, string[]>
  const figures = names.map((_, index) => `${index}.5`).join(',')
  const lines = monthsAsked(table).flatMap((month) =>
    asked.flatMap((domain) => countries.map((country) => `${domain},${country},${month}-01,${figures}`)),
  )
  return [`domain,country,date,${names.join(',')}`, ...lines, ''].join('\n')
}

test('every released version has a dump', () => {
  const headings = readFileSync(resolve(dumps, '..', '..', 'CHANGELOG.md'), 'utf8').matchAll(/^## (\d+\.\d+\.\d+)(.*)$/gm)
  for (const [, version = '', rest] of headings)
    if (!rest?.includes('unreleased')) expect(readdirSync(dumps).join(' ')).toContain(`${version}-`)
})

/** Tables of the ledger and of data, months aside: what each is made of, as text. */
const shapeOf = async (pool: pg.Pool): Promise<readonly string[]> => {
  const { rows } = await pool.query<{ line: string }>(`
    with t as (select oid, oid::regclass::text as name from pg_class where relnamespace in ('etl'::regnamespace, 'data'::regnamespace)
      and relkind in ('r', 'p', 'v') and not relispartition and relname not like 'kysely%')
    select format('%s.%s %s%s %s %s', t.name, attname, format_type(atttypid, atttypmod), case when attnotnull then ' not null' end, attidentity,
        pg_get_expr(adbin, adrelid)) as line
      from t join pg_attribute a on attrelid = t.oid and attnum > 0 and not attisdropped left join pg_attrdef d on adrelid = attrelid and adnum = attnum
    union all select format('%s: %s %s', t.name, conname, pg_get_constraintdef(c.oid)) from t join pg_constraint c on conrelid = t.oid and contype <> 'n'
    union all select format('%s: %s', t.name, pg_get_indexdef(indexrelid)) from t join pg_index on indrelid = t.oid
    union all select format('%s: %s', t.name, pg_get_viewdef(t.oid)) from t join pg_class c on c.oid = t.oid and relkind = 'v'
    union all select format('%s: %s', t.name, relpersistence) from t join pg_class c on c.oid = t.oid
    order by 1`)
  return rows.map(({ line }) => line)
}

describe.each(readdirSync(dumps))('a warehouse of %s', (name) => {
  let folder: string
  let db: TestDatabase
  let service: StrictService
  let before: readonly Table[]
  let appliedBefore: readonly string[]
  let asOfBefore: unknown
  let migrated: CommandResult

  const millrace = (...args: string[]) =>
    runCommand(
      [...args, '--json'],
      {
        WEB_ANALYTICS_BASE_URL: service.url,
        WEB_ANALYTICS_API_KEY: key,
        WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
        MILLRACE_GUARD: 'off',
        DATABASE_URL: db.url,
        MILLRACE_HOME: join(folder, 'home'),
      },
      folder,
    )

  const rowsOf = <T>(statement: string): Promise<readonly T[]> => db.query<T & pg.QueryResultRow>(statement)

  const contents = async (table: string, columns: readonly string[]): Promise<unknown[]> => {
    const list = columns.map((column) => `"${column}"`).join(', ')
    return (await rowsOf<{ row: unknown }>(`select row_to_json(t)::text as row from (select ${list} from ${table}) t`))
      .map(({ row }) => row)
      .sort()
  }

  const everyTable = async (): Promise<Table[]> => {
    const found = await rowsOf<{ name: string; columns: string[] }>(
      `select c.oid::regclass::text as name, array_agg(a.attname::text order by a.attnum) as columns
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace in ('etl'::regnamespace, 'data'::regnamespace) and c.relkind in ('r', 'p') and not c.relispartition
          and c.relname not like 'kysely%' group by 1 order by 1`,
    )
    return Promise.all(found.map(async (table) => ({ ...table, rows: await contents(table.name, table.columns) })))
  }

  const appliedNow = async (): Promise<string[]> =>
    (await rowsOf<{ name: string }>('select name from etl.kysely_migration order by 1')).map((row) => row.name)

  /** What was known between the first load of August and its restatement. */
  const asOfFirstLoad = async (): Promise<unknown> =>
    rowsOf(`select domain, country, count(*) as rows, sum(clicks) as clicks, sum(traffic_share) as share
      from etl.runs r cross join lateral bi.keywords_as_of(r.finished_at) where r.run_id = 1 group by 1, 2 order by 1, 2`)

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-upgrade-'))
    const pipelines = join(folder, 'pipelines')
    cpSync(pipelinesOfRepository, pipelines, { recursive: true })
    writeFileSync(join(pipelines, 'domains.txt'), `${domains.join('\n')}\n`)
    const traffic = join(pipelines, 'traffic_and_engagement.yaml')
    const text = readFileSync(traffic, 'utf8')
      .replace('poll_every: 5s', 'poll_every: 1s')
      .replace('from: 2024-01', 'from: 2026-10')
    expect(text).toContain('from: 2026-10')
    writeFileSync(traffic, text)
    service = await startStrictService({ key, keywords: () => [], report: reportOf, pendingPolls: 0 })
    db = await createTestDatabase({ empty: true })
    await restore(db.url, name)
    before = await everyTable()
    appliedBefore = await appliedNow()
    asOfBefore = await asOfFirstLoad()
    migrated = await millrace('migrate')
  })

  afterAll(async () => {
    await service.close()
    await db.drop()
    rmSync(folder, { recursive: true, force: true })
  })

  test('holds what an upgrade could lose, and is small enough to keep', async () => {
    const countOf = (table: string): number => before.find((one) => one.name === table)?.rows.length ?? 0
    expect(countOf('data.keywords_v1')).toBeGreaterThan(200)
    expect(countOf('data.keywords_v1_history')).toBeGreaterThan(30)
    expect(countOf('data.traffic_and_engagement_v1')).toBeGreaterThan(10)
    expect(countOf('etl.quarantine')).toBe(1)
    expect(before.find((one) => one.name === 'etl.jobs')?.rows.filter((row) => /"submitted"/.test(String(row)))).toHaveLength(3)
    expect(
      before.find((one) => one.name === 'etl.units')?.rows.filter((row) => /"TOO_MANY_REJECTS"/.test(String(row))),
    ).toHaveLength(1)
    expect(readFileSync(join(dumps, name)).length).toBeLessThan(200_000)
  })

  test('takes what is new, and nothing is left to do', async () => {
    expect(migrated.code, migrated.stderr).toBe(0)
    const shipped = readdirSync(resolve(dumps, '..', '..', 'migrations')).map((file) => file.replace(/\.ts$/, ''))
    expect(await appliedNow()).toEqual(shipped.sort())
    expect(migrated.events.at(-1)).toMatchObject({ applied: shipped.filter((one) => !appliedBefore.includes(one)) })
    const again = await millrace('migrate')
    expect(again.events.at(-1)).toMatchObject({ applied: [] })
  })

  test('is then made like a new one, to the last column, default, constraint and index', async () => {
    const fresh = await createTestDatabase()
    try {
      expect(await shapeOf(db.database.pool)).toEqual(await shapeOf(fresh.database.pool))
    } finally {
      await fresh.drop()
    }
  })

  test('has its months cleaned soon after each load, and answers share of voice by keyword in each of them', async () => {
    const months = await rowsOf<{ name: string; cleaned: boolean; indexes: number }>(
      `select c.relname as name, coalesce('autovacuum_vacuum_insert_scale_factor=0' = any(c.reloptions), false) as cleaned,
        (select count(*)::int from pg_index i where i.indrelid = c.oid and i.indisvalid and pg_get_indexdef(i.indexrelid) like '%(keyword, country,%') as indexes
        from pg_class c where c.relnamespace = 'data'::regnamespace and c.relispartition and c.relkind = 'r' order by 1`,
    )
    expect(months.length).toBeGreaterThan(1)
    for (const { name: month, cleaned, indexes } of months)
      expect({ month, cleaned, indexes }).toEqual({ month, cleaned: true, indexes: month.startsWith('keywords') ? 1 : 0 })
  })

  test('keeps every row of its data, history and ledger as it was', async () => {
    for (const table of before) expect(await contents(table.name, table.columns), table.name).toEqual(table.rows)
  })

  test('answers in bi what it answered before, also about the past, with dimensions of what it held already', async () => {
    expect(await asOfFirstLoad()).toEqual(asOfBefore)
    expect(await rowsOf('select domain from bi.dim_domain order by 1')).toEqual(domains.map((domain) => ({ domain })))
    const [counts] = await rowsOf(`select (select count(*) from bi.keywords) = (select count(*) from data.keywords_v1) as rows,
      (select count(*) from bi.keyword_intent_mix) > 0 as marts, (select count(*) from bi.dim_keyword) > 20 as keywords`)
    expect(counts).toEqual({ rows: true, marts: true, keywords: true })
  })

  test('downloads the reports that were open, and buys none of them again', async () => {
    const open = await rowsOf<{ id: string; body: Bought['body'] }>(
      `select report_id as id, request as body from etl.jobs where report_state = 'submitted'`,
    )
    expect(open).toHaveLength(3)
    service.bought.push(...open.map(({ id, body }): Bought => ({ id, kind: 'report', body, polls: 0, downloads: 0 })))
    // A restored dump is a copy, and says so; a person says that this one goes on.
    expect((await millrace('migrate', '--as', 'restored')).code).toBe(0)
    // The sandbox of the dump had another address and key.
    expect((await millrace('migrate', '--as', 'moved-service')).code).toBe(0)
    const result = await succeeded(millrace('run', 'traffic_and_engagement'))
    expect(service.bought.filter(({ id }) => open.some((one) => one.id === id)).map(({ downloads }) => downloads)).toEqual([
      1, 1, 1,
    ])
    // A later night than the dump's buys the months that came since; October's were bought already.
    expect(service.bought.slice(3).filter(({ body }) => JSON.stringify(body).includes('2026-10'))).toEqual([])
    expect(summaryOf(result).units.failed).toBe(0)
    const loaded = `select count(*)::int as rows, count(distinct desktop_visits)::int as visits from bi.traffic_and_engagement where date = '2026-10-01'`
    expect(await rowsOf(loaded)).toEqual([{ rows: domains.length * 3, visits: 1 }])
    expect(await rowsOf(`select state, count(*)::int as units from etl.unit_list group by 1 order by 1`)).toEqual([
      { state: 'held', units: 1 },
      { state: 'loaded', units: expect.any(Number) },
    ])
  })

  // The dump makes no difference here: one is enough.
  test.for(name === readdirSync(dumps)[0] ? commandsThatNeedTheSchema : [])(
    'is refused to an older program: %s names what it does not know and changes nothing',
    async (args) => {
      await db.database.pool.query(`insert into etl.kysely_migration (name, timestamp) values ('9999_of_a_later_version', 'now')`)
      const earlier = await everyTable()
      const asked = service.requests.length
      try {
        const result = await millrace(...args)
        expect(result.code).not.toBe(0)
        expect(result.stdout + result.stderr).toMatch(/9999_of_a_later_version[\s\S]*Use the newer Millrace/)
        expect(service.requests).toHaveLength(asked)
        expect(await everyTable()).toEqual(earlier)
      } finally {
        await db.database.pool.query(`delete from etl.kysely_migration where name = '9999_of_a_later_version'`)
      }
    },
  )
})
