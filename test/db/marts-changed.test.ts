// Marts, pipelines and what people add to both, changed in any order: `migrate` publishes what the files say, loses nothing of somebody's, or names it.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { expect, test, vi } from 'vitest'
import { readSettings } from '../../src/core/env.ts'
import { refreshSummaries } from '../../src/load/summaries.ts'
import { migrateAndPublish } from '../../src/run/migrate-and-publish.ts'
import { shapesOf } from '../../src/publish/replace-view.ts'
import { newMigration } from '../../src/run/new-migration.ts'
import { openMarts } from '../../src/run/open-runtime.ts'
import { shippedDefinition, unitOf } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase({ each: true })
const folder = testFolder({ each: true })

const pipelinesFolder = () => join(folder, 'pipelines')
const settings = () => readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: folder }, folder)
const migrate = () => migrateAndPublish({ settings: settings(), pipelinesFolder: pipelinesFolder(), dryRun: false })

const put = (name: string, header: string, query: string): void => {
  mkdirSync(join(folder, 'marts'), { recursive: true })
  writeFileSync(join(folder, 'marts', `${name}.sql`), `-- purpose: p\n-- grain: g\n-- question: q?\n-- ${header}\n${query}`)
}
const view = (name: string, query: string, reads = 'keywords'): void => put(name, `reads: ${reads}`, query)
const cells = 'month, domain, country, traffic_source, web_source, branded_type'
const sums = `select ${cells}, sum(clicks) as clicks from {{facts}} group by ${cells}`
const summary = (name: string, query = sums, key = cells): void => put(name, `kind: summary of keywords\n-- key: ${key}`, query)
const taken = (name: string): void => rmSync(join(folder, 'marts', `${name}.sql`))
const yaml = (name: string): string => join(pipelinesFolder(), `${name}.yaml`)
const edit = (name: string, change: (text: string) => string): void =>
  writeFileSync(yaml(name), change(readFileSync(yaml(name), 'utf8')))
/** The columns of bi.keywords in another order: it is dropped and made again, with what reads it. */
const reorder = (): void => edit('keywords', (text) => text.replace(/( {4}clicks: .*\n)( {4}traffic_share: .*\n)/, '$2$1'))

const load = async (domain: string): Promise<void> => {
  const [keywords, marts] = [await shippedDefinition('keywords'), await openMarts(pipelinesFolder())]
  await db.database.kysely.transaction().execute(async (trx) => {
    await sql`insert into bi.dim_domain (domain) values (${domain})`.execute(trx)
    await sql`insert into bi.dim_country (country) values ('us') on conflict do nothing`.execute(trx)
    await sql`create table if not exists data.own_month partition of data.keywords_v1 for values from ('2026-08-01') to ('2026-09-01')`.execute(
      trx,
    )
    await sql`insert into data.keywords_v1 (${sql.raw(cells)}, keyword, top_url, clicks, traffic_share, _unit_id, _run_id, _revision, _loaded_at)
      values ('2026-08-01', ${domain}, 'us', 'All', 'Total', 'All', 'k', 'u', 70, 0.5, 1, 1, 1, now())`.execute(trx)
    const unit = unitOf(keywords, '2026-08', { domain, country: 'us' })
    await refreshSummaries(trx, keywords, { ...unit, leftOut: [], units: sql`false` }, marts)
  })
}

const begin = async (): Promise<void> => {
  mkdirSync(pipelinesFolder(), { recursive: true })
  cpSync('pipelines/keywords.yaml', yaml('keywords'))
  cpSync('pipelines/domains.txt', join(pipelinesFolder(), 'domains.txt'))
  await migrate()
}

test.each([
  '\n-- The end.',
  ' -- The end.',
  ';\n-- The end.\n',
  "; -- It's the end.",
  '; /* The end. */',
  '; /* The /* very */ end. */',
  '\n/*\n-- The end. */',
  " having 'a\n--b; -- c' <> ''",
])('a summary whose query ends with a comment (%j) is filled by migrate and by loads', async (end) => {
  await begin()
  summary('own_sums', sums + end)
  await migrate()
  await load('first.com')
  taken('own_sums')
  summary('own_later', sums + end)
  await migrate()
  await load('second.com')
  expect(await db.query('select domain from bi.own_later order by 1')).toEqual([
    { domain: 'first.com' },
    { domain: 'second.com' },
  ])
})

