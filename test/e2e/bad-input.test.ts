// Everything that can be wrong with a setting, a definition, the service or the database, one at a time: exactly one message with the
// remedy, the right exit code, no call where none is due, and a warehouse that holds what it held before.
import { readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { type CommandResult, summaryOf } from '../support/command.ts'
import { listen } from '../support/listen.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { type KeywordRecord, type StrictOptions, type StrictService, startStrictService } from '../support/strict-service.ts'
import { succeeded, testWorld } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const key = 'bad-input-key-0123456789'
const password = 'pass-word-0123456789'

const world = testWorld<StrictService>({ each: true, lists: { domains: ['a.com', 'b.com'] }, database: { published: true } })
const { folder, db, service, serve, query } = world
const definitionFile = world.fileOf
const edit = (pipeline: string, from: string, to: string): void => world.edit(pipeline, [from, to])

beforeEach(() => {
  world.edit('keywords', ['attempts: 5', 'attempts: 2'])
  world.edit('traffic_and_engagement', ['attempts: 5', 'attempts: 2'], ['poll_every: 5s', 'poll_every: 200ms'])
})

/** `keywords.yaml:line:column:` of the first place where `text` stands, both from 1. */
const placeOf = (pipeline: string, text: string): string => {
  const lines = readFileSync(definitionFile(pipeline), 'utf8').split('\n')
  const at = lines.findIndex((candidate) => candidate.includes(text))
  return `${pipeline}\\.yaml:${at + 1}:${(lines[at] ?? '').indexOf(text) + 1}:`
}

/** A value of undefined takes the variable away. */
const environment = (changes: Readonly<Record<string, string | undefined>> = {}): Record<string, string> => {
  const all: Record<string, string | undefined> = { ...world.environment({ WEB_ANALYTICS_API_KEY: key }), ...changes }
  return Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
}
const millrace = (args: readonly string[], changes: Readonly<Record<string, string | undefined>> = {}) =>
  runWarm([...args, '--json'], environment(changes), folder)

const month = '2026-08'
const oneKeywords = ['backfill', 'keywords', '--from', month, '--to', month, '--only', 'domain=a.com;country=us']
const bothKeywords = ['backfill', 'keywords', '--from', month, '--to', month, '--only', 'country=us']
const traffic = ['backfill', 'traffic_and_engagement', '--from', month, '--to', month, '--only', 'country=us']

const records = (domain: string, count = 3): KeywordRecord[] =>
  Array.from({ length: count }, (_, index) => ({ keyword: `${domain} ${index}`, top_url: domain, clicks: 5000 - index }))

const csv = (...lines: readonly string[]): string =>
  ['domain,country,date,all_traffic_visits,mobile_visits', ...lines, ''].join('\n')
const line = (domain: string, visits: string, mobile = ''): string => `${domain},US,${month}-01,${visits},${mobile}`
const goodReport = csv(line('a.com', '10'), line('b.com', '20'))

const start = (options: Partial<StrictOptions> = {}): Promise<StrictService> =>
  serve(startStrictService({ key, keywords: (domain) => records(domain), report: () => goodReport, ...options }))

/** Answers what matches with this, everything else as usual. */
const answering =
  (part: string, status: number, body: string, type = 'application/json') =>
  (request: IncomingMessage, response: ServerResponse): boolean => {
    if (!(request.url ?? '').includes(part)) return false
    response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) })
    response.end(body)
    return true
  }

const metaError = (code: number, message: string): string =>
  JSON.stringify({ meta: { status: 'Error', error_code: code, error_message: message } })

/** Every current row and every ended revision, with its lineage; the readers' whole world. */
const warehouse = async (): Promise<unknown> =>
  Promise.all(
    ['keywords_v1', 'keywords_v1_history', 'traffic_and_engagement_v1', 'traffic_and_engagement_v1_history'].map(
      async (table) => [table, await query(`select t::text as row from data.${table} t order by 1`)],
    ),
  )

const codesIn = (stderr: string): string[] => [...stderr.matchAll(/\[([A-Z][A-Z_]+)\]/g)].map((match) => match[1] ?? '')

/** One message, this code, this exit, these words; no secret and no stack anywhere. */
const expectOne = (result: CommandResult, exit: number, code: string, ...words: readonly RegExp[]): void => {
  expect(result.code, result.stderr).toBe(exit)
  expect(codesIn(result.stderr), result.stderr).toEqual([code])
  for (const word of words) expect(result.stderr).toMatch(word)
  expectDiscreet(result)
}

