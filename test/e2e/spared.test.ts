// What a nightly run does not ask for again, and says so.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

let folder: string
let db: TestDatabase
let sandbox: Sandbox

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-spared-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.example\n')
  const file = join(folder, 'pipelines', 'keywords.yaml')
  const text = readFileSync(file, 'utf8').replace('from: 2024-01', 'from: 2026-08').replace('page_size: 1000', 'page_size: 50')
  writeFileSync(file, text)
  db = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 230, now: '2026-11-20' })
})
afterEach(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

test('a month that is unchanged at the source costs one request instead of its pages, and the run says how many it skipped', async () => {
  const environment = {
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: sandbox.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
  }
  const run = (...more: string[]) => runWarm(['run', 'keywords', '--only', 'country=us', ...more], environment, folder)
  const pages = 5
  const first = await run('--json')
  expect(summaryOf(first)).toMatchObject({ units: { loaded: 3 }, requests: 3 * pages })
  // The look-back is the two newest months.
  const second = await run('--json')
  expect(summaryOf(second)).toMatchObject({ units: { unchanged: 2 }, requests: 2 })
  sandbox.restate('2026-10')
  const third = await run()
  expect(third.stdout).toContain('Skipped, unchanged at the source: 1 unit')
})
