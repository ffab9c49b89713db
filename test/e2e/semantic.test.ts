// Metrics as an assistant gets them: `millrace mcp` over a real session on a loaded warehouse, against SQL that was written apart.
// HOSTILE_QUERIES=1000 asks as many hostile questions (HOSTILE_QUERIES=1000 npx vitest run test/e2e/semantic.test.ts); the default is a sample.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { secret } from '../../src/core/redact.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { windowOf } from '../../src/definition/semantic.ts'
import { answerQuery, cellOf } from '../../src/semantic/answer.ts'
import { allMetrics } from '../../src/semantic/query.ts'
import { guardedSql } from '../../src/semantic/formula.ts'
import { openReader } from '../../src/semantic/reader.ts'
import { answerOfTool, canary, foreignRelations, hostileCalls } from '../semantic/hostile.ts'
import { fillAnalystWarehouse } from '../support/analyst-warehouse.ts'
import { runCommand, startCommand } from '../support/command.ts'
import { type DbtProject, dbtQuestionOf, openDbtProject } from '../support/dbt-project.ts'
import { type McpSession, openHttp, openStdio } from '../support/mcp-session.ts'
import { dropRole, testDatabase } from '../support/postgres.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const login = `assistant_test_${process.pid}`
const password = 'reads-bi-and-no-more'
const hostile = Number(process.env['HOSTILE_QUERIES'] ?? 150)

// Once the database is gone, which is dropped before.
afterAll(() => dropRole(login))
const db = testDatabase()
let reader: string
let session: McpSession

beforeAll(async () => {
  expect((await runCommand(['migrate'], { DATABASE_URL: db.url }, repository)).code).toBe(0)
  await fillAnalystWarehouse(db.url, db.database.pool)
  const { pool } = db.database
  await pool.query(`create role ${login} login password '${password}' in role bi_reader`)
  await pool.query(`create table etl.canary as select '${canary}'::text as note`)
  const url = new URL(db.url)
  url.username = login
  url.password = password
  reader = url.href
  session = await openStdio({ MILLRACE_READER_URL: reader }, repository)
})
afterAll(async () => {
  await session.close()
})

const rowsOf = z.object({ columns: z.array(z.string()), rows: z.array(z.record(z.string(), z.unknown())) })
const question = z.object({ ask: z.string(), sql: z.string(), query: z.record(z.string(), z.unknown()) })
const questions = z.array(question).parse(parse(readFileSync(join(repository, 'test', 'semantic', 'questions.yaml'), 'utf8')))

/** Rows as text, in an order of their own. */
const comparable = (rows: readonly (readonly unknown[])[]): string[] =>
  rows.map((row) => row.map((value) => (value === null ? 'NULL' : String(cellOf(value, true)))).join(' | ')).sort()

const expected = async (sql: string): Promise<string[]> => {
  const { rows } = await db.database.pool.query<unknown[]>({ text: sql, rowMode: 'array' })
  return comparable(rows)
}

const figures = async (query: Record<string, unknown>): Promise<string[]> => {
  const answer = await session.call('query_metrics', query)
  const { columns, rows } = rowsOf.parse(answer.value, { error: () => answer.text })
  return comparable(rows.map((row) => columns.map((name) => row[name])))
}

describe('fifty questions', () => {
  test('there are fifty', () => expect(questions).toHaveLength(50))

  test.each(questions)('$ask', async ({ query, sql }) => {
    const wanted = await expected(sql)
    expect(wanted.length).toBeGreaterThan(0)
    expect(await figures(query)).toEqual(wanted)
  })
})