/** An endpoint that is out: one message when it closes, one for the only unit, which waits and has not failed. */
const expectWaiting = (result: CommandResult, code: string, ...words: readonly RegExp[]): void => {
  expect(result.code, result.stderr).toBe(1)
  expect(codesIn(result.stderr), result.stderr).toEqual([code, code])
  const [closed = '', unit = ''] = result.stderr.split('\n').filter((said) => said.includes(`[${code}]`))
  expect(closed).toMatch(/^web-analytics\/default: .* wait; one tries again in /)
  expect(unit).toMatch(/^waiting keywords\/.* Tried \d+ times in .* The next run tries again\. /)
  for (const word of words) for (const said of [closed, unit]) expect(said).toMatch(word)
  expect(summaryOf(result).units).toMatchObject({ planned: 1, waiting: 1, failed: 0, held: 0 })
  expectDiscreet(result)
}

const expectDiscreet = ({ stdout, stderr }: CommandResult): void => {
  for (const word of [key, password]) expect(stdout + stderr).not.toContain(word)
  expect(stderr).not.toMatch(/\n\s+at |defect in Millrace/)
}

const keywordsPath = '/v4/website-analysis/keywords'
/** Requests for rows: what is left of the account is read beside them, for nothing. */
const paid = ({ requests }: StrictService): number => requests.filter(({ path }) => path === keywordsPath).length

/** A port nobody listens on. */
const closedPort = async (): Promise<number> => {
  const { url, close } = await listen(() => undefined)
  await close()
  return Number(new URL(url).port)
}