const kindOf = (name: string) =>
  db.query<{ kind: string }>(`select relkind::text as kind from pg_class where oid = to_regclass('bi.${name}')`)

test('a view that reads a mart its header does not name stays there when that mart is made anew', async () => {
  await begin()
  view('own_base', 'select domain, clicks from bi.keywords')
  view('a_reader', 'select domain from bi.own_base')
  await migrate()
  view('own_base', 'select clicks, domain from bi.keywords')
  await migrate()
  expect(await kindOf('a_reader')).toEqual([{ kind: 'v' }])
  // A circle of words alone is none.
  view('own_base', 'select clicks, domain from bi.keywords\n-- As in bi.a_reader.\nwhere true')
  await migrate()
  expect(await kindOf('a_reader')).toEqual([{ kind: 'v' }])
})

test.each(['-- As in bi.own_reader.', '/* As in bi.own_reader. */', "where 'bi.own_reader' <> $$bi.own_reader$$"])(
  'a mart is made before one that reads it and that it names in words alone: %s',
  async (words) => {
    await begin()
    view('own_base', `select domain from bi.keywords\n${words}\nlimit 1`)
    view('own_reader', 'select domain from bi.own_base', 'own_base')
    expect(await migrate()).toMatchObject({ made: ['own_base', 'own_reader'], leftOut: [] })
  },
)

test('a view whose query is in capitals is made after the mart that it reads', async () => {
  await begin()
  view('own_base', 'select domain from bi.keywords')
  view('a_reader', 'SELECT DOMAIN FROM BI.OWN_BASE')
  await migrate()
  expect(await kindOf('a_reader')).toEqual([{ kind: 'v' }])
})

test('what people set on a view or a summary is there when it is made anew: rights of all and of columns, rights to give on, options, indexes', async () => {
  await begin()
  const { pool } = db.database
  view('own_base', 'select domain, clicks from bi.keywords')
  await migrate()
  await pool.query(`do $$ begin create role analyst_test nologin; exception when duplicate_object then null; end $$;
    grant select on bi.own_base, bi.keywords, bi.keyword_months to public; grant select on bi.own_base to analyst_test with grant option;
    grant select (clicks) on bi.keywords to analyst_test; alter view bi.own_base set (security_barrier = true); alter view bi.keywords set (security_barrier = true);
    create index own_index on bi.keyword_months (domain)`)
  const set = () =>
    db.query(`select c.relname as name, c.reloptions::text as options, array(select r.grantee || ' ' || r.is_grantable from information_schema.role_table_grants r
        where r.table_schema = 'bi' and r.table_name = c.relname and r.grantee in ('PUBLIC', 'analyst_test') order by 1)::text as rights,
      (select string_agg(a.attname, ',') from pg_attribute a where a.attrelid = c.oid and a.attacl is not null) as columns,
      array(select indexrelid::regclass::text from pg_index where indrelid = c.oid and not indisprimary)::text as indexes
      from pg_class c where c.relnamespace = 'bi'::regnamespace and c.relname in ('own_base', 'keywords', 'keyword_months') order by 1`)
  const before = await set()
  expect(before).toEqual([
    { name: 'keyword_months', options: null, rights: '{"PUBLIC NO"}', columns: null, indexes: '{bi.own_index}' },
    { name: 'keywords', options: '{security_barrier=true}', rights: '{"PUBLIC NO"}', columns: 'clicks', indexes: '{}' },
    {
      name: 'own_base',
      options: '{security_barrier=true}',
      rights: '{"PUBLIC NO","analyst_test YES"}',
      columns: null,
      indexes: '{}',
    },
  ])
  reorder()
  await pool.query(`comment on table bi.keyword_months is 'made from another query'`)
  await migrate()
  expect(await set()).toEqual(before)
  // Of its own, dropped and replaced in place.
  for (const columns of ['clicks, domain', 'clicks, domain, volume']) {
    view('own_base', `select ${columns} from bi.keywords`)
    await migrate()
    expect(await set()).toEqual(before)
  }
})

