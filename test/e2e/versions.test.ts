// Two versions of a pipeline side by side, by the real command: a cell is bought once, and the plan says so beforehand.
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const { folder, db, sandbox, millrace } = sandboxWorld({
  copied: ['pipelines/domains.txt'],
  lists: { others: ['example.net', 'example.org', 'wikipedia.org'] },
  sandbox: { keywordsPerDomain: 20, reportDurationMs: 300 },
  // Known before the first bill, so that the plan says it.
  settings: { WEB_ANALYTICS_PRICES: 'keywords=1/request' },
})

beforeAll(async () => {
  const pipelines = join(folder, 'pipelines')
  for (const name of ['traffic_and_engagement.yaml', 'keywords.yaml']) {
    // Two tries: the pauses between five take half a minute in each test whose answer is lost.
    const text = readFileSync(join(pipelinesOfRepository, name), 'utf8').replace('attempts: 5', 'attempts: 2')
    writeFileSync(join(pipelines, name), text)
    // The second follows one domain less, and one more.
    const second = text.replace('version: 1\n', 'version: 2\npublish: false\n').replaceAll('domains.txt', 'others.txt')
    writeFileSync(join(pipelines, name.replace('.yaml', '_2.yaml')), second)
  }
  for (const name of ['traffic_and_engagement', 'keywords']) await succeeded(millrace('new', 'migration', name))
  await succeeded(millrace('migrate'))
})

test.each(['traffic_and_engagement', 'keywords'])(
  '%s of both versions costs what four domains cost, as planned',
  async (pipeline) => {
    const backfill = (...options: string[]) =>
      millrace('backfill', pipeline, '--from', '2026-07', '--to', '2026-08', '--json', ...options)
    const before = sandbox.books().quotaUsed
    const dry = summaryOf(await backfill('--dry-run'))
    expect(sandbox.books().quotaUsed).toBe(before)
    const ran = await succeeded(backfill())
    const real = summaryOf(ran)
    expect(real.units).toMatchObject({ planned: dry.units.planned, failed: 0, held: 0, waiting: 0 })
    expect(dry.quota_used).toBe(real.quota_used)
    expect(sandbox.books().quotaUsed - before).toBe(real.quota_used)
    const rows = await db.database.pool.query<{
      version: number
      domains: string
      served: string
    }>(`select p.version, count(distinct s."values"[1]) as domains,
      count(distinct j.served_by) as served from etl.units u join etl.pipelines p using (pipeline_id) join etl.slices s on s.slice_id = u.slice_id
      left join etl.jobs j on j.pipeline_id = p.pipeline_id and j.served_by is not null
    where p.pipeline = '${pipeline}' and u.answer_id is not null group by 1 order by 1`)
    expect(rows.rows.map(({ version, domains }) => [version, domains])).toEqual([
      [1, '3'],
      [2, '3'],
    ])
    const bought = await db.database.pool.query<{
      cells: string
      answers: string
    }>(`select count(*) as cells, count(distinct answer_id) as answers from (
      select s."values", u.window_from, count(distinct u.answer_id) as n, min(u.answer_id) as answer_id from etl.units u join etl.pipelines p using (pipeline_id)
        join etl.slices s on s.slice_id = u.slice_id where p.pipeline = '${pipeline}' group by 1, 2 having count(distinct u.answer_id) > 1) twice`)
    expect(bought.rows[0]?.cells).toBe('0')
  },
)

test('a value that one of two versions follows can be asked for alone', async () => {
  const only = (domain: string) =>
    millrace('backfill', 'keywords', '--from', '2025-02', '--to', '2025-02', '--only', `domain=${domain}`)
  await succeeded(only('example.com'))
  expect(await db.query(`select distinct domain from data.keywords_v1 where month = '2025-02-01'`)).toEqual([
    { domain: 'example.com' },
  ])
  const nowhere = await only('nowhere.example')
  expect([nowhere.code, nowhere.stderr]).toEqual([2, expect.stringContaining('not in the list')])
})

