// Owner, loader and reader apart: every role against every object, and each doing its own work and nobody else's.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import type { Definition } from '../../src/core/types.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { rolesSql } from '../../src/db/role-statements.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { analyzeChanged } from '../../src/load/analyze.ts'
import { refreshSummaries } from '../../src/load/summaries.ts'
import { attributesOf, publishAttributes } from '../../src/run/refresh-attributes.ts'
import { publish } from '../../src/publish/publish.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { claimJobs } from '../../src/ledger/claim.ts'
import { endProcess, registerProcess } from '../../src/ledger/processes.ts'
import { knownMarts, shippedDefinition, shippedDefinitions, unitOf } from '../support/definitions.ts'
import { newJob, newPipeline, newRun } from '../support/ledger.ts'
import { mergeRows, trafficRow } from '../support/merging.ts'
import { createTestDatabase, dropRole, type TestDatabase } from '../support/postgres.ts'
import { servePage } from '../support/status-page.ts'

const names = { owner: `owner_${process.pid}`, loader: `loader_${process.pid}`, reader: `reader_${process.pid}` }
/** What `millrace roles` prints, for roles of this file alone: a role belongs to the whole server. */
const ownRolesSql = (): string =>
  rolesSql()
    .replaceAll('millrace_owner', names.owner)
    .replaceAll('millrace_loader', names.loader)
    .replaceAll('bi_reader', names.reader)
let db: TestDatabase
let definitions: readonly Definition[]

/** The same database, as one of the roles. */
const as = async <T>(role: string, work: (other: TestDatabase) => Promise<T>, of: TestDatabase = db): Promise<T> => {
  const url = new URL(of.url)
  url.searchParams.set('options', `-c role=${role}`)
  const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  try {
    return await work({ ...of, url: url.href, database })
  } finally {
    await database.close()
  }
}

beforeAll(async () => {
  db = await createTestDatabase()
  definitions = await shippedDefinitions()
  await publish(db.database, definitions, await loadMarts([]))
  // As in a database that came from PostgreSQL 14.
  await db.database.pool.query('grant create on schema public to public')
  await db.database.pool.query(ownRolesSql())
})
afterAll(async () => {
  await db.drop()
  for (const role of Object.values(names)) await dropRole(role)
})

type Kind = 'summary' | 'dimension' | 'attributes' | 'calendar' | 'view' | 'table' | 'migrations'

const expected = (role: keyof typeof names, schema: string, kind: Kind): string => {
  if (role === 'owner') return 'all'
  if (role === 'reader') return schema === 'bi' ? 'select' : ''
  if (schema === 'data') return 'all'
  if (schema === 'etl') return kind === 'migrations' ? 'select' : 'select insert update delete'
  return (
    { summary: 'select insert delete', dimension: 'select insert update', attributes: 'select insert update' }[kind as string] ??
    'select'
  )
}

test('every role has on every object what it needs and nothing more', async () => {
  const privileges = ['select', 'insert', 'update', 'delete', 'truncate']
  const rows = await db.query<{ schema: string; name: string; kind: Kind; role: string; has: string[] }>(
    `select n.nspname as schema, c.relname as name, r.role,
      case when c.relname like 'kysely%' then 'migrations' when n.nspname <> 'bi' then 'table' when c.relkind = 'v' then 'view'
        when c.relname = 'dim_date' then 'calendar' when c.relname like 'dim\\_%' then 'dimension'
        when c.relname = 'attribute_versions' then 'attributes' else 'summary' end as kind,
      array(select p from unnest($2::text[]) with ordinality as p (p, at) where has_table_privilege(r.role, c.oid, p) order by at) as has
    from pg_class c join pg_namespace n on n.oid = c.relnamespace, unnest($1::text[]) as r (role)
    where n.nspname in ('etl', 'data', 'bi', 'staging') and c.relkind in ('r', 'p', 'v')`,
    [Object.values(names), privileges],
  )
  expect(rows.length).toBeGreaterThan(100)
  const wrong = rows.flatMap(({ schema, name, kind, role, has }) => {
    const word = Object.entries(names).find(([, one]) => one === role)?.[0] as keyof typeof names
    const wanted = expected(word, schema, kind)
    const found = has.length === privileges.length ? 'all' : has.join(' ')
    return wanted === found
      ? []
      : [`${word} on ${schema}.${name} (${kind}): ${found || 'nothing'} instead of ${wanted || 'nothing'}`]
  })
  expect(wrong).toEqual([])
})