test('a view that gets a column keeps rights as who gave them has them, and nothing in its query is called', async () => {
  await begin()
  const giver = `giver_${process.pid}`
  const cut = "from bi.keywords where domain = current_setting('own.domain')"
  view('own_base', `select domain ${cut}`)
  await migrate()
  await load('first.com')
  await db.database.pool.query(`create role ${giver}; grant usage on schema bi to ${giver}; grant select on bi.own_base to ${giver} with grant option;
    set role ${giver}; grant select on bi.own_base to public; reset role`)
  try {
    const rights = () => db.query(`select relacl::text as rights from pg_class where oid = 'bi.own_base'::regclass`)
    const before = await rights()
    view('own_base', `select domain, clicks ${cut}`)
    expect((await migrate()).changed).toContain('own_base')
    expect(await rights()).toEqual(before)
  } finally {
    await db.database.pool.query(`drop owned by ${giver} cascade; drop role ${giver}`)
  }
})

test('options and statistics of a summary stay when it is made anew', async () => {
  await begin()
  await db.database.pool.query(
    `alter table bi.keyword_months set (fillfactor = 70); create statistics bi.own_statistics on domain, country from bi.keyword_months;
    comment on table bi.keyword_months is 'made from another query'`,
  )
  await migrate()
  expect(await db.query(`select reloptions from pg_class where oid = 'bi.keyword_months'::regclass`)).toEqual([
    { reloptions: ['fillfactor=70'] },
  ])
  expect(await db.query(`select stxname::text as name from pg_statistic_ext`)).toEqual([{ name: 'own_statistics' }])
})

test('a summary that somebody restricts is not made anew without that: policy and constraint are named, and nothing is changed', async () => {
  await begin()
  const { pool } = db.database
  await pool.query(
    `alter table bi.keyword_months enable row level security; create policy own_rows on bi.keyword_months using (domain = 'first.com');
    alter table bi.keyword_months add constraint own_check check (clicks >= 0); create table public.own_domains (domain text primary key);
    alter table bi.keyword_months add constraint own_key foreign key (domain) references public.own_domains;
    create publication own_stream for table bi.keyword_months`,
  )
  await migrate()
  await pool.query(`comment on table bi.keyword_months is 'made from another query'`)
  await expect(migrate()).rejects.toMatchObject({
    code: 'CONFIGURATION',
    message: expect.stringContaining(
      'bi.keyword_months must be created anew, which would lose what was added to it: row level security, the constraint own_check, the constraint own_key, the policy own_rows, the publication own_stream. Drop that',
    ),
  })
  expect(await db.query(`select polname from pg_policy where polrelid = 'bi.keyword_months'::regclass`)).toEqual([
    { polname: 'own_rows' },
  ])
})

test.each([
  [
    'create function public.own_rows() returns setof bi.own_base language sql as $$ select * from bi.own_base $$',
    'public.own_rows() reads it',
  ],
  [
    'create function public.own_count() returns bigint begin atomic select count(*) from bi.own_base; end',
    'public.own_count() reads it',
  ],
  ['create table public.own_table (one bi.own_base)', 'own_table depends on type bi.own_base'],
  [
    'create function bi.keywords_as_of(date) returns setof bi.own_base language sql as $$ select * from bi.own_base $$',
    'bi.keywords_as_of(date) reads it',
  ],
])('what else than a view depends on a mart is named, not its query refused: %s', async (made, words) => {
  await begin()
  view('own_base', 'select domain, clicks from bi.keywords')
  await migrate()
  await db.database.pool.query(made)
  view('own_base', 'select clicks, domain from bi.keywords')
  await expect(migrate()).rejects.toMatchObject({ code: 'CONFIGURATION', message: expect.stringContaining(words) })
})

test('a pipeline takes the name of a mart whose file is gone, and a mart that of a pipeline whose file is gone', async () => {
  await begin()
  view('words', 'select domain from bi.keywords')
  view('words_history', 'select domain from bi.keywords')
  await migrate()
  for (const name of ['words', 'words_history']) taken(name)
  writeFileSync(yaml('words'), readFileSync(yaml('keywords'), 'utf8').replace('pipeline: keywords', 'pipeline: words'))
  await newMigration({ pipeline: 'words', pipelinesFolder: pipelinesFolder(), settings })
  expect(await migrate()).toMatchObject({ removed: [], kept: [] })

  rmSync(yaml('words'))
  view('words', 'select domain from bi.keywords')
  await migrate()
  expect(await db.query("select count(*)::int as columns from pg_attribute where attrelid = 'bi.words'::regclass")).toEqual([
    { columns: 1 },
  ])
})