test('the plan names the version of each line, and what both spend this month counts once', async () => {
  const [pipeline, alone] = ['traffic_and_engagement', join(folder, 'alone')]
  const lines = (await millrace('plan', pipeline)).stdout.split('\n').filter((line) => line.startsWith(pipeline))
  expect(lines).toEqual([`${pipeline}/v1`, `${pipeline}/v2`])
  const withoutThis = async (...args: string[]): Promise<number> => {
    const { stdout } = await millrace('plan', pipeline, '--json', ...args)
    const { forecast, quota_used: now } = z
      .object({ forecast: z.number(), quota_used: z.number() })
      .parse(JSON.parse(stdout.trim().split('\n').at(-1) ?? ''))
    return forecast - now
  }
  mkdirSync(alone)
  for (const name of [`${pipeline}_2.yaml`, 'others.txt']) cpSync(join(folder, 'pipelines', name), join(alone, name))
  // What nights to come buy is bought for the newest.
  expect(await withoutThis()).toBe(await withoutThis('--pipelines', alone))
}, 120_000)

test('a row of either version leads to its answer once, by the statement of docs/repair.md', async () => {
  const page = readFileSync(join(pipelinesOfRepository, '..', 'docs', 'repair.md'), 'utf8')
  const statement = /^## From a row to the request.+?^```sql\n(.+?)^where/ms.exec(page)?.[1]?.replace(/--.*$/gm, '') ?? ''
  for (const version of [1, 2]) {
    const text = statement
      .replace('keywords_v1', `keywords_v${version}`)
      .replace('select ', 'select r._unit_id, r._revision, r.keyword, r.top_url, ')
    const counted = await db.one<{ rows: number }>(`select (select count(*)::int from data.keywords_v${version}) as rows,
      count(*)::int as found, count(distinct q)::int as once from (${text}) q`)
    expect(counted.rows).toBeGreaterThan(0)
    expect(counted).toEqual({ rows: counted.rows, found: counted.rows, once: counted.rows })
  }
})

test('by force a version that is filled beside the former one takes the new answer, not the one that was there before', async () => {
  const second = join(folder, 'pipelines', 'traffic_and_engagement_2.yaml')
  const text = readFileSync(second, 'utf8')
  const backfill = (...options: string[]) =>
    millrace('backfill', 'traffic_and_engagement', '--from', '2026-05', '--to', '2026-05', '--json', ...options)
  rmSync(second)
  await succeeded(backfill())
  writeFileSync(second, text)
  await succeeded(backfill('--force'))
  const rows = await db.query<{ domain: string; answers: string }>(
    `select s."values"[1] as domain, count(distinct u.answer_id) as answers from etl.units u join etl.pipelines p using (pipeline_id)
      join etl.slices s on s.slice_id = u.slice_id where p.pipeline = 'traffic_and_engagement' and u.window_from = '2026-05-01' group by 1 order by 1`,
  )
  expect(rows.map(({ domain, answers }) => `${domain} ${answers}`)).toEqual([
    'example.com 1',
    'example.net 1',
    'example.org 1',
    'wikipedia.org 1',
  ])
})

test('what a version took of a report of the other is replayed, also where it was never asked for months between', async () => {
  const second = join(folder, 'pipelines', 'traffic_and_engagement_2.yaml')
  const text = readFileSync(second, 'utf8')
  const backfill = (from: string, to: string) =>
    millrace('backfill', 'traffic_and_engagement', '--from', from, '--to', to, '--json')
  rmSync(second)
  await succeeded(backfill('2025-02', '2025-04'))
  writeFileSync(second, text)
  for (const month of ['2025-02', '2025-04']) await succeeded(backfill(month, month))
  const rows = () =>
    db.query(`select date::text as month, count(*)::integer as rows, sum(all_traffic_visits) as visits
        from data.traffic_and_engagement_v2 where date < '2025-12-01' group by 1 order by 1`)
  const before = await rows()
  expect(before).toMatchObject([{ month: '2025-02-01' }, { month: '2025-04-01' }])
  for (const [from, to] of [
    ['2025-02', '2025-04'],
    ['2025-03', '2025-04'],
    ['2025-02', '2025-04'],
  ] as const) {
    const ran = await millrace('replay', 'traffic_and_engagement', '--from', from, '--to', to, '--json')
    expect([ran.code, summaryOf(ran).units], ran.stderr).toMatchObject([0, { failed: 0 }])
  }
  expect(await rows()).toEqual(before)
})

