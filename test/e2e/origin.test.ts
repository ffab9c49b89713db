// A warehouse knows its service: another one, the sandbox's rows, and lists of examples stop what buys, before anything is asked for.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { demoSettings, nextLines } from '../../src/cli/demo.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, pipelinesOfRepository } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

let folder: string
let db: TestDatabase
let sandbox: Sandbox

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-origin-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  db = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 20 })
})
afterEach(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const millrace = (service: { url: string; apiKey: string }, ...args: string[]): Promise<CommandResult> =>
  runWarm(
    [...args, '--json'],
    {
      WEB_ANALYTICS_BASE_URL: service.url,
      WEB_ANALYTICS_API_KEY: service.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )

const month = ['--from', '2026-08', '--to', '2026-08']
const backfill = ['backfill', 'keywords', ...month, '--only', 'domain=example.com']

const ownLists = (): void => {
  for (const file of ['domains.txt', 'shop_domains.txt'])
    writeFileSync(join(folder, 'pipelines', file), 'example.com\nmine.shop\n')
}

test('another service stops what buys, whichever command; a moved one goes on by a word, and a key or an address alone may change', async () => {
  ownLists()
  expect((await millrace(sandbox, 'migrate')).code).toBe(0)
  expect((await millrace(sandbox, ...backfill)).code).toBe(0)
  const elsewhere = { url: 'https://service.invalid', apiKey: 'a-key-of-the-real-service' }
  for (const command of [['run', 'keywords'], backfill, ['worker'], ['schedule']]) {
    const { code, stderr } = await millrace(elsewhere, ...command)
    expect([command[0], code, stderr]).toEqual([command[0], 2, expect.stringContaining('came from 127.0.0.1')])
    expect(stderr).toContain('migrate --as moved-service')
    expect(stderr).toContain('DATABASE_URL')
  }
  expect((await millrace(elsewhere, 'check', '--offline')).stdout).toContain('came from 127.0.0.1')

  const other = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 20, apiKey: 'another-key-1234' })
  try {
    expect((await millrace(other, ...backfill, '--force')).code).toBe(2)
    expect((await millrace(other, 'migrate', '--as', 'moved-service')).code).toBe(0)
    expect((await millrace(other, ...backfill, '--force')).code).toBe(0)
    expect((await millrace(sandbox, ...backfill)).code).toBe(2)
    other.configure({ apiKey: 'a-rotated-key-5678' })
    expect((await millrace({ ...other, apiKey: 'a-rotated-key-5678' }, ...backfill, '--force')).code).toBe(0)
    sandbox.configure({ apiKey: 'a-rotated-key-5678' })
    expect((await millrace({ ...sandbox, apiKey: 'a-rotated-key-5678' }, ...backfill, '--force')).code).toBe(0)
  } finally {
    await other.close()
  }
  const { rows } = await db.database.pool.query('select api, account, address, key_sha256 from etl.origins')
  expect(rows).toEqual([
    {
      api: 'web-analytics',
      account: 'default',
      address: `127.0.0.1:${sandbox.port}`,
      key_sha256: expect.stringMatching(/^[0-9a-f]{16}$/),
    },
  ])
})

test("a wrong address is nobody's service: as long as nothing was bought it can be put right", async () => {
  ownLists()
  expect((await millrace(sandbox, 'migrate')).code).toBe(0)
  const wrong = { url: 'https://service.invalid', apiKey: 'a-wrong-key-at-first' }
  expect((await millrace(wrong, 'plan', 'keywords', ...month)).code).toBe(0)
  expect((await millrace(sandbox, ...backfill)).code).toBe(0)
})

test('the lists of examples are bought from a service on this machine alone', async () => {
  const elsewhere = { url: 'https://service.invalid', apiKey: 'a-key-of-the-real-service' }
  expect((await millrace(sandbox, 'migrate')).code).toBe(0)
  const { code, stderr } = await millrace(elsewhere, ...backfill)
  expect([code, stderr]).toEqual([2, expect.stringContaining('keywords (domains.txt)')])
  expect((await millrace(elsewhere, 'check', '--offline')).stdout).toContain('hold nothing but examples')
  expect((await millrace(sandbox, ...backfill)).code).toBe(0)
})

test('init --domains fills the lists', async () => {
  expect((await millrace(sandbox, 'init', 'mine', '--domains', 'a.com, b-c.co.uk')).code).toBe(0)
  for (const file of ['domains.txt', 'shop_domains.txt'])
    expect(readFileSync(join(folder, 'mine', 'pipelines', file), 'utf8')).toMatch(/^# .*\na\.com\nb-c\.co\.uk\n$/)
  const wrong = await millrace(sandbox, 'init', 'other', '--domains', 'https://a.com')
  expect([wrong.code, existsSync(join(folder, 'other'))]).toEqual([2, false])
})

test('init --countries fills the lists of every pipeline that runs for countries', async () => {
  const made = await millrace(sandbox, 'init', 'ours', '--domains', 'a.com', '--countries', 'de,world')
  expect(made.code, made.stderr).toBe(0)
  for (const file of ['keywords.yaml', 'traffic_and_engagement.yaml']) {
    const text = readFileSync(join(folder, 'ours', 'pipelines', file), 'utf8')
    expect(text).toContain('\n  country: [de, world]\n')
    const shipped = readFileSync(join(pipelinesOfRepository, file), 'utf8').replace(/country: \[.*\]/, 'country: [de, world]')
    // Pages of the docs are named where this folder finds them.
    expect(text).toBe(shipped.replaceAll(' docs/', ' node_modules/millrace/docs/'))
  }
  // What costs is marked, so that nobody spends by following the list.
  const told = await runWarm(['init', 'theirs', '--countries', 'us'], { MILLRACE_HOME: join(folder, 'home') }, folder)
  expect(told.stdout).toMatch(/npx millrace plan +free.*\n +npx millrace run +spends credits/)
  for (const wrong of ['DE', 'de,', 'germany']) {
    const refused = await millrace(sandbox, 'init', 'other', '--countries', wrong)
    expect([refused.code, refused.stderr, existsSync(join(folder, 'other'))]).toEqual([
      2,
      expect.stringContaining('--countries us,gb'),
      false,
    ])
  }
})

test('a demo that is kept does not say that it can be kept', () => {
  expect(nextLines('', false, 'keywords', '2026-10').join('\n')).toMatch('demo --keep')
  expect(nextLines('', true, 'keywords', '2026-10').join('\n')).not.toMatch('demo --keep')
})

test('the demo has a home of its own, unless another one is named', () => {
  const service = { url: 'http://127.0.0.1:1', apiKey: 'key', requestsPerSecond: 1 }
  writeFileSync(join(folder, '.env'), 'DATABASE_URL=postgres://real@host/db\n')
  expect(demoSettings({}, folder, service)).toMatchObject({ home: join(folder, '.millrace', 'demo'), databaseUrl: null })
  expect(demoSettings({ MILLRACE_HOME: 'mine' }, folder, service).home).toBe(join(folder, 'mine'))
})
