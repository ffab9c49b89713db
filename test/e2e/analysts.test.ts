// What people who query see: the questions of docs/questions.md are answered by short queries on bi; `millrace superset` makes connection, datasets and
// dashboards whose charts answer with right numbers. Always on a strict fake of Superset's API; where MILLRACE_SUPERSET_URL and
// MILLRACE_SUPERSET_PASSWORD name a real one (for tests alone: its connection Millrace is pointed elsewhere), on that too.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadMarts } from '../../src/definition/marts.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { describedViews } from '../../src/publish/view-columns.ts'
import { compare, countedOf, programs, type Reading, read, readCatalog, rowQuery } from '../clients/run.ts'
import { claims, notClaimed } from '../support/additivity.ts'
import { type Facts, readFacts } from '../support/analyst-facts.ts'
import { fillAnalystWarehouse, type Moment } from '../support/analyst-warehouse.ts'
import { type CommandResult, pipelinesOfRepository, runCommand } from '../support/command.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { dropRole, testDatabase } from '../support/postgres.ts'
import { summaryAnswers } from '../support/summary-answers.ts'
import { type Api, everyChartIsRight, openApi, summaryIsRight } from '../support/superset-api.ts'
import { importByCommand, setAddress } from '../support/superset-command.ts'
import { type FakeSuperset, startFakeSuperset } from '../support/superset-fake.ts'
import { lookAtSummary } from '../support/superset-page.ts'
import { addOwn, everythingOurs, ownIsThere } from '../support/superset-people.ts'
import { expectedRows, openQuestions, supersetQuestionOf, unguardedQuestions } from '../support/superset-questions.ts'
import { twentyAnswers } from '../support/twenty-answers.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const login = `superset_test_${process.pid}`
const password = 'reads-bi-and-no-more'
const real = process.env['MILLRACE_SUPERSET_URL']
/** Folder of its commands, whose settings are in the environment. */
const supersetBin = process.env['MILLRACE_SUPERSET_BIN'] ?? ''
/** It starts slowly. */
const realMs = 900_000
const realLogin = {
  MILLRACE_SUPERSET_USER: process.env['MILLRACE_SUPERSET_USER'] ?? 'admin',
  MILLRACE_SUPERSET_PASSWORD: process.env['MILLRACE_SUPERSET_PASSWORD'] ?? '',
}

// Once the database is gone, which is dropped before.
afterAll(() => dropRole(login))
const db = testDatabase()
let reader: string
/** What the service itself said of the months that matter at that moment. */
const seen: Partial<Record<Moment, Facts>> = {}
const monthsSeen = {
  first: { keywords: ['2025-04'], reports: [['2025-04', '2025-04']] },
  restated: {
    keywords: ['2024-04', '2025-01', '2025-02', '2025-03', '2025-04'],
    reports: [
      ['2024-03', '2024-04'],
      ['2025-01', '2025-04'],
    ],
  },
  gone: { keywords: [], reports: [['2025-05', '2025-05']] },
} as const

beforeAll(async () => {
  expect((await runCommand(['migrate'], { DATABASE_URL: db.url }, repository)).code).toBe(0)
  await fillAnalystWarehouse(db.url, db.database.pool, undefined, async (sandbox, moment) => {
    seen[moment] = await readFacts(sandbox, monthsSeen[moment])
  })
  await db.database.pool.query(`create role ${login} login password '${password}' in role bi_reader`)
  const url = new URL(db.url)
  url.username = login
  url.password = password
  reader = url.href
})
const provision = (
  url: string,
  environment: Record<string, string>,
  folder = repository,
  ...more: string[]
): Promise<CommandResult> =>
  runCommand(['superset', url, '--json', ...more], { MILLRACE_SUPERSET_DATABASE_URL: reader, ...environment }, folder)

const questionSchema = z.array(z.object({ ask: z.string(), sql: z.string(), query: z.record(z.string(), z.unknown()) }))
const fifty = questionSchema.parse(parse(readFileSync(join(repository, 'test', 'semantic', 'questions.yaml'), 'utf8')))