test('a purchase whose answer was lost is bought by no other version: it waits for a word, and goes on once that is given', async () => {
  sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', domain: 'example.com', times: 1 }] })
  const spent = () => sandbox.books().quotaUsed
  const before = spent()
  const backfill = (...options: string[]) =>
    millrace('backfill', 'traffic_and_engagement', '--from', '2026-03', '--to', '2026-03', '--json', ...options)
  // Three domains of three countries are lost with their answer; the second version has two of them, and one of its own.
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 3, waiting: 6, held: 9 })
  const paid = spent() - before
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 0, waiting: 6, held: 9 })
  expect(spent() - before).toBe(paid)
  const agreed = await backfill('--resubmit-uncertain')
  expect([agreed.code, summaryOf(agreed).units], agreed.stderr).toMatchObject([0, { loaded: 15, waiting: 0, held: 0 }])
  // Nine cells a second time, at six credits each.
  expect(spent() - before).toBe(paid + 54)
})

test('where the version whose purchase was lost is no more, the word for the other is enough', async () => {
  const file = (name: string) => join(folder, 'pipelines', `traffic_and_engagement${name}.yaml`)
  const [first, second] = [readFileSync(file(''), 'utf8'), readFileSync(file('_2'), 'utf8')]
  const backfill = (...options: string[]) =>
    millrace('backfill', 'traffic_and_engagement', '--from', '2026-02', '--to', '2026-02', '--json', ...options)
  rmSync(file('_2'))
  sandbox.configure({ faults: [{ kind: 'drop-reply', on: 'submit', domain: 'example.com', times: 1 }] })
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 0, held: 9 })
  rmSync(file(''))
  writeFileSync(file('_2'), second)
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 3, waiting: 6 })
  expect(summaryOf(await backfill('--resubmit-uncertain')).units).toMatchObject({ loaded: 6, waiting: 0 })
  writeFileSync(file(''), first)
})

test('a report on its way of a version that failed, and is no more, is not bought again by the next version', async () => {
  const file = (name: string) => join(folder, 'pipelines', `traffic_and_engagement${name}.yaml`)
  const [first, second] = [readFileSync(file(''), 'utf8'), readFileSync(file('_2'), 'utf8')]
  const backfill = () => millrace('backfill', 'traffic_and_engagement', '--from', '2025-11', '--to', '2025-11', '--json')
  rmSync(file('_2'))
  writeFileSync(file(''), first.replace('attempts: 2', 'attempts: 1'))
  sandbox.configure({ faults: [{ kind: 'any-status', on: 'status', status: 500 }] })
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 0, failed: 9 })
  const paid = sandbox.books().quotaUsed
  rmSync(file(''))
  writeFileSync(file('_2'), second)
  sandbox.configure({ faults: [] })
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 9 })
  expect(sandbox.books().quotaUsed).toBe(paid + 18)
  writeFileSync(file(''), first)
})

test.each([
  ['too many rows are refused', { kind: 'bad-number', on: 'submit', times: 1 }, 'failed'],
  ['it comes short', { kind: 'half-report', on: 'submit', times: 1 }, 'held'],
] as const)('a report that a version could not load, as %s, is bought by no other version', async (_, fault, state) => {
  const file = (name: string) => join(folder, 'pipelines', `traffic_and_engagement${name}.yaml`)
  const [first, second] = [readFileSync(file(''), 'utf8'), readFileSync(file('_2'), 'utf8')]
  const month = state === 'failed' ? '2026-01' : '2025-12'
  const backfill = () => millrace('backfill', 'traffic_and_engagement', '--from', month, '--to', month, '--json')
  rmSync(file('_2'))
  sandbox.configure({ faults: [fault] })
  expect(summaryOf(await backfill()).units).toMatchObject({ [state]: 9 })
  sandbox.configure({ faults: [] })
  const paid = sandbox.books().quotaUsed
  rmSync(file(''))
  // The next version allows what the first one refuses.
  writeFileSync(file('_2'), second.replace('rejects: 0.1%', 'rejects: 50%'))
  expect(summaryOf(await backfill()).units).toMatchObject(state === 'failed' ? { loaded: 9 } : { loaded: 3, held: 6 })
  // The one domain that the first does not ask for, in three countries.
  expect(sandbox.books().quotaUsed).toBe(paid + 18)
  writeFileSync(file(''), first)
  await backfill()
  expect(sandbox.books().quotaUsed).toBe(paid + 18)
  writeFileSync(file('_2'), second)
})

