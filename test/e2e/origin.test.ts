// A warehouse knows its service: another one, the sandbox's rows, and lists of examples stop what buys, before anything is asked for.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { demoSettings, nextLines } from '../../src/cli/demo.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, pipelinesOfRepository, runCommand, startCommand } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const { folder, db, sandbox, list, millraceWith } = sandboxWorld({ each: true, sandbox: { keywordsPerDomain: 20 }, json: true })

const millrace = (service: { url: string; apiKey: string }, ...args: string[]): Promise<CommandResult> =>
  millraceWith({ WEB_ANALYTICS_BASE_URL: service.url, WEB_ANALYTICS_API_KEY: service.apiKey }, ...args)

const month = ['--from', '2026-08', '--to', '2026-08']
const backfill = ['backfill', 'keywords', ...month, '--only', 'domain=example.com']

const ownLists = (): void => {
  for (const name of ['domains', 'shop_domains']) list(name, ['example.com', 'mine.shop'])
}

test('another service stops what buys, whichever command; a moved one goes on by a word, and a key or an address alone may change', async () => {
  ownLists()
  await succeeded(millrace(sandbox, 'migrate'))
  await succeeded(millrace(sandbox, ...backfill))
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
    await succeeded(millrace(other, 'migrate', '--as', 'moved-service'))
    await succeeded(millrace(other, ...backfill, '--force'))
    expect((await millrace(sandbox, ...backfill)).code).toBe(2)
    other.configure({ apiKey: 'a-rotated-key-5678' })
    await succeeded(millrace({ ...other, apiKey: 'a-rotated-key-5678' }, ...backfill, '--force'))
    sandbox.configure({ apiKey: 'a-rotated-key-5678' })
    await succeeded(millrace({ ...sandbox, apiKey: 'a-rotated-key-5678' }, ...backfill, '--force'))
  } finally {
    await other.close()
  }
  expect(await db.query('select api, account, address, key_sha256 from etl.origins')).toEqual([
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
  await succeeded(millrace(sandbox, 'migrate'))
  const wrong = { url: 'https://service.invalid', apiKey: 'a-wrong-key-at-first' }
  await succeeded(millrace(wrong, 'plan', 'keywords', ...month))
  await succeeded(millrace(sandbox, ...backfill))
})

test('the lists of examples are bought from a service on this machine alone', async () => {
  const elsewhere = { url: 'https://service.invalid', apiKey: 'a-key-of-the-real-service' }
  await succeeded(millrace(sandbox, 'migrate'))
  const { code, stderr } = await millrace(elsewhere, ...backfill)
  expect([code, stderr]).toEqual([2, expect.stringContaining('keywords (domains.txt)')])
  expect((await millrace(elsewhere, 'check', '--offline')).stdout).toContain('hold nothing but examples')
  await succeeded(millrace(sandbox, ...backfill))
})

test('init --domains fills the lists', async () => {
  await succeeded(millrace(sandbox, 'init', 'mine', '--domains', 'a.com, b-c.co.uk'))
  for (const file of ['domains.txt', 'shop_domains.txt'])
    expect(readFileSync(join(folder, 'mine', 'pipelines', file), 'utf8')).toMatch(/^# .*\na\.com\nb-c\.co\.uk\n$/)
  const wrong = await millrace(sandbox, 'init', 'other', '--domains', 'https://a.com')
  expect([wrong.code, existsSync(join(folder, 'other'))]).toEqual([2, false])
})

test('init --countries fills the lists of every pipeline that runs for countries', async () => {
  await succeeded(millrace(sandbox, 'init', 'ours', '--domains', 'a.com', '--countries', 'de,world'))
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

test('what the demo says comes next works where there are no definitions, and the summary is the last of its events', async () => {
  const empty = join(folder, 'empty')
  mkdirSync(empty)
  const { stdout } = await startCommand(['demo'], {}, empty).result
  const [, home = '', next = ''] = /MILLRACE_HOME=(\S+) npx millrace (replay .*?) {3}/.exec(stdout) ?? []
  const again = await startCommand(next.split(' '), { MILLRACE_HOME: home }, empty).result
  expect([again.code, again.stdout], again.stderr).toEqual([0, expect.stringMatching(/ inserted|unchanged/)])
  const { code, events, stderr } = await runCommand(['demo', '--json'], {}, empty)
  expect([code, events.at(-1)?.['event']], stderr).toEqual([0, 'summary'])
  expect(events.map(({ event }) => event)).toContain('warehouse')
}, 120_000)

test('the demo has a home of its own, unless another one is named', () => {
  const service = { url: 'http://127.0.0.1:1', apiKey: 'key', requestsPerSecond: 1 }
  writeFileSync(join(folder, '.env'), 'DATABASE_URL=postgres://real@host/db\n')
  expect(demoSettings({}, folder, service)).toMatchObject({ home: join(folder, '.millrace', 'demo'), databaseUrl: null })
  expect(demoSettings({ MILLRACE_HOME: 'mine' }, folder, service).home).toBe(join(folder, 'mine'))
})