test('the status page over the login of a reader shows nothing of the ledger and names no table of it', async () => {
  await as(names.reader, async (other) => {
    const page = await servePage(other)
    try {
      for (const place of ['/', '/coverage', '/plan', '/quota', '/runs', '/units', '/search?q=a', '/metrics']) {
        const answer = await fetch(page.url + place)
        expect(answer.status, place).toBe(503)
        const text = await answer.text()
        expect(text).toContain('The ledger could not be read just now; the log says why.')
        expect(text).not.toMatch(/etl\.|permission|reader_/)
      }
      expect(page.errors.map(String).join()).toMatch(/permission denied/)
    } finally {
      await page.close()
    }
  })
})

test('making the roles again changes nothing', async () => {
  const rights = () =>
    db.query(`select relname, relowner, relacl::text from pg_class where relnamespace in
      ('etl'::regnamespace, 'data'::regnamespace, 'bi'::regnamespace) order by oid`) // biome-ignore format: one look
  const before = await rights()
  await db.database.pool.query(ownRolesSql())
  expect(await rights()).toEqual(before)
})

test('a managed server’s administrator, who is no superuser, separates the roles', async () => {
  const admin = `admin_${process.pid}`
  const { pool } = db.database
  await pool.query(`create role ${admin} login createrole createdb password 'of a test'`)
  await pool.query(`create database ${admin} owner ${admin}`)
  const url = new URL(db.url)
  Object.assign(url, { username: admin, password: 'of a test', pathname: `/${admin}` })
  const managed = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  const text = ['owner', 'loader', 'reader'].reduce(
    (sum, name) => sum.replaceAll(names[name as keyof typeof names], `${admin}_${name}`),
    ownRolesSql(),
  )
  await migrate(managed, { folders: [] })
  await publish(managed, definitions, await loadMarts([]))
  for (let again = 0; again < 2; again += 1) await managed.pool.query(text)
  const owners = `select distinct n.nspname, pg_get_userbyid(c.relowner) as owner from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('bi', 'data', 'etl') and c.relkind in ('r', 'p', 'v') order by 1`
  expect((await managed.pool.query(owners)).rows.map(({ owner }) => owner)).toEqual([
    `${admin}_owner`,
    `${admin}_loader`,
    `${admin}_owner`,
  ])
  // The administrator's own sessions keep their limits.
  expect((await managed.pool.query('select rolconfig from pg_roles where rolname = current_user')).rows).toEqual([
    { rolconfig: null },
  ])
  await managed.close()
  await pool.query(`drop database ${admin}`)
  for (const role of ['owner', 'loader', 'reader'].map((name) => `${admin}_${name}`)) await dropRole(role)
  await dropRole(admin)
})

test('a database that withholds new functions from everybody is loaded and read all the same', async () => {
  const hardened = await createTestDatabase({ empty: true })
  const { pool } = hardened.database
  try {
    await pool.query('alter default privileges revoke execute on functions from public')
    await migrate(hardened.database, { folders: [] })
    await publish(hardened.database, definitions, await loadMarts([]))
    const withheld = async (...roles: string[]) =>
      (
        await pool.query<{ what: string }>(
          `select r.role || ' ' || p.oid::regprocedure as what from pg_proc p, unnest($1::text[]) as r (role)
          where p.pronamespace in ('bi'::regnamespace, 'etl'::regnamespace) and not has_function_privilege(r.role, p.oid, 'execute')`,
          [roles],
        )
      ).rows.map(({ what }) => what)
    expect(await withheld('bi_reader')).toEqual(['bi_reader etl.analyze_published(regclass)'])
    await pool.query(ownRolesSql())
    expect(await withheld(names.loader, names.reader)).toEqual([`${names.reader} etl.analyze_published(regclass)`])
    await as(
      names.reader,
      async ({ database }) => {
        for (const view of ['coverage', 'figure_changes', 'freshness', 'keyword_comparison', 'keyword_movements', 'keywords'])
          await database.pool.query(`select * from bi.${view}`)
      },
      hardened,
    )
  } finally {
    await hardened.drop()
  }
})