/** How many cells of the month both versions have from one answer, by `is_newest`: whether that is the newest that was bought. */
const shared = async (pipeline: string, month: string) => {
  const rows = await db.query<{ newest: number; older: number }>(
    `select count(*) filter (where u.answer_id = a.newest)::int as newest, count(*) filter (where u.answer_id < a.newest)::int as older
    from etl.units u join etl.pipelines p using (pipeline_id) join etl.slices s on s.slice_id = u.slice_id
      cross join lateral (select max(a.answer_id) as newest from etl.answers a join etl.slices o on o.slice_id = any(a.slice_ids)
        where o."values" = s."values" and a.window_from = u.window_from and a.asks = (select l.asks from etl.answers l where l.answer_id = u.answer_id)) a
    where p.pipeline = $1 and p.version = 2 and u.window_from = $2`,
    [pipeline, `${month}-01`],
  )
  return rows[0]
}

test('a version takes the newest answer, also where the former one has refused it and kept an older one', async () => {
  const file = join(folder, 'pipelines', 'traffic_and_engagement_2.yaml')
  const second = readFileSync(file, 'utf8')
  const backfill = (...options: string[]) =>
    millrace('backfill', 'traffic_and_engagement', '--from', '2025-06', '--to', '2025-06', '--json', ...options)
  rmSync(file)
  await succeeded(backfill())
  sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit', times: 1 }] })
  expect(summaryOf(await backfill('--force')).units).toMatchObject({ failed: 9 })
  sandbox.configure({ faults: [] })
  const paid = sandbox.books().quotaUsed
  // It refuses the newest, too: that one waits, as it would if it were its own.
  writeFileSync(file, second)
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 3, failed: 15 })
  writeFileSync(file, second.replace('rejects: 0.1%', 'rejects: 50%'))
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 6, failed: 9 })
  expect(await shared('traffic_and_engagement', '2025-06')).toMatchObject({ newest: 9, older: 0 })
  expect(sandbox.books().quotaUsed).toBe(paid + 18)
  writeFileSync(file, second)
})

test.each([
  ['traffic_and_engagement', '2024-10'],
  ['keywords', '2024-10'],
])('where the answer of %s that a version was to take is lost, it takes the next one of the other', async (pipeline, month) => {
  const [file, other] = [join(folder, 'pipelines', `${pipeline}_2.yaml`), join(folder, 'pipelines', `${pipeline}.yaml`)]
  const [second, first] = [readFileSync(file, 'utf8'), readFileSync(other, 'utf8')]
  const backfill = (...options: string[]) => millrace('backfill', pipeline, '--from', month, '--to', month, '--json', ...options)
  rmSync(file)
  await succeeded(backfill())
  const [kept, away] = [join(folder, 'home', 'landing'), join(folder, 'away')]
  renameSync(kept, away)
  writeFileSync(file, second)
  rmSync(other)
  const common = 'domain=example.net,example.org'
  const without = await backfill('--only', common)
  expect(summaryOf(without).units).toMatchObject({ loaded: 0 })
  expect(without.stdout).toContain('LANDING_MISSING')
  const once = sandbox.books().quotaUsed
  const jobs = () => db.query(`select job_id from etl.jobs where error_code = 'LANDING_MISSING' or state = 'replaced'`)
  const before = (await jobs()).length
  expect((await backfill('--only', common)).stdout).toContain('LANDING_MISSING')
  // While there is no other answer the same job tries again.
  expect([sandbox.books().quotaUsed, (await jobs()).length]).toEqual([once, before])
  rmSync(kept, { recursive: true, force: true })
  rmSync(file)
  writeFileSync(other, first)
  await succeeded(backfill('--force'))
  const paid = sandbox.books().quotaUsed
  writeFileSync(file, second)
  await succeeded(backfill('--only', common))
  expect(await shared(pipeline, month)).toMatchObject({ older: 0 })
  expect(sandbox.books().quotaUsed).toBe(paid)
  cpSync(away, kept, { recursive: true })
  rmSync(away, { recursive: true })
})