test.each(['keywords', 'keywords_history', 'freshness'])(
  'a mart is not published as bi.%s, which is made from definitions',
  async (name) => {
    await begin()
    view(name, 'select 1 as one', 'quota_history')
    await expect(migrate()).rejects.toMatchObject({
      code: 'DEFINITION',
      message: expect.stringContaining(`${name}.sql: bi.${name} is a view of Millrace itself. Give the file another name.`),
    })
  },
)

test('a mart that reads what is not there is named', async () => {
  await begin()
  view('own_base', 'select domain from bi.keywords', 'keyword')
  expect((await migrate()).leftOut).toEqual(['own_base'])
})

test('a version with a column of another type leaves shipped marts out that cannot read it', async () => {
  await begin()
  cpSync(yaml('keywords'), yaml('keywords_2'))
  edit('keywords', (text) => text.replace('version: 1\n', 'version: 1\npublish: false\n'))
  edit('keywords_2', (text) =>
    text.replace('version: 1\n', 'version: 2\n').replace('position: { type: numeric, if_absent: 0,', 'position: { type: text,'),
  )
  await newMigration({ pipeline: 'keywords', pipelinesFolder: pipelinesFolder(), settings })
  const { leftOut } = await migrate()
  expect(leftOut).toContain('keyword_months')
  expect((await migrate()).leftOut).toEqual(leftOut)
})

test('a migration that drops a column which a view still shows is refused with the view, and goes through once the view is made without it', async () => {
  await begin()
  edit('keywords', (text) => text.replace(/ {4}cpc_high_bid: .*\n/, ''))
  const file = join(folder, 'migrations', '0900_drop.ts')
  mkdirSync(join(folder, 'migrations'))
  const drops = ['keywords_v1', 'keywords_v1_history'].map(
    (name) => `  await sql\`alter table data.${name} drop column cpc_high_bid\`.execute(db)\n`,
  )
  const text = `import { sql } from 'kysely'\nexport const up = async (db) => {\n${drops.join('')}}\n`
  writeFileSync(file, text)
  await expect(migrate()).rejects.toMatchObject({
    code: 'CONFIGURATION',
    message: expect.stringMatching(
      /0900_drop.*view bi\.keywords depends on column cpc_high_bid.*migrate once without this file/s,
    ),
  })
  rmSync(file)
  await migrate()
  writeFileSync(file, text)
  expect((await migrate()).applied).toEqual(['0900_drop'])
})

test('a summary of whatever columns its pipeline has is refused: loads would write into wrong ones once the definition changes', async () => {
  await begin()
  const rows = (columns: string) => `with own as (select * from {{facts}} where clicks > 3)\nselect ${columns} from own`
  const key = `${cells}, keyword, top_url`
  summary('own_rows', rows('own.*'), key)
  await expect(migrate()).rejects.toMatchObject({
    code: 'DEFINITION',
    message: expect.stringContaining(
      "own_rows.sql: write the columns of a summary out: '*' in its query would change with the pipeline",
    ),
  })
  summary('own_rows', rows(`${key}, clicks, traffic_share`), key)
  await migrate()
  reorder()
  await migrate()
  await load('first.com')
  expect(await db.query('select clicks::float, traffic_share::float from bi.own_rows')).toEqual([
    { clicks: 70, traffic_share: 0.5 },
  ])
})

test('views that come to read each other are refused', async () => {
  await begin()
  view('own_base', 'select domain from bi.keywords')
  view('own_reader', 'select domain from bi.own_base', 'own_base')
  await migrate()
  view('own_base', 'select domain from bi.own_reader')
  view('own_reader', 'select domain from bi.own_base')
  await expect(migrate()).rejects.toMatchObject({ code: 'DEFINITION', message: expect.stringContaining('infinite recursion') })
  expect(await db.query('select domain from bi.own_reader')).toEqual([])
})

