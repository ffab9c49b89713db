// Everything that can be wrong with a setting, a definition, the service or the database, one at a time: exactly one message with the
// remedy, the right exit code, no call where none is due, and a warehouse that holds what it held before.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type CommandResult, pipelinesOfRepository, runCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type KeywordRecord, type StrictOptions, type StrictService, startStrictService } from '../support/strict-service.ts'

const key = 'bad-input-key-0123456789'
const password = 'pass-word-0123456789'

let folder: string
let db: TestDatabase
let service: StrictService | null = null

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-bad-input-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\nb.com\n')
  for (const pipeline of ['keywords', 'traffic_and_engagement']) {
    edit(pipeline, 'attempts: 5', 'attempts: 2')
    edit(pipeline, 'poll_every: 5s', 'poll_every: 200ms')
  }
  db = await createTestDatabase()
})

afterEach(async () => {
  await service?.close()
  service = null
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const definitionFile = (pipeline: string): string => join(folder, 'pipelines', `${pipeline}.yaml`)

const edit = (pipeline: string, from: string, to: string): void => {
  const file = definitionFile(pipeline)
  writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
}

/** `keywords.yaml:line:column:` of the first place where `text` stands, both from 1. */
const placeOf = (pipeline: string, text: string): string => {
  const lines = readFileSync(definitionFile(pipeline), 'utf8').split('\n')
  const at = lines.findIndex((candidate) => candidate.includes(text))
  return `${pipeline}\\.yaml:${at + 1}:${(lines[at] ?? '').indexOf(text) + 1}:`
}

/** A value of undefined takes the variable away. */
const environment = (changes: Readonly<Record<string, string | undefined>> = {}): Record<string, string> => {
  const all: Record<string, string | undefined> = {
    WEB_ANALYTICS_BASE_URL: service?.url ?? 'http://127.0.0.1:1',
    WEB_ANALYTICS_API_KEY: key,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
    ...changes,
  }
  return Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
}

const millrace = (args: readonly string[], changes: Readonly<Record<string, string | undefined>> = {}) =>
  runCommand([...args, '--json'], environment(changes), folder)

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

const start = async (options: Partial<StrictOptions> = {}): Promise<StrictService> => {
  await service?.close()
  service = await startStrictService({ key, keywords: (domain) => records(domain), report: () => goodReport, ...options })
  return service
}

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

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows

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

const expectDiscreet = ({ stdout, stderr }: CommandResult): void => {
  for (const word of [key, password]) expect(stdout + stderr).not.toContain(word)
  expect(stderr).not.toMatch(/\n\s+at |defect in Millrace/)
}

const keywordsPath = '/v4/website-analysis/keywords'

/** A port nobody listens on. */
const closedPort = async (): Promise<number> => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

describe('wrong before anything is called: exit 2, no request, no run on record', () => {
  const nothingHappened = async (strict: StrictService): Promise<void> => {
    expect(strict.requests).toEqual([])
    expect(await query('select * from etl.runs')).toEqual([])
    expect(await query('select * from etl.units')).toEqual([])
  }

  test.each([
    ['look_back: 2', 'look_bak: 2', 'look_bak', /Did you mean 'look_back'/],
    ['{ type: bigint, if_absent: 0, unit: clicks', '{ type: bigit, if_absent: 0, unit: clicks', 'bigit', /bigint/],
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
    expectOne(await millrace(oneKeywords), 2, 'DEFINITION', /keywords\.yaml:10:\d+: not valid YAML/, /Mend the line/)
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
    ['a domain nobody listed', [...oneKeywords.slice(0, -1), 'domain=a.con'], /'a\.con'/, /nearest is 'a\.com'/],
    ['a dimension there is not', [...oneKeywords.slice(0, -1), 'domian=a.com'], /'domian'/, /nearest is 'domain'/],
    ['--only without a value', [...oneKeywords.slice(0, -1), 'domain'], /--only/, /domain=a\.com,b\.com/],
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