test('the pages that a version could not load, although it has older ones, are those that the next one loads', async () => {
  const file = join(folder, 'pipelines', 'keywords_2.yaml')
  const second = readFileSync(file, 'utf8')
  const backfill = (...options: string[]) =>
    millrace('backfill', 'keywords', '--from', '2025-06', '--to', '2025-06', '--json', ...options)
  rmSync(file)
  await succeeded(backfill())
  sandbox.restate('2025-06')
  await db.database.pool.query('alter table data.keywords_v1 add constraint refuses check (clicks < 0) not valid')
  const refused = summaryOf(await backfill('--force')).units.failed
  expect(refused).toBeGreaterThan(0)
  const paid = sandbox.books().quotaUsed
  writeFileSync(file, second)
  await backfill('--only', 'domain=example.net,example.org')
  await db.database.pool.query('alter table data.keywords_v1 drop constraint refuses')
  expect(await shared('keywords', '2025-06')).toMatchObject({ older: 0 })
  expect(sandbox.books().quotaUsed).toBe(paid)
})

test('a unit that a version holds for its records is bought by no other version', async () => {
  const file = (name: string) => join(folder, 'pipelines', `traffic_and_engagement${name}.yaml`)
  const [first, second] = [readFileSync(file(''), 'utf8'), readFileSync(file('_2'), 'utf8')]
  const backfill = () => millrace('backfill', 'traffic_and_engagement', '--from', '2025-05', '--to', '2025-05', '--json')
  rmSync(file('_2'))
  writeFileSync(file(''), first.replace('rejects: 0.1%', 'rejects: 50%'))
  sandbox.configure({ faults: [{ kind: 'bad-number', on: 'submit', times: 1, row: 9 }] })
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 8, held: 1 })
  sandbox.configure({ faults: [] })
  const paid = sandbox.books().quotaUsed
  rmSync(file(''))
  writeFileSync(file('_2'), second.replace('rejects: 0.1%', 'rejects: 50%'))
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 8, held: 1 })
  expect(sandbox.books().quotaUsed).toBe(paid + 18)
  for (const [name, text] of [
    ['', first],
    ['_2', second],
  ] as const)
    writeFileSync(file(name), text)
})

test('where the report that serves another version is split, each part serves its share: nothing is bought twice', async () => {
  sandbox.configure({ faults: [{ kind: 'any-status', on: 'submit', status: 413, domain: 'example.com', times: 1 }] })
  const before = sandbox.books().quotaUsed
  const ran = await millrace('backfill', 'traffic_and_engagement', '--from', '2025-09', '--to', '2025-10', '--json')
  sandbox.configure({ faults: [] })
  expect(summaryOf(ran).units, ran.stderr).toMatchObject({ waiting: 0, loaded: 36 })
  // Four domains in three countries and two months, at three credits each.
  expect(sandbox.books().quotaUsed - before).toBe(144)
})

test('what another purchase was to serve buys nothing as it stands where that one fails: it is planned anew', async () => {
  const backfill = () => millrace('backfill', 'traffic_and_engagement', '--from', '2025-08', '--to', '2025-08', '--json')
  sandbox.configure({ faults: [{ kind: 'report-failed', on: 'submit', domain: 'example.com', mends: false }] })
  const before = sandbox.books().quotaUsed
  // The second version's own domain alone is bought, in three countries.
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 3, waiting: 6 })
  expect(sandbox.books().quotaUsed - before).toBe(18)
  sandbox.configure({ faults: [] })
  expect(summaryOf(await backfill()).units).toMatchObject({ loaded: 6, waiting: 0 })
  expect(sandbox.books().quotaUsed - before).toBe(54)
})