test('what a superuser makes anew keeps its owner', async () => {
  await begin()
  const { pool } = db.database
  const owner = `owner_of_marts_${process.pid}`
  view('own_base', 'select domain from bi.keywords')
  summary('own_sums')
  await migrate()
  await pool.query(`create role ${owner}; grant usage, create on schema bi to ${owner}; alter view bi.own_base owner to ${owner}; alter table bi.own_sums owner to ${owner};
    grant select on bi.own_base to bi_reader`)
  try {
    view('own_base', 'select clicks from bi.keywords')
    summary('own_sums', `${sums} having true`)
    await migrate()
    expect(
      await db.query(`select relname as name, pg_get_userbyid(relowner) as owner, has_table_privilege('bi_reader', oid, 'select') as may
        from pg_class where relname in ('own_base', 'own_sums') order by 1`),
    ).toEqual(['own_base', 'own_sums'].map((name) => ({ name, owner, may: true })))
  } finally {
    await pool.query(`drop owned by ${owner}; drop role ${owner}`)
  }
})

test('what a member of the owner makes anew, as the administrator of a managed server does, keeps its owner', async () => {
  await begin()
  const { pool } = db.database
  const [owner, member] = [`owning_${process.pid}`, `member_${process.pid}`]
  view('own_base', 'select domain, clicks from bi.keywords')
  summary('own_sums')
  await migrate()
  const give = (kind: string, names: string) =>
    `for one in ${names} loop execute format('alter ${kind} %s owner to ${owner}', one); end loop;`
  await pool.query(`create role ${owner}; create role ${member} login password 'x' in role ${owner};
    do $$ declare one text; begin
      ${give('schema', "select unnest(array['etl', 'data', 'bi'])")}
      ${give('table', "select oid::regclass from pg_class where relnamespace::regnamespace::text in ('etl', 'data', 'bi') and relkind in ('r', 'v', 'p')")}
      ${give('routine', "select oid::regprocedure from pg_proc where pronamespace::regnamespace::text in ('etl', 'bi')")}
      ${give('database', 'select quote_ident(current_database())')}
    end $$`)
  try {
    const login = new URL(db.url)
    login.username = member
    login.password = 'x'
    reorder()
    view('own_base', 'select clicks, domain from bi.keywords')
    summary('own_sums', `${sums} having true`)
    const own = readSettings({ DATABASE_URL: login.href, MILLRACE_HOME: folder }, folder)
    await migrateAndPublish({ settings: own, pipelinesFolder: pipelinesFolder(), dryRun: false })
    expect(
      await db.query(`select relname as name from pg_class where relnamespace = 'bi'::regnamespace and relkind in ('r', 'v') and pg_get_userbyid(relowner) <> '${owner}'
        union all select proname from pg_proc where pronamespace = 'bi'::regnamespace and pg_get_userbyid(proowner) <> '${owner}'`),
    ).toEqual([])
  } finally {
    await pool.query(
      `reassign owned by ${member}, ${owner} to current_user; drop owned by ${member}, ${owner}; drop role ${member}; drop role ${owner}`,
    )
  }
})

test('a column that a version gets while the next one is filling has its migration, as migrate says', async () => {
  await begin()
  cpSync(yaml('keywords'), yaml('keywords_2'))
  // Another number than above: a migration's module is loaded once for its path.
  edit('keywords_2', (text) => text.replace('version: 1\n', 'version: 3\npublish: false\n'))
  const write = () => newMigration({ pipeline: 'keywords', pipelinesFolder: pipelinesFolder(), settings })
  await write()
  edit('keywords', (text) => text.replace('    cpc: {', '    own_column: { type: numeric, description: D }\n    cpc: {'))
  await expect(migrate()).rejects.toMatchObject({
    code: 'TABLE_DRIFT',
    message: expect.stringContaining('`millrace new migration keywords` writes it'),
  })
  expect(await write()).toMatchObject({ kind: 'change', file: expect.stringContaining('keywords_v1_add_own_column') })
  expect(await write()).toMatchObject({ kind: 'none' })
  expect((await migrate()).applied).toHaveLength(2)
})