describe('an answer', () => {
  test('says its SQL, the moment, whether it is final, and which months are missing', async () => {
    const { value } = await session.call('query_metrics', { metrics: ['visits'], period: { from: '2024-12', to: '2025-01' } })
    expect(value).toMatchObject({
      is_final: true,
      not_final: [],
      months_missing: ['2024-12'],
      months_incomplete: [],
      parameters: expect.arrayContaining(['world']),
    })
    expect(value?.['sql']).toMatch(/^select .* from "bi"\."traffic_and_engagement"/s)
    expect(value?.['believed_at']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    expect(value?.['notes']).toContain('country is world, which contains all others, unless the question says otherwise.')
  })

  test('names the cells without rows that its figures lack, with the reason, and no others', async () => {
    const query = { metrics: ['visits'], period: { from: '2024-03', to: '2024-03' } }
    const { value } = await session.call('query_metrics', { ...query, by: ['country'] })
    expect(value?.['months_incomplete']).toEqual([{ month: '2024-03', cells: 9, cells_with_rows: 8 }])
    expect(value?.['cells_missing']).toEqual([
      { period: '2024-03-01', cell: '{"domain": "example.com", "country": "us"}', reason: 'service had none' },
    ])
    expect(value?.['notes']).toContainEqual(expect.stringMatching(/sums are too small, and/))
    expect((await session.call('query_metrics', query)).value?.['cells_missing']).toEqual([])
  })

  test('tells what is loaded, how fresh it is and what was restated', async () => {
    const [coverage, freshness, restated] = [
      await session.call('coverage', { pipeline: 'keywords' }),
      await session.call('freshness', {}),
      await session.call('restatements', { pipeline: 'keywords', period: { from: '2025-04', to: '2025-04' } }),
    ]
    const months = await expected(`select count(*) from bi.coverage_months where pipeline = 'keywords'`)
    expect([String(rowsOf.parse(coverage.value).rows.length)]).toEqual(months)
    expect(rowsOf.parse(freshness.value).rows).toHaveLength(3)
    expect(rowsOf.parse(restated.value, { error: () => restated.text }).rows.length).toBeGreaterThan(0)
  })

  test('explains every metric that it lists', async () => {
    const { value } = await session.call('list_metrics', {})
    const names = z.array(z.object({ metric: z.string() })).parse(value?.['metrics'])
    expect(names.length).toBe(allMetrics(await loadSemantics([])).length)
    for (const { metric } of names) expect((await session.call('explain_metric', { metric })).isError, metric).toBe(false)
  })
})

describe('what does not add up', () => {
  const refused = [
    [{ metrics: ['desktop_visitors'] }, /over date/, 'query with grain month'],
    [{ metrics: ['desktop_visitors'], grain: 'month' }, /over domain/, 'group by domain too'],
    [
      { metrics: ['mobile_visitors'], by: ['domain'], grain: 'month', where: [{ dimension: 'country', is: ['us', 'gb'] }] },
      /over country/,
      'group by country too',
    ],
    [{ metrics: ['desktop_visitors'], by: ['domain'], grain: 'quarter' }, /not available by quarter/, 'query with grain month'],
    [
      { metrics: ['visits'], where: [{ dimension: 'country', is: ['world', 'us'] }] },
      /world contains the other values/,
      'filter country to world alone',
    ],
    [{ metrics: ['keywords'], by: ['domain'] }, /over month/, 'query with grain month'],
    [{ metrics: ['searches'], grain: 'month' }, /over domain/, 'group by domain too'],
    [{ metrics: ['zero_click_share'], grain: 'month' }, /over domain/, 'group by domain too'],
    [
      { metrics: ['visits'], where: [{ dimension: 'granularity', is: ['monthly', 'daily'] }] },
      /several values of granularity/,
      'group by granularity too',
    ],
    [
      { metrics: ['share_of_voice'], by: ['domain', 'country'], grain: 'month' },
      /over keyword: a keyword from which/,
      'group by keyword too',
    ],
    [{ metrics: ['clicks', 'visits'] }, /come from one subject/, 'query only clicks'],
    [{ metrics: ['clicks'], as_of: '2025-05-01T00:00:00Z' }, /has current values only/, /has past values: keyword_clicks/],
    [{ metrics: ['visits'], compare: 'year' }, /needs a period/, 'add period: { from, to }'],
  ] as const

  test.each(refused)('is refused with what would: %o', async (query, because, instead) => {
    const { isError, value } = await session.call('query_metrics', query)
    expect(isError).toBe(true)
    expect(value?.['refused']).toMatch(because)
    const ways = z.array(z.string()).parse(value?.['instead'])
    expect(
      ways.some((way) => (typeof instead === 'string' ? way === instead : instead.test(way))),
      ways.join('; '),
    ).toBe(true)
  })

  test('is NULL, never a sum, by the formulas that other tools get', async () => {
    const model = await loadSemantics([])
    for (const { metric, subject } of allMetrics(model)) {
      if (metric.neverOver.size === 0) continue
      expect(
        (
          await db.database.pool.query<unknown[]>({
            text: `select ${guardedSql(metric, subject)} from bi.${subject.view}`,
            rowMode: 'array',
          })
        ).rows,
        metric.name,
      ).toEqual([[null]])
    }
  })

  test('is right by the formulas that other tools get where it may be added', async () => {
    const model = await loadSemantics([])
    const guarded = (name: string): string => {
      const found = allMetrics(model).find(({ metric }) => metric.name === name)
      return found === undefined ? '' : guardedSql(found.metric, found.subject)
    }
    const rows = `select date, domain, ${guarded('desktop_visitors')} from bi.traffic_and_engagement where country = 'world' group by 1, 2`
    expect(await expected(rows)).toEqual(
      await expected(`select date, domain, desktop_unique_visitors from bi.traffic_and_engagement where country = 'world'`),
    )
    const world = `select country, ${guarded('visits')} from bi.traffic_and_engagement group by rollup (1)`
    expect((await expected(world)).filter((line) => line.startsWith('NULL'))).toEqual(['NULL | NULL'])
  })
})

describe('hostile questions', () => {
  test(`${hostile} of them get no row from outside bi, and none takes longer than its limit`, async () => {
    let answered = 0
    for (const { tool, arguments: input } of hostileCalls(20_261_122, hostile)) {
      const { isError, text, value, ms } = await session.call(tool, input)
      expect(text, JSON.stringify(input)).not.toContain(canary)
      expect(text, JSON.stringify(input)).not.toMatch(/A defect|could not be read/)
      expect(ms, JSON.stringify(input)).toBeLessThan(20_000)
      if (isError) continue
      answered += 1
      const { sql } = answerOfTool.parse(value)
      if (sql !== undefined) expect(foreignRelations(sql), sql).toEqual([])
    }
    // Else nothing was tried.
    expect(answered).toBeGreaterThan(hostile / 50)
    expect(await expected('select note from etl.canary')).toEqual([canary])
  })

  test('a login that may more than read bi is not taken', async () => {
    const { code, stderr } = await runCommand(['mcp'], { MILLRACE_READER_URL: db.url }, repository)
    expect(code).toBe(2)
    expect(stderr).toMatch(/name a login that reads bi alone/)
  })

  test('what takes too long is refused', async () => {
    const model = await loadSemantics([])
    const hurried = await openReader({ readerUrl: secret('reader', reader), databaseUrl: null, home: '/nowhere', timeoutMs: 1 })
    const asked = answerQuery(hurried, model, { metrics: ['gap_keywords'], by: ['domain', 'other_domain'] })
    await expect(asked.finally(() => hurried.close())).rejects.toThrow(/took longer than 0.001 s/)
  })
})

// `bash test/clients/dbt.sh` installs dbt and names its folder.
const dbtBin = process.env['MILLRACE_DBT_BIN'] ?? ''
/** It starts slowly, and the first time reads everything. */
const dbtMs = 900_000
const monthly = `{{ Dimension('one_traffic__granularity') }} = 'monthly'`
describe.skipIf(dbtBin === '')('dbt', () => {
  let dbt: DbtProject
  beforeAll(() => {
    dbt = openDbtProject(dbtBin, reader)
  })
  afterAll(() => dbt.remove())

  test(
    'builds the generated project as a login that only reads: every source, test and model is right, and nothing is made that `millrace migrate` would wait for',
    async () => {
      dbt.run('parse')
      expect(dbt.run('build')).toMatch(/PASS=\d+ WARN=0 ERROR=0 SKIP=0/)
      expect(
        await db.query(`select count(*)::int as made from pg_class c
        join pg_namespace n on n.oid = c.relnamespace where n.nspname like '%dbt%' or pg_get_userbyid(c.relowner) = '${login}'`),
      ).toEqual([{ made: 0 }])
      // bi.freshness says when each was loaded: no fact is read.
      expect(() => dbt.run('source', 'freshness')).toThrow(/3 of 3 ERROR STALE/)
    },
    dbtMs,
  )

  test(
    'answers the fifty questions that it can be asked as the reference does',
    async () => {
      const model = await loadSemantics([])
      const asked = questions.flatMap(({ ask, sql, query }) => {
        const question = dbtQuestionOf(db.database.kysely, model, query)
        return question === null ? [] : [{ ask, sql, question }]
      })
      expect(asked.length).toBeGreaterThanOrEqual(42)
      const compiled = dbt.compile(asked.map(({ question }) => question))
      const wrong: string[] = []
      for (const [at, { ask, sql }] of asked.entries()) {
        const one = compiled[at] ?? { error: 'no answer' }
        const found = 'error' in one ? [one.error] : (await expected(one.sql)).map((line) => line.replaceAll('T00:00:00Z', ''))
        const wanted = await expected(sql)
        if (JSON.stringify(found) !== JSON.stringify(wanted))
          wrong.push(`${ask}: ${found.slice(0, 3).join('; ')} instead of ${wanted.slice(0, 3).join('; ')}`)
      }
      expect(wrong).toEqual([])
    },
    dbtMs,
  )

  test(
    'joins attributes and fiscal periods by entities: groups, teams and fiscal quarters are those of the assistant',
    async () => {
      const model = await loadSemantics([])
      const where = [{ dimension: 'country', is: 'us' }]
      const names = ['visits', 'median_visits', 'pages_a_visit']
      const [team, quarter] = dbt.compile([
        { metrics: names, by: ['of_domain__team'], where: [`{{ Dimension('one_traffic__country') }} = 'us'`, monthly], order: [], limit: null },
        { metrics: ['visits'], by: ['of_period__fiscal_quarter'], where: [`{{ Dimension('one_traffic__country') }} = 'us'`, monthly], order: [], limit: null },
      ]) // biome-ignore format: one look
      const own = await openReader({ readerUrl: secret('reader', reader), databaseUrl: null, home: '/nowhere' })
      const byTeam = await answerQuery(own, model, { metrics: names, by: ['team'], where })
      const byQuarter = await answerQuery(own, model, { metrics: ['visits'], grain: 'fiscal_quarter', where })
      await own.close()
      expect(await expected(team !== undefined && 'sql' in team ? team.sql : JSON.stringify(team))).toEqual(
        comparable(byTeam.rows.map((row) => Object.values(row))),
      )
      const found = await expected(quarter !== undefined && 'sql' in quarter ? quarter.sql : JSON.stringify(quarter))
      expect(found.map((line) => line.split(' | ')[1]).sort()).toEqual(byQuarter.rows.map((row) => String(row['visits'])).sort())
    },
    dbtMs,
  )

  test(
    'an incremental model as docs/metrics.md has it follows what was restated, ended and vanished, and leaves other months alone; `millrace migrate` leaves its login and is not in its way',
    async () => {
      const [, model = ''] = /^-- models\/keyword_totals\.sql\n(.+?)^```$/ms.exec(readFileSync(join(repository, 'docs', 'metrics.md'), 'utf8')) ?? [] // biome-ignore format: one look
      const { pool } = db.database
      const own = `dbt_test_${process.pid}`
      await pool.query(`create role ${own} login password '${password}' in role bi_reader`)
      await pool.query(`alter role ${own} set default_transaction_read_only = off`)
      await pool.query(`create schema analytics authorization ${own}`)
      const url = new URL(reader)
      url.username = own
      const project = openDbtProject(dbtBin, url.href)
      try {
        project.write('models/keyword_totals.sql', model)
        const wanted = () => expected('select month, domain, country, sum(clicks) from bi.keywords group by 1, 2, 3')
        const made = () => expected('select month, domain, country, clicks from analytics.keyword_totals')
        const built = (month: string) =>
          expected(`select distinct built_at from analytics.keyword_totals where month = '${month}'`)
        const run = () => project.run('run', '--select', 'keyword_totals')
        const loaded = async (at: string, where: string): Promise<void> => {
          for (const table of ['load_rows', 'answer_rows'])
            await pool.query(`update etl.${table} set loaded_at = ${at} where loaded_at is not null and ${where}`)
        }
        expect(await runCommand(['migrate'], { DATABASE_URL: db.url }, repository)).toMatchObject({ code: 0 })
        run()
        expect(await made()).toEqual(await wanted())
        // Long ago, so that no overlap brings a month that did not change.
        await pool.query(`update analytics.keyword_totals set built_at = now() - interval '3 days'`)
        await loaded(`now() - interval '9 days'`, 'true')
        const before = await built('2025-02-01')
        await pool.query(`update data.keywords_v1 set clicks = clicks + 7 where month = '2025-04-01' and domain = 'example.com'`)
        await pool.query(`delete from data.keywords_v1 where month = '2025-04-01' and domain = 'example.net'`)
        await loaded('now()', `window_from = '2025-04-01'`)
        run()
        expect(await made()).toEqual(await wanted())
        expect(await built('2025-02-01')).toEqual(before)
        expect(await built('2025-04-01')).not.toEqual(before)
        expect(await runCommand(['migrate'], { DATABASE_URL: db.url }, repository)).toMatchObject({ code: 0 })
        run()
        expect(await made()).toEqual(await wanted())
        // Every domain leaves the lists, its rows stay; a version that was loaded long ago is published; a month ends as a whole.
        await pool.query(
          `update etl.slices set wanted_until = 1 where wanted_until is null and pipeline_id in (select pipeline_id from etl.pipelines where pipeline = 'keywords')`,
        )
        run()
        expect(await made()).toEqual(await wanted())
        await pool.query(`update data.keywords_v1 set clicks = clicks + 9 where month = '2025-01-01'`)
        await pool.query(`insert into etl.published_versions (pipeline, version, published_at) values ('keywords', 1, now())`)
        await pool.query(`delete from data.keywords_v1 where month = '2024-04-01'`)
        run()
        expect(await made()).toEqual(await wanted())
      } finally {
        project.remove()
        await pool.query('drop schema analytics cascade')
        await dropRole(own)
      }
    },
    dbtMs,
  )

  test(
    'has NULL, never a sum, for what does not add up',
    async () => {
      const names = allMetrics(await loadSemantics([])).filter(
        ({ metric }) => metric.neverOver.size > 0 && windowOf(metric) === null,
      )
      const compiled = dbt.compile(
        names.map(({ metric }) => ({ metrics: [metric.name], by: [], where: [], order: [], limit: null })),
      )
      for (const [at, { metric }] of names.entries()) {
        const one = compiled[at] ?? { error: 'no answer' }
        expect('error' in one ? [one.error] : await expected(one.sql), metric.name).toEqual(['NULL'])
      }
    },
    dbtMs,
  )
})

test('over HTTP it stands behind the token of the page', async () => {
  const token = 'a-token-of-the-page-of-tests'
  const environment = { DATABASE_URL: db.url, MILLRACE_WEB_TOKEN: token }
  const running = startCommand(['mcp', '--http', '--port', '0', '--json'], environment, repository)
  try {
    await expect.poll(() => running.printed(), { timeout: 30_000 }).toMatch(/"event":"mcp"/)
    const [, url = ''] = /"url":"([^"]+)"/.exec(running.printed()) ?? []
    expect((await fetch(url, { method: 'POST' })).status).toBe(401)
    expect(
      (await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${token}`, origin: 'https://elsewhere.example' } }))
        .status,
    ).toBe(403)
    const over = await openHttp(url, token)
    const { value } = await over.call('query_metrics', { metrics: ['revenue'] })
    expect(comparable(rowsOf.parse(value).rows.map((row) => Object.values(row)))).toEqual(
      await expected('select sum(revenue) from bi.shopper_category_performance'),
    )
    await over.close()
  } finally {
    running.child.kill('SIGTERM')
    await running.result
  }
})