describe('the loader', () => {
  test('loads a new month with its dimensions, and a summary’s unit', async () => {
    const traffic = await shippedDefinition('traffic_and_engagement')
    const keywords = await shippedDefinition('keywords')
    const marts = await loadMarts([])
    await as(names.loader, async (other) => {
      const unit = unitOf(traffic, '2026-01', { domain: 'a.com', country: 'us' })
      const result = await mergeRows(other, traffic, unit, [trafficRow('a.com', '5')], {
        marts,
      })
      const unitOfKeywords = unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' })
      await refreshSummaries(
        other.database.kysely,
        keywords,
        { ...unitOfKeywords, leftOut: [], units: sql`true` },
        knownMarts(marts),
      )
      expect(result.inserted).toBe(1)
    })
  })

  test('signs on, takes a job with a number of its own, and signs off', async () => {
    const pipeline = await newPipeline(db)
    const runId = await newRun(db)
    const job = await newJob(db, pipeline, { runs: [runId] })
    const taken = await as(names.loader, async ({ database: { kysely } }) => {
      const process = await registerProcess(kysely)
      const claimable = { load: [pipeline.pipelineId], fetch: [], same: [] }
      const claims = await claimJobs(kysely, { process, runId, claimable, count: 1 })
      await endProcess(kysely, process)
      return claims
    })
    expect(taken).toMatchObject([{ jobId: job, askNumber: expect.stringMatching(/^\d+$/) }])
  })

  test.for([
    ['drops no view', 'drop view bi.keyword_brand_split'],
    ['makes nothing in bi', 'create table bi.mine ()'],
    ['changes no ledger table', 'alter table etl.runs add column mine text'],
    ['empties no ledger table', 'truncate etl.runs cascade'],
    ['restarts no numbers', 'alter sequence etl.ask_numbers restart'],
    ['forges no migration', `insert into etl.kysely_migration values ('x', 'now')`],
    ['makes no schema', 'create schema mine'],
    ['gives nobody rights on bi', `grant select on bi.keywords to public`],
  ])('%s', ([, statement]) =>
    as(names.loader, async ({ database }) => {
      const { kysely } = database
      // GRANT of what one lacks is a warning in PostgreSQL, so the outcome is looked at.
      const tried = await sql.raw(statement ?? '').execute(kysely).then(() => 'done', (error: unknown) => String(error)) // biome-ignore format: one look
      const { rows } = await sql<{ may: boolean }>`select has_table_privilege('public', 'bi.keywords', 'select') as may`.execute(
        kysely,
      )
      expect(rows[0]?.may).toBe(false)
      if (!statement?.startsWith('grant')) expect(tried).toMatch(/permission denied|must be owner/)
    }),
  )
})

test('the loader refreshes a summary that the owner has made anew', async () => {
  const keywords = await shippedDefinition('keywords')
  const marts = await loadMarts([])
  const changed = marts.map((mart) => (mart.name === 'keyword_months' ? { ...mart, sql: `${mart.sql} having true` } : mart))
  for (const own of [changed, marts]) {
    await as(names.owner, async ({ database }) => void (await publish(database, definitions, own)))
    await as(names.loader, async ({ database: { kysely } }) => {
      const unit = unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' })
      await kysely
        .transaction()
        .execute((trx) => refreshSummaries(trx, keywords, { ...unit, leftOut: [], units: sql`true` }, knownMarts(own)))
    })
  }
})