test('what waits for approval is loaded from an answer that another version has bought meanwhile', async () => {
  const file = (name: string) => join(folder, 'pipelines', `traffic_and_engagement${name}.yaml`)
  const [first, second] = [readFileSync(file(''), 'utf8'), readFileSync(file('_2'), 'utf8')]
  const own = second.replace('from: 2024-01', 'from: 2026-10').replace(/^limits: /m, 'guard: { credits_per_night: 1 }\nlimits: ')
  rmSync(file(''))
  writeFileSync(file('_2'), own.replaceAll('others.txt', 'domains.txt'))
  const run = () => millrace('run', 'traffic_and_engagement', '--json')
  expect(summaryOf(await run()).units.loaded).toBe(0)
  rmSync(file('_2'))
  writeFileSync(file(''), first)
  await millrace('backfill', 'traffic_and_engagement', '--from', '2026-10', '--to', '2026-10')
  const paid = sandbox.books().quotaUsed
  rmSync(file(''))
  writeFileSync(file('_2'), own.replaceAll('others.txt', 'domains.txt'))
  await run()
  const rows = 'select count(*)::int as rows from data.traffic_and_engagement'
  const [bought, served] = [
    await db.database.pool.query(`${rows}_v1 where date = '2026-10-01'`),
    await db.database.pool.query(`${rows}_v2 where date = '2026-10-01'`),
  ]
  expect(served.rows).toEqual(bought.rows)
  expect(sandbox.books().quotaUsed).toBe(paid)
})

test('what docs/storage.md says of a domain that leaves takes it out of every table of both versions, and none comes back', async () => {
  const { pool } = db.database
  await pool.query(
    `insert into bi.attribute_versions (subject, value, attributes, file) values ('domain', 'example.net', '{}', 'domains.csv')`,
  )
  const tables = await pool.query<{ name: string }>(`select c.oid::regclass::text as name from pg_class c
    where c.relnamespace in ('data'::regnamespace, 'bi'::regnamespace) and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> 'dim_keyword' order by 1`)
  const naming = async (domain: string): Promise<string[]> => {
    const found: string[] = []
    for (const { name } of tables.rows)
      if ((await pool.query(`select 1 from ${name} t where t::text ~ $1 limit 1`, [`[(,]${domain}[,)]`])).rowCount === 1)
        found.push(name)
    return found
  }
  const before = await naming('example.net')
  const data = ['keywords_v1', 'keywords_v2', 'traffic_and_engagement_v1', 'traffic_and_engagement_v2'].map(
    (name) => `data.${name}`,
  )
  const shown = ['attribute_versions', 'dim_domain', 'keyword_intents', 'keyword_months'].map((name) => `bi.${name}`)
  expect(before).toEqual(expect.arrayContaining([...data, ...shown]))
  const others = await naming('example.org')
  const page = readFileSync(join(pipelinesOfRepository, '..', 'docs', 'storage.md'), 'utf8')
  const steps = /^## Delete one domain.+?^```sql\n(.+?)^```/ms.exec(page)?.[1]?.replaceAll('left.example', 'example.net') ?? ''
  // As psql does: each row that comes before \gexec is a statement.
  const [making = '', after = ''] = steps.split('\\gexec')
  for (const statement of (await pool.query({ text: making, rowMode: 'array' })).rows) await pool.query(String(statement[0]))
  await pool.query(after)
  expect(await naming('example.net')).toEqual([])
  expect(await naming('example.org')).toEqual(others)
  await succeeded(millrace('migrate'))
  expect(await naming('example.net')).toEqual([])
})

test('another pipeline that takes a report of more metrics than its own is not told to correct its definition', async () => {
  const file = (name: string) => join(folder, 'pipelines', `${name}.yaml`)
  const text = readFileSync(join(pipelinesOfRepository, 'traffic_and_engagement.yaml'), 'utf8')
  rmSync(file('traffic_and_engagement_2'))
  writeFileSync(file('traffic_and_engagement'), text)
  const client = text
    .replace('pipeline: traffic_and_engagement', 'pipeline: all_visits\npublish: false')
    .replace(/^ +(mobile_visits|all_page_views): .*\n/gm, '')
    .replace(/^tests:\n(?: .*\n)+/m, '')
  writeFileSync(file('all_visits'), client)
  expect((await millrace('new', 'migration', 'all_visits')).stderr).toBe('')
  await succeeded(millrace('migrate'))
  const backfill = (pipeline: string) => millrace('backfill', pipeline, '--from', '2025-07', '--to', '2025-07')
  const before = sandbox.books().quotaUsed
  await succeeded(backfill('traffic_and_engagement'))
  const paid = sandbox.books().quotaUsed
  const ran = await succeeded(backfill('all_visits'))
  expect(sandbox.books().quotaUsed).toBe(paid)
  expect(ran.stdout + ran.stderr).not.toContain('Correct the definition')
  // Of both in one command the one that asks for more is planned first, whatever their names.
  const both = (...more: string[]) =>
    millrace('backfill', 'all_visits', 'traffic_and_engagement', '--from', '2024-11', '--to', '2024-11', '--json', ...more)
  const dry = summaryOf(await both('--dry-run'))
  const together = summaryOf(await both())
  const bought = sandbox.books().quotaUsed - paid
  expect(bought).toBeGreaterThan(0)
  expect([dry.quota_used, together.quota_used, bought]).toEqual([bought, bought, paid - before])
})