describe('wrong before anything is called: exit 2, no request, no run on record', () => {
  const nothingHappened = async (strict: StrictService): Promise<void> => {
    expect(strict.requests).toEqual([])
    expect(await query('select * from etl.runs')).toEqual([])
    expect(await query('select * from etl.units')).toEqual([])
  }

  test.each([
    ['look_back: 2', 'look_bak: 2', 'look_bak', /Did you mean 'look_back'/],
    ['{ type: numeric, if_absent: 0, unit: clicks', '{ type: numerik, if_absent: 0, unit: clicks', 'numerik', /numeric/],
    ['web-analytics.keywords', 'web-analytics.keyword', 'web-analytics.keyword', /web-analytics\.keywords/],
    ['country: [us, gb]', 'contry: [us, gb]', 'contry', /Did you mean 'country'/],
    ['file: domains.txt', 'file: domain.txt', 'domain.txt', /domain\.txt does not exist; create it/],
    ['[month, domain, country,', '[month, domain, contry,', 'contry', /country/],
  ])('a definition with %j written as %j', async (right, wrong, pointedAt, nearest) => {
    const strict = await start()
    edit('keywords', right, wrong)
    expectOne(await millrace(oneKeywords), 2, 'DEFINITION', new RegExp(placeOf('keywords', pointedAt)), nearest)
    await nothingHappened(strict)
  })

  test('a definition that is no YAML', async () => {
    const strict = await start()
    edit('keywords', 'every: month', 'every: [month')
    expectOne(await millrace(oneKeywords), 2, 'DEFINITION', /keywords\.yaml:10:\d+: not valid YAML/, /Correct the line/)
    await nothingHappened(strict)
  })

  test('every problem of a definition is told at once', async () => {
    const strict = await start()
    edit('keywords', 'look_back: 2', 'look_bak: 2')
    edit('keywords', 'attempts: 2', 'attemps: 2')
    expectOne(await millrace(oneKeywords), 2, 'DEFINITION', /look_back/, /attempts/)
    await nothingHappened(strict)
  })

  test.each([
    ['no key', { WEB_ANALYTICS_API_KEY: undefined }, /WEB_ANALYTICS_API_KEY is not set; put .*\.env/],
    ['an empty key', { WEB_ANALYTICS_API_KEY: '' }, /WEB_ANALYTICS_API_KEY is not set; put .*\.env/],
    ['a key with a line break', { WEB_ANALYTICS_API_KEY: `${key}\nx` }, /WEB_ANALYTICS_API_KEY holds .*copy it again/],
    ['no address', { WEB_ANALYTICS_BASE_URL: undefined }, /WEB_ANALYTICS_BASE_URL is not set; set it in \.env/],
    ['an address that is none', { WEB_ANALYTICS_BASE_URL: 'api.example.com' }, /WEB_ANALYTICS_BASE_URL .*expected .*https:\/\//],
    ['a database address that is none', { DATABASE_URL: 'localhost/x' }, /DATABASE_URL is not an address such as postgres:\/\//],
  ])('%s', async (_what, changes, words) => {
    const strict = await start()
    expectOne(await millrace(oneKeywords, changes), 2, 'CONFIGURATION', words)
    await nothingHappened(strict)
  })

  test('a wrong password of the database', async () => {
    const strict = await start()
    const url = new URL(db.url)
    url.password = password
    const result = await millrace(oneKeywords, { DATABASE_URL: url.href })
    expectOne(result, 2, 'CONFIGURATION', new RegExp(`${url.hostname}:${url.port}`), /user and password in DATABASE_URL/)
    await nothingHappened(strict)
  })

  test('a database that does not exist', async () => {
    const strict = await start()
    const url = new URL(db.url)
    url.pathname = '/nowhere'
    expectOne(await millrace(oneKeywords, { DATABASE_URL: url.href }), 2, 'CONFIGURATION', /nowhere/, /name in DATABASE_URL/)
    await nothingHappened(strict)
  })

  test.each(['data.keywords_v1_history', 'data.keywords_v1'])('%s dropped', async (table) => {
    const strict = await start()
    await query(`drop table ${table} cascade`)
    expectOne(await millrace(oneKeywords), 2, 'TABLE_DRIFT', new RegExp(`${table} does not exist`), /millrace (migrate|check)/)
    // What made it is applied: nothing makes it again.
    const gone = new RegExp(`${table}, which migration 0002_keywords_v1 made, was dropped`)
    expectOne(await millrace(['migrate', '--json']), 2, 'TABLE_DRIFT', gone, /Restore/)
    const made = new RegExp(`${table}, which a migration made, does not exist`)
    expectOne(await millrace(['new', 'migration', 'keywords', '--json']), 2, 'TABLE_DRIFT', made, /Restore/)
    await nothingHappened(strict)
  })

  test('a column of the definition that no migration has added', async () => {
    const strict = await start()
    await query('alter table data.keywords_v1 drop column difficulty cascade')
    const named = /data\.keywords_v1\.difficulty: `millrace new migration keywords` writes it/
    expectOne(await millrace(['migrate', '--json']), 2, 'TABLE_DRIFT', named)
    await nothingHappened(strict)
  })

  test('a database nobody migrated', async () => {
    const strict = await start()
    const empty = await createTestDatabase({ empty: true })
    try {
      expectOne(await millrace(oneKeywords, { DATABASE_URL: empty.url }), 2, 'SCHEMA_BEHIND', /millrace migrate/)
    } finally {
      await empty.drop()
    }
    expect(strict.requests).toEqual([])
  })

  test.each([
    ['a pipeline that does not exist', ['backfill', 'keyword', '--from', month, '--to', month], /'keyword'/, /keywords/],
    ['--from after --to', ['backfill', 'keywords', '--from', '2026-09', '--to', '2026-08'], /2026-09/, /2026-08/],
    ['a month that is none', ['backfill', 'keywords', '--from', '2026-13', '--to', '2026-14'], /2026-13/, /YYYY-MM/],
    ['no --to', ['backfill', 'keywords', '--from', month], /--to/, /for example/],
    ['a domain nobody listed', [...oneKeywords.slice(0, -1), 'domain=a.con'], /'a\.con'/, /Did you mean 'a\.com'\?/],
    ['a dimension there is not', [...oneKeywords.slice(0, -1), 'domian=a.com'], /'domian'/, /Did you mean 'domain'\?/],
    ['--only without a value', [...oneKeywords.slice(0, -1), 'domain'], /--only/, /--only NAME=VALUE,VALUE/],
  ])('%s', async (_what, args, ...words) => {
    const strict = await start()
    const result = await millrace(args)
    expect(result.code, result.stderr).toBe(2)
    expect(codesIn(result.stderr)).toHaveLength(1)
    for (const word of words) expect(result.stderr).toMatch(word)
    expectDiscreet(result)
    await nothingHappened(strict)
  })

  test.each([
    ['an unknown command', ['bakfill', 'keywords'], /unknown command 'bakfill'/, /backfill/],
    ['help for an unknown command', ['help', 'bakfill'], /unknown command 'bakfill'/, /Did you mean backfill/],
    ['an unknown command and its help', ['bakfill', '--help'], /unknown command 'bakfill'/, /Did you mean backfill/],
    ['an unknown option', [...oneKeywords, '--forse'], /unknown option '--forse'/, /--force/],
    ['no pipeline', ['backfill', '--from', month, '--to', month], /missing required argument 'pipeline'/, /--help/],
  ])('%s', async (_what, args, ...words) => {
    const strict = await start()
    const result = await millrace(args)
    expect(result.code).toBe(2)
    for (const word of words) expect(result.stderr).toMatch(word)
    await nothingHappened(strict)
  })
})

describe('a warehouse or disk that does not take anything: no request', () => {
  test('an unreachable database is named by host and port', async () => {
    const strict = await start()
    const port = await closedPort()
    const result = await millrace(oneKeywords, { DATABASE_URL: `postgres://u:${password}@127.0.0.1:${port}/x` })
    expectOne(result, 1, 'DATABASE_UNREACHABLE', new RegExp(`u@127\\.0\\.0\\.1:${port}/x`), /Check that it runs .*DATABASE_URL/)
    expect(strict.requests).toEqual([])
  })

  test('a read-only session asked for in the address', async () => {
    const strict = await start()
    const url = new URL(db.url)
    url.searchParams.set('options', '-c default_transaction_read_only=on')
    expectOne(await millrace(oneKeywords, { DATABASE_URL: url.href }), 1, 'DATABASE_READ_ONLY', /DATABASE_URL to the primary/)
    expect(strict.requests).toEqual([])
  })

  test('options in the address do not change how moments are read and written', async () => {
    await start()
    const url = new URL(db.url)
    url.searchParams.set('options', '-c timezone=Asia/Tokyo -c datestyle=German -c statement_timeout=60s')
    const changes = { DATABASE_URL: url.href }
    await succeeded(millrace(oneKeywords, changes))
    const status = await succeeded(millrace(['status', 'keywords'], changes))
    expect(status.stdout).toMatch(/"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"/)
    expect(status.stdout).not.toMatch(/JST|\+09/)
  })

  test.each([
    ['and a database elsewhere', {}],
    ['and the embedded database', { DATABASE_URL: undefined }],
  ])('a landing folder that is a file, %s', async (_what, changes) => {
    const strict = await start()
    writeFileSync(join(folder, 'home'), 'a file')
    const result = await millrace(oneKeywords, changes)
    expectOne(result, 1, 'DISK', /home/, /MILLRACE_HOME/)
    expect(strict.requests).toEqual([])
    expect(await query('select * from etl.runs')).toEqual([])
  })
})

describe('what the keyword endpoint may answer', () => {
  test.each([
    ['a refused key', 401, 'invalid API key', 'text/plain', 'KEY_REFUSED', [/"invalid API key"/, /Check WEB_ANALYTICS_API_KEY/]],
    [
      'a country outside the capabilities',
      400,
      metaError(103, 'Country is not in your plan'),
      'application/json',
      'NO_CAPABILITY',
      [/code 103/, /millrace capabilities/],
    ],
    [
      'exhausted credits',
      403,
      '{"error_message":"credits exhausted"}',
      'application/json',
      'QUOTA_EXHAUSTED',
      [/"credits exhausted"/, /millrace quota/],
    ],
    [
      'JSON that ends in its middle',
      200,
      '{"keywords": [{"keyword": "a',
      'application/json',
      'UNUSABLE',
      [/ends in the middle of its JSON \(28 bytes\)/, /The same came twice/, /--force/],
    ],
    ['an empty body', 200, '', 'application/json', 'UNUSABLE', [/WEB_ANALYTICS_BASE_URL/, /The same came twice/, /--force/]],
    [
      'a path that is not there',
      404,
      '{"message":"no such path"}',
      'application/json',
      'BAD_REQUEST',
      [/WEB_ANALYTICS_BASE_URL/],
    ],
  ])('%s: one message, nothing loaded, and rows that were loaded stay', async (_what, status, body, type, code, words) => {
    await start()
    await succeeded(millrace(oneKeywords))
    const before = await warehouse()
    await start({ intercept: answering(keywordsPath, status, body, type) })
    for (const args of [
      [...oneKeywords, '--force'],
      [...oneKeywords.slice(0, -1), 'domain=b.com;country=us'],
    ]) {
      const result = await millrace(args)
      expectOne(result, 1, code, ...words)
      expect(summaryOf(result).rows).toMatchObject({ inserted: 0, updated: 0, ended: 0 })
    }
    expect(await warehouse()).toEqual(before)
    await start()
    const held = code === 'UNUSABLE' ? ['--force'] : []
    await succeeded(millrace([...oneKeywords.slice(0, -1), 'domain=b.com;country=us', ...held]))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 6 }])
  })

  test('a web page closes the endpoint: told once for it and once for the unit, which waits, and rows that were loaded stay', async () => {
    await start()
    await succeeded(millrace(oneKeywords))
    const before = await warehouse()
    await start({ intercept: answering(keywordsPath, 200, '<!doctype html><title>Log in</title>', 'text/html') })
    for (const args of [
      [...oneKeywords, '--force'],
      [...oneKeywords.slice(0, -1), 'domain=b.com;country=us'],
    ]) {
      const result = await millrace(args)
      expectWaiting(result, 'BAD_RESPONSE', /Log in/, /WEB_ANALYTICS_BASE_URL/)
      expect(summaryOf(result).rows).toMatchObject({ inserted: 0, updated: 0, ended: 0 })
    }
    expect(await warehouse()).toEqual(before)
    await start()
    await succeeded(millrace([...oneKeywords.slice(0, -1), 'domain=b.com;country=us']))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 6 }])
  })

  test('exhausted credits hold the unit, and nothing is asked a second time', async () => {
    const strict = await start({ intercept: answering(keywordsPath, 403, '{"error_message":"credits exhausted"}') })
    const result = await millrace(oneKeywords)
    expect(summaryOf(result).units).toMatchObject({ planned: 1, held: 1, failed: 0 })
    expect(paid(strict)).toBe(1)
  })

  test('a body shorter than its content-length is asked for again, told as cut off, and its unit waits', async () => {
    const before = await warehouse()
    const strict = await start({
      intercept: (request, response) => {
        if (!(request.url ?? '').startsWith(keywordsPath)) return false
        const body = JSON.stringify({ keywords: records('a.com'), keywords_count: 3 })
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length + 100 })
        response.write(body, () => response.destroy())
        return true
      },
    })
    expectWaiting(await millrace(oneKeywords), 'TRUNCATED', /cut off/)
    expect(strict.requests.length).toBeGreaterThan(1)
    expect(await warehouse()).toEqual(before)
  })

  test('no data for a domain is recorded as empty, said once, and not asked again', async () => {
    const strict = await start({ intercept: answering('URL=a.com', 401, metaError(0, 'Data not found')) })
    const empty = await succeeded(millrace(oneKeywords))
    expect(empty.stderr.match(/the service has no data .*Check the spelling of the domain/g)).toHaveLength(1)
    expect(summaryOf(empty).units).toMatchObject({ loaded: 1, failed: 0, held: 0 })
    const requests = strict.requests.length
    await succeeded(millrace(oneKeywords))
    expect(strict.requests).toHaveLength(requests)
  })

  test('no data where rows were loaded before is held, and the rows stay until a person releases it', async () => {
    await start()
    await millrace(oneKeywords)
    const before = await warehouse()
    await start({ intercept: answering('URL=a.com', 401, metaError(0, 'Data not found')) })
    const held = await millrace([...oneKeywords, '--force'])
    expectOne(held, 1, 'SHRUNK', /0 rows, 3 are loaded/, /millrace release \d+/)
    expect(summaryOf(held).units).toMatchObject({ held: 1, failed: 0 })
    expect(await warehouse()).toEqual(before)
    const unit = /millrace release (\d+)/.exec(held.stderr)?.[1] ?? ''
    await succeeded(millrace(['release', unit]))
    await succeeded(millrace(oneKeywords))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 0 }])
    expect(await query(`select count(*)::int as n from bi.keywords_history where valid_to <> 'infinity'`)).toEqual([{ n: 3 }])
  })

  test('a month that the service has not published waits; one to come is never asked for', async () => {
    const newest = Temporal.Now.plainDateISO('UTC').subtract({ days: 10, months: 1 }).toPlainYearMonth()
    const args = (at: string) => ['backfill', 'keywords', '--from', at, '--to', at, '--only', 'domain=a.com;country=us']
    const strict = await start({ intercept: answering(keywordsPath, 400, metaError(101, 'Date out of range')) })
    const waiting = await millrace(args(newest.toString()))
    expect(waiting.code, waiting.stderr).toBe(1)
    expect(summaryOf(waiting).units).toMatchObject({ waiting: 1, failed: 0, held: 0 })
    expect(paid(strict)).toBe(1)
    const future = await millrace(args(newest.add({ months: 3 }).toString()))
    expect(summaryOf(future).units).toMatchObject({ waiting: 1, failed: 0, held: 0 })
    expect(paid(strict)).toBe(1)
    await start()
    const published = await succeeded(millrace(args(newest.toString())))
    expect(summaryOf(published).units.loaded).toBe(1)
  })

  test('one bad slice does not stop the others', async () => {
    await start({ intercept: answering('URL=a.com', 400, metaError(102, 'Bad parameter')) })
    const result = await millrace(bothKeywords)
    expectOne(result, 1, 'BAD_REQUEST', /^failed keywords\/v1\/2026-08\/country=us;domain=a\.com: \//m, /Correct the parameters/)
    expect(result.stderr.match(/^2\/2 units/gm), result.stderr).toHaveLength(1)
    expect(summaryOf(result).units).toMatchObject({ planned: 2, loaded: 1, failed: 1 })
    expect(await query('select distinct domain from bi.keywords')).toEqual([{ domain: 'b.com' }])
  })

  /** Pages as asked for, with a count of its own for each. */
  const paging = (all: readonly object[], countOf: (asked: number) => number | null) => () => {
    let asked = 0
    return (request: IncomingMessage, response: ServerResponse): boolean => {
      const url = new URL(request.url ?? '/', 'http://x')
      if (url.pathname !== keywordsPath) return false
      asked += 1
      const [offset, limit] = [Number(url.searchParams.get('offset')), Number(url.searchParams.get('limit'))]
      const keywords = all.slice(offset, offset + limit)
      const body = JSON.stringify({ meta: { last_updated: '2026-11-10' }, keywords, keywords_count: countOf(asked) })
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(body)
      return true
    }
  }

  test('fewer rows than announced are held: nothing of them is loaded', async () => {
    const before = await warehouse()
    const twice = [...records('a.com', 3), ...records('a.com', 1)]
    await start({ intercept: paging(twice, () => 4)() })
    const result = await millrace(oneKeywords)
    expectOne(result, 1, 'UNUSABLE', /3 distinct rows arrived, the service announces 4/, /The same came twice/, /--force/)
    const paid = service?.requests.length
    expect((await millrace(oneKeywords)).code).toBe(1)
    expect(service?.requests.length, 'the next run asks for nothing').toBe(paid)
    expect(summaryOf(result).units).toMatchObject({ held: 1, failed: 0 })
    expect(await warehouse()).toEqual(before)
    await start()
    await succeeded(millrace([...oneKeywords, '--force']))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 3 }])
  })

  test('a count beyond every limit is not paid for again by itself, and its unit is asked for anew by --force', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    const strict = await start({ intercept: paging(records('a.com', 250), () => 1_000_000_000)() })
    expectOne(await millrace(oneKeywords), 1, 'TOO_MANY_PAGES', /limits.max_pages/, /--force/)
    expect((await millrace(oneKeywords)).code).toBe(1)
    expect(paid(strict)).toBe(1)
    await start()
    expect((await millrace(oneKeywords)).code).toBe(1)
    await succeeded(millrace([...oneKeywords, '--force']))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 3 }])
  })

  test('pages up to max_pages of a service that announces no count are gone on from with a larger max_pages, by --force, too', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100, max_pages: 2')
    const strict = await start({ intercept: paging(records('a.com', 250), () => null)() })
    expectOne(await millrace([...oneKeywords, '--force']), 1, 'TOO_LARGE', /limits.max_pages is 2/)
    expect(paid(strict)).toBe(2)
    edit('keywords', 'max_pages: 2', 'max_pages: 9')
    await succeeded(millrace([...oneKeywords, '--force']))
    expect(paid(strict), 'only the page that was missing').toBe(3)
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 250 }])
  })

  test('a page that stays short of its count is held', async () => {
    const before = await warehouse()
    await start({ intercept: paging(records('a.com', 3), () => 5)() })
    expectOne(await millrace(oneKeywords), 1, 'UNUSABLE', /Nothing was loaded/, /The same came twice/)
    expect(await warehouse()).toEqual(before)
  })

  test('a count that changes between pages is walked again and loaded once it holds still', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    await start({ intercept: paging(records('a.com', 250), (asked) => (asked === 1 ? 251 : 250))() })
    const result = await succeeded(millrace(oneKeywords))
    expect(summaryOf(result).rows).toMatchObject({ read: 250, inserted: 250, quarantined: 0, duplicates: 0 })
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 250 }])
  })

  test('pages whose records have no keyword, as after a rename, are paid once, and loaded from the landing by the new name', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    const renamed = records('a.com', 250).map(({ keyword, ...rest }) => ({ ...rest, search_term: keyword }))
    const strict = await start({ intercept: paging(renamed, () => 250)() })
    expectOne(
      await millrace(oneKeywords),
      1,
      'BAD_RESPONSE',
      /No record of part 1 has 'keyword'.*search_term/,
      /name it in `from`/,
    )
    expect(paid(strict)).toBe(3)
    edit('keywords', 'keyword: { type', 'keyword: { from: [keyword, search_term], type')
    await succeeded(millrace(['replay', 'keywords', '--from', '2026-08', '--to', '2026-08']))
    expect(await query('select count(*)::int as n from bi.keywords')).toEqual([{ n: 250 }])
    expect(paid(strict)).toBe(3)
  })

  test('records of two pages that lack their keyword are no repeats of each other', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    const all = records('a.com', 250).map((record, at) => (at % 100 === 0 ? { ...record, keyword: null } : record))
    const strict = await start({ intercept: paging(all, () => 250)() })
    expectOne(await millrace(oneKeywords), 1, 'TOO_MANY_REJECTS', /3 of 250 rows were rejected/)
    expect(paid(strict)).toBe(3)
  })

  test('a count that never holds still in three runs is not paid for by a fourth', async () => {
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    const strict = await start({ intercept: paging(records('a.com', 250), (asked) => 250 - (asked % 2))() })
    for (const code of ['UNSTABLE', 'UNSTABLE']) expectOne(await millrace(oneKeywords), 1, code, /Nothing was loaded/)
    expectOne(
      await millrace(oneKeywords),
      1,
      'UNUSABLE',
      /Its pages changed in each of 3 runs, so it is not bought again automatically/,
      /--force/,
    )
    const requests = paid(strict)
    expect((await millrace(oneKeywords)).code).toBe(1)
    expect(paid(strict)).toBe(requests)
    await start()
    await succeeded(millrace([...oneKeywords, '--force']))
  })

  test('a count that never holds still is held, and nothing is loaded', async () => {
    const before = await warehouse()
    edit('keywords', 'page_size: 1000', 'page_size: 100')
    await start({ intercept: paging(records('a.com', 250), (asked) => 250 - (asked % 2))() })
    const result = await millrace(oneKeywords)
    expectOne(result, 1, 'UNSTABLE', /the announced count went from \d+ to \d+/, /Nothing was loaded/)
    expect(summaryOf(result).units.held).toBe(1)
    expect(await warehouse()).toEqual(before)
  })
})