/** Somebody's session that never gives up a circle of waits: who waits with it does. */
const patientSession = async (): Promise<pg.Client> => {
  await db.database.pool.query(
    `do $$ begin execute format('alter database %I set deadlock_timeout = ''800ms''', current_database()); end $$`,
  )
  const session = new pg.Client({ connectionString: db.url })
  await session.connect()
  await session.query(`set deadlock_timeout = '60s'`)
  return session
}
const waitsForLock = async (words: string): Promise<boolean> =>
  (
    await db.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%${words}%' and pid <> pg_backend_pid()`,
    )
  ).length > 0

test('a reader that waits for a view that migrate changes, and keeps another from it, does not end migrate', async () => {
  await begin()
  view('own_a', 'select 1 as one, 2 as two', 'quota_history')
  view('own_b', 'select k.domain from bi.keywords k, bi.own_a', 'keywords, own_a')
  await migrate()
  const reader = await patientSession()
  try {
    await reader.query('begin; select * from bi.own_a')
    reorder()
    view('own_a', 'select 2 as two, 1 as one', 'quota_history')
    const going = migrate().then(
      () => 'done',
      (error: Error) => error.message,
    )
    await vi.waitUntil(() => waitsForLock('create or replace view'), { timeout: 20_000, interval: 20 })
    await reader.query('select * from bi.own_b; commit')
    expect(await going).toBe('done')
  } finally {
    await reader.end()
  }
})

test.each([
  ['alter view bi.own_a set (security_barrier = true)', 'alter view bi.own_b set (security_barrier = true)'],
  ['alter view bi.own_b set (security_barrier = true)', 'alter view bi.own_a set (security_barrier = true)'],
  ['drop view bi.own_a_reader', 'drop view bi.own_a'],
])('what bi holds is told beside a publishing that does: %s, then: %s', async (first, second) => {
  await begin()
  for (const name of ['own_a', 'own_b']) {
    view(name, 'select 1 as one', 'quota_history')
    view(`${name}_reader`, `select one from bi.${name}`, name)
  }
  await migrate()
  const other = await patientSession()
  try {
    await other.query(`begin; ${first}`)
    const shapes = shapesOf(db.database.kysely).then(
      (found) => [...found.keys()],
      (error: Error) => error.message,
    )
    await vi.waitUntil(() => waitsForLock('pg_get_viewdef'), { timeout: 20_000, interval: 20 })
    await other.query(`${second}; commit`)
    expect(await shapes).toContain('own_b')
  } finally {
    await other.end()
  }
})

test.each([
  ['keywords_v1', 'volume'],
  ['keywords_v1_history', 'difficulty'],
])('a column that was dropped from %s alone comes back with the migration that the message names', async (table, column) => {
  await begin()
  await db.database.pool.query(`alter table data.${table} drop column ${column} cascade`)
  await expect(migrate()).rejects.toMatchObject({
    code: 'TABLE_DRIFT',
    message: expect.stringContaining('`millrace new migration'),
  })
  await newMigration({ pipeline: 'keywords', pipelinesFolder: pipelinesFolder(), settings })
  expect((await migrate()).applied).toEqual([expect.stringContaining(`keywords_v1_add_${column}`)])
  expect(await migrate()).toMatchObject({ applied: [], leftOut: [] })
})

test('where a reader is in the way of what comes after a filled summary, it is waited for, and nothing that people set is lost', async () => {
  await begin()
  view('own_a', 'select domain from bi.keywords')
  view('own_b', 'select 1 as one, 2 as two', 'own_a')
  await migrate()
  await db.database.pool.query('grant select on bi.own_a to public')
  const reader = new pg.Client({ connectionString: db.url })
  await reader.connect()
  try {
    await reader.query('begin; select * from bi.own_b')
    reorder()
    summary('own_again')
    view('own_b', 'select 2 as two, 1 as one', 'own_a')
    const going = migrate().then(
      () => 'done',
      (error: Error) => error.message,
    )
    const isWaiting = async () =>
      (await db.query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)).length > 0
    await vi.waitUntil(isWaiting, { timeout: 20_000 })
    // It has given up one time.
    await vi.waitUntil(async () => !(await isWaiting()), { timeout: 20_000, interval: 20 })
    await reader.query('commit')
    expect(await going).toBe('done')
  } finally {
    await reader.end()
  }
  expect(
    await db.query(`select grantee from information_schema.role_table_grants where table_name = 'own_a' and grantee = 'PUBLIC'`),
  ).toEqual([{ grantee: 'PUBLIC' }])
})