test('a renamed pipeline is served by the report the former one left open, and counts and waits for its own units alone', async () => {
  const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
  const text = readFileSync(file, 'utf8')
  const backfill = (pipeline: string) => millrace('backfill', pipeline, '--from', '2024-09', '--to', '2024-09', '--json')
  const before = sandbox.books().quotaUsed
  sandbox.configure({ reportDurationMs: 60_000 })
  writeFileSync(file, text.replace('deadline: 6h', 'deadline: 1s'))
  expect(summaryOf(await backfill('traffic_and_engagement')).units).toMatchObject({ waiting: 9 })
  rmSync(file)
  sandbox.configure({ reportDurationMs: 300 })
  const ran = await backfill('all_visits')
  expect([ran.code, summaryOf(ran).units], ran.stderr).toMatchObject([0, { planned: 9, loaded: 9, waiting: 0 }])
  // Three domains in three countries, at six credits each.
  expect(sandbox.books().quotaUsed - before).toBe(54)
  writeFileSync(file, text)
})

test('the pages of a cell serve the next version, too, which takes a column more of them, and the month is paid once', async () => {
  const file = (name: string) => join(folder, 'pipelines', `${name}.yaml`)
  const text = readFileSync(join(pipelinesOfRepository, 'keywords.yaml'), 'utf8').replace('pipeline: keywords', 'pipeline: words')
  writeFileSync(file('words'), text.replace(/^ +position: .*\n/m, '').replace(/^tests:\n(?: .*\n)+/m, ''))
  expect((await millrace('new', 'migration', 'words')).stderr).toBe('')
  writeFileSync(file('words_2'), text.replace('version: 1\n', 'version: 2\npublish: false\n'))
  expect((await millrace('new', 'migration', 'words')).stderr).toBe('')
  await succeeded(millrace('migrate'))
  const backfill = (...options: string[]) =>
    millrace('backfill', 'words', '--from', '2025-03', '--to', '2025-03', '--json', ...options)
  for (const options of [[], ['--force']]) {
    const ran = await backfill(...options)
    expect([ran.code, summaryOf(ran).units], ran.stderr).toMatchObject([0, { planned: 12, loaded: 12, waiting: 0 }])
    const rows = await db.query(`select s."values", count(distinct u.answer_id)::int as answers from etl.units u
      join etl.pipelines p using (pipeline_id) join etl.slices s on s.slice_id = u.slice_id where p.pipeline = 'words' group by 1`)
    expect(rows.map(({ answers }) => answers)).toEqual(Array(6).fill(1))
  }
})

test('a column of the next version that no record has is missing from the first answer on, whatever the former version loads of them', async () => {
  const file = (name: string) => join(folder, 'pipelines', `${name}.yaml`)
  const text = readFileSync(join(pipelinesOfRepository, 'keywords.yaml'), 'utf8').replace(
    'pipeline: keywords',
    'pipeline: trends',
  )
  writeFileSync(file('trends'), text)
  const wider = text.replace('    volume:', '    trend: { type: text, description: Where it goes }\n    volume:')
  writeFileSync(file('trends_2'), wider.replace('version: 1\n', 'version: 2\npublish: false\n'))
  for (let version = 1; version <= 2; version += 1) await succeeded(millrace('new', 'migration', 'trends'))
  await succeeded(millrace('migrate'))
  const ran = await millrace('backfill', 'trends', '--from', '2025-03', '--to', '2025-04', '--json')
  expect([ran.code, summaryOf(ran).units], ran.stderr).toMatchObject([0, { planned: 24, loaded: 24, held: 0 }])
})