describe('what becomes of reports', () => {
  /** The first `times` looks at a report's state are answered with this word. */
  const stateWord = (word: string, times = Number.POSITIVE_INFINITY) => {
    let left = times
    return (request: IncomingMessage, response: ServerResponse): boolean => {
      if (!(request.url ?? '').includes('request-status') || left <= 0) return false
      left -= 1
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ status: word, error_message: 'metric not served' }))
      return true
    }
  }

  test('a word nobody knows is an open report, and the completed one is loaded', async () => {
    const strict = await start({ intercept: stateWord('warming up', 2) })
    await succeeded(millrace(traffic))
    expect(strict.bought).toHaveLength(1)
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test.each([
    ['internal_error', 'REPORT_FAILED', /could not make report \S+ \('internal_error': metric not served\)/],
    ['bad request', 'REPORT_REJECTED', /rejects the report \('bad request': metric not served\)/],
  ])('%s: told with the reason, and never bought again by itself', async (word, code, reason) => {
    const before = await warehouse()
    const strict = await start({ intercept: stateWord(word) })
    expectOne(await millrace(traffic), 1, code, reason, /--force/)
    expectOne(await millrace(traffic), 1, code, /--force/)
    const planned = await millrace([...traffic, '--dry-run'])
    expect(summaryOf(planned)).toMatchObject({
      units: { planned: 2, loaded: 0, failed: 2 },
      ...{ requests: 0, reports_submitted: 0, quota_used: 0 },
    })
    expect(strict.bought).toHaveLength(1)
    expect(await warehouse()).toEqual(before)
    await start()
    await succeeded(millrace([...traffic, '--force']))
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test('a report cut off while it is downloaded is downloaded again and not bought again', async () => {
    let cut = true
    const strict = await start({
      intercept: (request, response) => {
        if (!cut || !(request.url ?? '').startsWith('/files/')) return false
        cut = false
        response.writeHead(200, { 'content-type': 'text/csv', 'content-length': goodReport.length })
        response.write(goodReport.slice(0, 60), () => response.destroy())
        return true
      },
    })
    await succeeded(millrace(traffic))
    expect(strict.bought).toHaveLength(1)
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test('a count and a bill beyond what anything holds are no fault of the warehouse: the report is held', async () => {
    const strict = await start({
      intercept: ({ url }, response) => {
        if (!(url ?? '').includes('request-status')) return false
        const link = `${service?.url}/files/${service?.bought[0]?.id}.csv?signature=abc`
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(
          `{"status":"completed","data_points_count":100000000000000000000,"used_quota":100000000000000000000,"download_url":"${link}"}`,
        )
        return true
      },
    })
    const result = await millrace(traffic)
    expectOne(result, 1, 'INCOMPLETE', /the service announces 100000000000000000000 data points/, /millrace release/)
    expect(result.events).toContainEqual(expect.objectContaining({ code: 'BILL_UNREADABLE' }))
    expect(strict.bought).toHaveLength(1)
  })

  test('the file of another report is refused as such, and downloaded again until it is the right one; nothing is bought again', async () => {
    const before = await warehouse()
    let isOther = true
    const strict = await start({
      report: () => (isOther ? csv(line('c.com', '1'), line('d.com', '2')) : csv(line('a.com', '1'), line('b.com', '2'))),
    })
    expectOne(await millrace(traffic), 1, 'WRONG_ECHO', /domain 'c.com' was not requested/, /the next run downloads it again/)
    edit('traffic_and_engagement', 'rejects: 0.1%', 'rejects: 100%')
    expectOne(await millrace(traffic), 1, 'WRONG_ECHO', /another report/)
    expect(await warehouse()).toEqual(before)
    isOther = false
    await succeeded(millrace(traffic))
    expect(strict.bought).toHaveLength(1)
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test('where the service gave the id of another report, the message names the command that lets go of it, and the next run buys anew', async () => {
    let isOther = true
    const strict = await start({
      report: () => (isOther ? csv(line('c.com', '1'), line('d.com', '2')) : csv(line('a.com', '1'), line('b.com', '2'))),
    })
    const { stderr } = await millrace(traffic)
    const [, ...giveUp] = /`millrace (reports) (give-up) (\d+) (--sure)`/.exec(stderr) ?? []
    expect(giveUp).toHaveLength(4)
    isOther = false
    await succeeded(millrace(giveUp))
    await succeeded(millrace(traffic))
    expect(strict.bought).toHaveLength(2)
    expect(await query('select count(*)::int as n from bi.traffic_and_engagement')).toEqual([{ n: 2 }])
  })

  test('too many rejects change nothing and stand in the quarantine with record and line', async () => {
    await start()
    await millrace(traffic)
    const before = await warehouse()
    await start({ report: () => csv(line('a.com', 'many'), line('b.com', '99')) })
    const result = await millrace([...traffic, '--force'])
    expectOne(result, 1, 'TOO_MANY_REJECTS', /1 of 2 rows were rejected, the definition allows 0/, /millrace quarantine list/)
    expect(await warehouse()).toEqual(before)
    const list = await succeeded(millrace(['quarantine', 'list']))
    expect(list.events.filter((event) => event['event'] === 'quarantined')).toEqual([
      expect.objectContaining({
        line: 2,
        column_name: 'all_traffic_visits',
        raw: line('a.com', 'many'),
        reason: expect.stringMatching(/'many'/),
      }),
    ])
  })

  test('as many rejects as the definition allows are set aside, the rest is loaded, and a unit with nothing else waits for a person', async () => {
    edit('traffic_and_engagement', 'rejects: 0.1%', 'rejects: 50%')
    await start({ report: () => csv(line('a.com', '1e'), line('b.com', '99')) })
    const result = await millrace(traffic)
    expectOne(result, 1, 'TOO_MANY_REJECTS', /every record of the new answer was rejected/, /millrace quarantine list/)
    expect(summaryOf(result)).toMatchObject({
      units: { loaded: 1, held: 1 },
      rows: { read: 2, inserted: 1, quarantined: 1, duplicates: 0 },
    })
    expect(await query('select domain, all_traffic_visits as visits from bi.traffic_and_engagement')).toEqual([
      { domain: 'b.com', visits: '99' },
    ])
    expect(await query('select line::int as line, raw from etl.quarantine')).toEqual([{ line: 2, raw: line('a.com', '1e') }])
  })

  test('a rejected row does not end the row that is loaded under its key', async () => {
    edit('traffic_and_engagement', 'rejects: 0.1%', 'rejects: 50%')
    await start()
    await millrace(traffic)
    await start({ report: () => csv(line('a.com', 'many'), line('b.com', '99')) })
    const result = await millrace([...traffic, '--force'])
    expectOne(result, 1, 'TOO_MANY_REJECTS', /The loaded rows stay/, /millrace quarantine list/)
    expect(summaryOf(result)).toMatchObject({
      units: { loaded: 1, held: 1 },
      rows: { read: 2, updated: 1, quarantined: 1, ended: 0 },
    })
    expect(await query('select domain, all_traffic_visits as visits from bi.traffic_and_engagement order by 1')).toEqual([
      { domain: 'a.com', visits: '10' },
      { domain: 'b.com', visits: '99' },
    ])
  })

  test('rows that contradict each other are set aside, rows that repeat collapse, and every row is counted', async () => {
    edit('traffic_and_engagement', 'rejects: 0.1%', 'rejects: 60%')
    const contradicting = [line('b.com', '2'), line('b.com', '3')]
    await start({ report: () => csv(line('a.com', '1'), line('a.com', '1'), ...contradicting) })
    const result = await millrace(traffic)
    expectOne(result, 1, 'TOO_MANY_REJECTS', /every record of the new answer was rejected/, /millrace quarantine list/)
    expect(summaryOf(result).units).toMatchObject({ loaded: 1, held: 1 })
    // What came for b.com waits with it, and is counted as what it became.
    expect(summaryOf(result).rows).toEqual({
      read: 4,
      inserted: 1,
      updated: 0,
      ended: 0,
      unchanged: 0,
      quarantined: 2,
      duplicates: 1,
    })
    expect(await query('select domain from bi.traffic_and_engagement')).toEqual([{ domain: 'a.com' }])
    expect(await query('select line::int as line, raw from etl.quarantine order by line')).toEqual([
      { line: 4, raw: contradicting[0] },
      { line: 5, raw: contradicting[1] },
    ])
  })

  test('contradicting rows beyond the limit fail the unit and are kept for a look', async () => {
    const before = await warehouse()
    await start({ report: () => csv(line('a.com', '1'), line('b.com', '2'), line('b.com', '3')) })
    expectOne(await millrace(traffic), 1, 'TOO_MANY_REJECTS', /2 of 3 rows/, /millrace quarantine list/)
    expect(await warehouse()).toEqual(before)
    const list = await millrace(['quarantine', 'list'])
    const raws = list.events.filter((event) => event['event'] === 'quarantined').map((event) => event['raw'])
    expect(raws.toSorted()).toEqual([line('b.com', '2'), line('b.com', '3')])
  })
})
