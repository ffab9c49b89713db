// Every other command as a person runs it, against the sandbox: what it prints, how it ends, and that a run can be stopped.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import { pipelinesOfRepository, runCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let folder: string
let db: TestDatabase
let sandbox: Sandbox

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-commands-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  db = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 50, quota: 100_000 })
})
afterEach(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const environment = (): Record<string, string> => ({
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '300',
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, 'home'),
})
const millrace = (...args: string[]) => runCommand(args, environment(), folder)
const slow = ['backfill', 'traffic_and_engagement', '--from', '2026-08', '--to', '2026-09', '--json']
const until = async (ready: () => boolean | Promise<boolean>): Promise<void> => {
  const deadline = Date.now() + 20_000
  while (!(await ready())) {
    if (Date.now() > deadline) throw new Error('it never came to that')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

describe('commands that look', () => {
  test('describe, capabilities, quota and check say what the key may do, and end with a summary', async () => {
    await millrace('migrate')
    for (const command of ['describe', 'capabilities', 'quota', 'check', 'status']) {
      const result = await millrace(command, '--json')
      expect(result.code, `${command}: ${result.stderr}${result.stdout}`).toBe(0)
      expect(result.events.at(-1), command).toMatchObject({ event: 'summary', command })
    }
    expect((await millrace('describe')).stdout).toContain('traffic_and_engagement')
    expect((await millrace('quota')).stdout).toMatch(/100,000 credits left/)
  })

  test('say that the service does not tell, where it has only what the interface shows', async () => {
    sandbox.configure({ extensions: false })
    for (const command of ['describe', 'capabilities']) {
      const result = await millrace(command)
      expect([result.code, result.stdout]).toEqual([0, expect.stringMatching(/does not tell/)])
    }
  })

  test('check finds every problem in one go', async () => {
    writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'www.a.com\n')
    const file = join(folder, 'pipelines', 'shopper_category_performance.yaml')
    writeFileSync(file, readFileSync(file, 'utf8').replace('granularity: monthly', 'granularity: yearly'))
    const result = await runCommand(['check'], { ...environment(), WEB_ANALYTICS_API_KEY: '' }, folder)
    expect(result.code).toBe(2)
    expect(result.stdout).toMatch(/domains\.txt:1/)
    expect(result.stdout).toMatch(/shopper_category_performance\.yaml:\d+:\d+/)
    expect(result.stdout).toMatch(/WEB_ANALYTICS_API_KEY/)
  })

  test('a dry run spends nothing and tells units, requests, reports and quota as the real run then has them', async () => {
    await millrace('migrate')
    const dry = summaryOf(await millrace(...slow, '--dry-run'))
    expect(sandbox.books().submissions).toHaveLength(0)
    expect(dry.reports_submitted).toBe(dry.units.planned)
    const real = summaryOf(await millrace(...slow))
    expect({ reports: real.reports_submitted, quota: real.quota_used, planned: real.units.planned }).toEqual({
      reports: dry.reports_submitted,
      quota: dry.quota_used,
      planned: dry.units.planned,
    })
  })
})

describe('a run that is stopped', () => {
  test('by SIGINT ends with 130, and the same command goes on without buying again', async () => {
    await millrace('migrate')
    sandbox.configure({ reportDurationMs: 3_000 })
    const running = startCommand(slow, environment(), folder)
    await until(() => sandbox.books().submissions.length >= 4)
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    const resumed = await millrace(...slow)
    expect(resumed.code, resumed.stderr).toBe(0)
    expect(sandbox.books().submissions).toHaveLength(summaryOf(resumed).units.planned)
  })

  test('by cancel stops within five seconds, and nothing is submitted after it', async () => {
    await millrace('migrate')
    sandbox.configure({ latencyMs: 300, reportDurationMs: 60_000 })
    const running = startCommand(slow, environment(), folder)
    await until(() => sandbox.books().submissions.length >= 1)
    const [run] = (await db.database.pool.query<{ run_id: string }>('select max(run_id) as run_id from etl.runs')).rows
    const started = Date.now()
    const cancelled = await millrace('cancel', String(run?.run_id))
    expect(cancelled.code, cancelled.stderr).toBe(0)
    const submitted = sandbox.books().submissions.length
    const ended = await running.result
    expect(Date.now() - started).toBeLessThan(8_000)
    expect(ended.code).toBe(1)
    expect(sandbox.books().submissions).toHaveLength(submitted)
  })
})

describe('a disk that is full', () => {
  const canMount = process.getuid?.() === 0 && process.platform === 'linux'
  test.runIf(canMount)('fails the unit with the remedy and leaves the warehouse as it was', async () => {
    await millrace('migrate')
    const landing = join(folder, 'home', 'landing')
    mkdirSync(landing, { recursive: true })
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', landing])
    // A container without the right to mount cannot show this.
    if (mounted.status !== 0) return
    try {
      sandbox.configure({ keywordsPerDomain: 20_000 })
      const result = await millrace(
        'backfill',
        'keywords',
        '--from',
        '2026-09',
        '--to',
        '2026-09',
        '--only',
        'domain=example.com;country=us',
        '--json',
      )
      expect(result.code).toBe(1)
      expect(result.stderr).toMatch(/ENOSPC.*free space.*\[DISK\]/s)
      expect((await db.database.pool.query('select 1 from data.keywords_v1')).rows).toEqual([])
    } finally {
      execFileSync('umount', [landing])
    }
  })
})