describe('statistics', () => {
  const many = `select 'd' || n || '.com', now() from generate_series($1::int, $1::int + 1999) n`
  const analyzed = async (): Promise<string[]> =>
    (
      await db.query<{ name: string }>(`select schemaname || '.' || tablename as name from pg_stats
        where schemaname in ('bi', 'data') group by 1 having count(*) > 1 order by 1`)
    ).map(({ name }) => name)
  const tables = ['bi.dim_domain', 'bi.keyword_months', 'data.keywords_v1']

  test.for(['loader', 'owner'] as const)(
    'of parents, dimensions and summaries are renewed by the %s when they changed enough, and only then',
    async (word) => {
      const keywords = await shippedDefinition('keywords')
      await mergeRows(db, keywords, unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' }), [])
      const client = await db.database.pool.connect()
      const from = word === 'loader' ? 1 : 10_001
      await client.query(`insert into bi.dim_country (country) values ('us') on conflict do nothing`)
      await client.query(`insert into bi.dim_domain (domain, first_seen_at) ${many}`, [from])
      await client.query(`insert into bi.keyword_months (month, domain, country, traffic_source, web_source, branded_type, keywords, clicks)
        select '2026-01-01', domain, 'us', 'All', 'Total', 'All', 1, 1 from bi.dim_domain
        join bi.dim_country on country = 'us' where domain ~ '^d[0-9]+[.]com$' on conflict do nothing`)
      // Not by the server in between.
      for (const table of ['data.keywords_v1_p202601', 'bi.dim_domain', 'bi.keyword_months'])
        await client.query(`alter table ${table} set (autovacuum_enabled = false)`)
      await client.query(
        `insert into data.keywords_v1 (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, _unit_id, _run_id, _revision, _loaded_at)
          select '2026-01-01', 'many.com', 'us', 'All', 'Total', 'All', 'k' || n, '', 1, 1, 1, now() from generate_series($1::int, $1::int + 1999) n`,
        [from],
      )
      // Counted at the end of a session's transaction, not of any other's.
      await client.query('select pg_stat_force_next_flush()')
      client.release()
      const notice: string[] = []
      await as(names[word], async ({ database }) => {
        database.pool.on('connect', (client) => client.on('notice', ({ message }) => notice.push(message ?? '')))
        expect(await analyzeChanged(database, [keywords])).toEqual(expect.arrayContaining(tables))
        expect(await analyzeChanged(database, [keywords])).toEqual([])
      })
      // PostgreSQL skips what it may not analyze, with a warning and no error.
      expect(notice).toEqual([])
      expect(await analyzed()).toEqual(expect.arrayContaining(tables))
    },
  )

  test('are nobody else’s to renew, and of bi alone', async () => {
    await as(names.reader, async ({ database }) => {
      await expect(database.pool.query(`select etl.analyze_published('bi.dim_domain')`)).rejects.toThrow(/permission denied/)
    })
    await as(names.loader, async ({ database }) => {
      await expect(database.pool.query(`select etl.analyze_published('etl.units')`)).rejects.toThrow(
        /etl\.units is no table of bi/,
      )
    })
  })
})

test('the loader applies attributes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-roles-'))
  try {
    mkdirSync(join(folder, 'attributes'))
    writeFileSync(join(folder, 'attributes', 'categories.csv'), 'category_id,name\n12,Shoes\n')
    writeFileSync(
      join(folder, 'attributes', 'domains.sql'),
      `select domain, 'Ours' as "group" from bi.dim_domain where domain = 'a.com'`,
    )
    await db.database.pool.query(`insert into bi.dim_category (category_id) values (12)`)
    await as(names.loader, async ({ database }) => {
      const apply = async () =>
        publishAttributes(
          database,
          await attributesOf(join(folder, 'pipelines'), definitions, (await loadSourceFolders()).sources),
          definitions,
        )
      expect(await apply()).toEqual({ changed: 2, ended: 0 })
      expect(await apply()).toEqual({ changed: 0, ended: 0 })
    })
    expect(
      await db.query(`select name, (select domain_group from bi.domains where domain = 'a.com') from bi.dim_category`),
    ).toEqual([{ name: 'Shoes', domain_group: 'Ours' }])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('the owner migrates and publishes, also what changes its shape', async () => {
  const marts = await loadMarts([])
  const changed = marts.map((mart) =>
    mart.name === 'keyword_brand_split' ? { ...mart, sql: mart.sql.replace('select month,', 'select 1 as more, month,') } : mart,
  )
  await as(names.owner, async ({ database }) => {
    expect((await migrate(database, { folders: [] })).applied).toEqual([])
    await publish(database, definitions, changed)
    await publish(database, definitions, marts)
  })
  await as(names.reader, async ({ database }) => {
    await database.pool.query('select * from bi.keyword_brand_split')
    await database.pool.query('select * from bi.keywords_as_of(now())')
  })
})

test('the owner adds an index to months that the loader made', async () => {
  const keywords = await shippedDefinition('keywords')
  await as(names.loader, (other) =>
    mergeRows(other, keywords, unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' }), []),
  )
  const indexes = async (): Promise<number> =>
    (await db.query(`select 1 from pg_index where indrelid = 'data.keywords_v1_p202601'::regclass and indisvalid`)).length
  const before = await indexes()
  await as(names.owner, async ({ database }) => {
    await database.pool.query('create index keywords_v1_by_clicks on data.keywords_v1 (clicks)')
  })
  expect(await indexes()).toBe(before + 1)
})

describe('the limits of a session', () => {
  const login = (word: string): string => `${word}_login_${process.pid}`
  const password = 'limits-of-a-session'
  const logins: Readonly<Record<string, readonly string[]>> = {
    owner: [names.owner],
    loader: [names.loader],
    reader: [names.reader],
    own: [names.reader],
    both: [names.loader, names.reader],
    stranger: [],
  }
  const watched = ['default_transaction_read_only', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']

  /** What a session of the login finds, in the order of `watched`; 0 and off are no limit. */
  const found = async (word: string): Promise<string> => {
    const url = new URL(db.url)
    url.username = login(word)
    url.password = password
    const client = new pg.Client({ connectionString: url.href })
    await client.connect()
    try {
      const { rows } = await client.query<{ setting: string }>(
        `select current_setting(name) as setting from unnest($1::text[]) with ordinality as w (name, at) order by at`,
        [watched],
      )
      return rows.map(({ setting }) => setting).join(' ')
    } finally {
      await client.end()
    }
  }

  beforeAll(async () => {
    for (const [word, roles] of Object.entries(logins)) {
      const member = roles.length === 0 ? '' : `in role ${roles.join(', ')}`
      await db.database.pool.query(`create role ${login(word)} login password '${password}' ${member}`)
    }
    await db.database.pool.query(`alter role ${login('own')} set statement_timeout = '10min'`)
    await db.database.pool.query(`grant connect on database ${new URL(db.url).pathname.slice(1)} to ${login('stranger')}`)
    await db.database.pool.query(ownRolesSql())
  })
  afterAll(async () => {
    await db.database.pool.query(`drop owned by ${login('stranger')}`)
    for (const word of Object.keys(logins)) await db.database.pool.query(`drop role ${login(word)}`)
  })

  test.for([
    ['owner', 'off 0 2min 15min'],
    ['loader', 'off 0 15min 15min'],
    ['reader', 'on 1min 30s 5min'],
    ['own', 'on 10min 30s 5min'],
    ['both', 'off 0 15min 15min'],
    ['stranger', 'off 0 0 0'],
  ] as const)('of %s are %s', async ([word, settings]) => {
    expect(await found(word)).toBe(settings)
  })

  test('end a migration that would wait behind somebody’s lock, in words that tell what to do', async () => {
    const holder = await db.database.pool.connect()
    const url = new URL(db.url)
    url.searchParams.set('options', `-c role=${names.owner} -c lock_timeout=100ms`)
    const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
    try {
      await holder.query('begin; lock table etl.kysely_migration in access exclusive mode')
      await expect(migrate(database, { folders: [] })).rejects.toMatchObject({
        code: 'DATABASE',
        message: expect.stringMatching(/lock timeout.*pg_blocking_pids/),
      })
    } finally {
      await holder.query('rollback')
      holder.release()
      await database.close()
    }
  })
})

test.for([
  'select 1 from etl.runs',
  'select 1 from data.keywords_v1',
  'delete from bi.dim_domain',
  'create table bi.mine ()',
  'create schema mine',
  'create table public.mine ()',
  'create temporary table mine ()',
  'select lo_create(0)',
  `select lo_from_bytea(0, 'x')`,
])('the reader is refused: %s', (statement) =>
  as(names.reader, async ({ database }) => {
    await expect(database.pool.query(statement)).rejects.toThrow(/permission denied|read-only/)
  }),
)