/** Through saved metrics of the datasets; what does not add up is empty, never a sum. */
const everyAnswerIsTheSame = async (api: Api): Promise<void> => {
  const model = await loadSemantics([])
  const ask = await openQuestions(api)
  let asked = 0
  for (const { ask: text, sql, query } of fifty) {
    const question = supersetQuestionOf(db.database.kysely, model, query)
    if (question === null) continue
    asked += 1
    expect(await ask(question), text).toEqual(await expectedRows(db.database.pool, sql))
  }
  expect(asked).toBe(44)
  for (const question of unguardedQuestions(model))
    expect(await ask(question), question.query['metrics']?.toString()).toEqual(['[null]'])
}

interface Question {
  readonly title: string
  readonly sql: string
}

const questions: readonly Question[] = [
  ...readFileSync(join(repository, 'docs', 'questions.md'), 'utf8').matchAll(/^## (.+?)$\n\n^```sql\n(.+?)^```$/gms),
].map(([, title = '', sql = '']) => ({ title, sql }))
/** The first ten are compared with stored answers alone, the others with the service itself too. */
const answeredByService = 20

/** Asks with the rights of a reader and nothing else. */
const ask = async (sql: string): Promise<{ columns: string[]; rows: unknown[][] }> => {
  const client = await db.database.pool.connect()
  try {
    await client.query('begin read only')
    await client.query('set local role bi_reader')
    const { fields, rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' })
    return { columns: fields.map(({ name }) => name), rows }
  } finally {
    await client.query('rollback')
    client.release()
  }
}

const line = (cells: readonly unknown[]): string =>
  `| ${cells.map((cell) => (cell === null ? 'NULL' : String(cell))).join(' | ')} |`

describe('thirty questions of an analyst', () => {
  test('are each a query of at most ten lines on bi alone', () => {
    expect(questions).toHaveLength(30)
    for (const { title, sql } of questions) {
      expect(sql.trimEnd().split('\n').length, title).toBeLessThanOrEqual(10)
      expect(sql, title).not.toMatch(/\b(?:data|etl|staging)\./)
    }
  })

  test('are answered as analysts-answers.md says; `-u` writes it after a change on purpose', async () => {
    const answered: string[] = []
    for (const { title, sql } of questions) {
      const { columns, rows } = await ask(sql)
      expect(rows.length, title).toBeGreaterThan(0)
      answered.push([`## ${title}`, '', line(columns), line(columns.map(() => '---')), ...rows.map(line), ''].join('\n'))
    }
    await expect(answered.join('\n')).toMatchFileSnapshot(join(import.meta.dirname, 'analysts-answers.md'))
  })
})

/** As the service had everything in the end; April as it was at first. */
const factsOfService = (): { first: Facts; now: Facts } => {
  const { first, restated, gone } = seen
  if (first === undefined || restated === undefined || gone === undefined) throw new Error('the service was not asked')
  const now = {
    keywords: restated.keywords,
    traffic: [...restated.traffic, ...gone.traffic],
    shop: [...restated.shop, ...gone.shop],
  }
  return { first, now }
}

test('the last twenty answers are those of the service itself', async () => {
  const { first, now } = factsOfService()
  for (const [at, { title, sql }] of questions.slice(-answeredByService).entries()) {
    const { rows } = await ask(sql)
    const expected = twentyAnswers[at]?.(first, now) ?? []
    expect(
      rows.map((row, index) => row.map((cell, place) => rounded(cell, expected[index]?.[place]))),
      title,
    ).toEqual(expected)
  }
})

/** The expected number where the cell is that number rounded, else the cell. */
const rounded = (cell: unknown, expected: unknown): unknown => {
  if (typeof expected !== 'number' || cell === null) return cell
  const digits = /\.(\d+)$/.exec(String(cell))?.[1]?.length ?? 0
  return Math.abs(Number(cell) - expected) <= 0.500001 * 10 ** -digits ? expected : Number(cell)
}

describe('no sum counts a click twice', () => {
  test.each(claims)(
    'in bi.$view: $measures with one of $choose',
    async ({ view, measures, choose, fact, of, where, period, only }) => {
      const keys = choose.map((name) => `, ${name}`).join('')
      const totals = measures.map((name) => `coalesce(sum(${name}), 0) as ${name}`).join(', ')
      const counted = measures.map(
        (name, at) => `(select coalesce(sum(${of[at]}), 0) from bi.${fact} f where ${where}) as of_${name}`,
      )
      const { columns, rows } = await ask(`select v.*, ${counted.join(', ')} from (select ${period} as month${keys}, ${totals}
      from bi.${view} ${only === undefined ? '' : `where ${only}`} group by ${period}${keys}) v`)
      expect(rows.length).toBeGreaterThan(1)
      const value = (row: readonly unknown[], name: string): number => Number(row[columns.indexOf(name)])
      const wrong = rows.flatMap((row) =>
        measures.filter((name) => Math.abs(value(row, name) - value(row, `of_${name}`)) > 0.001).map((name) => [name, ...row]),
      )
      expect(wrong).toEqual([])
    },
  )

  test('every measure of bi is proved, or says in its comment what it is instead', async () => {
    const { rows } = await ask(`select c.relname || '.' || a.attname, coalesce(col_description(c.oid, a.attnum), '')
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = 'bi'::regnamespace and c.relkind in ('r', 'v') and c.relname !~ '^dim_' and a.attname !~ '_(share|change)$|^share_|^change_|_unique_'
        and a.attname ~ 'click|visit|_views$|^revenue|units_sold' and a.attname !~ 'zero_click|without_click'`)
    const claimed = new Set(claims.flatMap(({ view, measures }) => measures.map((name) => `${view}.${name}`)))
    const unproved = rows.filter(([name]) => !claimed.has(String(name)) && !/_history\.|^restatements/.test(String(name)))
    expect(Object.fromEntries(unproved)).toEqual(
      Object.fromEntries(Object.entries(notClaimed).map(([name, words]) => [name, expect.stringContaining(words)])),
    )
  })
})

test('views and columns that documents name without a database are those of the database', async () => {
  const { rows } = await ask(
    `select table_name, array_agg(column_name::text order by column_name::text) from information_schema.columns where table_schema = 'bi' group by 1`,
  )
  const there = new Map(rows.map(([name, columns]) => [String(name), columns]))
  const described = describedViews(await shippedDefinitions(), await loadMarts([]))
  expect(described.length).toBeGreaterThan(40)
  for (const { name, columns } of described) expect(columns.map((one) => one.name).sort(), name).toEqual(there.get(name))
})

// `.ci/run` makes them ready by test/clients/prepare.sh where the registries answer.
describe.each(programs)('$name on the loaded warehouse', (program) => {
  const largest =
    'select month, domain, keyword, clicks, traffic_share, position from bi.keywords order by clicks desc, keyword, top_url limit 1'
  const literals = 8
  let reading: Reading

  beforeAll(() => {
    if (program.command !== null)
      reading = read(program, reader, `select one.*, loaded.* from (${rowQuery}) one, (${largest}) loaded`)
  })

  test.skipIf(program.command === null)(
    'reads relations, columns, types, keys, relationships and comments as the catalog has them',
    async () => {
      const one = { ...reading, values: reading.values.slice(0, literals) }
      const { told, differences } = compare(one, await readCatalog(reader), program.types)
      expect(countedOf(program, differences)).toEqual([])
      expect(told['foreign keys']).toBe('2 of 2')
    },
  )

  test.skipIf(program.command === null)('reads a row that was loaded to the last digit', async () => {
    const [row] = (
      await ask(
        `select l.month::text, l.domain, l.keyword, l.clicks::text, l.traffic_share::text, l.position::text from (${largest}) l`,
      )
    ).rows
    expect(reading.values.slice(literals).map((value) => value?.[1] ?? null)).toEqual(row)
  })
})

describe('on a strict fake of Superset', () => {
  let fake: FakeSuperset
  let folder: string

  beforeEach(async () => {
    fake = await startFakeSuperset()
    folder = mkdtempSync(join(tmpdir(), 'millrace-superset-'))
  })
  afterEach(async () => {
    await fake.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const environment = () => ({ MILLRACE_SUPERSET_PASSWORD: fake.password })
  const counts = () => (['database', 'dataset', 'chart', 'dashboard'] as const).map((kind) => fake.rows(kind).length)

  test('everything is made, every chart answers with right numbers, a second call doubles and changes nothing, and another connection has its own', async () => {
    const first = await provision(fake.url, environment())
    expect([first.code, first.stderr]).toEqual([0, expect.stringContaining('dashboard Keywords: created, 13 charts')])
    // All but the table behind attributes.
    const rows = await db.query(`select 1 from information_schema.tables where table_schema = 'bi' and table_name <> 'attribute_versions'`) // biome-ignore format: one look
    expect(counts()).toEqual([1, rows.length, 40, 5])
    const api = await openApi(fake.url, { user: 'admin', password: fake.password })
    await everyChartIsRight(api, db.database.pool)
    await summaryIsRight(api, summaryAnswers(factsOfService().now))
    const before = JSON.stringify([fake.rows('dataset'), fake.rows('chart'), fake.rows('dashboard')])
    const second = await provision(fake.url, environment())
    expect(second.events.at(-1)).toMatchObject({
      charts: { created: 0, updated: 40, removed: 0 },
      datasets: { created: 0 },
      skipped: [],
    })
    expect(JSON.stringify([fake.rows('dataset'), fake.rows('chart'), fake.rows('dashboard')])).toBe(before)
    await everyAnswerIsTheSame(api)
    const third = await provision(fake.url, environment(), repository, '--connection', 'Acme & Co')
    expect([third.code, counts()]).toEqual([0, [2, rows.length * 2, 80, 10]])
    expect(fake.rows('dashboard').map(({ slug, dashboard_title: title }) => [slug, title])).toContainEqual([
      'acme-co-keywords',
      'Keywords (Acme & Co)',
    ])
  })

  test('a call that broke off leaves nothing half made and goes on with the next, wherever it broke', async () => {
    for (const write of [1, 2]) {
      fake.failWrite(write)
      const broken = await provision(fake.url, environment())
      expect([broken.code, broken.stderr]).toEqual([1, expect.stringMatching(/answers (POST|PUT) .* with 500.*\[SUPERSET\]/s)])
      expect(counts().slice(1)).toEqual([0, 0, 0])
    }
    expect((await provision(fake.url, environment())).code).toBe(0)
    expect(counts().slice(2)).toEqual([40, 5])
  })

  test('a file of one’s own replaces a dashboard; charts that left it go, charts that somebody else put there stay', async () => {
    await provision(fake.url, environment())
    const keywords = fake.rows('dashboard').find(({ slug }) => slug === 'millrace-keywords')
    const api = await openApi(fake.url, { user: 'admin', password: fake.password })
    const others = await addOwn(api)
    await provision(fake.url, environment())
    await ownIsThere(api)
    mkdirSync(join(folder, 'dashboards'))
    const text = readFileSync(join(repository, 'dashboards', 'keywords.yaml'), 'utf8')
    const head = text.slice(0, text.indexOf('  - chart: Clicks by domain'))
    // Without the filters of charts that it lacks.
    const shorter = head.replace(/ {2}- filter: Domain of the lists.*?^charts:/ms, 'charts:')
    writeFileSync(join(folder, 'dashboards', 'keywords.yaml'), shorter)
    mkdirSync(join(folder, 'pipelines'))
    for (const name of ['keywords.yaml', 'domains.txt'])
      writeFileSync(join(folder, 'pipelines', name), readFileSync(join(pipelinesOfRepository, name), 'utf8'))
    const own = await provision(fake.url, environment(), folder)
    expect(own.events.at(-1)).toMatchObject({ charts: { created: 0, updated: 4 + 4 + 2, removed: 14 } })
    expect(own.stdout).toContain('the pipeline traffic_and_engagement is not defined here')
    const on = (id: unknown) =>
      fake.rows('chart').filter(({ dashboards }) => JSON.stringify(dashboards) === `[{"id":${String(id)}}]`)
    expect([on(keywords?.id).length, on(others).map(({ slice_name }) => slice_name)]).toEqual([4, ['Clicks by intent']])
    await ownIsThere(api)
  })

  test('what is missing or refused is said with the way out, and no password is printed', async () => {
    const said = async (environment: Record<string, string>, url = fake.url): Promise<readonly [number | null, string]> => {
      const { code, stdout, stderr } = await provision(url, environment)
      for (const hidden of [password, fake.password, 'wrong-password']) expect(stdout + stderr).not.toContain(hidden)
      return [code, stderr]
    }
    expect(await said({})).toEqual([2, expect.stringContaining('MILLRACE_SUPERSET_PASSWORD is not set')])
    expect(await said({ MILLRACE_SUPERSET_PASSWORD: 'wrong-password' })).toEqual([
      2,
      expect.stringContaining('does not know the user'),
    ])
    expect(await said({ ...environment(), MILLRACE_SUPERSET_DATABASE_URL: '' })).toEqual([
      2,
      expect.stringContaining('in role bi_reader'),
    ])
    const nowhere = reader.replace(/:\d+\//, ':9/')
    expect(await said({ ...environment(), MILLRACE_SUPERSET_DATABASE_URL: nowhere })).toEqual([
      1,
      expect.stringMatching(/422: .*ECONNREFUSED/),
    ])
    expect(await said(environment(), 'http://superset.example.com')).toEqual([
      2,
      expect.stringContaining('use its https address'),
    ])
    expect(await said(environment(), 'http://127.0.0.1:9')).toEqual([1, expect.stringContaining('does not answer')])
  })
})

describe.skipIf(!real)('on a real Superset', () => {
  const url = real ?? ''
  let api: Api
  beforeAll(async () => {
    api = await openApi(url, { user: realLogin.MILLRACE_SUPERSET_USER, password: realLogin.MILLRACE_SUPERSET_PASSWORD })
  })

  test.skipIf(supersetBin === '')(
    'its own command imports the bundle of docs: every chart and every question is right, again changes nothing, and what people made stays',
    async () => {
      importByCommand(supersetBin, repository)
      setAddress(supersetBin, reader)
      await everyChartIsRight(api, db.database.pool)
      await summaryIsRight(api, summaryAnswers(factsOfService().now))
      await everyAnswerIsTheSame(api)
      const before = await everythingOurs(api)
      expect(before).toHaveLength(40 + 5)
      await addOwn(api)
      importByCommand(supersetBin, repository)
      expect(await everythingOurs(api)).toEqual(before)
      await ownIsThere(api)
    },
    realMs,
  )

  test(
    '`millrace superset` makes everything once, and every chart and question is right',
    async () => {
      const first = await provision(url, realLogin)
      expect([first.code, first.stderr]).toEqual([0, expect.stringContaining('charts')])
      const before = await everythingOurs(api)
      const second = await provision(url, realLogin)
      expect(second.events.at(-1)).toMatchObject({
        charts: { created: 0, updated: 40, removed: 0 },
        datasets: { created: 0 },
        skipped: [],
      })
      expect(await everythingOurs(api)).toEqual(before)
      await everyChartIsRight(api, db.database.pool)
      await summaryIsRight(api, summaryAnswers(factsOfService().now))
      await everyAnswerIsTheSame(api)
      if (supersetBin !== '') await ownIsThere(api)
    },
    realMs,
  )

  test(
    'the summary is drawn in five seconds and stands on a screen of 900 pixels without a warning or a word that is cut',
    async () => {
      await provision(url, realLogin)
      const login = { user: realLogin.MILLRACE_SUPERSET_USER, password: realLogin.MILLRACE_SUPERSET_PASSWORD }
      const { ms, texts, bottom, warnings, cut } = await lookAtSummary(url, login, process.env['SCREENSHOTS'])
      expect({ isFast: ms <= 5_000, fits: bottom <= 900, warnings, cut }, `${ms} ms, ${bottom} pixels`).toEqual({
        isFast: true,
        fits: true,
        warnings: 0,
        cut: [],
      })
      expect(texts.join(' ')).not.toMatch(/error|No results/i)
      // The last line of a table says of all it lists what the large number does.
      for (const [at, large] of [0, 2, 4].entries()) {
        const [growth = 'none'] = /[+-][\d,.]+%/.exec(texts[large] ?? '') ?? []
        expect(texts[6 + at]?.slice(texts[6 + at]?.lastIndexOf('Summary'))).toContain(growth)
      }
    },
    realMs,
  )
})
