// Owner, loader and reader apart: every role against every object, and each doing its own work and nobody else's.
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import type { Definition } from '../../src/core/types.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { rolesSql } from '../../src/db/roles.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { addDimensions } from '../../src/load/dimensions.ts'
import { oneUnit } from '../../src/load/merge-scope.ts'
import { refreshSummaries } from '../../src/load/summaries.ts'
import { publish } from '../../src/publish/publish.ts'
import { claimJobs } from '../../src/ledger/claim.ts'
import { endProcess, registerProcess } from '../../src/ledger/processes.ts'
import { shippedDefinition, shippedDefinitions, unitOf } from '../support/definitions.ts'
import { newJob, newPipeline, newRun } from '../support/ledger.ts'
import { mergeRows, trafficRow } from '../support/merging.ts'
import { createTestDatabase, dropRole, type TestDatabase } from '../support/postgres.ts'

const names = { owner: `owner_${process.pid}`, loader: `loader_${process.pid}`, reader: `reader_${process.pid}` }
let db: TestDatabase
let definitions: readonly Definition[]

/** The same database, as one of the roles. */
const as = async <T>(role: string, work: (other: TestDatabase) => Promise<T>): Promise<T> => {
  const url = new URL(db.url)
  url.searchParams.set('options', `-c role=${role}`)
  const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  try {
    return await work({ ...db, url: url.href, database })
  } finally {
    await database.close()
  }
}

beforeAll(async () => {
  db = await createTestDatabase()
  definitions = await shippedDefinitions()
  await publish(db.database, definitions, await loadMarts([]))
  await db.database.pool.query(rolesSql(names))
})
afterAll(async () => {
  await db.drop()
  for (const role of Object.values(names)) await dropRole(role)
})

type Kind = 'summary' | 'dimension' | 'calendar' | 'view' | 'table' | 'migrations'

const expected = (role: keyof typeof names, schema: string, kind: Kind): string => {
  if (role === 'owner') return 'all'
  if (role === 'reader') return schema === 'bi' ? 'select' : ''
  if (schema === 'data') return 'all'
  if (schema === 'etl') return kind === 'migrations' ? 'select' : 'select insert update delete'
  return { summary: 'select insert delete', dimension: 'select insert' }[kind as string] ?? 'select'
}

test('every role has on every object what it needs and nothing more', async () => {
  const privileges = ['select', 'insert', 'update', 'delete', 'truncate']
  const { rows } = await db.database.pool.query<{ schema: string; name: string; kind: Kind; role: string; has: string[] }>(
    `select n.nspname as schema, c.relname as name, r.role,
      case when c.relname like 'kysely%' then 'migrations' when n.nspname <> 'bi' then 'table' when c.relkind = 'v' then 'view'
        when c.relname = 'dim_date' then 'calendar' when c.relname like 'dim\\_%' then 'dimension' else 'summary' end as kind,
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

test('making the roles again changes nothing', async () => {
  const rights = async () =>
    (await db.database.pool.query(`select relname, relowner, relacl::text from pg_class where relnamespace in
      ('etl'::regnamespace, 'data'::regnamespace, 'bi'::regnamespace) order by oid`)).rows // biome-ignore format: one look
  const before = await rights()
  await db.database.pool.query(rolesSql(names))
  expect(await rights()).toEqual(before)
})

describe('the loader', () => {
  test('loads a new month with its dimensions, and a summary’s unit', async () => {
    const traffic = await shippedDefinition('traffic_and_engagement')
    const keywords = await shippedDefinition('keywords')
    const marts = await loadMarts([])
    await as(names.loader, async (other) => {
      const unit = unitOf(traffic, '2026-01', { domain: 'a.com', country: 'us' })
      const result = await mergeRows(other, traffic, unit, [trafficRow('a.com', '5')], {
        during: async ({ kysely }) => {
          await addDimensions(kysely, traffic, oneUnit(unit, 1), 1)
          const unitOfKeywords = unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' })
          await refreshSummaries(kysely, keywords, oneUnit(unitOfKeywords, 2), marts)
        },
      })
      expect(result.inserted).toBe(1)
    })
  })

  test('signs on, takes a job with a number of its own, and signs off', async () => {
    const pipeline = await newPipeline(db)
    const runId = await newRun(db)
    const job = await newJob(db, pipeline, { runs: [runId] })
    const taken = await as(names.loader, async ({ database: { kysely } }) => {
      const process = await registerProcess(kysely)
      const claimable = { load: [pipeline.pipelineId], fetch: [] }
      const claims = await claimJobs(kysely, { process, runId, claimable, count: 1 })
      await endProcess(kysely, process)
      return claims
    })
    expect(taken).toMatchObject([{ jobId: job, askNumber: expect.stringMatching(/^\d+$/) }])
  })

  test.for([
    ['drops no view', 'drop view bi.keyword_brand'],
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

test('the owner migrates and publishes, also what changes its shape', async () => {
  const marts = await loadMarts([])
  const changed = marts.map((mart) =>
    mart.name === 'keyword_brand' ? { ...mart, sql: mart.sql.replace('select month,', 'select 1 as more, month,') } : mart,
  )
  await as(names.owner, async ({ database }) => {
    expect((await migrate(database, { folders: [] })).applied).toEqual([])
    await publish(database, definitions, changed)
    await publish(database, definitions, marts)
  })
  await as(names.reader, async ({ database }) => {
    await database.pool.query('select * from bi.keyword_brand')
    await database.pool.query('select * from bi.keywords_as_of(now())')
  })
})

test('the owner adds an index to months that the loader made', async () => {
  const keywords = await shippedDefinition('keywords')
  await as(names.loader, (other) =>
    mergeRows(other, keywords, unitOf(keywords, '2026-01', { domain: 'a.com', country: 'us' }), []),
  )
  const indexes = async (): Promise<number> =>
    (await db.database.pool.query(`select 1 from pg_index where indrelid = 'data.keywords_v1_p202601'::regclass and indisvalid`))
      .rows.length
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
    await db.database.pool.query(rolesSql(names))
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
])('the reader is refused: %s', (statement) =>
  as(names.reader, async ({ database }) => {
    await expect(database.pool.query(statement)).rejects.toThrow(/permission denied|read-only/)
  }),
)
